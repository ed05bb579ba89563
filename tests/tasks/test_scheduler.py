"""Periodic tasks: each tick runs once despite crashes, outages, clock changes and schedule changes."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from marketplace.audit.operations import Act
from marketplace.background import schedule
from marketplace.background.models import PeriodicTaskState
from marketplace.background.schedule import LEASE, OTHER_QUEUES_DELAY
from marketplace.infra.db import Database
from marketplace.kernel import queues
from marketplace.kernel.errors import ServiceUnavailableError
from marketplace.kernel.schedules import parse_schedule
from marketplace.services import Services
from sandbox.process import wait_until
from tasks.dispatcher import Dispatcher
from tasks.queues import WORKER_THREADS
from tasks.registry import PeriodicTask, QueueSweeper
from tasks.scheduler import MAX_CONCURRENT_RUNS, TaskRunner
from tests.support.gateway import MovableClock
from tests.support.probes import closed_port
from tests.support.threads import at_once

FULL_HOUR = datetime(2027, 3, 1, 10, 0, tzinfo=UTC)
BOUND_SECONDS = 20.0


class Worker:
    """A worker whose consumer polls and runs messages when the test says so."""

    def __init__(self, services: Services, tasks: list[PeriodicTask], queue: str, name: str) -> None:
        self.dispatcher = Dispatcher(services)
        self.queue = self.dispatcher.queues[queue]
        self.runner = TaskRunner(services, self.dispatcher, name=name, queue=queue, tasks=tasks)
        self._threads: list[threading.Thread] = []

    def poll(self) -> list[str]:
        """Poll the schedule as Huey's scheduler does, and return the names of the enqueued tasks."""
        messages = self.queue.read_periodic(None)
        for message in messages:
            self.queue.enqueue(message)
        return [message.args[0] for message in messages]

    def execute(self) -> None:
        """Execute the messages of the queue as Huey's threads do."""
        # An empty queue would block for a second.
        while self.queue.pending_count() and (message := self.queue.dequeue()):
            thread = threading.Thread(target=self.queue.execute, args=(message,))
            thread.start()
            self._threads.append(thread)

    def poll_and_execute(self) -> list[str]:
        names = self.poll()
        self.execute()
        return names

    def join(self) -> None:
        for thread in self._threads:
            thread.join(BOUND_SECONDS)
            assert not thread.is_alive()

    def close(self) -> None:
        for queue in self.dispatcher.queues.values():
            queue.storage.pool.disconnect()


class Stage:
    """Workers that know only the tasks of one test."""

    def __init__(self, services: Services, clock: MovableClock) -> None:
        self.services = services
        self.clock = clock
        self.ran: list[datetime] = []
        self.let_go = threading.Event()
        self.let_go.set()
        self.workers: list[Worker] = []
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

    def worker(self, queue: str = queues.WEBHOOKS, by: str = "worker-1", **changed: Any) -> Worker:
        made = Worker(replace(self.services, **changed), self.tasks, queue, by)
        self.workers.append(made)
        return made

    def start_due(self, worker: Worker, now: datetime) -> list[str]:
        """Start due tasks as of a time and wait for the runs unless ``let_go`` is cleared."""
        self.clock.now = now
        count = len(self.ran)
        names = worker.poll_and_execute()
        if self.let_go.is_set():
            self.settle()
        else:
            assert wait_until(lambda: len(self.ran) == count + len(names), timeout_seconds=BOUND_SECONDS)
        return names

    def settle(self) -> None:
        for worker in self.workers:
            worker.join()

    def state(self, task: PeriodicTask) -> PeriodicTaskState:
        with self.services.database.reading() as session:
            return session.get_one(PeriodicTaskState, task.name)

    def operate(self, change: Callable[..., Any], task: PeriodicTask, **given: Any) -> Any:
        """Apply an operator's change to a task."""
        return self.services.database.in_transaction(
            change, name=task.name, act=Act("operator", self.clock.now), **given
        )

    def start_by_hand(self, task: PeriodicTask) -> UUID | None:
        return self.services.database.in_transaction(
            schedule.start_run,
            name=task.name,
            runner_name="operator",
            now=self.clock.now,
            act=Act("operator", self.clock.now),
        )

    def start_run_of_killed_worker(self, task: PeriodicTask, now: datetime) -> UUID:
        """Start a run without a process that renews the lease."""
        self.clock.now = now
        run_id = self.services.database.in_transaction(
            schedule.start_run, name=task.name, runner_name="victim", now=now
        )
        assert run_id is not None
        return run_id


@pytest.fixture
def stage(paying_services: Services, relay: Dispatcher, clock: MovableClock) -> Iterator[Stage]:
    made = Stage(paying_services, clock)
    clock.now = FULL_HOUR
    yield made
    made.let_go.set()
    made.settle()
    for worker in made.workers:
        worker.close()
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

        assert stage.start_due(stage.worker(), FULL_HOUR + seconds(1)) == [often.name]

        assert stage.state(hourly).next_run_at == FULL_HOUR + timedelta(hours=1)
        assert stage.state(often).next_run_at == FULL_HOUR + seconds(15)

    def test_run_result_is_recorded(self, stage: Stage) -> None:
        task = stage.task("* * * * *", lambda: 7)
        one = stage.worker(by="webhooks@host:1")
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

    @pytest.mark.parametrize("count", [2, 4])
    def test_concurrent_workers_start_due_task_once(self, stage: Stage, count: int) -> None:
        task = stage.task("* * * * *")
        workers = [stage.worker(by=f"worker-{number}") for number in range(count)]
        stage.start_due(workers[0], FULL_HOUR)
        for number in range(1, 6):
            stage.clock.now = FULL_HOUR + minutes(number) + seconds(number / 7)

            polled = at_once(Worker.poll_and_execute, workers)

            assert [task.name] in polled
            stage.settle()
            assert len(stage.ran) == number
            assert stage.state(task).runs == number

    def test_missed_ticks_are_run_once(self, stage: Stage) -> None:
        task = stage.task("* * * * *")
        one = stage.worker()
        stage.start_due(one, FULL_HOUR)

        # No scheduler ran for a day and 30 seconds.
        back = FULL_HOUR + timedelta(days=1, seconds=30)
        assert [stage.start_due(one, back + seconds(number)) for number in range(3)] == [[task.name], [], []]

        assert stage.ran == [back]
        assert stage.state(task).next_run_at == FULL_HOUR + timedelta(days=1, minutes=1)

    def test_running_task_is_not_started_twice_and_missed_ticks_are_skipped(self, stage: Stage) -> None:
        task = stage.task("* * * * *")
        one, other = stage.worker(), stage.worker(by="worker-2")
        stage.start_due(one, FULL_HOUR)
        stage.let_go.clear()
        stage.start_due(one, FULL_HOUR + minutes(1))
        state = stage.state(task)
        assert (state.run_by, state.started_at) == ("worker-1", FULL_HOUR + minutes(1))

        for number in range(1, 13):
            for worker in (one, other):
                assert stage.start_due(worker, FULL_HOUR + minutes(1) + seconds(15 * number)) == []
        stage.let_go.set()
        stage.settle()

        assert len(stage.ran) == 1
        assert stage.state(task).next_run_at == FULL_HOUR + minutes(5)
        assert stage.start_due(other, FULL_HOUR + minutes(5)) == [task.name]

    def test_long_run_does_not_delay_other_tasks(self, stage: Stage) -> None:
        stage.task("* * * * *")
        one = stage.worker()
        stage.start_due(one, FULL_HOUR)
        stage.let_go.clear()
        stage.start_due(one, FULL_HOUR + minutes(1))
        later = stage.task("every 5s")

        assert stage.start_due(stage.worker(), FULL_HOUR + minutes(1)) == [later.name]

    def test_worker_limits_concurrent_runs_and_leaves_rest_to_others(self, stage: Stage) -> None:
        names = {stage.task("* * * * *").name for _ in range(MAX_CONCURRENT_RUNS + 1)}
        one, other = stage.worker(), stage.worker(queues.AI_MODERATION)
        stage.start_due(one, FULL_HOUR)
        stage.let_go.clear()

        started = set(stage.start_due(one, FULL_HOUR + minutes(1)))
        assert len(started) == MAX_CONCURRENT_RUNS
        assert stage.start_due(one, FULL_HOUR + minutes(1) + seconds(20)) == []
        assert set(stage.start_due(other, FULL_HOUR + minutes(1) + seconds(20))) == names - started

    def test_worker_of_another_queue_takes_over_overdue_task(self, stage: Stage) -> None:
        task = stage.task("* * * * *", queue=queues.NOTIFICATIONS)
        other = stage.worker(queues.ESCROW_RECONCILIATION)
        stage.start_due(other, FULL_HOUR)
        due = FULL_HOUR + minutes(1)

        assert stage.start_due(other, due) == []
        assert stage.start_due(other, due + OTHER_QUEUES_DELAY - seconds(1)) == []
        assert stage.start_due(other, due + OTHER_QUEUES_DELAY) == [task.name]


class TestFailures:
    def test_failure_is_recorded_by_error_type_and_next_tick_runs(self, stage: Stage) -> None:
        came: list[Exception | None] = [KeyError("a secret"), KeyError("a secret"), None]

        def work() -> None:
            error = came.pop(0)
            if error is not None:
                raise error

        task = stage.task("* * * * *", work)
        one = stage.worker()
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
        one = stage.worker()
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

    def test_run_of_killed_worker_is_interrupted_and_runs_again_after_its_lease(self, stage: Stage) -> None:
        task = stage.task("0 * * * *")
        other = stage.worker(by="worker-2")
        stage.start_due(other, FULL_HOUR)
        tick = FULL_HOUR + minutes(60)
        run_id = stage.start_run_of_killed_worker(task, tick)

        assert stage.start_due(other, tick + LEASE - seconds(1)) == []
        assert stage.state(task).run_id == run_id
        stage.let_go.clear()
        assert stage.start_due(other, tick + LEASE) == [task.name]

        state = stage.state(task)
        assert (state.run_by, state.outcome, state.error) == ("worker-2", "interrupted", "worker lost")
        assert (state.runs, state.failures) == (1, 1)
        assert state.next_run_at == FULL_HOUR + minutes(120)
        stage.let_go.set()
        stage.settle()
        state = stage.state(task)
        assert (state.outcome, state.runs, state.failures) == ("succeeded", 2, 0)
        assert stage.start_due(other, tick + LEASE + seconds(1)) == []

    def test_lost_run_of_a_paused_task_is_recorded_and_not_repeated(self, stage: Stage) -> None:
        task = stage.task("* * * * *")
        one = stage.worker()
        stage.start_due(one, FULL_HOUR)
        stage.start_run_of_killed_worker(task, FULL_HOUR + minutes(1))
        stage.operate(schedule.set_paused, task, paused=True)

        stage.start_due(one, FULL_HOUR + minutes(1) + LEASE)

        state = stage.state(task)
        assert (state.run_id, state.outcome, stage.ran) == (None, "interrupted", [])
        assert stage.start_due(one, FULL_HOUR + minutes(2)) == []

    def test_run_is_never_lost_while_its_worker_polls(self, stage: Stage) -> None:
        task = stage.task("* * * * *")
        one, other = stage.worker(), stage.worker(by="worker-2")
        stage.start_due(one, FULL_HOUR)
        stage.let_go.clear()
        stage.start_due(one, FULL_HOUR + minutes(1))
        for number in range(1, 21):
            now = FULL_HOUR + minutes(1) + number * (LEASE - seconds(1))
            assert stage.start_due(one, now) == []
            assert stage.start_due(other, now) == []
        assert stage.state(task).run_by == "worker-1"
        assert len(stage.ran) == 1

    def test_leases_that_ended_during_a_database_outage_are_excused(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        task = stage.task("* * * * *")
        one, other = stage.worker(), stage.worker(by="worker-2")
        stage.start_due(one, FULL_HOUR)
        stage.start_due(other, FULL_HOUR)
        stage.let_go.clear()
        stage.start_due(one, FULL_HOUR + minutes(1))
        with monkeypatch.context() as away:
            away.setattr(schedule, "fetch_due_names", partial(fail, UNAVAILABLE))
            stage.start_due(other, FULL_HOUR + minutes(2))

        back = FULL_HOUR + minutes(3)
        assert stage.start_due(other, back) == []
        stage.start_due(one, back)
        assert stage.start_due(other, back + LEASE - seconds(1)) == []

        assert stage.state(task).run_by == "worker-1"
        assert len(stage.ran) == 1

    def test_late_result_of_a_lost_run_is_ignored(self, stage: Stage) -> None:
        task = stage.task("* * * * *", work := Work())
        one, other = stage.worker(), stage.worker(by="worker-2")
        stage.start_due(one, FULL_HOUR)
        stage.let_go.clear()
        stage.start_due(one, FULL_HOUR + minutes(1))
        stage.operate(schedule.set_paused, task, paused=True)
        stage.clock.now += LEASE
        other.poll_and_execute()
        other.join()
        assert stage.state(task).outcome == "interrupted"

        stage.let_go.set()
        stage.settle()
        one.poll()

        assert work.count == 1
        state = stage.state(task)
        assert (state.outcome, state.runs) == ("interrupted", 1)

    def test_result_is_recorded_after_database_outage(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        task = stage.task("* * * * *")
        one = stage.worker()
        stage.start_due(one, FULL_HOUR)
        with monkeypatch.context() as away:
            away.setattr(schedule, "finish_run", partial(fail, UNAVAILABLE))
            stage.start_due(one, FULL_HOUR + minutes(1))
            assert one.poll() == []
        assert stage.state(task).outcome is None

        stage.clock.now += seconds(10)
        one.poll()

        state = stage.state(task)
        assert (state.outcome, state.finished_at) == ("succeeded", FULL_HOUR + minutes(1))
        assert len(stage.ran) == 1


class Work:
    """Work that counts its ends."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


UNAVAILABLE = ServiceUnavailableError("away", retry_after_seconds=1)


def fail(error: Exception, *_given: Any, **_named: Any) -> Any:
    raise error


class TestMessages:
    def test_due_tasks_are_enqueued_before_rows(self, stage: Stage) -> None:
        task = stage.task("every 15s")
        one = stage.worker()
        assert one.dispatcher.send_wakeup(queues.WEBHOOKS, "outbox", uuid4())

        assert one.poll() == [task.name]

        messages = one.queue.pending()
        assert [message.name for message in messages] == ["run_periodic", "run_row"]
        assert messages[0].args == [task.name]

    def test_lost_message_is_sent_again(self, stage: Stage) -> None:
        task = stage.task("every 15s")
        one = stage.worker()
        assert one.poll() == [task.name]
        one.queue.flush()

        assert stage.start_due(one, FULL_HOUR + seconds(1)) == [task.name]
        assert len(stage.ran) == 1

    def test_second_message_of_a_tick_has_no_effect(self, stage: Stage) -> None:
        stage.task("every 15s")
        one, other = stage.worker(), stage.worker(by="worker-2")
        one.poll()
        other.poll()
        assert one.queue.pending_count() == 2

        one.execute()
        stage.settle()

        assert len(stage.ran) == 1

    def test_task_of_a_newer_version_stays_due_for_the_newer_workers(self, stage: Stage) -> None:
        stage.worker(by="old-version").poll()
        task = stage.task("every 15s")
        old, new = stage.workers[0], stage.worker(by="new-version")
        assert new.poll() == [task.name]

        old.execute()
        stage.settle()

        assert stage.state(task).run_id is None
        assert stage.start_due(new, FULL_HOUR) == [task.name]
        assert len(stage.ran) == 1

    def test_busy_worker_enqueues_no_task(self, stage: Stage) -> None:
        task = stage.task("every 15s")
        one = stage.worker()
        with ExitStack() as rows:
            for number in range(WORKER_THREADS):
                rows.enter_context(one.dispatcher.activity.track(f"row {number}", now=FULL_HOUR))
            assert one.poll() == []

        assert one.poll() == [task.name]

    def test_threads_run_due_tasks_without_the_queue_server(self, stage: Stage) -> None:
        first, second = stage.task("every 15s"), stage.task("every 15s")
        away = f"redis://127.0.0.1:{closed_port()}/0"
        one = stage.worker(settings=replace(stage.services.settings, redis_url=away))

        assert one.poll() == []
        assert [one.queue.dequeue() for _ in range(3)] == [None, None, None]

        assert [stage.state(task).outcome for task in (first, second)] == ["succeeded", "succeeded"]
        assert len(stage.ran) == 2

    def test_failed_poll_leaves_the_consumer_running(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        task = stage.task("every 15s")
        one = stage.worker()
        for error in (UNAVAILABLE, ZeroDivisionError()):
            with monkeypatch.context() as failing:
                failing.setattr(schedule, "fetch_due_names", partial(fail, error))
                assert one.poll() == []

        assert one.poll() == [task.name]


class TestOperators:
    def test_paused_task_does_not_run_until_resumed(self, stage: Stage, database: Database) -> None:
        task = stage.task("* * * * *")
        one = stage.worker()
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
        one = stage.worker()
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
        one = stage.worker()
        stage.start_due(one, FULL_HOUR + seconds(1))

        following = stage.operate(schedule.reschedule_task, task, schedule=parse_schedule("every 10s"))
        assert following.next_run_at == FULL_HOUR + seconds(10)
        stage.let_go.clear()
        assert stage.start_due(one, FULL_HOUR + seconds(10)) == [task.name]
        stage.operate(schedule.reschedule_task, task, schedule=parse_schedule("30 10 * * *"))
        stage.let_go.set()
        stage.settle()

        assert stage.state(task).next_run_at == FULL_HOUR + minutes(30)
        assert stage.start_due(one, FULL_HOUR + seconds(20)) == []
        assert stage.start_due(one, FULL_HOUR + minutes(30)) == [task.name]
        restored = stage.operate(schedule.reschedule_task, task, schedule=None)
        assert restored.next_run_at == FULL_HOUR + timedelta(hours=1)
        assert stage.state(task).timetable is None
        assert [after for _, _, after in audited(database, task)] == [
            {"timetable": "every 10s"},
            {"timetable": "30 10 * * *"},
            {"timetable": "0 * * * *"},
        ]

    def test_enqueued_run_does_not_start_after_an_operators_change(self, stage: Stage) -> None:
        task = stage.task("* * * * *")
        one = stage.worker()
        stage.start_due(one, FULL_HOUR)
        stage.clock.now = FULL_HOUR + minutes(1)

        assert one.poll() == [task.name]
        stage.operate(schedule.set_paused, task, paused=True)
        one.execute()
        stage.operate(schedule.set_paused, task, paused=False)
        stage.clock.now = FULL_HOUR + minutes(2)
        assert one.poll() == [task.name]
        stage.operate(schedule.reschedule_task, task, schedule=parse_schedule("every 1h"))
        one.execute()
        stage.settle()

        assert stage.ran == []

    def test_run_started_by_hand_is_not_started_twice(self, stage: Stage) -> None:
        task = stage.task("* * * * *")
        one = stage.worker()
        stage.start_due(one, FULL_HOUR)

        first = stage.start_by_hand(task)
        assert first is not None
        assert stage.start_by_hand(task) is None
        assert stage.state(task).next_run_at == FULL_HOUR + minutes(1)
        assert stage.start_due(one, FULL_HOUR + seconds(19)) == []
        one.runner.perform(task, first)
        assert stage.start_due(one, FULL_HOUR + minutes(1)) == [task.name]

    def test_run_by_hand_starts_after_the_lease_of_a_lost_run(self, stage: Stage) -> None:
        task = stage.task("0 * * * *")
        stage.start_due(stage.worker(), FULL_HOUR)
        stage.operate(schedule.set_paused, task, paused=True)
        first = stage.start_by_hand(task)
        stage.clock.now += LEASE - seconds(1)
        assert stage.start_by_hand(task) is None
        stage.clock.now += seconds(1)

        second = stage.start_by_hand(task)

        assert second not in {None, first}
        state = stage.state(task)
        assert (state.run_by, state.outcome, state.failures) == ("operator", "interrupted", 1)
        assert state.next_run_at == FULL_HOUR + minutes(60)

    def test_shorter_declared_schedule_replaces_old_next_run(self, stage: Stage) -> None:
        daily = stage.task("30 9 * * *")
        stage.start_due(stage.worker(), FULL_HOUR)
        assert stage.state(daily).next_run_at == FULL_HOUR + timedelta(hours=23, minutes=30)

        stage.tasks = [replace(daily, schedule_text="* * * * *")]
        stage.start_due(stage.worker(), FULL_HOUR)

        assert stage.state(stage.tasks[0]).next_run_at == FULL_HOUR + minutes(1)

    def test_invalid_stored_schedule_falls_back_to_declared_schedule(self, stage: Stage) -> None:
        task = stage.task("* * * * *")
        one = stage.worker()
        stage.start_due(one, FULL_HOUR)
        with stage.services.database.transaction() as session:
            session.execute(
                text("UPDATE periodic_tasks SET timetable = 'at full moon' WHERE name = :name"),
                {"name": task.name},
            )

        assert stage.start_due(one, FULL_HOUR + minutes(1)) == [task.name]

    def test_state_of_removed_task_is_deleted_after_a_day(self, stage: Stage) -> None:
        gone, kept, paused = (stage.task("* * * * *") for _ in range(3))
        stage.start_due(stage.worker(), FULL_HOUR)
        stage.operate(schedule.set_paused, paused, paused=True)
        stage.tasks = [kept]
        stage.start_due(stage.worker(), FULL_HOUR + timedelta(hours=23))
        assert stage.state(gone)

        stage.start_due(stage.worker(), FULL_HOUR + timedelta(hours=25))

        with stage.services.database.reading() as session:
            names = {state.name for state in schedule.list_tasks(session)}
        assert {gone.name, kept.name, paused.name} & names == {kept.name, paused.name}
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
        one = stage.worker()
        stage.start_due(one, FULL_HOUR)
        assert stage.start_due(one, FULL_HOUR + minutes(1)) == [task.name]

        for step in (1, 5, 30, 59):
            assert stage.start_due(one, FULL_HOUR + minutes(1) - seconds(step)) == []
        assert stage.start_due(one, FULL_HOUR + minutes(1)) == []
        assert stage.start_due(one, FULL_HOUR + minutes(2)) == [task.name]

    def test_rare_task_is_not_reported_as_stalled(self, stage: Stage) -> None:
        task = stage.task("0,1 9 1 1 *")
        one = stage.worker()
        stage.start_due(one, FULL_HOUR)
        new_year = datetime(2028, 1, 1, 9, 0, tzinfo=UTC)
        assert stage.state(task).next_run_at == new_year

        assert stage.start_due(one, FULL_HOUR + timedelta(days=100)) == []
        assert stage.state(task).next_run_at == new_year
        assert stage.start_due(one, new_year) == [task.name]
        assert stage.start_due(one, new_year + minutes(1)) == [task.name]
