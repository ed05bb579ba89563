"""The scheduler of periodic tasks: each worker polls the schedule every second, and a single worker starts each run.

Each run has a separate thread, so that a long run delays neither rows nor other tasks. Scheduling needs the database
only, so periodic tasks also run while the queue server is unavailable.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import structlog

from marketplace.background import schedule
from marketplace.background.models import PeriodicTaskState
from marketplace.infra.db import sqlstate
from marketplace.kernel.clock import Clock
from marketplace.kernel.errors import ServiceUnavailableError
from marketplace.services import Services
from tasks.all_tasks import PERIODIC_TASKS
from tasks.dispatcher import Dispatcher
from tasks.registry import PeriodicTask

_log = structlog.get_logger(__name__)

SCHEDULE_POLL_SECONDS = 1.0
HEARTBEAT_SECONDS = 3.0
# A live worker sends five heartbeats within this time.
LOST_AFTER_SECONDS = 15.0
# Workers of other queues start a run that the queue's own workers have not started within this time.
TAKEOVER_AFTER = timedelta(seconds=10)
MAX_CONCURRENT_RUNS = 4
_RECORD_ATTEMPTS = 20  # one second apart, which is enough for a restart of the database


def format_result(result: Any) -> str:
    """Format the result of a task as a short text.

    :param result: None, a number, or a dataclass of counts with optional ``label`` metadata on fields
    """
    if is_dataclass(result) and not isinstance(result, type):
        return ", ".join(
            f"{item.metadata.get('label', item.name.replace('_', ' '))} {getattr(result, item.name)}"
            for item in fields(result)
        )
    return "done" if result is None else str(result)


class HeartbeatMonitor:
    """The time since the last heartbeat of each run, measured by this process's monotonic clock."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._seen: dict[str, tuple[tuple[UUID, int], float]] = {}

    def is_stalled(self, state: PeriodicTaskState) -> bool:
        """Return whether a run has had no heartbeat for 15 seconds, so that the worker counts as lost."""
        if state.run_id is None:
            self._seen.pop(state.name, None)
            return False
        beat = (state.run_id, state.beats)
        previous = self._seen.get(state.name)
        if previous is None or previous[0] != beat:
            self._seen[state.name] = (beat, self._monotonic())
            return False
        return self._monotonic() - previous[1] >= LOST_AFTER_SECONDS

    def reset(self) -> None:
        """Restart the measurement after an outage of the database, which prevents all heartbeats."""
        self._seen.clear()


class TaskRunner:
    """The runs of this process, with heartbeats and recorded results."""

    def __init__(
        self, services: Services, dispatcher: Dispatcher, *, runner_name: str, clock: Clock | None = None
    ) -> None:
        """Prepare the runner.

        :param runner_name: the worker's name
        :param clock: the clock for the end of runs; None for the services' clock
        """
        self._services = services
        self._dispatcher = dispatcher
        self._clock = clock or services.clock
        self._running: dict[UUID, PeriodicTask] = {}
        self.runner_name = runner_name

    def perform(self, task: PeriodicTask, run_id: UUID) -> Any:
        """Perform a started run of a task, and record the result.

        :return: the task's result
        :raises Exception: any error of the task, which is recorded too
        """
        started = time.monotonic()
        self._running[run_id] = task
        now = self._services.clock()
        try:
            with self._dispatcher.activity.track(f"periodic {task.name}", now=now):
                result = task.run(self._services, self._dispatcher, now)
        except BaseException as error:
            outcome = schedule.FAILED if isinstance(error, Exception) else schedule.INTERRUPTED
            described = f"{type(error).__name__} {sqlstate(error) or ''}".strip()
            self._record_result(task, run_id, started, outcome=outcome, error=described, result=None)
            raise
        self._record_result(
            task, run_id, started, outcome=schedule.SUCCEEDED, error=None, result=format_result(result)
        )
        _log.info("periodic task finished", task=task.name, result=str(result))
        return result

    def send_heartbeats(self) -> None:
        """Send heartbeats of the current runs.

        :raises ServiceUnavailableError: the database is unavailable
        """
        running = list(self._running)
        if not running:
            return
        recorded = self._services.database.in_transaction(schedule.record_heartbeats, run_ids=running)
        for run_id in set(running) - recorded:
            task = self._running.pop(run_id, None)
            if task is not None:
                _log.warning("running periodic task was marked as lost", task=task.name)

    def mark_interrupted(self) -> None:
        """Mark the current runs as interrupted, because the process stops. The tasks run again at the next tick.

        If the database is unavailable, another worker later marks the runs as lost, with the same effect.
        """
        with contextlib.suppress(ServiceUnavailableError):
            for run_id, task in list(self._running.items()):
                self._finish(
                    task, run_id, None, outcome=schedule.INTERRUPTED, error="worker stopped", result=None
                )

    def _record_result(
        self, task: PeriodicTask, run_id: UUID, started: float, **result_fields: str | None
    ) -> None:
        """Record the end of a run, with retries while the database is unavailable. An unrecorded run counts as lost."""
        milliseconds = round((time.monotonic() - started) * 1000)
        try:
            for _ in range(_RECORD_ATTEMPTS):
                try:
                    self._finish(task, run_id, milliseconds, **result_fields)
                except ServiceUnavailableError:
                    time.sleep(SCHEDULE_POLL_SECONDS)
                else:
                    return
            _log.error("result of periodic task not recorded", task=task.name)
        finally:
            self._running.pop(run_id, None)

    def _finish(
        self, task: PeriodicTask, run_id: UUID, milliseconds: int | None, **result_fields: str | None
    ) -> None:
        if not self._services.database.in_transaction(
            schedule.finish_run,
            task=task,
            run_id=run_id,
            outcome=result_fields["outcome"] or "",
            error=result_fields["error"],
            result=result_fields["result"],
            milliseconds=milliseconds,
            now=self._clock(),
        ):
            _log.warning("periodic task ended after it was marked as lost", task=task.name)


class Scheduler:
    """The scheduler of a worker, which starts due runs."""

    def __init__(
        self,
        services: Services,
        runner: TaskRunner,
        *,
        queue: str,
        tasks: Iterable[PeriodicTask] = PERIODIC_TASKS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare the scheduler; ``run`` starts the polling.

        :param queue: the worker's queue; runs of other queues are started after a delay only
        :param monotonic: the clock that measures the time since heartbeats
        """
        self._services = services
        self._runner = runner
        self._queue = queue
        self._tasks = {task.name: task for task in tasks}
        self._heartbeat_monitor = HeartbeatMonitor(monotonic)
        self._threads: list[threading.Thread] = []
        self._registered = False

    def run(self, stopping: threading.Event, ended: threading.Event) -> None:
        """Start due runs until ``stopping`` is set, and send heartbeats until ``ended`` is set.

        Errors, such as an outage of the database, do not end the loop.
        """
        last_heartbeat = time.monotonic()
        while not ended.is_set():
            try:
                if time.monotonic() - last_heartbeat >= HEARTBEAT_SECONDS:
                    last_heartbeat = time.monotonic()
                    self._runner.send_heartbeats()
                if not stopping.is_set():
                    self.start_due_tasks()
            except ServiceUnavailableError:
                self._heartbeat_monitor.reset()
            except Exception:  # noqa: BLE001 - logged with the traceback; polling must continue
                self._heartbeat_monitor.reset()
                _log.exception("schedule not polled")
            (ended if stopping.is_set() else stopping).wait(SCHEDULE_POLL_SECONDS)

    def start_due_tasks(self) -> list[str]:
        """Start due runs that no other worker has started, and mark stalled runs as lost.

        :return: the names of the started tasks
        :raises ServiceUnavailableError: the database is unavailable
        """
        now = self._services.clock()
        tasks = self._tasks.values()
        with self._services.database.reading() as session:
            snapshots = schedule.fetch_snapshots(session, tasks)
        if len(snapshots) < len(self._tasks) or not self._registered:
            self._services.database.in_transaction(schedule.replace_tasks, tasks=tasks, now=now)
            self._registered = True
            with self._services.database.reading() as session:
                snapshots = schedule.fetch_snapshots(session, tasks)
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        return [
            state.name
            for state in sorted(snapshots, key=lambda snapshot: snapshot.next_run_at)
            if self._may_start(state, now)
            and len(self._threads) < MAX_CONCURRENT_RUNS
            and self._start(state, now)
        ]

    def join(self, timeout_seconds: float) -> None:
        """Wait for the end of this process's runs, up to a timeout."""
        deadline = time.monotonic() + timeout_seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _may_start(self, state: PeriodicTaskState, now: datetime) -> bool:
        """Return whether to start a run of a task, after marking a stalled run as lost."""
        if self._heartbeat_monitor.is_stalled(state):
            self._services.database.in_transaction(schedule.mark_run_lost, state=state, now=now)
        if state.run_id is not None or state.paused_at is not None:
            return False
        is_own = self._tasks[state.name].queue == self._queue
        return state.next_run_at <= (now if is_own else now - TAKEOVER_AFTER)

    def _start(self, state: PeriodicTaskState, now: datetime) -> bool:
        run_id = self._services.database.in_transaction(
            schedule.start_due_run, state=state, worker_name=self._runner.runner_name, now=now
        )
        if run_id is None:
            return False
        task = self._tasks[state.name]
        thread = threading.Thread(
            target=self._perform, args=(task, run_id), name=f"periodic-{task.name}", daemon=True
        )
        self._threads.append(thread)
        thread.start()
        return True

    def _perform(self, task: PeriodicTask, run_id: UUID) -> None:
        try:
            self._runner.perform(task, run_id)
        except Exception:  # noqa: BLE001 - logged with the traceback and recorded on the task's row
            _log.exception("periodic task failed", task=task.name)
