"""One request, one transaction: what commits, what rolls back, what is run again, and what follows a commit."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from blueprints.http import Context, ContractBlueprint, FinalPhase
from blueprints.http.contract import PUBLIC, SharedLimit
from marketplace.infra.outbox import after_commit
from marketplace.kernel.errors import (
    ConflictError,
    MarketplaceError,
    ServiceUnavailableError,
    ValidationError,
)
from marketplace.platform.models import Campus
from marketplace.services import Services
from tests.support.market import Market
from tests.support.probes import WAIT_SECONDS, Effects, assert_problem, at_once, probe_area, serve


class NotedError(ValidationError):
    """A refusal that leaves a trace."""

    keeps_changes: ClassVar[bool] = True


class Bench:
    """Routes that write an effect and then do what a test tells them; each run of a view is counted."""

    def __init__(self, services: Services) -> None:
        self.effects = Effects(services.database)
        self.runs = 0
        self.hooks = 0
        self.then: Callable[[Session], Any] = lambda _session: None
        self.client = serve(services, self._declare())

    def _work(self, session: Session) -> dict[str, Any]:
        self.runs += 1
        self.effects.add(session)
        after_commit(session, self._hook)
        self.then(session)
        return {"run": self.runs}

    def _hook(self) -> None:
        # What it would read is committed by now.
        assert self.effects.count() > 0
        self.hooks += 1

    def _declare(self) -> ContractBlueprint:
        area = probe_area()

        @area.post("/single", auth=PUBLIC, limit=SharedLimit.CALLER_TIER)
        def single(ctx: Context) -> dict[str, Any]:
            return self._work(ctx.session)

        @area.delete("/single", auth=PUBLIC, limit=SharedLimit.CALLER_TIER)
        def delete(ctx: Context) -> dict[str, Any]:
            return self._work(ctx.session)

        @area.post("/phased", auth=PUBLIC, limit=SharedLimit.CALLER_TIER, phased=True)
        def phased(ctx: Context) -> FinalPhase:
            with ctx.transaction() as session:
                self.effects.add(session)
            with pytest.raises(RuntimeError, match="phased"):
                _ = ctx.session
            return FinalPhase(self._work)

        @area.post("/autocommitted", auth=PUBLIC, limit=SharedLimit.CALLER_TIER, autocommit=True)
        def autocommitted(ctx: Context) -> None:
            self.effects.add(ctx.session)
            raise ConflictError

        @area.get("/read", auth=PUBLIC, limit=SharedLimit.CALLER_TIER)
        def read(ctx: Context) -> bool:
            connection = ctx.session.connection().connection.dbapi_connection
            assert connection is not None
            return bool(connection.autocommit)

        return area

    def post(self, path: str = "single") -> Any:
        return self.client.post(f"/api/probe/{path}")

    def fail(self, error: Exception, *, times: int = 1000) -> None:
        """Have the next runs fail, so many times."""
        left = iter(range(times))

        def then(_session: Session) -> None:
            if next(left, None) is not None:
                raise error

        self.then = then

    def state(self) -> tuple[int, int, int]:
        """Give runs, committed effects and hooks run."""
        return self.runs, self.effects.count(), self.hooks


@pytest.fixture
def bench(services: Services) -> Bench:
    return Bench(services)


def raise_sqlstate(state: str, *, times: int) -> Callable[[Session], None]:
    """Have the server itself raise an error of a SQLSTATE, so many times."""
    left = iter(range(times))

    def then(session: Session) -> None:
        if next(left, None) is not None:
            session.execute(text(f"DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '{state}'; END $$"))

    return then


def test_success_commits_once_and_then_runs_what_waits_for_it(bench: Bench) -> None:
    assert bench.post().json["data"] == {"run": 1}
    assert bench.state() == (1, 1, 1)
    assert bench.client.delete("/api/probe/single").status_code == 200
    assert bench.state() == (2, 2, 2)


@pytest.mark.parametrize(
    "error",
    [ConflictError(), ValidationError(), ServiceUnavailableError(retry_after_seconds=1), RuntimeError()],
    ids=lambda error: type(error).__name__,
)
def test_an_error_rolls_back_and_nothing_follows(bench: Bench, error: Exception) -> None:
    bench.fail(error)
    status = error.status if isinstance(error, MarketplaceError) else 500
    assert bench.post().status_code == status
    assert bench.state() == (1, 0, 0)


def test_a_refusal_that_leaves_a_trace_commits_and_is_still_answered(bench: Bench) -> None:
    bench.fail(NotedError("It was noted."))
    assert assert_problem(bench.post(), 422, "VALIDATION_FAILED")["detail"] == "It was noted."
    assert bench.state() == (1, 1, 1)


def test_phases_commit_each_and_the_last_one_with_the_answer(bench: Bench) -> None:
    assert bench.post("phased").status_code == 200
    assert bench.state() == (1, 2, 1)
    bench.fail(ConflictError())
    assert bench.post("phased").status_code == 409
    assert bench.state() == (2, 3, 1)
    bench.fail(NotedError())
    assert bench.post("phased").status_code == 422
    assert bench.state() == (3, 5, 2)


def test_a_broken_rule_of_the_database_is_our_fault_and_rolls_back(bench: Bench) -> None:
    slug = f"effect-{uuid4().hex}"

    def twice(session: Session) -> None:
        for _ in range(2):
            session.add(Campus(name=bench.effects.name, slug=slug))
            session.flush()

    bench.then = twice
    response = bench.post()
    body = assert_problem(response, 500, "INTERNAL_ERROR")
    assert slug not in str(body)
    assert IntegrityError.__name__ not in str(body)
    assert bench.state() == (1, 0, 0)


@pytest.mark.parametrize("path", ["single", "phased"])
@pytest.mark.parametrize("state", ["40001", "40P01"])
def test_what_the_server_wants_tried_again_is_tried_three_times(bench: Bench, state: str, path: str) -> None:
    early = 1 if path == "phased" else 0
    bench.then = raise_sqlstate(state, times=2)
    response = bench.post(path)
    assert (response.status_code, response.json["data"]) == (200, {"run": 3})
    assert bench.state() == (3, 1 + early, 1)

    bench.then = raise_sqlstate(state, times=3)
    refused = bench.post(path)
    body = assert_problem(refused, 409, "CONCURRENCY_CONFLICT")
    assert "at the same time" in body["detail"]
    assert "Retry-After" not in refused.headers
    assert bench.state() == (6, 1 + 2 * early, 1)


@pytest.mark.parametrize(
    ("state", "status"), [("23505", 500), ("22012", 500), ("55P03", 503), ("57014", 503), ("53300", 503)]
)
def test_other_errors_of_the_server_are_not_tried_again(bench: Bench, state: str, status: int) -> None:
    bench.then = raise_sqlstate(state, times=1)
    response = bench.post()
    assert response.status_code == status
    assert ("Retry-After" in response.headers) == (status == 503)
    assert bench.runs == 1
    assert bench.effects.count() == bench.hooks == 0


def test_two_that_lock_crosswise_both_come_through(bench: Bench, market: Market) -> None:
    """A real deadlock: the server undoes one of them, which then runs again."""
    rows = [market.campus(), market.campus()]
    met = threading.Barrier(2, timeout=WAIT_SECONDS)
    orders = iter([rows, rows[::-1]])
    mine = threading.local()

    def crosswise(session: Session) -> None:
        first_run = not hasattr(mine, "rows")
        if first_run:
            mine.rows = next(orders)
        session.execute(text("SET LOCAL deadlock_timeout = '20ms'"))
        for number, row in enumerate(mine.rows):
            session.execute(text("SELECT 1 FROM campuses WHERE id = :id FOR UPDATE"), {"id": row})
            if number == 0 and first_run:
                met.wait()

    bench.then = crosswise
    app = bench.client.application
    answers = at_once([partial(app.test_client().post, "/api/probe/single") for _ in range(2)])
    assert [answer.status_code for answer in answers] == [200, 200]
    runs, *done = bench.state()
    assert (
        runs >= 3
    )  # who was undone may come back before the other one has its second row, and be undone again
    assert done == [2, 2]


def test_a_serialization_failure_at_commit_is_tried_again_too(bench: Bench) -> None:
    """The error comes when the transaction is closed, after the view has returned."""
    tries = iter(range(2))

    def defer(session: Session) -> None:
        if next(tries, None) is None:
            return
        session.execute(
            text(
                """
                CREATE FUNCTION pg_temp.fail() RETURNS trigger LANGUAGE plpgsql AS
                    $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '40001'; END $$;
                CREATE TEMPORARY TABLE late (number integer) ON COMMIT DROP;
                CREATE CONSTRAINT TRIGGER late AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED
                    FOR EACH ROW EXECUTE FUNCTION pg_temp.fail();
                INSERT INTO late VALUES (1)
                """
            )
        )

    bench.then = defer
    assert bench.post().json["data"] == {"run": 3}
    assert bench.state() == (3, 1, 1)


def test_a_route_of_one_statement_commits_it_by_itself(bench: Bench) -> None:
    assert bench.post("autocommitted").status_code == 409
    assert bench.effects.count() == 1


def test_reads_open_no_transaction(bench: Bench) -> None:
    assert bench.client.get("/api/probe/read").json["data"] is True
