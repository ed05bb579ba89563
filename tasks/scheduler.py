"""What has periodic tasks run: every worker looks at the schedule once a second, and one of them gets each tick.

Runs have threads of their own, so that a long one keeps neither rows nor other tasks waiting, and go by the
database alone: they go on while the queues' server is away.
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
# Whoever runs a task beats five times meanwhile, unless it is gone.
LOST_AFTER_SECONDS = 15.0
# A tick that the queue's own workers left for so long is anybody's: they are gone, or busy.
TAKEOVER_AFTER = timedelta(seconds=10)
MAX_CONCURRENT_RUNS = 4
_RECORD_ATTEMPTS = 20  # a second apart: a database that is restarted is back by then


def format_result(result: Any) -> str:
    """Say in a few words what a task did.

    :param result: nothing, a number, or a dataclass of counts, whose fields may have a ``label`` in their metadata
    """
    if is_dataclass(result) and not isinstance(result, type):
        return ", ".join(
            f"{item.metadata.get('label', item.name.replace('_', ' '))} {getattr(result, item.name)}"
            for item in fields(result)
        )
    return "done" if result is None else str(result)


class HeartbeatMonitor:
    """How long runs have not beaten, by this process's own measure of time, which no clock that is set changes."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._seen: dict[str, tuple[tuple[UUID, int], float]] = {}

    def is_stalled(self, state: PeriodicTaskState) -> bool:
        """Tell whether a run has not beaten for so long that its worker must be gone."""
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
        """Begin anew: while the database was away, nobody could beat."""
        self._seen.clear()


class TaskRunner:
    """The runs of this process: they beat while they go on, and what came of them is noted."""

    def __init__(
        self, services: Services, dispatcher: Dispatcher, *, runner_name: str, clock: Clock | None = None
    ) -> None:
        """Prepare for running tasks.

        :param runner_name: who runs them: the worker's name
        :param clock: tells when they ran; none means the services' own
        """
        self._services = services
        self._dispatcher = dispatcher
        self._clock = clock or services.clock
        self._running: dict[UUID, PeriodicTask] = {}
        self.runner_name = runner_name

    def perform(self, task: PeriodicTask, run_id: UUID) -> Any:
        """Run a task whose run was claimed, and note what came of it.

        :return: what the task did
        :raises Exception: whatever the task raised; it is noted too
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
        _log.info("periodic task ran", task=task.name, result=str(result))
        return result

    def send_heartbeats(self) -> None:
        """Tell that the runs go on.

        :raises ServiceUnavailableError: the database is away
        """
        running = list(self._running)
        if not running:
            return
        recorded = self._services.database.in_transaction(schedule.record_heartbeats, run_ids=running)
        for run_id in set(running) - recorded:
            task = self._running.pop(run_id, None)
            if task is not None:
                _log.warning("periodic task taken for lost while it ran", task=task.name)

    def mark_interrupted(self) -> None:
        """Note of what still runs that the process stops; it runs again at its next tick.

        If the database is away, it is taken for lost some time later, with the same effect.
        """
        with contextlib.suppress(ServiceUnavailableError):
            for run_id, task in list(self._running.items()):
                self._finish(
                    task, run_id, None, outcome=schedule.INTERRUPTED, error="worker stopped", result=None
                )

    def _record_result(
        self, task: PeriodicTask, run_id: UUID, started: float, **result_fields: str | None
    ) -> None:
        """Note a run's end, as soon as the database lets us; if it never does, the run is taken for lost."""
        milliseconds = round((time.monotonic() - started) * 1000)
        try:
            for _ in range(_RECORD_ATTEMPTS):
                try:
                    self._finish(task, run_id, milliseconds, **result_fields)
                except ServiceUnavailableError:
                    time.sleep(SCHEDULE_POLL_SECONDS)
                else:
                    return
            _log.error("periodic task ran, but that could not be noted", task=task.name)
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
            _log.warning("periodic task ended after it was taken for lost", task=task.name)


class Scheduler:
    """Starts what is due, as far as this worker gets it."""

    def __init__(
        self,
        services: Services,
        runner: TaskRunner,
        *,
        queue: str,
        tasks: Iterable[PeriodicTask] = PERIODIC_TASKS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; ``run`` begins.

        :param queue: its tasks are this worker's own; others it takes over if they are left lying
        :param monotonic: measures how long a run has not beaten
        """
        self._services = services
        self._runner = runner
        self._queue = queue
        self._tasks = {task.name: task for task in tasks}
        self._heartbeat_monitor = HeartbeatMonitor(monotonic)
        self._threads: list[threading.Thread] = []
        self._registered = False

    def run(self, stopping: threading.Event, ended: threading.Event) -> None:
        """Look and beat until the process stops, and beat until it has ended.

        A database that is away is waited for.
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
            except Exception:  # noqa: BLE001 - logged with its trace; the schedule must go on
                self._heartbeat_monitor.reset()
                _log.exception("schedule not looked at")
            (ended if stopping.is_set() else stopping).wait(SCHEDULE_POLL_SECONDS)

    def start_due_tasks(self) -> list[str]:
        """Start what is due and is nobody else's, and set right what was left behind.

        :return: the names of the tasks that it started
        :raises ServiceUnavailableError: the database is away
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
        """Wait for the runs of this process to end, but no longer than it is told."""
        deadline = time.monotonic() + timeout_seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _may_start(self, state: PeriodicTaskState, now: datetime) -> bool:
        """Tell whether to try for a task's tick, having set right what stands in its way."""
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
        except Exception:  # noqa: BLE001 - logged with its trace and noted on the task's row
            _log.exception("periodic task failed", task=task.name)
