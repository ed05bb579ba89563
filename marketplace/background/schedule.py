"""The schedule: which periodic task runs next, who runs it, and what came of it.

Any number of workers look at it. A tick is claimed by one update of the task's row that names all it was seen
to be, so the database's lock lets one worker have it. A run that goes on keeps the task from being started again.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any
from uuid import UUID, uuid4

import structlog
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.alerts.kinds import PERIODIC_TASK_FAILING
from marketplace.alerts.operations import raise_alert, resolve_alert
from marketplace.infra.db import Statement
from marketplace.kernel.schedules import Interval, InvalidScheduleError, Schedule, parse_schedule

_log = structlog.get_logger(__name__)

SUCCEEDED, FAILED, INTERRUPTED = "succeeded", "failed", "interrupted"

_MAX_RESULT_CHARACTERS = 200  # characters of a result
_UNKNOWN_TASK_RETENTION = timedelta(days=1)
FAILURES_BEFORE_ALERT = 3  # in a row; a single one is mended by the next run, as a rule

_SELECT_TASKS = Statement(
    text(
        """
        SELECT name, timetable, next_run_at, paused_at, run_id, run_by, started_at, beats, finished_at,
            duration_milliseconds, outcome, error, result, runs, failures
        FROM periodic_tasks WHERE name = ANY(:names)
        """
    )
)
_SELECT_ALL_TASKS = Statement(
    text(
        """
        SELECT name, queue, purpose, declared, timetable, next_run_at, paused_at, run_id, run_by, started_at, beats,
            finished_at, duration_milliseconds, outcome, error, result, runs, failures
        FROM periodic_tasks ORDER BY name
        """
    )
)
_LOCK_TASK = Statement(
    text(
        """
        SELECT name, timetable, next_run_at, paused_at, run_id, run_by, started_at, beats, finished_at,
            duration_milliseconds, outcome, error, result, runs, failures
        FROM periodic_tasks WHERE name = :name FOR NO KEY UPDATE
        """
    )
)
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
# Tasks that no worker knows any more; one that an operator paused keeps that, should it come back.
_DELETE_UNKNOWN_TASKS = Statement(
    text(
        """
        DELETE FROM periodic_tasks
        WHERE name <> ALL(:names) AND next_run_at < :before AND paused_at IS NULL AND run_id IS NULL
        """
    )
)
_START_DUE_RUN = Statement(
    text(
        """
        UPDATE periodic_tasks SET next_run_at = :following, run_id = :run_id, run_by = :run_by, started_at = :now,
            beats = beats + 1
        WHERE name = :name AND run_id IS NULL AND paused_at IS NULL AND next_run_at = :next_run_at
            AND timetable IS NOT DISTINCT FROM :timetable
        """
    )
)
_START_MANUAL_RUN = Statement(
    text(
        """
        UPDATE periodic_tasks SET run_id = :run_id, run_by = :run_by, started_at = :now, beats = beats + 1
        WHERE name = :name AND run_id IS NULL
        """
    )
)
_RECORD_HEARTBEATS = Statement(
    text(
        "UPDATE periodic_tasks SET beats = beats + 1 WHERE run_id = ANY(CAST(:run_ids AS uuid[])) RETURNING run_id"
    )
)
_MARK_RUN_LOST = Statement(
    text(
        """
        UPDATE periodic_tasks SET run_id = NULL, run_by = NULL, started_at = NULL, finished_at = :now,
            duration_milliseconds = NULL, outcome = 'interrupted', error = 'worker lost', result = NULL,
            runs = runs + 1, failures = failures + 1
        WHERE name = :name AND run_id = :run_id AND beats = :beats
        """
    )
)
_FINISH_RUN = Statement(
    text(
        """
        UPDATE periodic_tasks SET run_id = NULL, run_by = NULL, started_at = NULL, finished_at = :now,
            duration_milliseconds = :milliseconds, outcome = :outcome, error = :error, result = :result,
            runs = runs + 1, failures = CASE WHEN :outcome = 'succeeded' THEN 0 ELSE failures + 1 END,
            next_run_at = :next_run_at
        WHERE name = :name
        """
    )
)


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


@dataclass(frozen=True, slots=True)
class PeriodicTaskSnapshot:
    """A task's row as it was seen, and the timetable that is in force."""

    name: str
    effective_schedule: Schedule
    timetable: str | None
    next_run_at: datetime
    paused_at: datetime | None
    run_id: UUID | None
    run_by: str | None
    started_at: datetime | None
    beats: int
    finished_at: datetime | None
    duration_milliseconds: int | None
    outcome: str | None
    error: str | None
    result: str | None
    runs: int
    failures: int


_SNAPSHOT_COLUMNS = tuple(
    item.name for item in fields(PeriodicTaskSnapshot) if item.name != "effective_schedule"
)


def fetch_snapshots(session: Session, tasks: Iterable[DeclaredTask]) -> list[PeriodicTaskSnapshot]:
    """Give the states of tasks, in the order in which they are given.

    :return: of those that have a row
    """
    declared = {task.name: task for task in tasks}
    rows = {row["name"]: row for row in _SELECT_TASKS.all(session, names=list(declared))}
    return [
        _snapshot_from_row(rows[name], task.schedule_text) for name, task in declared.items() if name in rows
    ]


def list_all_tasks(session: Session) -> list[dict[str, Any]]:
    """Give all tasks that workers have told of, with what they are for, by name."""
    return [
        {
            "name": row["name"],
            "queue": row["queue"],
            "purpose": row["purpose"],
            "state": _snapshot_from_row({name: row[name] for name in _SNAPSHOT_COLUMNS}, row["declared"]),
        }
        for row in _SELECT_ALL_TASKS.all(session)
    ]


def _snapshot_from_row(row: dict[str, Any], declared: str) -> PeriodicTaskSnapshot:
    for schedule_text in (row["timetable"], declared):
        if schedule_text is not None:
            try:
                return PeriodicTaskSnapshot(effective_schedule=parse_schedule(schedule_text), **row)
            except InvalidScheduleError:
                # Written by a version that knew more: the declared one is better than none.
                _log.error("timetable not understood", task=row["name"], timetable=schedule_text)
    raise InvalidScheduleError(f"no timetable of {row['name']} is understood")


def lock_task(session: Session, *, task: DeclaredTask, now: datetime) -> PeriodicTaskSnapshot:
    """Lock a task's row, made if there is none, and give its state."""
    register_tasks(session, tasks=(task,), now=now)
    return _snapshot_from_row(_LOCK_TASK.one(session, name=task.name), task.schedule_text)


def register_tasks(session: Session, *, tasks: Iterable[DeclaredTask], now: datetime) -> None:
    """Give tasks their rows that have none: an interval begins now, a crontab with its tick.

    A task that is declared to run more often than before need not wait for the next run that was set then.
    """
    for task in tasks:
        first = now if isinstance(task.schedule, Interval) else task.schedule.next_after(now)
        _UPSERT_TASK.run(
            session,
            name=task.name,
            queue=task.queue,
            purpose=task.purpose,
            declared=task.schedule_text,
            next_run_at=first,
        )


def delete_unknown_tasks(session: Session, *, tasks: Iterable[DeclaredTask], now: datetime) -> None:
    """Delete the rows of tasks that are none of these, and that nobody has run for a day."""
    _DELETE_UNKNOWN_TASKS.run(
        session, names=[task.name for task in tasks], before=now - _UNKNOWN_TASK_RETENTION
    )


def start_due_run(
    session: Session, *, state: PeriodicTaskSnapshot, worker_name: str, now: datetime
) -> UUID | None:
    """Claim a task's tick that is due; of all who try, one gets it.

    However many ticks were missed, they are one: the next one is the first after now.

    :param state: as the task was seen
    :param worker_name: who runs it
    :return: the run's id; none if somebody else has it, or an operator changed the task meanwhile
    """
    run_id = uuid4()
    claimed = _START_DUE_RUN.run(
        session,
        name=state.name,
        timetable=state.timetable,
        next_run_at=state.next_run_at,
        following=state.effective_schedule.next_after(max(now, state.next_run_at)),
        run_id=run_id,
        run_by=worker_name,
        now=now,
    )
    return run_id if claimed else None


def start_manual_run(
    session: Session, *, task: DeclaredTask, operator_name: str, now: datetime
) -> UUID | None:
    """Begin a run by hand, whatever the schedule says; its next tick stays where it is.

    :return: the run's id; none if the task is running
    """
    register_tasks(session, tasks=(task,), now=now)
    run_id = uuid4()
    return (
        run_id
        if _START_MANUAL_RUN.run(session, name=task.name, run_id=run_id, run_by=operator_name, now=now)
        else None
    )


def record_heartbeats(session: Session, *, run_ids: Collection[UUID]) -> set[UUID]:
    """Tell that runs go on.

    :return: those of them that are still known; the others were taken for lost
    """
    return {row["run_id"] for row in _RECORD_HEARTBEATS.all(session, run_ids=list(run_ids))}


def mark_run_lost(session: Session, *, state: PeriodicTaskSnapshot, now: datetime) -> bool:
    """Give up a run whose worker is gone, so that the task runs at its next tick.

    :param state: as the task was seen: if it has beaten since, it is not lost
    :return: whether it was given up
    """
    lost = _MARK_RUN_LOST.run(session, name=state.name, run_id=state.run_id, beats=state.beats, now=now)
    if lost:
        _log.error("periodic task lost with its worker", task=state.name, worker=state.run_by)
        _raise_failing_alert(session, state.name, state.failures + 1, "worker lost", now)
    return bool(lost)


def _raise_failing_alert(
    session: Session, name: str, failures: int, error: str | None, now: datetime
) -> None:
    """Raise an alert of a task that fails again and again."""
    if failures >= FAILURES_BEFORE_ALERT:
        raise_alert(
            session,
            identifier=PERIODIC_TASK_FAILING,
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
    passed = state.next_run_at <= now
    _FINISH_RUN.run(
        session,
        name=task.name,
        outcome=outcome,
        error=error,
        result=result[:_MAX_RESULT_CHARACTERS] if result is not None else None,
        milliseconds=milliseconds,
        next_run_at=state.effective_schedule.next_after(now) if passed else state.next_run_at,
        now=now,
    )
    if outcome != SUCCEEDED:
        _raise_failing_alert(session, task.name, state.failures + 1, error, now)
    elif state.failures >= FAILURES_BEFORE_ALERT:
        resolve_alert(
            session,
            identifier=PERIODIC_TASK_FAILING,
            subject=f"periodic:{task.name}",
            note="It succeeded again.",
            now=now,
        )
    return True
