"""The schedule of periodic tasks: next run, current run and last result of each task.

Workers look for due tasks and enqueue them. The worker that receives a message claims the tick in the task's row and
runs the task under a lease, which the process renews. A run whose lease ended was lost with its process, and the task
is due again. A task never starts while a run of the task has a lease.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any
from uuid import UUID, uuid4

import structlog
from sqlalchemy import case, delete, false, func, select, text, update
from sqlalchemy.orm import Session

from marketplace.alerts.operations import raise_alert, resolve_alert
from marketplace.audit.operations import Act, record_audit_entry
from marketplace.background import texts
from marketplace.background.models import PeriodicTaskState as State
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.schedules import Interval, Schedule, parse_schedule

_log = structlog.get_logger(__name__)

SUCCEEDED, FAILED, INTERRUPTED = "succeeded", "failed", "interrupted"
FAILURES_BEFORE_ALERT = 3  # consecutive; the next run usually succeeds after a single failure
# Processes renew leases every second. The lease covers the 15 s in which a stopping worker ends its runs.
LEASE = timedelta(seconds=20)
# Workers of other queues run a task that the queue's own workers have not started within this time.
OTHER_QUEUES_DELAY = timedelta(seconds=10)


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


def register_tasks(session: Session, *, tasks: Collection[DeclaredTask], now: datetime) -> None:
    """Insert or update the rows of declared tasks, and delete other rows that have been due for a day, unless paused.

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
    is_undeclared = State.name.not_in([task.name for task in tasks])
    is_idle = State.run_id.is_(None) & State.paused_at.is_(None)
    session.execute(delete(State).where(is_undeclared, is_idle, State.next_run_at < now - timedelta(days=1)))


def list_tasks(session: Session) -> Sequence[State]:
    """List all registered tasks, sorted by name."""
    return session.scalars(select(State).order_by(State.name)).all()


def set_paused(session: Session, *, name: str, paused: bool, act: Act) -> State | None:
    """Pause or resume a task. A current run continues, and a resumed task waits for the next tick.

    :return: the new state; None without a change
    """
    state = _lock_task(session, name)
    if (state.paused_at is not None) == paused:
        return None
    state.paused_at = act.now if paused else None
    if not paused:
        state.next_run_at = state.effective_schedule.next_after(act.now)
    action = "pause" if paused else "resume"
    _record_act(session, act, name, action, before={"paused": not paused}, after={"paused": paused})
    return state


def reschedule_task(session: Session, *, name: str, schedule: Schedule | None, act: Act) -> State:
    """Change the schedule of a task. Workers use the new schedule within seconds.

    :param schedule: None restores the declared schedule
    """
    state = _lock_task(session, name)
    before = {"timetable": state.effective_schedule.text}
    state.timetable = schedule.text if schedule else None
    state.next_run_at = state.effective_schedule.next_after(act.now)
    after = {"timetable": state.effective_schedule.text}
    _record_act(session, act, name, "schedule", before=before, after=after)
    return state


def _record_act(session: Session, act: Act, name: str, action: str, **change: Any) -> None:
    target: dict[str, Any] = {"target_type": "periodic_task", "target_id": name}
    record_audit_entry(session, act=act, action=f"periodic.{action}", **target, **change)


def _lock_task(session: Session, name: str) -> State:
    return session.get_one(State, name, with_for_update={"key_share": True}, populate_existing=True)


def fetch_due_names(
    session: Session, *, names: Iterable[str], queue: str, now: datetime, limit: int, may_take_over: bool
) -> Sequence[str]:
    """Fetch the names of due tasks, the earliest due first.

    :param queue: the queue of the worker
    :param may_take_over: whether a run whose lease ended counts as lost
    """
    due_until = case((State.queue == queue, now), else_=now - OTHER_QUEUES_DELAY)
    is_idle = State.run_id.is_(None)
    return session.scalars(
        select(State.name)
        .where(State.name.in_(names), func.coalesce(State.lease_until, State.next_run_at) <= due_until)
        .where(is_idle & State.paused_at.is_(None) | (~is_idle if may_take_over else false()))
        .order_by(State.next_run_at)
        .limit(limit)
    ).all()


def start_run(
    session: Session, *, name: str, runner_name: str, now: datetime, act: Act | None = None
) -> UUID | None:
    """Start a run under a lease. Missed ticks are not repeated: the next run is the first tick after now.

    :param act: starts a run by hand, regardless of the schedule and without a change of the next run
    :return: the run's id; None if the task is running or, without ``act``, not due
    """
    state = _lock_task(session, name)
    if (state.lease_until or (now if act else state.next_run_at)) > now:
        return None
    if state.run_id is not None:
        _log.error("periodic task lost with its worker", task=name, worker=state.run_by)
        _record_end(session, state, now, outcome=INTERRUPTED, error="worker lost")
    if act is not None:
        _record_act(session, act, name, "run")
    elif state.paused_at is not None:
        return None
    else:
        _skip_passed_ticks(state, now)
    state.run_id = run_id = uuid4()
    state.run_by, state.started_at, state.lease_until = runner_name, now, now + LEASE
    return run_id


def renew_leases(session: Session, *, run_ids: Collection[UUID], now: datetime) -> None:
    """Renew the leases of current runs."""
    session.execute(update(State).where(State.run_id.in_(run_ids)).values(lease_until=now + LEASE))


def finish_run(session: Session, /, *, run_id: UUID, now: datetime, **result: Any) -> None:
    """Record the result of a run, unless the run was lost. Ticks that passed during the run are not repeated.

    :param result: ``outcome``, ``error`` (the type), ``result`` (a summary) and ``duration_milliseconds``
    """
    state = session.scalar(select(State).where(State.run_id == run_id).with_for_update(key_share=True))
    if state is not None:
        _record_end(session, state, now, **result)
        _skip_passed_ticks(state, now)


def _skip_passed_ticks(state: State, now: datetime) -> None:
    if state.next_run_at <= now:
        state.next_run_at = state.effective_schedule.next_after(now)


def _record_end(
    session: Session,
    state: State,
    now: datetime,
    *,
    outcome: str,
    error: str | None = None,
    result: str | None = None,
    duration_milliseconds: int | None = None,
) -> None:
    """Record the end of a run. Several failures in a row raise an alert, which a success resolves."""
    is_alerted = state.failures >= FAILURES_BEFORE_ALERT
    state.run_id = state.run_by = state.started_at = state.lease_until = None
    state.finished_at, state.duration_milliseconds = now, duration_milliseconds
    state.outcome, state.error, state.result = outcome, error, result
    state.runs += 1
    state.failures = 0 if outcome == SUCCEEDED else state.failures + 1
    subject = f"periodic:{state.name}"
    if state.failures >= FAILURES_BEFORE_ALERT:
        raise_alert(
            session,
            identifier="PERIODIC_TASK_FAILING",
            subject=subject,
            title=texts.PERIODIC_TASK_FAILING_TITLE,
            facts={"task": state.name, "error": error, "failuresInARow": state.failures},
            now=now,
        )
    elif is_alerted:
        note = texts.PERIODIC_TASK_SUCCEEDED_NOTE
        resolve_alert(session, identifier="PERIODIC_TASK_FAILING", subject=subject, note=note, now=now)
