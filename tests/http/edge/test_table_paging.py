"""Tables: paging by page number or cursor, sorting, restricted path segments and bare array bodies."""

from typing import Any

import pytest
from flask.testing import FlaskClient
from marshmallow import fields, validate

from blueprints.http import Context
from blueprints.http.contract import PUBLIC, SharedLimit
from blueprints.http.envelope import MetaSchema
from blueprints.http.fields import OffsetOrCursorQuery, OffsetQuery, Schema, StrictInteger, Text, sort_choice
from blueprints.http.request_parsing import AcceptsBareArray
from marketplace.kernel.paging import DataWithMeta, TablePage
from marketplace.services import Services
from tests.support.probes import assert_problem, faults, probe_area, serve

area = probe_area()
NUMBERS = range(1, 121)


class Numbers(OffsetQuery):
    """A table with two sortable columns and a filter."""

    sort = sort_choice(("number", "rest_of_seven"), default="number")
    search_text = Text(max_length=20)


class EitherNumbers(OffsetOrCursorQuery):
    """The same table, also paged by cursor."""

    sort = sort_choice(("number", "rest_of_seven"), default="number")
    search_text = Text(max_length=20)


class Sum(Schema, AcceptsBareArray):
    """The numbers to add."""

    numbers = fields.List(StrictInteger(minimum=0), required=True, validate=validate.Length(min=1, max=3))

    bare_array = "numbers"
    bare_array_schema = {"type": "array", "items": {"type": "integer"}}  # noqa: RUF012 - only read


class SumMeta(MetaSchema):
    """Metadata of the sum."""

    odd = fields.Boolean(required=True)


def rows(ctx: Context) -> TablePage:
    table = ctx.table
    ordered = sorted(NUMBERS, key=lambda number: (number % 7 if table.sort == "rest_of_seven" else 0, number))
    if table.descending:
        ordered.reverse()
    start = ordered.index(table.position[0]) + 1 if table.position else table.offset
    shown = ordered[start : start + table.limit]
    more = start + table.limit < len(ordered)
    items = [{"number": number} for number in shown]
    return TablePage(items, table, len(ordered), next_position=[shown[-1]] if more else None)


@area.get("/table", auth=PUBLIC, limit=SharedLimit.CALLER_TIER, query=Numbers)
def table(ctx: Context, query: dict[str, Any]) -> TablePage:
    assert set(query) <= {"search_text"}
    return rows(ctx)


@area.get("/either", auth=PUBLIC, limit=SharedLimit.CALLER_TIER, query=EitherNumbers)
def either(ctx: Context, query: dict[str, Any]) -> TablePage:
    assert set(query) <= {"search_text"}
    return rows(ctx)


@area.post("/sum", auth=PUBLIC, limit=SharedLimit.CALLER_TIER, body=Sum, meta=SumMeta)
def add_up(ctx: Context, body: dict[str, Any]) -> DataWithMeta:
    total = sum(body["numbers"])
    return DataWithMeta({"sum": total}, {"odd": total % 2 == 1})


@area.get("/of/<kind>", auth=PUBLIC, limit=SharedLimit.CALLER_TIER, choices={"kind": ("red", "green")})
def of_kind(ctx: Context, kind: str) -> dict[str, Any]:
    return {"kind": kind}


@pytest.fixture(scope="module")
def probe(services: Services) -> FlaskClient:
    return serve(services, area)


def fetch(probe: FlaskClient, name: str, **query: Any) -> Any:
    return probe.get(f"/api/probe/{name}", query_string=query)


def numbers_of(response: Any) -> list[int]:
    assert response.status_code == 200, response.json
    return [row["number"] for row in response.json["data"]]


def paging_of(response: Any) -> dict[str, Any]:
    return {name: value for name, value in response.json["meta"].items() if name not in MetaSchema().fields}


def test_table_is_paged_by_page_number(probe: FlaskClient) -> None:
    first = fetch(probe, "table")
    assert numbers_of(first) == list(range(120, 70, -1))
    assert paging_of(first) == {"page": 1, "limit": 50, "total": 120, "total_pages": 3}
    assert numbers_of(fetch(probe, "table", page=3)) == list(range(20, 0, -1))
    assert numbers_of(fetch(probe, "table", page=2, limit=40, order="asc")) == list(range(41, 81))
    assert numbers_of(fetch(probe, "table", sort="restOfSeven", order="asc", limit=2)) == [7, 14]
    beyond = fetch(probe, "table", page=4)
    assert (numbers_of(beyond), paging_of(beyond)["total_pages"]) == ([], 3)


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ({"page": 0}, "page"),
        ({"page": -1}, "page"),
        ({"page": 100_001}, "page"),
        ({"page": "x"}, "page"),
        ({"limit": 0}, "limit"),
        ({"limit": 101}, "limit"),
        ({"sort": "secret"}, "sort"),
        ({"sort": "rest_of_seven"}, "sort"),
        ({"order": "up"}, "order"),
        ({"cursor": "x"}, "cursor"),
    ],
)
@pytest.mark.parametrize("name", ["table", "either"])
def test_invalid_table_parameter_is_named(
    probe: FlaskClient, name: str, query: dict[str, Any], fault: str
) -> None:
    assert faults(fetch(probe, name, **query)) == [fault]


def test_cursor_paging_and_page_numbers_give_same_order(probe: FlaskClient) -> None:
    response = fetch(probe, "either", limit=40, sort="restOfSeven")
    meta = paging_of(response)
    seen = numbers_of(response)
    assert (meta["page"], meta["total_pages"], meta["total"], meta["has_more"]) == (1, 3, 120, True)
    while meta["has_more"]:
        response = fetch(probe, "either", limit=50, sort="restOfSeven", cursor=meta["next_cursor"])
        seen += numbers_of(response)
        meta = paging_of(response)
        assert set(meta) == {"limit", "total", "has_more", "next_cursor"}
    by_number = [
        number
        for page in (1, 2, 3)
        for number in numbers_of(fetch(probe, "either", page=page, sort="restOfSeven"))
    ]
    assert seen == by_number
    assert sorted(seen) == list(NUMBERS)


def test_cursor_with_page_number_or_other_sorting_is_refused(probe: FlaskClient) -> None:
    cursor = paging_of(fetch(probe, "either"))["next_cursor"]
    assert faults(fetch(probe, "either", page=2, cursor=cursor)) == ["cursor"]
    for query in ({"sort": "restOfSeven"}, {"order": "asc"}, {"searchText": "a"}):
        assert faults(fetch(probe, "either", cursor=cursor, **query)) == ["cursor"]
    assert numbers_of(fetch(probe, "either", cursor=cursor, limit=1)) == [70]


def test_bare_array_body_is_accepted_for_field(probe: FlaskClient) -> None:
    for body in ({"numbers": [1, 2]}, [1, 2]):
        response = probe.post("/api/probe/sum", json=body)
        assert response.json["data"] == {"sum": 3}
        assert paging_of(response) == {"odd": True}
    assert faults(probe.post("/api/probe/sum", json=[1, "x"])) == ["numbers[1]"]
    for short_or_long in ([], [1, 2, 3, 4]):
        assert faults(probe.post("/api/probe/sum", json=short_or_long)) == ["numbers"]
    for other in ("numbers", 1, True):
        assert faults(probe.post("/api/probe/sum", json=other)) == ["body"]


def test_path_segment_outside_allowed_values_is_refused(probe: FlaskClient) -> None:
    assert probe.get("/api/probe/of/green").json["data"] == {"kind": "green"}
    problem = assert_problem(probe.get("/api/probe/of/blue"), 422, "VALIDATION_FAILED")
    assert problem["invalid_params"] == [{"name": "kind", "reason": "Must be one of: red, green."}]
