"""What operators say to the schedule while it runs: pause, resume and re-schedule tasks, each audited."""

from datetime import datetime

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.operations import AuditActor, record
from marketplace.background.schedule import Declared, lock
from marketplace.infra.db import Statement
from marketplace.kernel.schedules import Timetable

_PAUSE = Statement(text("UPDATE periodic_tasks SET paused_at = :now WHERE name = :name"))
_RESUME = Statement(
    text("UPDATE periodic_tasks SET paused_at = NULL, next_run_at = :next_run_at WHERE name = :name")
)
_RESCHEDULE = Statement(
    text("UPDATE periodic_tasks SET timetable = :timetable, next_run_at = :next_run_at WHERE name = :name")
)


def pause(session: Session, *, task: Declared, actor: AuditActor, now: datetime) -> bool:
    """Have a task not run until it is resumed; a run that goes on ends in peace.

    :return: whether it was not paused before
    """
    state = lock(session, task=task, now=now)
    if state.paused_at is not None:
        return False
    _PAUSE.run(session, name=task.name, now=now)
    _record_pause(session, actor, task, now, paused=True)
    return True


def resume(session: Session, *, task: Declared, actor: AuditActor, now: datetime) -> bool:
    """Have a paused task run again, from its next tick on.

    :return: whether it was paused
    """
    state = lock(session, task=task, now=now)
    if state.paused_at is None:
        return False
    _RESUME.run(session, name=task.name, next_run_at=state.in_force.after(now))
    _record_pause(session, actor, task, now, paused=False)
    return True


def reschedule(
    session: Session,
    *,
    task: Declared,
    timetable: Timetable | None,
    actor: AuditActor,
    now: datetime,
) -> datetime:
    """Give a task another timetable; workers go by it from their next look, within seconds.

    :param timetable: the new one; none goes back to the declared one
    :return: when it runs next
    """
    state = lock(session, task=task, now=now)
    following = (timetable or task.timetable).after(now)
    _RESCHEDULE.run(
        session,
        name=task.name,
        timetable=timetable.text if timetable else None,
        next_run_at=following,
    )
    record(
        session,
        actor=actor,
        action="periodic.schedule",
        target_type="periodic_task",
        target_id=task.name,
        before={"timetable": state.in_force.text},
        after={"timetable": (timetable or task.timetable).text},
        now=now,
    )
    return following


def _record_pause(
    session: Session, actor: AuditActor, task: Declared, now: datetime, *, paused: bool
) -> None:
    record(
        session,
        actor=actor,
        action="periodic.pause" if paused else "periodic.resume",
        target_type="periodic_task",
        target_id=task.name,
        before={"paused": not paused},
        after={"paused": paused},
        now=now,
    )
