"""Request transactions: commit, rollback, retry after serialization failures, and hooks after commit."""

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


class KeptChangesError(ValidationError):
    """A refusal that commits the changes made before."""

    keeps_changes: ClassVar[bool] = True


class Bench:
    """Routes that write an effect, then run a callback of the test; every run of a view is counted."""

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
        # The hook must see committed data.
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
        """Make the next runs fail, the given number of times."""
        left = iter(range(times))

        def then(_session: Session) -> None:
            if next(left, None) is not None:
                raise error

        self.then = then

    def state(self) -> tuple[int, int, int]:
        """Return the numbers of runs, committed effects and hooks run."""
        return self.runs, self.effects.count(), self.hooks


@pytest.fixture
def bench(services: Services) -> Bench:
    return Bench(services)


def raise_sqlstate(state: str, *, times: int) -> Callable[[Session], None]:
    """Make the database server raise a SQLSTATE, the given number of times."""
    left = iter(range(times))

    def then(session: Session) -> None:
        if next(left, None) is not None:
            session.execute(text(f"DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '{state}'; END $$"))

    return then


def test_success_commits_once_and_then_runs_hooks(bench: Bench) -> None:
    assert bench.post().json["data"] == {"run": 1}
    assert bench.state() == (1, 1, 1)
    assert bench.client.delete("/api/probe/single").status_code == 200
    assert bench.state() == (2, 2, 2)


@pytest.mark.parametrize(
    "error",
    [ConflictError(), ValidationError(), ServiceUnavailableError(retry_after_seconds=1), RuntimeError()],
    ids=lambda error: type(error).__name__,
)
def test_error_rolls_back_and_runs_no_hook(bench: Bench, error: Exception) -> None:
    bench.fail(error)
    status = error.status if isinstance(error, MarketplaceError) else 500
    assert bench.post().status_code == status
    assert bench.state() == (1, 0, 0)


def test_refusal_that_keeps_changes_commits_and_is_answered(bench: Bench) -> None:
    bench.fail(KeptChangesError("It was noted."))
    assert assert_problem(bench.post(), 422, "VALIDATION_FAILED")["detail"] == "It was noted."
    assert bench.state() == (1, 1, 1)


def test_each_phase_commits_separately(bench: Bench) -> None:
    assert bench.post("phased").status_code == 200
    assert bench.state() == (1, 2, 1)
    bench.fail(ConflictError())
    assert bench.post("phased").status_code == 409
    assert bench.state() == (2, 3, 1)
    bench.fail(KeptChangesError())
    assert bench.post("phased").status_code == 422
    assert bench.state() == (3, 5, 2)


def test_constraint_violation_is_internal_error_and_rolls_back(bench: Bench) -> None:
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
def test_serialization_failure_and_deadlock_are_tried_three_times(
    bench: Bench, state: str, path: str
) -> None:
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
def test_other_database_errors_are_not_retried(bench: Bench, state: str, status: int) -> None:
    bench.then = raise_sqlstate(state, times=1)
    response = bench.post()
    assert response.status_code == status
    assert ("Retry-After" in response.headers) == (status == 503)
    assert bench.runs == 1
    assert bench.effects.count() == bench.hooks == 0


def test_deadlocked_requests_both_succeed_after_retry(bench: Bench, market: Market) -> None:
    """A real deadlock: the server aborts either transaction, which then runs again."""
    rows = [market.campus(), market.campus()]
    met = threading.Barrier(2, timeout=WAIT_SECONDS)
    # Only the first transaction looks for deadlocks soon, so that the two do not abort each other again and again.
    orders = iter([(rows, "20ms"), (rows[::-1], "5s")])
    thread_state = threading.local()

    def crosswise(session: Session) -> None:
        first_run = not hasattr(thread_state, "rows")
        if first_run:
            thread_state.rows, thread_state.deadlock_timeout = next(orders)
        session.execute(text(f"SET LOCAL deadlock_timeout = '{thread_state.deadlock_timeout}'"))
        for number, row in enumerate(thread_state.rows):
            session.execute(text("SELECT 1 FROM campuses WHERE id = :id FOR UPDATE"), {"id": row})
            if number == 0 and first_run:
                met.wait()

    bench.then = crosswise
    app = bench.client.application
    answers = at_once([partial(app.test_client().post, "/api/probe/single") for _ in range(2)])
    assert [answer.status_code for answer in answers] == [200, 200]
    runs, *done = bench.state()
    # The aborted transaction may retry before the other has locked both rows, and be aborted again.
    assert runs >= 3
    assert done == [2, 2]


def test_serialization_failure_at_commit_is_retried(bench: Bench) -> None:
    """The error occurs at commit, after the view has returned."""
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


def test_autocommit_route_keeps_effect_despite_error(bench: Bench) -> None:
    assert bench.post("autocommitted").status_code == 409
    assert bench.effects.count() == 1


def test_read_route_opens_no_transaction(bench: Bench) -> None:
    assert bench.client.get("/api/probe/read").json["data"] is True
