"""Response caching: what clients are told, one computation for all who ask, and what drops it."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest
import redis
from flask.testing import FlaskClient

from blueprints.http import Context, ContractBlueprint
from blueprints.http.contract import PUBLIC, SharedLimit
from blueprints.http.fields import CursorQuery, IntegerParameter, Schema, Text, Uuid
from marketplace.infra.cache import Cache, drop_cached
from marketplace.kernel.errors import ConflictError, NotFoundError
from marketplace.kernel.paging import Page
from marketplace.services import Services
from tests.support.market import Bearer
from tests.support.probes import (
    WAIT_SECONDS,
    assert_problem,
    at_once,
    closed_port,
    eventually,
    faults,
    probe_area,
    serve,
)


class Filters(Schema):
    """Two filters."""

    first = Text(max_length=20)
    second = Text(max_length=20)


class Choices(CursorQuery):
    """Filters with defaults and of several spellings."""

    some_id = Uuid()
    number = IntegerParameter(minimum=0, maximum=10, load_default=7)


class Kitchen:
    """An area that computes something, counts how often, and is told what to do about it."""

    def __init__(self) -> None:
        self.tag = f"tag-{uuid4().hex}"
        # Content is kept by path, so that each test has a path of its own.
        self.path = f"/api/probe/{uuid4().hex}"
        self.computed = 0
        self.value: Any = "soup"
        self.error: Exception | None = None
        self.gate: threading.Event | None = None
        self.started = threading.Event()
        self._lock = threading.Lock()
        self.area = self._declare()

    def _declare(self) -> ContractBlueprint:
        area = probe_area()
        rule = self.path.removeprefix("/api/probe")

        @area.get(rule, auth=PUBLIC, limit=SharedLimit.CALLER_TIER, query=Filters, cache=60, tags=(self.tag,))
        def dish(_ctx: Context, query: dict[str, Any]) -> dict[str, Any]:
            return self._cook(query)

        @area.get(f"{rule}/limited", auth=PUBLIC, limit="2/minute", cache=60)
        def limited(_ctx: Context) -> dict[str, Any]:
            return self._cook({})

        @area.get(
            f"{rule}/of/<uuid:owner_id>", auth=PUBLIC, limit=SharedLimit.CALLER_TIER, query=Choices, cache=60
        )
        def paged(ctx: Context, owner_id: UUID, query: dict[str, Any]) -> Page:
            start = int(ctx.page.position[0]) if ctx.page.position else 0
            self._cook(query)
            return Page(items=[str(owner_id), start], limit=ctx.page.limit, next_position=[start + 1])

        @area.get(f"{rule}/fresh", auth=PUBLIC, limit=SharedLimit.CALLER_TIER)
        def fresh(_ctx: Context) -> dict[str, Any]:
            return self._cook({})

        @area.post(f"{rule}/change", auth=PUBLIC, limit=SharedLimit.CALLER_TIER)
        def change(ctx: Context) -> None:
            drop_cached(ctx.session, self.tag)
            if self.error is not None:
                raise self.error

        return area

    def _cook(self, query: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            self.computed += 1
        self.started.set()
        if self.gate is not None:
            assert self.gate.wait(WAIT_SECONDS)
        if self.error is not None:
            raise self.error
        return {"value": self.value, **query}


@pytest.fixture
def kitchen() -> Iterator[Kitchen]:
    made = Kitchen()
    yield made
    if made.gate is not None:
        made.gate.set()


@pytest.fixture
def probe(services: Services, kitchen: Kitchen) -> FlaskClient:
    times = iter(datetime(2026, 11, 21, tzinfo=UTC) + timedelta(seconds=number) for number in range(10_000))
    return serve(services, kitchen.area, clock=lambda: next(times))


def test_content_is_computed_once_and_told_to_be_kept(probe: FlaskClient, kitchen: Kitchen) -> None:
    first, second = probe.get(kitchen.path), probe.get(kitchen.path)
    assert kitchen.computed == 1
    assert first.json["data"] == second.json["data"] == {"value": "soup"}
    for response in (first, second):
        assert response.headers["Cache-Control"] == "public, max-age=60"
        assert response.headers["ETag"].startswith('W/"')
        assert response.json["meta"]["requestId"] == response.headers["X-Request-ID"]
        assert "X-Cache-Lookup" not in response.headers
    assert first.headers["ETag"] == second.headers["ETag"]
    assert first.json["meta"]["requestId"] != second.json["meta"]["requestId"]
    assert first.json["meta"]["timestamp"] < second.json["meta"]["timestamp"]


def test_all_callers_and_both_paths_share_it(probe: FlaskClient, kitchen: Kitchen, bearer: Bearer) -> None:
    for headers in ({}, bearer(uuid4()), {"Authorization": "Bearer x"}):
        for path in (kitchen.path, kitchen.path.replace("/api/", "/api/v1/")):
            assert probe.get(path, headers=headers).status_code == 200
    assert kitchen.computed == 1


def test_who_has_it_already_is_told_so(probe: FlaskClient, kitchen: Kitchen) -> None:
    etag = probe.get(kitchen.path).headers["ETag"]
    for known in (etag, etag.removeprefix("W/"), f'"other", {etag}', "*"):
        for method in ("GET", "HEAD"):
            response = probe.open(kitchen.path, method=method, headers={"If-None-Match": known})
            assert (response.status_code, response.get_data()) == (304, b"")
            assert response.headers["ETag"] == etag
            assert response.headers["Cache-Control"] == "public, max-age=60"
            assert "RateLimit-Remaining" in response.headers
            assert "X-Request-ID" in response.headers
    for other in ('W/"other"', "", "nonsense", f"{etag}x"):
        assert probe.get(kitchen.path, headers={"If-None-Match": other}).status_code == 200


def test_the_tag_changes_with_the_content(probe: FlaskClient, kitchen: Kitchen, services: Services) -> None:
    old = probe.get(kitchen.path).headers["ETag"]
    kitchen.value = "salad"
    services.cache.drop(kitchen.tag)
    changed = probe.get(kitchen.path, headers={"If-None-Match": old})
    assert (changed.status_code, changed.json["data"]["value"]) == (200, "salad")
    assert changed.headers["ETag"] != old
    kitchen.value = "soup"
    services.cache.drop(kitchen.tag)
    assert probe.get(kitchen.path, headers={"If-None-Match": old}).status_code == 304


def test_head_answers_as_get_does_without_the_body(probe: FlaskClient, kitchen: Kitchen) -> None:
    head, got = probe.head(kitchen.path), probe.get(kitchen.path)
    assert (head.status_code, head.get_data()) == (200, b"")
    for name in ("ETag", "Cache-Control", "Content-Type", "Content-Length"):
        assert head.headers[name] == got.headers[name]
    assert kitchen.computed == 1


def test_each_set_of_parameters_has_its_own_content(probe: FlaskClient, kitchen: Kitchen) -> None:
    for query in (
        "",
        "?first=a",
        "?second=a",
        "?first=a&second=b",
        "?first=b&second=a",
        "?first=a%26second%3Db",
    ):
        probe.get(f"{kitchen.path}{query}")
    assert kitchen.computed == 6
    assert probe.get(f"{kitchen.path}?second=b&first=a").json["data"] == {
        "value": "soup",
        "first": "a",
        "second": "b",
    }
    assert kitchen.computed == 6


def test_other_spellings_of_the_same_wish_share_its_content(probe: FlaskClient, kitchen: Kitchen) -> None:
    owner, other = uuid4(), uuid4()
    path = f"{kitchen.path}/of/{owner}"
    first = probe.get(f"{path}?someId={other}")
    for spelled in (
        f"{path}?someId={str(other).upper()}&limit=20",
        f"{path}?number=7&someId={other}",
        f"{kitchen.path}/of/{str(owner).upper()}?someId={other}",
        f"{path}?%73omeId={other}&",
    ):
        response = probe.get(spelled)
        assert (response.status_code, response.headers["ETag"]) == (200, first.headers["ETag"])
    assert kitchen.computed == 1
    assert probe.get(f"{path}?someId={other}&number=8").status_code == 200
    assert probe.get(f"{path}?someId={other}&limit=21").status_code == 200
    assert probe.get(f"{kitchen.path}/of/{other}?someId={other}").json["data"][0] == str(other)
    assert kitchen.computed == 4
    # The cursor of one spelling is good with every other one, and with no other filters.
    cursor = first.json["meta"]["next_cursor"]
    for spelled in (f"someId={other}&number=7", f"someId={str(other).upper()}", f"limit=3&someId={other}"):
        assert probe.get(f"{path}?{spelled}&cursor={cursor}").json["data"] == [str(owner), 1]
    for refused in (
        f"someId={other}&number=8&cursor={cursor}",
        f"someId={other}&cursor={cursor}&cursor={cursor}",
        f"someId={other}&cursor={cursor}&%63ursor={cursor}",
        f"someId={other}&cursor={cursor}x",
        f"someId={other}&cursor=",
        f"someId={other}&cursor=%00",
    ):
        assert faults(probe.get(f"{path}?{refused}")) == ["cursor"], refused


def test_what_is_refused_counts_and_is_told_so_first(
    services: Services, kitchen: Kitchen, bearer: Bearer
) -> None:
    probe = serve(services, kitchen.area, rate_limit_scale=1)
    path, somebody = f"{kitchen.path}/limited?unknown=1", bearer(uuid4())
    assert [probe.get(path, headers=somebody).status_code for _ in range(3)] == [422, 422, 429]
    assert kitchen.computed == 0


def test_parameters_that_are_refused_are_refused_although_their_like_is_kept(
    probe: FlaskClient, kitchen: Kitchen
) -> None:
    assert probe.get(f"{kitchen.path}?first=a").status_code == 200
    for query in ("first=a&first=a", "first=a&first=b", "first=a&other=1"):
        name = "other" if "other" in query else "first"
        for _ in range(2):
            assert faults(probe.get(f"{kitchen.path}?{query}")) == [name]
    assert kitchen.computed == 1


def test_an_error_is_not_kept(probe: FlaskClient, kitchen: Kitchen) -> None:
    for error, status in ((NotFoundError(), 404), (ConflictError(), 409), (RuntimeError(), 500)):
        kitchen.error = error
        for _ in range(2):
            response = probe.get(kitchen.path)
            assert (response.status_code, response.headers["Cache-Control"]) == (status, "no-store")
            assert "ETag" not in response.headers
    assert kitchen.computed == 6
    kitchen.error = None
    assert probe.get(kitchen.path).status_code == 200


def test_what_is_refused_for_the_rate_is_not_kept(services: Services, kitchen: Kitchen) -> None:
    probe = serve(services, kitchen.area, rate_limit_scale=1)
    path = f"{kitchen.path}/limited"
    assert [probe.get(path).status_code for _ in range(3)] == [200, 200, 429]
    refused = probe.get(path)
    assert assert_problem(refused, 429, "RATE_LIMIT_EXCEEDED")["status"] == 429
    assert "ETag" not in refused.headers
    assert kitchen.computed == 1


def test_other_routes_are_not_kept(probe: FlaskClient, kitchen: Kitchen) -> None:
    for _ in range(2):
        response = probe.get(f"{kitchen.path}/fresh", headers={"If-None-Match": "*"})
        assert (response.status_code, response.headers["Cache-Control"]) == (200, "no-store")
        assert "ETag" not in response.headers
    assert kitchen.computed == 2


def test_content_is_kept_for_its_time(services: Services, probe: FlaskClient, kitchen: Kitchen) -> None:
    probe.get(kitchen.path)
    with redis.Redis.from_url(services.settings.redis_url) as cache:
        [name] = [key for key in cache.keys(f"*{kitchen.path}*") if not key.endswith(b":claim")]
        assert 55 < cache.ttl(name) <= 60
        cache.pexpire(name, 1)
        eventually(lambda: not cache.exists(name))
        # Whoever claims to compute it and dies holds the others up for this long at most.
        assert all(0 < cache.pttl(key) <= 5_000 for key in cache.keys(f"*{kitchen.path}*:claim"))
        cache.delete(*cache.keys(f"*{kitchen.path}*:claim"))
    probe.get(kitchen.path)
    assert kitchen.computed == 2


def test_of_many_who_ask_at_once_one_computes(services: Services, kitchen: Kitchen) -> None:
    app = serve(services, kitchen.area).application
    kitchen.gate = threading.Event()

    def serve_up() -> Any:
        assert kitchen.started.wait(WAIT_SECONDS)
        assert kitchen.gate is not None
        kitchen.gate.set()
        return None

    asks = [partial(app.test_client().get, kitchen.path) for _ in range(12)]
    answers = [answer for answer in at_once([*asks, serve_up]) if answer is not None]
    assert [answer.status_code for answer in answers] == [200] * 12
    assert kitchen.computed == 1
    assert len({answer.headers["ETag"] for answer in answers}) == 1
    assert len({answer.json["meta"]["requestId"] for answer in answers}) == 12


def test_when_computing_fails_the_next_does_not_wait_for_it(services: Services, kitchen: Kitchen) -> None:
    app = serve(services, kitchen.area).application
    kitchen.error = NotFoundError()
    answers = at_once([partial(app.test_client().get, kitchen.path) for _ in range(6)])
    assert [answer.status_code for answer in answers] == [404] * 6
    assert kitchen.computed == 6


def test_a_committed_change_drops_it_and_a_refused_one_does_not(probe: FlaskClient, kitchen: Kitchen) -> None:
    probe.get(kitchen.path)
    kitchen.error = ConflictError()
    assert probe.post(f"{kitchen.path}/change").status_code == 409
    kitchen.error = None
    probe.get(kitchen.path)
    assert kitchen.computed == 1
    assert probe.post(f"{kitchen.path}/change").status_code == 200
    probe.get(kitchen.path)
    assert kitchen.computed == 2


def test_what_was_computed_before_a_change_is_not_served_after_it(
    services: Services, kitchen: Kitchen
) -> None:
    """The change comes while an old state is being computed; what comes of that must not be found."""
    app = serve(services, kitchen.area).application
    kitchen.gate = threading.Event()
    kitchen.value = "old"

    def change() -> Any:
        assert kitchen.started.wait(WAIT_SECONDS)
        answer = app.test_client().post(f"{kitchen.path}/change")
        assert kitchen.gate is not None
        kitchen.gate.set()
        return answer

    old, _ = at_once([partial(app.test_client().get, kitchen.path), change])
    kitchen.value = "new"
    assert old.json["data"]["value"] == "old"
    assert app.test_client().get(kitchen.path).json["data"]["value"] == "new"


def test_without_the_cache_each_computes_and_all_are_served(services: Services, kitchen: Kitchen) -> None:
    probe = serve(services, kitchen.area, cache=Cache(f"redis://127.0.0.1:{closed_port()}/0"))
    etags = set()
    for _ in range(3):
        response = probe.get(kitchen.path)
        assert (response.status_code, response.headers["Cache-Control"]) == (200, "public, max-age=60")
        etags.add(response.headers["ETag"])
    assert kitchen.computed == 3
    assert len(etags) == 1
    assert probe.get(kitchen.path, headers={"If-None-Match": etags.pop()}).status_code == 304
    assert probe.post(f"{kitchen.path}/change").status_code == 200
