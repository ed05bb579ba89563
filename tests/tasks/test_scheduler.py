"""The scheduler: each tick runs once despite crashes, clock changes and schedule changes."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from marketplace.audit.operations import Act
from marketplace.background import schedule
from marketplace.background.models import PeriodicTaskState
from marketplace.infra.db import Database
from marketplace.kernel import queues
from marketplace.kernel.errors import ServiceUnavailableError
from marketplace.kernel.schedules import parse_schedule
from marketplace.services import Services
from sandbox.process import wait_until
from tasks import scheduler as scheduler_module
from tasks.dispatcher import Dispatcher
from tasks.registry import PeriodicTask, QueueSweeper
from tasks.scheduler import LOST_AFTER_SECONDS, MAX_CONCURRENT_RUNS, TAKEOVER_AFTER, Scheduler, TaskRunner
from tests.support.gateway import MovableClock
from tests.support.threads import at_once

FULL_HOUR = datetime(2027, 3, 1, 10, 0, tzinfo=UTC)
BOUND_SECONDS = 20.0


class Stage:
    """Schedulers that know only the tasks of one test."""

    def __init__(self, services: Services, relay: Dispatcher, clock: MovableClock) -> None:
        self.services = services
        self.relay = relay
        self.clock = clock
        self.ran: list[datetime] = []
        self.let_go = threading.Event()
        self.let_go.set()
        self.monotonic = 0.0
        self.runs: dict[Scheduler, TaskRunner] = {}
        self.tasks: list[PeriodicTask] = []

    def task(self, when: str, work: Callable[[], Any] = lambda: None, **given: str) -> PeriodicTask:
        """Create a task whose runs wait until ``let_go`` is set."""

        def run(_services: Services, _sweeper: QueueSweeper, now: datetime) -> Any:
            self.ran.append(now)
            assert self.let_go.wait(BOUND_SECONDS)
            return work()

        name = f"test-{uuid4().hex[:12]}"
        made = PeriodicTask(name, "Does a test", given.get("queue", queues.WEBHOOKS), when, run)
        self.tasks.append(made)
        return made

    def scheduler(self, queue: str = queues.WEBHOOKS, by: str = "worker-1") -> Scheduler:
        runs = TaskRunner(self.services, self.relay, runner_name=by)
        made = Scheduler(self.services, runs, queue=queue, tasks=self.tasks, monotonic=lambda: self.monotonic)
        self.runs[made] = runs
        return made

    def start_due(self, scheduler: Scheduler, now: datetime) -> list[str]:
        """Start due tasks as of a time and wait for the runs unless ``let_go`` is cleared."""
        self.clock.now = now
        started = scheduler.start_due_tasks()
        if self.let_go.is_set():
            self.settle()
        return started

    def settle(self) -> None:
        for one in self.runs:
            one.join(BOUND_SECONDS)

    def state(self, task: PeriodicTask) -> PeriodicTaskState:
        with self.services.database.reading() as session:
            [found] = schedule.fetch_snapshots(session, (task,))
            return found

    def operate(self, change: Callable[..., Any], task: PeriodicTask, **given: Any) -> Any:
        """Apply an operator's change to a task."""
        return self.services.database.in_transaction(
            change, task=task, act=Act("operator", self.clock.now), **given
        )


@pytest.fixture
def stage(paying_services: Services, relay: Dispatcher, clock: MovableClock) -> Iterator[Stage]:
    made = Stage(paying_services, relay, clock)
    clock.now = FULL_HOUR
    yield made
    made.let_go.set()
    made.settle()
    with paying_services.database.transaction() as session:
        session.execute(
            text("DELETE FROM periodic_tasks WHERE name = ANY(:names)"),
            {"names": [task.name for task in made.tasks]},
        )


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def minutes(number: float) -> timedelta:
    return timedelta(minutes=number)


class TestTicks:
    def test_new_cron_task_waits_for_tick_and_interval_task_starts_at_once(self, stage: Stage) -> None:
        hourly, often = stage.task("0 * * * *"), stage.task("every 15s")

        assert stage.start_due(stage.scheduler(), FULL_HOUR + seconds(1)) == [often.name]

        assert stage.state(hourly).next_run_at == FULL_HOUR + timedelta(hours=1)
        assert stage.state(often).next_run_at == FULL_HOUR + seconds(15)

    def test_run_result_is_recorded(self, stage: Stage) -> None:
        task = stage.task("* * * * *", lambda: 7)
        one = stage.scheduler(by="webhooks@host:1")
        stage.start_due(one, FULL_HOUR)

        assert stage.start_due(one, FULL_HOUR + minutes(1)) == [task.name]

        state = stage.state(task)
        assert (state.outcome, state.result, state.error, state.runs, state.failures) == (
            "succeeded",
            "7",
            None,
            1,
            0,
        )
        assert state.finished_at == FULL_HOUR + minutes(1)
        assert state.duration_milliseconds is not None
        assert (state.run_id, state.run_by, state.started_at) == (None, None, None)
        assert state.next_run_at == FULL_HOUR + minutes(2)

    @pytest.mark.parametrize("count", [2, 8])
    def test_concurrent_schedulers_start_due_task_once(self, stage: Stage, count: int) -> None:
        task = stage.task("* * * * *")
        schedulers = [stage.scheduler(by=f"worker-{number}") for number in range(count)]
        stage.start_due(schedulers[0], FULL_HOUR)
        for number in range(1, 11):
            stage.clock.now = FULL_HOUR + minutes(number) + seconds(number / 7)

            started = at_once(Scheduler.start_due_tasks, schedulers)

            assert [one for one in started if one] == [[task.name]]
            stage.settle()
            assert len(stage.ran) == number

    def test_missed_ticks_are_run_once(self, stage: Stage) -> None:
        task = stage.task("* * * * *")
        one = stage.scheduler()
        stage.start_due(one, FULL_HOUR)

        # No scheduler ran for a day and 30 seconds.
        back = FULL_HOUR + timedelta(days=1, seconds=30)
        assert [stage.start_due(one, back + seconds(number)) for number in range(3)] == [[task.name], [], []]

        assert stage.ran == [back]
        assert stage.state(task).next_run_at == FULL_HOUR + timedelta(days=1, minutes=1)

    def test_running_task_is_not_started_twice_and_missed_ticks_are_skipped(self, stage: Stage) -> None:
        task = stage.task("* * * * *")
        one, other = stage.scheduler(), stage.scheduler(by="worker-2")
        stage.start_due(one, FULL_HOUR)
        stage.let_go.clear()
        stage.start_due(one, FULL_HOUR + minutes(1))
        assert wait_until(lambda: bool(stage.ran), timeout_seconds=BOUND_SECONDS)
        state = stage.state(task)
        assert (state.run_by, state.started_at) == ("worker-1", FULL_HOUR + minutes(1))

        for number in range(2, 5):
            for scheduler in (one, other):
                assert stage.start_due(scheduler, FULL_HOUR + minutes(number)) == []
        stage.let_go.set()
        stage.settle()

        assert len(stage.ran) == 1
        assert stage.state(task).next_run_at == FULL_HOUR + minutes(5)
        assert stage.start_due(other, FULL_HOUR + minutes(5)) == [task.name]

    def test_long_run_does_not_delay_other_tasks(self, stage: Stage) -> None:
        stage.task("* * * * *")
        one = stage.scheduler()
        stage.start_due(one, FULL_HOUR)
        stage.let_go.clear()
        stage.start_due(one, FULL_HOUR + minutes(1))
        later = stage.task("every 5s")

        assert stage.start_due(stage.scheduler(), FULL_HOUR + minutes(1)) == [later.name]

    def test_worker_limits_concurrent_runs_and_leaves_rest_to_others(self, stage: Stage) -> None:
        names = {stage.task("* * * * *").name for _ in range(MAX_CONCURRENT_RUNS + 1)}
        one, other = stage.scheduler(), stage.scheduler(queues.AI_MODERATION)
        stage.start_due(one, FULL_HOUR)
        stage.let_go.clear()

        started = set(stage.start_due(one, FULL_HOUR + minutes(1)))
        assert len(started) == MAX_CONCURRENT_RUNS
        assert stage.start_due(one, FULL_HOUR + minutes(1) + seconds(20)) == []
        assert set(stage.start_due(other, FULL_HOUR + minutes(1) + seconds(20))) == names - started

    def test_worker_of_another_queue_takes_over_overdue_task(self, stage: Stage) -> None:
        task = stage.task("* * * * *", queue=queues.NOTIFICATIONS)
        other = stage.scheduler(queues.ESCROW_RECONCILIATION)
        stage.start_due(other, FULL_HOUR)
        due = FULL_HOUR + minutes(1)

        assert stage.start_due(other, due) == []
        assert stage.start_due(other, due + TAKEOVER_AFTER - seconds(1)) == []
        assert stage.start_due(other, due + TAKEOVER_AFTER) == [task.name]


class TestFailures:
    def test_failure_is_recorded_by_error_type_and_next_tick_runs(self, stage: Stage) -> None:
        came: list[Exception | None] = [KeyError("a secret"), KeyError("a secret"), None]

        def work() -> None:
            error = came.pop(0)
            if error is not None:
                raise error

        task = stage.task("* * * * *", work)
        one = stage.scheduler()
        stage.start_due(one, FULL_HOUR)
        for number in (1, 2):
            stage.start_due(one, FULL_HOUR + minutes(number))
        state = stage.state(task)
        assert (state.outcome, state.error, state.result) == ("failed", "KeyError", None)
        assert (state.runs, state.failures) == (2, 2)

        stage.start_due(one, FULL_HOUR + minutes(3))

        state = stage.state(task)
        assert (state.outcome, state.error, state.runs, state.failures) == ("succeeded", None, 3, 0)

    def test_third_consecutive_failure_raises_an_alert_until_success(
        self, stage: Stage, database: Database
    ) -> None:
        fails = [True] * 4 + [False]

        def work() -> None:
            if fails.pop(0):
                raise ZeroDivisionError("a secret")

        task = stage.task("* * * * *", work)
        one = stage.scheduler()
        stage.start_due(one, FULL_HOUR)

        def alerts() -> list[tuple[Any, ...]]:
            with database.reading() as session:
                rows = session.execute(
                    text(
                        "SELECT identifier, occurrences, latest_facts, resolved_at IS NOT NULL FROM alerts"
                        " WHERE subject = :subject"
                    ),
                    {"subject": f"periodic:{task.name}"},
                )
                return [tuple(row) for row in rows]

        told = []
        for number in range(1, 6):
            stage.start_due(one, FULL_HOUR + minutes(number))
            told.append([(found[1], found[3]) for found in alerts()])

        assert told == [[], [], [(1, False)], [(2, False)], [(2, True)]]
        [(identifier, _, facts, _)] = alerts()
        assert identifier == "PERIODIC_TASK_FAILING"
        assert facts == {"task": task.name, "error": "ZeroDivisionError", "failuresInARow": 4}

    def test_run_of_killed_worker_is_interrupted_and_next_tick_runs(self, stage: Stage) -> None:
        task = stage.task("* * * * *")
        one, other = stage.scheduler(), stage.scheduler(by="worker-2")
        stage.start_due(one, FULL_HOUR)
        run_id = self.start_run_of_killed_worker(stage, task)
        now = FULL_HOUR + minutes(1)
        assert stage.start_due(other, now) == []

        stage.monotonic += LOST_AFTER_SECONDS - 1
        assert stage.start_due(other, now + seconds(LOST_AFTER_SECONDS - 1)) == []
        assert stage.state(task).run_id == run_id
        stage.monotonic += 1
        stage.start_due(other, now + seconds(LOST_AFTER_SECONDS))

        state = stage.state(task)
        assert (state.run_id, state.outcome, state.error) == (None, "interrupted", "worker lost")
        assert state.next_run_at == FULL_HOUR + minutes(2)
        assert stage.start_due(other, FULL_HOUR + minutes(2)) == [task.name]
        assert stage.state(task).outcome == "succeeded"

    def start_run_of_killed_worker(self, stage: Stage, task: PeriodicTask) -> UUID:
        stage.clock.now = FULL_HOUR + minutes(1)
        run_id = stage.services.database.in_transaction(
            schedule.start_due_run, state=stage.state(task), worker_name="victim", now=stage.clock.now
        )
        assert run_id is not None
        return run_id

    def test_run_with_heartbeat_is_never_lost(self, stage: Stage) -> None:
        task = stage.task("* * * * *")
        one, other = stage.scheduler(), stage.scheduler(by="worker-2")
        stage.start_due(one, FULL_HOUR)
        stage.let_go.clear()
        stage.start_due(one, FULL_HOUR + minutes(1))
        for number in range(20):
            stage.monotonic += LOST_AFTER_SECONDS - 1
            stage.runs[one].send_heartbeats()
            assert stage.start_due(other, FULL_HOUR + minutes(1 + number)) == []
        assert stage.state(task).run_by == "worker-1"

    def test_missing_heartbeats_during_database_outage_are_excused(self, stage: Stage) -> None:
        task = stage.task("* * * * *")
        one, other = stage.scheduler(), stage.scheduler(by="worker-2")
        stage.start_due(one, FULL_HOUR)
        stage.let_go.clear()
        stage.start_due(one, FULL_HOUR + minutes(1))
        stage.start_due(other, FULL_HOUR + minutes(1))

        stage.monotonic += 2 * LOST_AFTER_SECONDS
        other._heartbeat_monitor.reset()
        stage.start_due(other, FULL_HOUR + minutes(1))

        assert stage.state(task).run_by == "worker-1"

    def test_late_result_of_a_lost_run_is_ignored(self, stage: Stage) -> None:
        task = stage.task("* * * * *")
        one, other = stage.scheduler(), stage.scheduler(by="worker-2")
        stage.start_due(one, FULL_HOUR)
        stage.let_go.clear()
        stage.start_due(one, FULL_HOUR + minutes(1))
        stage.start_due(other, FULL_HOUR + minutes(1))
        stage.monotonic += LOST_AFTER_SECONDS
        stage.start_due(other, FULL_HOUR + minutes(1))
        assert stage.state(task).outcome == "interrupted"

        stage.runs[one].send_heartbeats()
        stage.let_go.set()
        stage.settle()

        state = stage.state(task)
        assert (state.outcome, state.runs) == ("interrupted", 1)

    def test_run_of_stopped_worker_is_recorded_as_interrupted(self, stage: Stage) -> None:
        task = stage.task("* * * * *")
        one = stage.scheduler()
        stage.start_due(one, FULL_HOUR)
        stage.let_go.clear()
        stage.start_due(one, FULL_HOUR + minutes(1))

        stage.runs[one].mark_interrupted()

        state = stage.state(task)
        assert (state.run_id, state.outcome, state.error) == (None, "interrupted", "worker stopped")

    def test_end_of_run_is_recorded_after_database_outage(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        task = stage.task("* * * * *")
        one = stage.scheduler()
        stage.start_due(one, FULL_HOUR)
        finish, failures = schedule.finish_run, [1, 2]

        def away(*given: Any, **named: Any) -> bool:
            if failures:
                failures.pop()
                raise ServiceUnavailableError("away", retry_after_seconds=1)
            return finish(*given, **named)

        monkeypatch.setattr(schedule, "finish_run", away)
        monkeypatch.setattr(scheduler_module, "SCHEDULE_POLL_SECONDS", 0.01)
        stage.start_due(one, FULL_HOUR + minutes(1))

        assert failures == []
        assert stage.state(task).outcome == "succeeded"
        assert len(stage.runs[one]._running) == 0


class TestOperators:
    def test_paused_task_does_not_run_until_resumed(self, stage: Stage, database: Database) -> None:
        task = stage.task("* * * * *")
        one = stage.scheduler()
        stage.start_due(one, FULL_HOUR)

        assert stage.operate(schedule.set_paused, task, paused=True)
        assert not stage.operate(schedule.set_paused, task, paused=True)
        assert stage.start_due(one, FULL_HOUR + minutes(90)) == []
        stage.clock.now = FULL_HOUR + minutes(90) + seconds(10)
        assert stage.operate(schedule.set_paused, task, paused=False)
        assert not stage.operate(schedule.set_paused, task, paused=False)

        # Ticks missed during the pause are skipped.
        assert stage.start_due(one, stage.clock.now) == []
        assert stage.start_due(one, FULL_HOUR + minutes(91)) == [task.name]
        assert audited(database, task) == [
            ("periodic.pause", {"paused": False}, {"paused": True}),
            ("periodic.resume", {"paused": True}, {"paused": False}),
        ]

    def test_run_paused_midway_finishes(self, stage: Stage) -> None:
        task = stage.task("* * * * *")
        one = stage.scheduler()
        stage.start_due(one, FULL_HOUR)
        stage.let_go.clear()
        stage.start_due(one, FULL_HOUR + minutes(1))

        stage.operate(schedule.set_paused, task, paused=True)
        stage.let_go.set()
        stage.settle()

        assert stage.state(task).outcome == "succeeded"
        assert stage.start_due(one, FULL_HOUR + minutes(5)) == []

    def test_new_schedule_takes_effect_at_once_and_during_run(self, stage: Stage, database: Database) -> None:
        task = stage.task("0 * * * *")
        one = stage.scheduler()
        stage.start_due(one, FULL_HOUR + seconds(1))

        following = stage.operate(schedule.reschedule_task, task, schedule=parse_schedule("every 10s"))
        assert following == FULL_HOUR + seconds(10)
        stage.let_go.clear()
        assert stage.start_due(one, FULL_HOUR + seconds(10)) == [task.name]
        stage.operate(schedule.reschedule_task, task, schedule=parse_schedule("30 10 * * *"))
        stage.let_go.set()
        stage.settle()

        assert stage.state(task).next_run_at == FULL_HOUR + minutes(30)
        assert stage.start_due(one, FULL_HOUR + seconds(20)) == []
        assert stage.start_due(one, FULL_HOUR + minutes(30)) == [task.name]
        assert stage.operate(schedule.reschedule_task, task, schedule=None) == FULL_HOUR + timedelta(hours=1)
        assert stage.state(task).timetable is None
        assert [after for _, _, after in audited(database, task)] == [
            {"timetable": "every 10s"},
            {"timetable": "30 10 * * *"},
            {"timetable": "0 * * * *"},
        ]

    def test_run_does_not_start_when_operator_changed_task_meanwhile(self, stage: Stage) -> None:
        task = stage.task("* * * * *")
        stage.start_due(stage.scheduler(), FULL_HOUR)
        stage.clock.now = FULL_HOUR + minutes(1)
        seen = stage.state(task)

        def claimed() -> UUID | None:
            return stage.services.database.in_transaction(
                schedule.start_due_run, state=seen, worker_name="worker-1", now=stage.clock.now
            )

        stage.operate(schedule.set_paused, task, paused=True)
        assert claimed() is None
        stage.operate(schedule.set_paused, task, paused=False)
        assert claimed() is None
        stage.operate(schedule.reschedule_task, task, schedule=parse_schedule("every 1m"))
        assert claimed() is None

    def test_run_started_by_hand_is_not_started_twice(self, stage: Stage) -> None:
        task = stage.task("* * * * *")
        one = stage.scheduler()
        stage.start_due(one, FULL_HOUR)

        def begin() -> UUID | None:
            return stage.services.database.in_transaction(
                schedule.start_manual_run,
                task=task,
                runner_name="operator",
                act=Act("operator", stage.clock.now),
            )

        first = begin()
        assert first is not None
        assert begin() is None
        assert stage.start_due(one, FULL_HOUR + minutes(1)) == []
        stage.runs[one].perform(task, first)
        assert stage.start_due(one, FULL_HOUR + minutes(2)) == [task.name]

    def test_shorter_declared_schedule_replaces_old_next_run(self, stage: Stage) -> None:
        daily = stage.task("30 9 * * *")
        stage.start_due(stage.scheduler(), FULL_HOUR)
        assert stage.state(daily).next_run_at == FULL_HOUR + timedelta(hours=23, minutes=30)

        stage.tasks = [replace(daily, schedule_text="* * * * *")]
        stage.start_due(stage.scheduler(), FULL_HOUR)

        assert stage.state(stage.tasks[0]).next_run_at == FULL_HOUR + minutes(1)

    def test_invalid_stored_schedule_falls_back_to_declared_schedule(self, stage: Stage) -> None:
        task = stage.task("* * * * *")
        one = stage.scheduler()
        stage.start_due(one, FULL_HOUR)
        with stage.services.database.transaction() as session:
            session.execute(
                text("UPDATE periodic_tasks SET timetable = 'at full moon' WHERE name = :name"),
                {"name": task.name},
            )

        assert stage.start_due(one, FULL_HOUR + minutes(1)) == [task.name]

    def test_state_of_removed_task_is_deleted_after_a_day(self, stage: Stage) -> None:
        gone, kept, paused = (stage.task("* * * * *") for _ in range(3))
        stage.start_due(stage.scheduler(), FULL_HOUR)
        stage.operate(schedule.set_paused, paused, paused=True)
        stage.tasks = [kept]
        stage.start_due(stage.scheduler(), FULL_HOUR + timedelta(hours=23))
        assert stage.state(gone)

        stage.start_due(stage.scheduler(), FULL_HOUR + timedelta(hours=25))

        with stage.services.database.reading() as session:
            names = {state.name for state in schedule.fetch_snapshots(session, (gone, kept, paused))}
        assert names == {kept.name, paused.name}
        stage.tasks = [gone, kept, paused]


def audited(database: Database, task: PeriodicTask) -> list[tuple[Any, ...]]:
    with database.reading() as session:
        rows = session.execute(
            text("SELECT action, before, after FROM audit_logs WHERE target_id = :name ORDER BY id"),
            {"name": task.name},
        )
        return [tuple(row) for row in rows]


class TestClocks:
    def test_small_backward_clock_step_repeats_no_tick(self, stage: Stage) -> None:
        task = stage.task("* * * * *")
        one = stage.scheduler()
        stage.start_due(one, FULL_HOUR)
        assert stage.start_due(one, FULL_HOUR + minutes(1)) == [task.name]

        for step in (1, 5, 30, 59):
            assert stage.start_due(one, FULL_HOUR + minutes(1) - seconds(step)) == []
        assert stage.start_due(one, FULL_HOUR + minutes(1)) == []
        assert stage.start_due(one, FULL_HOUR + minutes(2)) == [task.name]

    def test_rare_task_is_not_reported_as_stalled(self, stage: Stage) -> None:
        task = stage.task("0,1 9 1 1 *")
        one = stage.scheduler()
        stage.start_due(one, FULL_HOUR)
        new_year = datetime(2028, 1, 1, 9, 0, tzinfo=UTC)
        assert stage.state(task).next_run_at == new_year

        assert stage.start_due(one, FULL_HOUR + timedelta(days=100)) == []
        assert stage.state(task).next_run_at == new_year
        assert stage.start_due(one, new_year) == [task.name]
        assert stage.start_due(one, new_year + minutes(1)) == [task.name]
