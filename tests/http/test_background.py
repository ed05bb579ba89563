"""Background work shown to staff over HTTP: queue figures and periodic tasks."""

from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import uuid4

import pytest
from flask.testing import FlaskClient
from sqlalchemy import text

from blueprints.background.routes import area
from marketplace.audit.operations import Act
from marketplace.background import schedule, workers
from marketplace.background.schedule import DeclaredTask
from marketplace.background.workers import Worker
from marketplace.infra import outbox
from marketplace.infra.cache import Cache
from marketplace.infra.db import Database
from marketplace.kernel import queues
from marketplace.kernel.schedules import parse_schedule
from marketplace.services import Services
from tests.support.market import Bearer, Market
from tests.support.probes import assert_problem, closed_port, serve

PATHS = ("/api/admin/queues", "/api/admin/periodic")
NOW = datetime(2027, 5, 1, 10, 0, tzinfo=UTC)


@pytest.fixture
def officer(market: Market, bearer: Bearer) -> dict[str, str]:
    return bearer(market.staff("support"), aal="aal2")


@pytest.fixture
def worker(services: Services) -> Iterator[Worker]:
    made = Worker(f"webhooks@host:{uuid4().hex}", queues.WEBHOOKS, "host", 7, NOW, NOW)
    workers.record_heartbeat(services.cache, made)
    yield made
    workers.remove_worker(services.cache, made.name)


@pytest.fixture
def task(database: Database) -> Iterator[DeclaredTask]:
    made = DeclaredTask(f"test-{uuid4().hex}", "Does a test", queues.WEBHOOKS, "*/5 * * * *")
    database.in_transaction(schedule.register_tasks, tasks=(made,), now=NOW)
    yield made
    with database.transaction() as session:
        session.execute(text("DELETE FROM periodic_tasks WHERE name = :name"), {"name": made.name})


@pytest.mark.parametrize("path", PATHS)
class TestAccess:
    def test_request_without_token_is_unauthorized(self, client: FlaskClient, path: str) -> None:
        assert client.get(path).status_code == 401

    @pytest.mark.parametrize("role", ["buyer", "vendor"])
    def test_customers_are_refused(
        self, client: FlaskClient, market: Market, bearer: Bearer, path: str, role: str
    ) -> None:
        answer = client.get(path, headers=bearer(market.person(role=role), aal="aal2"))
        assert (answer.status_code, answer.json["code"]) == (403, "AUTH_FORBIDDEN")

    def test_staff_need_second_factor(
        self, client: FlaskClient, market: Market, bearer: Bearer, path: str
    ) -> None:
        answer = client.get(path, headers=bearer(market.staff("admin")))
        assert (answer.status_code, answer.json["code"]) == (403, "AUTH_AAL2_REQUIRED")

    def test_response_is_not_cacheable(self, client: FlaskClient, officer: dict[str, str], path: str) -> None:
        answer = client.get(path, headers=officer)
        assert answer.status_code == 200
        assert answer.headers["Cache-Control"] == "no-store"
        assert "RateLimit-Limit" in answer.headers
        assert answer.json["success"] is True


class TestQueues:
    def test_queue_figures_count_waiting_events(
        self, client: FlaskClient, officer: dict[str, str], database: Database, worker: Worker
    ) -> None:
        before = client.get("/api/admin/queues", headers=officer).json["data"]
        assert before.keys() == {"queues", "redisMemoryUsedBytes", "connectedWorkers"}
        assert before["queues"].keys() == set(queues.NAMES)
        for figures in before["queues"].values():
            assert figures.keys() == {"waiting", "active", "failed", "completed"}
            assert all(type(value) is int and value >= 0 for value in figures.values())
        assert before["redisMemoryUsedBytes"] > 0
        assert before["connectedWorkers"] >= 1
        event_id = database.in_transaction(
            outbox.enqueue,
            queue=queues.AI_MODERATION,
            topic="t",
            payload={},
            due_at=datetime(2026, 1, 1, tzinfo=UTC),
        )

        after = client.get("/api/v1/admin/queues", headers=officer).json["data"]

        assert after["queues"]["ai-moderation"] == before["queues"]["ai-moderation"] | {
            "waiting": before["queues"]["ai-moderation"]["waiting"] + 1
        }
        with database.transaction() as session:
            session.execute(text("DELETE FROM outbox_events WHERE id = :id"), {"id": event_id})

    def test_unreachable_cache_makes_queue_figures_unavailable(
        self, services: Services, officer: dict[str, str]
    ) -> None:
        client = serve(services, area, cache=Cache(f"redis://127.0.0.1:{closed_port()}/0"))

        problem = assert_problem(client.get(PATHS[0], headers=officer), 503, "SERVICE_UNAVAILABLE")

        assert "queue server cannot be reached" in problem["detail"]
        assert client.get(PATHS[1], headers=officer).status_code == 200


class TestPeriodic:
    def test_periodic_task_is_shown_with_schedule_and_last_run(
        self, client: FlaskClient, officer: dict[str, str], database: Database, task: DeclaredTask
    ) -> None:
        def shown() -> dict[str, object]:
            found = client.get("/api/admin/periodic", headers=officer).json["data"]
            [row] = [row for row in found if row["name"] == task.name]
            return row  # type: ignore[no-any-return]

        assert shown() == {
            "name": task.name,
            "purpose": "Does a test",
            "queue": "webhooks",
            "timetable": "*/5 * * * *",
            "rescheduled": False,
            "pausedAt": None,
            "nextRunAt": "2027-05-01T10:05:00Z",
            "runningSince": None,
            "runningOn": None,
            "lastFinishedAt": None,
            "lastDurationMilliseconds": None,
            "lastOutcome": None,
            "lastError": None,
            "lastResult": None,
            "runs": 0,
            "failuresInARow": 0,
        }

        act = Act("operator", NOW)
        run_id = database.in_transaction(
            schedule.start_run, name=task.name, runner_name="worker-1", now=NOW, act=act
        )
        assert run_id is not None
        assert shown()["runningOn"] == "worker-1"
        database.in_transaction(
            schedule.finish_run,
            run_id=run_id,
            outcome="failed",
            error="KeyError",
            duration_milliseconds=12,
            now=NOW,
        )
        database.in_transaction(
            schedule.reschedule_task, name=task.name, schedule=parse_schedule("every 1h"), act=act
        )
        database.in_transaction(schedule.set_paused, name=task.name, paused=True, act=act)

        failed = shown()
        assert (failed["lastOutcome"], failed["lastError"], failed["lastDurationMilliseconds"]) == (
            "failed",
            "KeyError",
            12,
        )
        assert (failed["runs"], failed["failuresInARow"], failed["runningOn"]) == (1, 1, None)
        assert (failed["timetable"], failed["rescheduled"], failed["nextRunAt"]) == ("every 1h", True, None)
        assert failed["pausedAt"] is not None
