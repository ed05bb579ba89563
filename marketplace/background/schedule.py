"""The schedule: which periodic task runs next, who runs it, and what came of it.

Any number of workers look at it. A tick is claimed by one update of the task's row that names all it was seen
to be, so the database's lock lets one worker have it. A run that goes on keeps the task from being started again.
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
from marketplace.background.models import PeriodicTaskState
from marketplace.infra.db import Statement
from marketplace.kernel.schedules import Interval, Schedule, parse_schedule

_log = structlog.get_logger(__name__)

SUCCEEDED, FAILED, INTERRUPTED = "succeeded", "failed", "interrupted"

FAILURES_BEFORE_ALERT = 3  # in a row; a single one is mended by the next run, as a rule


@dataclass(frozen=True)
class DeclaredTask:
    """A periodic task as the code declares it; ``schedule_text`` is its schedule unless an operator says otherwise."""

    name: str
    purpose: str
    queue: str
    schedule_text: str

    @cached_property
    def schedule(self) -> Schedule:
        """Give the declared timetable."""
        return parse_schedule(self.schedule_text)


def fetch_snapshots(session: Session, tasks: Iterable[DeclaredTask]) -> list[PeriodicTaskState]:
    """Fetch the states of tasks, as far as they have rows."""
    return list(
        session.scalars(
            select(PeriodicTaskState).where(PeriodicTaskState.name.in_([task.name for task in tasks]))
        )
    )


def list_all_tasks(session: Session) -> Sequence[PeriodicTaskState]:
    """List all tasks that workers have registered, by name."""
    return session.scalars(select(PeriodicTaskState).order_by(PeriodicTaskState.name)).all()


def lock_task(session: Session, *, task: DeclaredTask, now: datetime) -> PeriodicTaskState:
    """Lock a task's row, which is made if there is none."""
    register_tasks(session, tasks=(task,), now=now)
    return session.get_one(
        PeriodicTaskState, task.name, with_for_update={"key_share": True}, populate_existing=True
    )


def set_paused(session: Session, *, task: DeclaredTask, paused: bool, act: Act) -> bool:
    """Pause a task until it is resumed, or resume it from its next tick on. A run that goes on ends in peace.

    :return: whether the task was not so before
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
    """Give a task another timetable; workers go by it from their next look, within seconds.

    :param schedule: the new one; none goes back to the declared one
    :return: when it runs next
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
    """Give tasks their rows that have none: an interval begins now, a crontab with its tick.

    A task that is declared to run more often than before need not wait for the next run that was set then.
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
    """Register tasks, and delete the rows of other tasks that no worker has run for a day.

    A task that an operator paused keeps its row, in case the task comes back.
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
    """Claim a task's tick that is due; of all who try, one gets it.

    However many ticks were missed, they are one: the next one is the first after now.

    :param state: as the task was seen
    :return: the run's id; None if another worker has it, or an operator changed the task meanwhile
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
    """Start a run by hand, whatever the schedule says; its next tick stays where it is.

    :return: the run's id; None if the task is running
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
    """Record that runs go on.

    :return: the runs that are still known; the others were taken for lost
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
    """Give up a run whose worker is gone: the task runs at its next tick.

    :param state: as the task was seen; a run with later heartbeats is not lost
    :return: whether the run was given up
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
    """Raise an alert of a task that fails again and again."""
    if failures >= FAILURES_BEFORE_ALERT:
        raise_alert(
            session,
            identifier="PERIODIC_TASK_FAILING",
            subject=f"periodic:{name}",
            title="Periodic task fails again and again",
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
    """Note what came of a run. Ticks that passed while it ran are not made up for.

    :param outcome: succeeded, failed or interrupted
    :param error: the error's type
    :param result: what was done, in a few words without personal data
    :return: whether the run was still known; if not, it was taken for lost meanwhile
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
            note="It succeeded again.",
            now=now,
        )
    return True
