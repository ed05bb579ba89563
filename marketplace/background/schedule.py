"""The schedule of periodic tasks: next run, current run and last result of each task.

Several workers poll the schedule. A worker acquires a due run with a conditional update of the task's row, so the
database lets a single worker start the run. A task never starts while a run of the task is active.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any
from uuid import UUID, uuid4

import structlog
from sqlalchemy import delete, select, text, update
from sqlalchemy.orm import Session

from marketplace.alerts.operations import raise_alert, resolve_alert
from marketplace.audit.operations import Act, record_audit_entry
from marketplace.background import texts
from marketplace.background.models import PeriodicTaskState
from marketplace.infra.db import Statement
from marketplace.kernel.schedules import Interval, Schedule, parse_schedule

_log = structlog.get_logger(__name__)

SUCCEEDED, FAILED, INTERRUPTED = "succeeded", "failed", "interrupted"

FAILURES_BEFORE_ALERT = 3  # consecutive; the next run usually succeeds after a single failure


@dataclass(frozen=True)
class DeclaredTask:
    """A periodic task as declared in the code. An operator can override ``schedule_text``."""

    name: str
    purpose: str
    queue: str
    schedule_text: str

    @cached_property
    def schedule(self) -> Schedule:
        """The declared schedule."""
        return parse_schedule(self.schedule_text)


def fetch_snapshots(session: Session, tasks: Iterable[DeclaredTask]) -> list[PeriodicTaskState]:
    """Fetch the states of the tasks that have rows."""
    return list(
        session.scalars(
            select(PeriodicTaskState).where(PeriodicTaskState.name.in_([task.name for task in tasks]))
        )
    )


def list_all_tasks(session: Session) -> Sequence[PeriodicTaskState]:
    """List all registered tasks, sorted by name."""
    return session.scalars(select(PeriodicTaskState).order_by(PeriodicTaskState.name)).all()


def lock_task(session: Session, *, task: DeclaredTask, now: datetime) -> PeriodicTaskState:
    """Lock a task's row, and insert a missing row first."""
    register_tasks(session, tasks=(task,), now=now)
    return session.get_one(
        PeriodicTaskState, task.name, with_for_update={"key_share": True}, populate_existing=True
    )


def set_paused(session: Session, *, task: DeclaredTask, paused: bool, act: Act) -> bool:
    """Pause or resume a task. A current run continues, and a resumed task waits for the next tick.

    :return: whether the state changed
    """
    state = lock_task(session, task=task, now=act.now)
    if (state.paused_at is not None) == paused:
        return False
    state.paused_at = act.now if paused else None
    if not paused:
        state.next_run_at = state.effective_schedule.next_after(act.now)
    record_audit_entry(
        session,
        act=act,
        action="periodic.pause" if paused else "periodic.resume",
        target_type="periodic_task",
        target_id=task.name,
        before={"paused": not paused},
        after={"paused": paused},
    )
    return True


def reschedule_task(session: Session, *, task: DeclaredTask, schedule: Schedule | None, act: Act) -> datetime:
    """Change the schedule of a task. Workers use the new schedule within seconds.

    :param schedule: None restores the declared schedule
    :return: the time of the next run
    """
    state = lock_task(session, task=task, now=act.now)
    before = state.effective_schedule.text
    state.timetable = schedule.text if schedule else None
    state.next_run_at = (schedule or task.schedule).next_after(act.now)
    record_audit_entry(
        session,
        act=act,
        action="periodic.schedule",
        target_type="periodic_task",
        target_id=task.name,
        before={"timetable": before},
        after={"timetable": (schedule or task.schedule).text},
    )
    return state.next_run_at


_UPSERT_TASK = Statement(
    text(
        """
        INSERT INTO periodic_tasks AS t (name, queue, purpose, declared, next_run_at)
        VALUES (:name, :queue, :purpose, :declared, :next_run_at)
        ON CONFLICT (name) DO UPDATE SET queue = :queue, purpose = :purpose, declared = :declared,
            next_run_at = CASE WHEN t.timetable IS NULL AND t.declared <> :declared
                THEN least(t.next_run_at, :next_run_at) ELSE t.next_run_at END
        WHERE (t.queue, t.purpose, t.declared) <> (:queue, :purpose, :declared)
        """
    )
)


def register_tasks(session: Session, *, tasks: Iterable[DeclaredTask], now: datetime) -> None:
    """Insert or update the rows of declared tasks.

    The first run of a new task is due now for an interval, and at the next tick for a crontab. A changed declared
    schedule may move the next run to an earlier time, never to a later time.
    """
    for task in tasks:
        _UPSERT_TASK.run(
            session,
            name=task.name,
            queue=task.queue,
            purpose=task.purpose,
            declared=task.schedule_text,
            next_run_at=now if isinstance(task.schedule, Interval) else task.schedule.next_after(now),
        )


def replace_tasks(session: Session, *, tasks: Collection[DeclaredTask], now: datetime) -> None:
    """Register tasks, and delete the rows of undeclared tasks that have been due for a day.

    Rows of paused tasks are kept, in case a task is declared again.
    """
    register_tasks(session, tasks=tasks, now=now)
    session.execute(
        delete(PeriodicTaskState).where(
            PeriodicTaskState.name.not_in([task.name for task in tasks]),
            PeriodicTaskState.next_run_at < now - timedelta(days=1),
            PeriodicTaskState.paused_at.is_(None),
            PeriodicTaskState.run_id.is_(None),
        )
    )


def start_due_run(
    session: Session, *, state: PeriodicTaskState, worker_name: str, now: datetime
) -> UUID | None:
    """Start the due run of a task, unless another worker has started the run.

    Missed ticks are not repeated: the next run is the first tick after now.

    :param state: the state of the task as last read; the run does not start if the row has changed since
    :return: the run's id; None if another worker started the run or an operator changed the task
    """
    return session.scalar(
        update(PeriodicTaskState)
        .where(
            PeriodicTaskState.name == state.name,
            PeriodicTaskState.run_id.is_(None),
            PeriodicTaskState.paused_at.is_(None),
            PeriodicTaskState.next_run_at == state.next_run_at,
            PeriodicTaskState.timetable.is_not_distinct_from(state.timetable),
        )
        .values(
            next_run_at=state.effective_schedule.next_after(max(now, state.next_run_at)),
            **_started_run(worker_name, now),
        )
        .returning(PeriodicTaskState.run_id)
    )


def start_manual_run(session: Session, *, task: DeclaredTask, runner_name: str, act: Act) -> UUID | None:
    """Start a run by hand, without a change of the next scheduled run.

    :return: the run's id; None if the task is already running
    """
    register_tasks(session, tasks=(task,), now=act.now)
    run_id = session.scalar(
        update(PeriodicTaskState)
        .where(PeriodicTaskState.name == task.name, PeriodicTaskState.run_id.is_(None))
        .values(_started_run(runner_name, act.now))
        .returning(PeriodicTaskState.run_id)
    )
    if run_id is not None:
        record_audit_entry(
            session, act=act, action="periodic.run", target_type="periodic_task", target_id=task.name
        )
    return run_id


def _started_run(runner_name: str, now: datetime) -> dict[str, Any]:
    return {
        "run_id": uuid4(),
        "run_by": runner_name,
        "started_at": now,
        "beats": PeriodicTaskState.beats + 1,
    }


def record_heartbeats(session: Session, *, run_ids: Collection[UUID]) -> set[UUID | None]:
    """Record a heartbeat of current runs.

    :return: the runs that are still current; other runs were marked as lost
    """
    return set(
        session.scalars(
            update(PeriodicTaskState)
            .where(PeriodicTaskState.run_id.in_(run_ids))
            .values(beats=PeriodicTaskState.beats + 1)
            .returning(PeriodicTaskState.run_id)
        )
    )


def mark_run_lost(session: Session, *, state: PeriodicTaskState, now: datetime) -> bool:
    """Mark a run as interrupted after the worker was lost. The task runs again at the next tick.

    :param state: the state of the task as last read; a run with later heartbeats is not lost
    :return: whether the run was marked
    """
    failures = session.scalar(
        update(PeriodicTaskState)
        .where(
            PeriodicTaskState.name == state.name,
            PeriodicTaskState.run_id == state.run_id,
            PeriodicTaskState.beats == state.beats,
        )
        .values(
            run_id=None,
            run_by=None,
            started_at=None,
            finished_at=now,
            duration_milliseconds=None,
            outcome=INTERRUPTED,
            error="worker lost",
            result=None,
            runs=PeriodicTaskState.runs + 1,
            failures=PeriodicTaskState.failures + 1,
        )
        .returning(PeriodicTaskState.failures)
    )
    if failures is None:
        return False
    _log.error("periodic task lost with its worker", task=state.name, worker=state.run_by)
    _raise_failing_alert(session, state.name, failures, "worker lost", now)
    return True


def _raise_failing_alert(
    session: Session, name: str, failures: int, error: str | None, now: datetime
) -> None:
    """Raise PERIODIC_TASK_FAILING after several consecutive failures."""
    if failures >= FAILURES_BEFORE_ALERT:
        raise_alert(
            session,
            identifier="PERIODIC_TASK_FAILING",
            subject=f"periodic:{name}",
            title=texts.PERIODIC_TASK_FAILING_TITLE,
            facts={"task": name, "error": error, "failuresInARow": failures},
            now=now,
        )


def finish_run(
    session: Session,
    *,
    task: DeclaredTask,
    run_id: UUID,
    outcome: str,
    error: str | None,
    result: str | None,
    milliseconds: int | None,
    now: datetime,
) -> bool:
    """Record the result of a run. Ticks that passed during the run are not repeated.

    :param outcome: ``succeeded``, ``failed`` or ``interrupted``
    :param error: the type of the error
    :param result: a short summary without personal data
    :return: False if the run was marked as lost meanwhile
    """
    state = lock_task(session, task=task, now=now)
    if state.run_id != run_id:
        return False
    previous_failures = state.failures
    state.run_id = state.run_by = state.started_at = None
    state.finished_at = now
    state.duration_milliseconds = milliseconds
    state.outcome, state.error = outcome, error
    state.result = result[:200] if result is not None else None
    state.runs += 1
    state.failures = 0 if outcome == SUCCEEDED else previous_failures + 1
    if state.next_run_at <= now:
        state.next_run_at = state.effective_schedule.next_after(now)
    if outcome != SUCCEEDED:
        _raise_failing_alert(session, task.name, state.failures, error, now)
    elif previous_failures >= FAILURES_BEFORE_ALERT:
        resolve_alert(
            session,
            identifier="PERIODIC_TASK_FAILING",
            subject=f"periodic:{task.name}",
            note=texts.PERIODIC_TASK_SUCCEEDED_NOTE,
            now=now,
        )
    return True
