"""Response caching: cache headers, a single computation for concurrent requests, and invalidation."""

import threading
from collections.abc import Iterator, Sequence
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
from marketplace.infra.db import Database
from marketplace.infra.wire import LeanRedisClient
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
    """Filters with defaults and equivalent spellings."""

    some_id = Uuid()
    number = IntegerParameter(minimum=0, maximum=10, load_default=7)


class CachedArea:
    """An area with cached routes that count computations and return or raise a configured value."""

    def __init__(self) -> None:
        self.tag = f"tag-{uuid4().hex}"
        # The cache key contains the path, so a fresh path isolates each test.
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
        def content(_ctx: Context, query: dict[str, Any]) -> dict[str, Any]:
            return self._compute(query)

        @area.get(f"{rule}/limited", auth=PUBLIC, limit="2/minute", cache=60)
        def limited(_ctx: Context) -> dict[str, Any]:
            return self._compute({})

        @area.get(
            f"{rule}/of/<uuid:owner_id>", auth=PUBLIC, limit=SharedLimit.CALLER_TIER, query=Choices, cache=60
        )
        def paged(ctx: Context, owner_id: UUID, query: dict[str, Any]) -> Page:
            start = int(ctx.page.position[0]) if ctx.page.position else 0
            self._compute(query)
            return Page(items=[str(owner_id), start], limit=ctx.page.limit, next_position=[start + 1])

        @area.get(f"{rule}/fresh", auth=PUBLIC, limit=SharedLimit.CALLER_TIER)
        def fresh(_ctx: Context) -> dict[str, Any]:
            return self._compute({})

        @area.post(f"{rule}/change", auth=PUBLIC, limit=SharedLimit.CALLER_TIER)
        def change(ctx: Context) -> None:
            drop_cached(ctx.session, self.tag)
            if self.error is not None:
                raise self.error

        return area

    def _compute(self, query: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            self.computed += 1
        self.started.set()
        if self.gate is not None:
            assert self.gate.wait(WAIT_SECONDS)
        if self.error is not None:
            raise self.error
        return {"value": self.value, **query}


@pytest.fixture
def cached_area() -> Iterator[CachedArea]:
    made = CachedArea()
    yield made
    if made.gate is not None:
        made.gate.set()


@pytest.fixture
def probe(services: Services, cached_area: CachedArea) -> FlaskClient:
    times = iter(datetime(2026, 11, 21, tzinfo=UTC) + timedelta(seconds=number) for number in range(10_000))
    return serve(services, cached_area.area, clock=lambda: next(times))


def test_content_is_computed_once_and_marked_cacheable(probe: FlaskClient, cached_area: CachedArea) -> None:
    first, second = probe.get(cached_area.path), probe.get(cached_area.path)
    assert cached_area.computed == 1
    assert first.json["data"] == second.json["data"] == {"value": "soup"}
    for response in (first, second):
        assert response.headers["Cache-Control"] == "public, max-age=60"
        assert response.headers["ETag"].startswith('W/"')
        assert response.json["meta"]["requestId"] == response.headers["X-Request-ID"]
        assert "X-Cache-Lookup" not in response.headers
    assert first.headers["ETag"] == second.headers["ETag"]
    assert first.json["meta"]["requestId"] != second.json["meta"]["requestId"]
    assert first.json["meta"]["timestamp"] < second.json["meta"]["timestamp"]


def test_limit_and_cached_content_take_one_round_trip(
    probe: FlaskClient, cached_area: CachedArea, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe.get(cached_area.path)
    sent: list[object] = []
    send = LeanRedisClient._exchange

    def counted(client: LeanRedisClient, command: Sequence[str | bytes | int], *, has_reply: bool) -> Any:
        sent.append(command[0])
        return send(client, command, has_reply=has_reply)

    monkeypatch.setattr(LeanRedisClient, "_exchange", counted)
    response = probe.get(cached_area.path)
    assert (response.json["data"], "RateLimit-Remaining" in response.headers) == ({"value": "soup"}, True)
    assert sent == ["EVALSHA"]


def test_all_callers_and_both_paths_share_cached_content(
    probe: FlaskClient, cached_area: CachedArea, bearer: Bearer
) -> None:
    for headers in ({}, bearer(uuid4()), {"Authorization": "Bearer x"}):
        for path in (cached_area.path, cached_area.path.replace("/api/", "/api/v1/")):
            assert probe.get(path, headers=headers).status_code == 200
    assert cached_area.computed == 1


def test_signed_in_caller_gets_cached_content_without_database(
    services: Services, cached_area: CachedArea, bearer: Bearer
) -> None:
    caller = bearer(uuid4())
    assert serve(services, cached_area.area).get(cached_area.path, headers=caller).status_code == 200
    gone = Database(
        f"postgresql://unknown@127.0.0.1:{closed_port()}/none", pool_size=1, application_name="tests"
    )

    response = serve(services, cached_area.area, database=gone).get(cached_area.path, headers=caller)

    assert response.json["data"] == {"value": "soup"}
    assert cached_area.computed == 1
    gone.close()


def test_matching_etag_is_answered_not_modified(probe: FlaskClient, cached_area: CachedArea) -> None:
    etag = probe.get(cached_area.path).headers["ETag"]
    for known in (etag, etag.removeprefix("W/"), f'"other", {etag}', "*"):
        for method in ("GET", "HEAD"):
            response = probe.open(cached_area.path, method=method, headers={"If-None-Match": known})
            assert (response.status_code, response.get_data()) == (304, b"")
            assert response.headers["ETag"] == etag
            assert response.headers["Cache-Control"] == "public, max-age=60"
            assert "RateLimit-Remaining" in response.headers
            assert "X-Request-ID" in response.headers
    for other in ('W/"other"', "", "nonsense", f"{etag}x"):
        assert probe.get(cached_area.path, headers={"If-None-Match": other}).status_code == 200


def test_etag_changes_with_content(probe: FlaskClient, cached_area: CachedArea, services: Services) -> None:
    old = probe.get(cached_area.path).headers["ETag"]
    cached_area.value = "salad"
    services.cache.drop(cached_area.tag)
    changed = probe.get(cached_area.path, headers={"If-None-Match": old})
    assert (changed.status_code, changed.json["data"]["value"]) == (200, "salad")
    assert changed.headers["ETag"] != old
    cached_area.value = "soup"
    services.cache.drop(cached_area.tag)
    assert probe.get(cached_area.path, headers={"If-None-Match": old}).status_code == 304


def test_head_answers_headers_of_get_without_body(probe: FlaskClient, cached_area: CachedArea) -> None:
    head, got = probe.head(cached_area.path), probe.get(cached_area.path)
    assert (head.status_code, head.get_data()) == (200, b"")
    for name in ("ETag", "Cache-Control", "Content-Type", "Content-Length"):
        assert head.headers[name] == got.headers[name]
    assert cached_area.computed == 1


def test_each_parameter_set_is_cached_separately(probe: FlaskClient, cached_area: CachedArea) -> None:
    for query in (
        "",
        "?first=a",
        "?second=a",
        "?first=a&second=b",
        "?first=b&second=a",
        "?first=a%26second%3Db",
    ):
        probe.get(f"{cached_area.path}{query}")
    assert cached_area.computed == 6
    assert probe.get(f"{cached_area.path}?second=b&first=a").json["data"] == {
        "value": "soup",
        "first": "a",
        "second": "b",
    }
    assert cached_area.computed == 6


def test_equivalent_queries_share_cached_content_and_cursors(
    probe: FlaskClient, cached_area: CachedArea
) -> None:
    owner, other = uuid4(), uuid4()
    path = f"{cached_area.path}/of/{owner}"
    first = probe.get(f"{path}?someId={other}")
    for spelled in (
        f"{path}?someId={str(other).upper()}&limit=20",
        f"{path}?number=7&someId={other}",
        f"{cached_area.path}/of/{str(owner).upper()}?someId={other}",
        f"{path}?%73omeId={other}&",
    ):
        response = probe.get(spelled)
        assert (response.status_code, response.headers["ETag"]) == (200, first.headers["ETag"])
    assert cached_area.computed == 1
    assert probe.get(f"{path}?someId={other}&number=8").status_code == 200
    assert probe.get(f"{path}?someId={other}&limit=21").status_code == 200
    assert probe.get(f"{cached_area.path}/of/{other}?someId={other}").json["data"][0] == str(other)
    assert cached_area.computed == 4
    # A cursor is valid for all spellings of the same filters and for no other filters.
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


def test_refused_request_counts_towards_rate_limit(
    services: Services, cached_area: CachedArea, bearer: Bearer
) -> None:
    probe = serve(services, cached_area.area, rate_limit_scale=1)
    path, caller = f"{cached_area.path}/limited?unknown=1", bearer(uuid4())
    assert [probe.get(path, headers=caller).status_code for _ in range(3)] == [422, 422, 429]
    assert cached_area.computed == 0


def test_invalid_parameters_are_refused_despite_cached_similar_query(
    probe: FlaskClient, cached_area: CachedArea
) -> None:
    assert probe.get(f"{cached_area.path}?first=a").status_code == 200
    for query in ("first=a&first=a", "first=a&first=b", "first=a&other=1"):
        name = "other" if "other" in query else "first"
        for _ in range(2):
            assert faults(probe.get(f"{cached_area.path}?{query}")) == [name]
    assert cached_area.computed == 1


def test_error_response_is_not_cached(probe: FlaskClient, cached_area: CachedArea) -> None:
    for error, status in ((NotFoundError(), 404), (ConflictError(), 409), (RuntimeError(), 500)):
        cached_area.error = error
        for _ in range(2):
            response = probe.get(cached_area.path)
            assert (response.status_code, response.headers["Cache-Control"]) == (status, "no-store")
            assert "ETag" not in response.headers
    assert cached_area.computed == 6
    cached_area.error = None
    assert probe.get(cached_area.path).status_code == 200


def test_rate_limited_response_is_not_cached(services: Services, cached_area: CachedArea) -> None:
    probe = serve(services, cached_area.area, rate_limit_scale=1)
    path = f"{cached_area.path}/limited"
    assert [probe.get(path).status_code for _ in range(3)] == [200, 200, 429]
    refused = probe.get(path)
    assert assert_problem(refused, 429, "RATE_LIMIT_EXCEEDED")["status"] == 429
    assert "ETag" not in refused.headers
    assert cached_area.computed == 1


def test_route_without_cache_term_is_not_cached(probe: FlaskClient, cached_area: CachedArea) -> None:
    for _ in range(2):
        response = probe.get(f"{cached_area.path}/fresh", headers={"If-None-Match": "*"})
        assert (response.status_code, response.headers["Cache-Control"]) == (200, "no-store")
        assert "ETag" not in response.headers
    assert cached_area.computed == 2


def test_cached_content_expires_after_cache_time(
    services: Services, probe: FlaskClient, cached_area: CachedArea
) -> None:
    probe.get(cached_area.path)
    with redis.Redis.from_url(services.settings.redis_url) as cache:
        [name] = [key for key in cache.keys(f"*{cached_area.path}*") if not key.endswith(b":claim")]
        assert 55 < cache.ttl(name) <= 60
        cache.pexpire(name, 1)
        eventually(lambda: not cache.exists(name))
        # A claim of a process that died blocks others for at most five seconds.
        assert all(0 < cache.pttl(key) <= 5_000 for key in cache.keys(f"*{cached_area.path}*:claim"))
        cache.delete(*cache.keys(f"*{cached_area.path}*:claim"))
    probe.get(cached_area.path)
    assert cached_area.computed == 2


def test_concurrent_requests_compute_content_once(services: Services, cached_area: CachedArea) -> None:
    app = serve(services, cached_area.area).application
    cached_area.gate = threading.Event()

    def open_gate() -> Any:
        assert cached_area.started.wait(WAIT_SECONDS)
        assert cached_area.gate is not None
        cached_area.gate.set()
        return None

    requests = [partial(app.test_client().get, cached_area.path) for _ in range(12)]
    answers = [answer for answer in at_once([*requests, open_gate]) if answer is not None]
    assert [answer.status_code for answer in answers] == [200] * 12
    assert cached_area.computed == 1
    assert len({answer.headers["ETag"] for answer in answers}) == 1
    assert len({answer.json["meta"]["requestId"] for answer in answers}) == 12


def test_failed_computation_does_not_delay_next_request(services: Services, cached_area: CachedArea) -> None:
    app = serve(services, cached_area.area).application
    cached_area.error = NotFoundError()
    answers = at_once([partial(app.test_client().get, cached_area.path) for _ in range(6)])
    assert [answer.status_code for answer in answers] == [404] * 6
    assert cached_area.computed == 6


def test_committed_change_drops_cached_content_and_refused_change_does_not(
    probe: FlaskClient, cached_area: CachedArea
) -> None:
    probe.get(cached_area.path)
    cached_area.error = ConflictError()
    assert probe.post(f"{cached_area.path}/change").status_code == 409
    cached_area.error = None
    probe.get(cached_area.path)
    assert cached_area.computed == 1
    assert probe.post(f"{cached_area.path}/change").status_code == 200
    probe.get(cached_area.path)
    assert cached_area.computed == 2


def test_content_computed_before_change_is_not_served_afterwards(
    services: Services, cached_area: CachedArea
) -> None:
    """The change commits during the computation of the old content, which must then not be cached."""
    app = serve(services, cached_area.area).application
    cached_area.gate = threading.Event()
    cached_area.value = "old"

    def change() -> Any:
        assert cached_area.started.wait(WAIT_SECONDS)
        answer = app.test_client().post(f"{cached_area.path}/change")
        assert cached_area.gate is not None
        cached_area.gate.set()
        return answer

    old, _ = at_once([partial(app.test_client().get, cached_area.path), change])
    cached_area.value = "new"
    assert old.json["data"]["value"] == "old"
    assert app.test_client().get(cached_area.path).json["data"]["value"] == "new"


def test_unreachable_cache_serves_freshly_computed_content(
    services: Services, cached_area: CachedArea
) -> None:
    probe = serve(services, cached_area.area, cache=Cache(f"redis://127.0.0.1:{closed_port()}/0"))
    etags = set()
    for _ in range(3):
        response = probe.get(cached_area.path)
        assert (response.status_code, response.headers["Cache-Control"]) == (200, "public, max-age=60")
        etags.add(response.headers["ETag"])
    assert cached_area.computed == 3
    assert len(etags) == 1
    assert probe.get(cached_area.path, headers={"If-None-Match": etags.pop()}).status_code == 304
    assert probe.post(f"{cached_area.path}/change").status_code == 200
