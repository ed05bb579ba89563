"""Cursor paging: page bounds, a complete order, and cursors that are valid for a single listing."""

import base64
from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid4

import pytest
from flask.testing import FlaskClient

from blueprints.http import Context
from blueprints.http.contract import AUTHENTICATED, PUBLIC, SharedLimit
from blueprints.http.fields import CursorQuery, Text
from marketplace.kernel.paging import Page, page_of
from marketplace.services import Services
from tests.support.market import Bearer
from tests.support.probes import faults, probe_area, serve

area = probe_area()
NUMBERS = 250


class Listing(CursorQuery):
    """A listing with a single filter."""

    search_text = Text(max_length=20)


def numbers(ctx: Context) -> Page:
    after = ctx.page.position[0] if ctx.page.position else 0
    rows = [{"number": number} for number in range(after + 1, NUMBERS + 1)]
    return page_of(rows[: ctx.page.limit + 1], request=ctx.page, position_of=lambda row: [row["number"]])


@area.get("/public", auth=PUBLIC, limit=SharedLimit.CALLER_TIER, query=Listing)
def public(ctx: Context, query: dict[str, Any]) -> Page:
    assert set(query) <= {"search_text"}
    return numbers(ctx)


@area.get("/other", auth=PUBLIC, limit=SharedLimit.CALLER_TIER, query=Listing)
def other(ctx: Context, query: dict[str, Any]) -> Page:
    return numbers(ctx)


@area.get("/of/<uuid:owner>", auth=PUBLIC, limit=SharedLimit.CALLER_TIER, query=Listing)
def of_owner(ctx: Context, owner: UUID, query: dict[str, Any]) -> Page:
    return numbers(ctx)


@area.get("/own", auth=AUTHENTICATED, limit=SharedLimit.CALLER_TIER, query=CursorQuery)
def own(ctx: Context, query: dict[str, Any]) -> Page:
    return numbers(ctx)


@area.get(
    "/cached", auth=PUBLIC, limit=SharedLimit.CALLER_TIER, query=Listing, cache=60, tags=("paging-probe",)
)
def cached(ctx: Context, query: dict[str, Any]) -> Page:
    return numbers(ctx)


@area.get("/empty", auth=PUBLIC, limit=SharedLimit.CALLER_TIER, query=CursorQuery)
def empty(ctx: Context, query: dict[str, Any]) -> Page:
    return Page([], ctx.page.limit, None)


@pytest.fixture(scope="module")
def probe(services: Services) -> FlaskClient:
    return serve(services, area)


def fetch(probe: FlaskClient, name: str, headers: dict[str, str] | None = None, **query: Any) -> Any:
    return probe.get(f"/api/probe/{name}", query_string=query, headers=headers)


def cursor_of(response: Any) -> str:
    assert response.status_code == 200, response.json
    cursor = response.json["meta"]["next_cursor"]
    assert isinstance(cursor, str)
    return cursor


@pytest.mark.parametrize("name", ["public", "cached"])
def test_consecutive_pages_have_no_gap_or_repetition(probe: FlaskClient, name: str) -> None:
    seen: list[int] = []
    query: dict[str, Any] = {"limit": 100}
    for expected in (100, 100, 50):
        response = fetch(probe, name, **query)
        assert len(response.json["data"]) == expected
        seen += [row["number"] for row in response.json["data"]]
        meta = response.json["meta"]
        assert {"timestamp", "version", "requestId", "limit", "has_more", "next_cursor"} == set(meta)
        query["cursor"] = meta["next_cursor"]
    assert seen == list(range(1, NUMBERS + 1))
    assert (meta["has_more"], meta["next_cursor"], meta["limit"]) == (False, None, 100)


def test_empty_listing_has_empty_page(probe: FlaskClient) -> None:
    response = fetch(probe, "empty")
    assert response.json["data"] == []
    assert response.json["meta"]["has_more"] is False
    assert response.json["meta"]["next_cursor"] is None


def test_limit_has_a_default_and_bounds(probe: FlaskClient) -> None:
    assert len(fetch(probe, "public").json["data"]) == fetch(probe, "public").json["meta"]["limit"] == 20
    for good in (1, 100):
        assert len(fetch(probe, "public", limit=good).json["data"]) == good
    for bad in (0, 101, -1, 10**30, "x", ""):
        assert faults(fetch(probe, "public", limit=bad)) == ["limit"]


def test_cursor_is_url_safe_and_valid_with_another_limit(probe: FlaskClient) -> None:
    cursor = cursor_of(fetch(probe, "public", limit=3))
    assert quote(cursor, safe="") == cursor
    response = probe.get(f"/api/probe/public?cursor={cursor}&limit=2")
    assert [row["number"] for row in response.json["data"]] == [4, 5]
    assert fetch(probe, "public", cursor=cursor).json["data"][-1] == {"number": 23}


def test_altered_cursor_is_refused(probe: FlaskClient) -> None:
    cursor = cursor_of(fetch(probe, "public"))
    signature = cursor.partition(".")[2]
    for place in range(len(cursor)):
        altered = cursor[:place] + ("A" if cursor[place] != "A" else "B") + cursor[place + 1 :]
        assert faults(fetch(probe, "public", cursor=altered)) == ["cursor"], place
    payload = base64.urlsafe_b64encode(b"[200]").rstrip(b"=").decode()
    for bad in (
        "",
        " ",
        "x",
        cursor[:-1],
        cursor + "A",
        cursor + "=",
        cursor + "==",
        f"\t{cursor}x",
        cursor.swapcase(),
        payload,
        f"{payload}.",
        f"{payload}.{signature}",
        "é",
        "\0",
        "A" * 1025,
        "0",
        "null",
    ):
        assert faults(fetch(probe, "public", cursor=bad)) == ["cursor"], bad
    assert faults(probe.get(f"/api/probe/public?cursor={cursor}&cursor={cursor}")) == ["cursor"]


def test_cursor_of_another_listing_or_filter_is_refused(probe: FlaskClient) -> None:
    plain, filtered = cursor_of(fetch(probe, "public")), cursor_of(fetch(probe, "public", searchText="a"))
    assert fetch(probe, "public", cursor=filtered, searchText="a").status_code == 200
    for cursor, query in ((plain, {"searchText": "a"}), (filtered, {}), (filtered, {"searchText": "b"})):
        assert faults(fetch(probe, "public", cursor=cursor, **query)) == ["cursor"]
    assert faults(fetch(probe, "other", cursor=plain)) == ["cursor"]
    first, second = uuid4(), uuid4()
    owned = cursor_of(fetch(probe, f"of/{first}"))
    assert fetch(probe, f"of/{first}", cursor=owned).status_code == 200
    assert faults(fetch(probe, f"of/{second}", cursor=owned)) == ["cursor"]


def test_cursor_of_another_caller_is_refused(probe: FlaskClient, bearer: Bearer) -> None:
    first, second = bearer(uuid4()), bearer(uuid4())
    cursor = cursor_of(fetch(probe, "own", first))
    assert fetch(probe, "own", first, cursor=cursor).status_code == 200
    assert faults(fetch(probe, "own", second, cursor=cursor)) == ["cursor"]


def test_cursor_of_cached_listing_is_valid_for_all_callers(probe: FlaskClient, bearer: Bearer) -> None:
    cursor = cursor_of(fetch(probe, "cached", bearer(uuid4())))
    assert fetch(probe, "cached", bearer(uuid4()), cursor=cursor).status_code == 200
    assert fetch(probe, "cached", cursor=cursor).status_code == 200


def test_cursor_is_valid_on_versioned_path(probe: FlaskClient) -> None:
    cursor = cursor_of(fetch(probe, "public"))
    assert probe.get(f"/api/v1/probe/public?cursor={cursor}").json["data"][0] == {"number": 21}


def test_cursor_signed_with_another_key_is_refused(services: Services, probe: FlaskClient) -> None:
    elsewhere = serve(services, area, cursor_key="of-another-service-0123456789abcdef")
    assert faults(fetch(elsewhere, "public", cursor=cursor_of(fetch(probe, "public")))) == ["cursor"]
