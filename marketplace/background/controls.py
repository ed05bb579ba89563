"""What operators say to the schedule while it runs: pause, resume and re-schedule tasks, each audited."""

from datetime import datetime

from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.background.schedule import DeclaredTask, lock_task
from marketplace.kernel.schedules import Schedule


def pause_task(session: Session, *, task: DeclaredTask, act: Act) -> bool:
    """Have a task not run until it is resumed; a run that goes on ends in peace.

    :return: whether it was not paused before
    """
    state = lock_task(session, task=task, now=act.now)
    if state.paused_at is not None:
        return False
    state.paused_at = act.now
    _audit_pause(session, act, task, paused=True)
    return True


def resume_task(session: Session, *, task: DeclaredTask, act: Act) -> bool:
    """Have a paused task run again, from its next tick on.

    :return: whether it was paused
    """
    state = lock_task(session, task=task, now=act.now)
    if state.paused_at is None:
        return False
    state.paused_at = None
    state.next_run_at = state.effective_schedule.next_after(act.now)
    _audit_pause(session, act, task, paused=False)
    return True


def reschedule_task(
    session: Session,
    *,
    task: DeclaredTask,
    schedule: Schedule | None,
    act: Act,
) -> datetime:
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


def _audit_pause(session: Session, act: Act, task: DeclaredTask, *, paused: bool) -> None:
    record_audit_entry(
        session,
        act=act,
        action="periodic.pause" if paused else "periodic.resume",
        target_type="periodic_task",
        target_id=task.name,
        before={"paused": not paused},
        after={"paused": paused},
    )
