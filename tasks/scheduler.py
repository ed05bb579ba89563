"""Periodic tasks on Huey: a worker's consumer asks for due tasks every second, enqueues them and runs the messages."""

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any
from uuid import UUID

import structlog
from huey.api import Task

from marketplace.background import schedule
from marketplace.infra.db import sqlstate
from marketplace.kernel.clock import Clock
from marketplace.kernel.errors import ServiceUnavailableError
from marketplace.kernel.tracing import span
from marketplace.services import Services
from tasks.all_tasks import PERIODIC_TASKS
from tasks.dispatcher import Dispatcher
from tasks.queues import WORKER_THREADS
from tasks.registry import PeriodicTask

_log = structlog.get_logger(__name__)

MAX_CONCURRENT_RUNS = 4  # of a worker; the other threads are for rows


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


class TaskRunner:
    """The runs of a process. Huey's consumer finds ``read_due_tasks`` and ``run_unsent_task`` through the queue."""

    def __init__(
        self,
        services: Services,
        dispatcher: Dispatcher,
        *,
        name: str,
        queue: str | None = None,
        tasks: Iterable[PeriodicTask] = PERIODIC_TASKS,
        clock: Clock | None = None,
    ) -> None:
        """Prepare the runs, and connect a worker's queue to the schedule.

        :param name: the name of the process
        :param queue: the worker's queue; tasks of other queues are due after a delay
        :param clock: the clock of the schedule and of leases; None for the services' clock
        """
        self._services, self._dispatcher, self._name = services, dispatcher, name
        self._clock = clock or services.clock
        self._tasks = {task.name: task for task in tasks}
        # The result of a run that ended, until the result is recorded.
        self._runs: dict[UUID, dict[str, Any]] = {}
        self._unsent: list[str] = []
        self._is_registered = False
        self._takes_over_at = 0.0
        if queue is not None:
            self._queue = dispatcher.queues[queue]
            self._message = self._queue.task(name="run_periodic", priority=1)(self.run_if_due)
            self._queue.periodic = self

    def perform(self, task: PeriodicTask, run_id: UUID) -> Any:
        """Perform a started run of a task, and record the result.

        :return: the task's result
        :raises Exception: any error of the task, which is recorded too
        """
        started, now = time.monotonic(), self._services.clock()
        result: dict[str, Any] = {}
        self._runs[run_id] = {}
        try:
            with (
                self._dispatcher.activity.track(f"periodic {task.name}", now=now),
                span(f"periodic {task.name}", kind="consumer"),
            ):
                returned = task.run(self._services, self._dispatcher, now)
        except BaseException as error:
            outcome = schedule.FAILED if isinstance(error, Exception) else schedule.INTERRUPTED
            result = {"outcome": outcome, "error": f"{type(error).__name__} {sqlstate(error) or ''}".strip()}
            raise
        else:
            result = {"outcome": schedule.SUCCEEDED, "result": format_result(returned)[:200]}
            return returned
        finally:
            _log.info("periodic task ended", task=task.name, **result)
            self._runs[run_id] = result | {
                "duration_milliseconds": round((time.monotonic() - started) * 1000),
                "now": self._clock(),
            }
            # The next poll repeats this after an outage of the database.
            with suppress(ServiceUnavailableError):
                self.report_runs()

    def report_runs(self) -> None:
        """Record the results of ended runs, and renew the leases of current runs.

        :raises ServiceUnavailableError: the database is unavailable
        """
        database, current = self._services.database, []
        for run_id, result in list(self._runs.items()):
            if result:
                database.in_transaction(schedule.finish_run, run_id=run_id, **result)
                self._runs.pop(run_id, None)
            else:
                current.append(run_id)
        if current:
            database.in_transaction(schedule.renew_leases, run_ids=current, now=self._clock())

    def read_due_tasks(self) -> list[Task]:
        """Return messages of due tasks. While the queue server is unavailable, keep the tasks for the threads."""
        due: list[str] = []
        try:
            due = self._fetch_due_names()
        except Exception as error:  # noqa: BLE001 - logged with the traceback; polling must continue
            # Other processes may have been unable to renew leases, too.
            self._is_registered = False
            self._takes_over_at = time.monotonic() + schedule.LEASE.total_seconds()
            if not isinstance(error, ServiceUnavailableError):
                _log.exception("schedule not polled")
        self._unsent = due if due and not self._queue.is_reachable() else []
        return [] if self._unsent else [self._message.s(name) for name in due]

    def _fetch_due_names(self) -> list[str]:
        database, now = self._services.database, self._clock()
        self.report_runs()
        if not self._is_registered:
            database.in_transaction(schedule.register_tasks, tasks=self._tasks.values(), now=now)
            self._is_registered = True
        idle_threads = WORKER_THREADS - len(self._dispatcher.activity.current())
        with database.reading() as session:
            due = schedule.fetch_due_names(
                session,
                names=self._tasks,
                queue=self._queue.name,
                now=now,
                limit=max(0, min(idle_threads, MAX_CONCURRENT_RUNS - len(self._runs))),
                may_take_over=time.monotonic() >= self._takes_over_at,
            )
        return list(due)

    def run_unsent_task(self) -> bool:
        """Run a due task without a message, if there is one."""
        with suppress(IndexError):
            self.run_if_due(self._unsent.pop(0))
            return True
        return False

    def run_if_due(self, name: str) -> None:
        """Run a task, unless another worker has started the run or only a newer version declares the task."""
        task = self._tasks.get(name)
        if task is None:
            _log.warning("periodic task unknown", task=name)
            return
        run_id = self._services.database.in_transaction(
            schedule.start_run, name=name, runner_name=self._name, now=self._clock()
        )
        if run_id is not None:
            try:
                self.perform(task, run_id)
            except Exception:  # noqa: BLE001 - logged with the traceback and recorded on the task's row
                _log.exception("periodic task failed", task=name)
