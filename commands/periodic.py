"""Commands for periodic tasks: list, run, pause and reschedule."""

import dataclasses
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from textwrap import fill
from typing import Any, TypeVar
from uuid import UUID

import click

from commands.console.database import build_operator_act, build_services
from commands.console.failures import CommandFailedError
from commands.console.output import display_value, print_facts, print_table
from commands.console.times import RelativeTime
from marketplace.background import schedule
from marketplace.kernel.errors import ServiceUnavailableError
from marketplace.kernel.schedules import EXAMPLES, InvalidScheduleError, parse_schedule
from marketplace.services import Services
from tasks.all_tasks import PERIODIC_TASKS, get_periodic_task
from tasks.dispatcher import Dispatcher, connect_wakeups
from tasks.scheduler import TaskRunner, format_result

_Result = TypeVar("_Result")
_TASK_NAMES = [task.name for task in PERIODIC_TASKS]
_INDENTED_TASK_NAMES = fill(", ".join(_TASK_NAMES), 70, break_on_hyphens=False, subsequent_indent="    ")
_PLAIN_EXAMPLES = EXAMPLES.replace("`", "")
_TIME_OR_OFFSET = RelativeTime(
    r"\+(\d{1,6})([smhd])",
    1,
    "a time such as 2026-03-01T10:00:00Z, or an offset from now such as +31m, +2h or +14d",
)
_name_argument = click.argument("name", type=click.Choice(_TASK_NAMES), metavar="NAME")


@click.group(
    help="""List, run, pause, resume and reschedule periodic tasks. All times are UTC.

    Changes are stored in the database and audited. Workers apply a change within seconds."""
)
def periodic() -> None:
    """Group the commands."""


@periodic.command(
    name="list",
    help="""List the periodic tasks with schedule, last run and purpose.

    \b
    Example:
      marketplace periodic list""",
)
def list_tasks() -> None:
    """List the tasks."""
    print_table(
        ("Task", "When", "Next run", "Last run", "Took", "Outcome", "Now", "Purpose"),
        [
            (
                state.name,
                state.effective_schedule.description + (" (override)" if state.is_rescheduled else ""),
                state.upcoming_run_at,
                state.finished_at,
                None if (took := state.duration_milliseconds) is None else f"{took / 1000:.1f} s",
                ": ".join(filter(None, (state.outcome, state.error))),
                ", ".join(("paused",) * bool(state.paused_at) + ("running",) * bool(state.run_id)),
                state.purpose,
            )
            for state in _apply(build_services(), schedule.list_tasks)
        ],
        wrapped_columns=("When", "Purpose"),
    )


@periodic.command(help="Show all details of a periodic task.")
@_name_argument
def show(name: str) -> None:
    """Show a task."""
    [state] = [state for state in _apply(build_services(), schedule.list_tasks) if state.name == name]
    columns = [column.key for column in state.__table__.columns]
    print_facts((column.replace("_", " "), getattr(state, column)) for column in columns)


@periodic.command(
    help=f"""Run a periodic task once in this process, regardless of its schedule.

    If the task is already running, the command first waits for that run. Exits with status 1 if the task fails.

    \b
    Names:
    {_INDENTED_TASK_NAMES}

    \b
    Examples:
      marketplace periodic run relay-inbox
      marketplace periodic run expire-checkouts --now +31m   with a later time as now (embedded stack)"""
)
@_name_argument
@click.option(
    "--now",
    "moment",
    type=_TIME_OR_OFFSET,
    help="Time to use as now: ISO 8601, or an offset such as +31m. Refused in production.",
)
@click.option(
    "--wait",
    "wait_seconds",
    type=click.IntRange(0, 3600),
    default=60,
    show_default=True,
    help="Maximum number of seconds to wait for a run in progress.",
)
def run(name: str, moment: datetime | None, wait_seconds: int) -> None:
    """Run a task."""
    services = current = build_services()
    if moment is not None:
        if services.settings.environment == "production":
            raise CommandFailedError(
                "ENVIRONMENT is production, where --now could run work before it is due. Omit --now."
            )
        services = dataclasses.replace(services, clock=lambda: moment)
    dispatcher = Dispatcher(services)
    connect_wakeups(dispatcher)
    runner_name = f"operator@{socket.gethostname()}:{os.getpid()}"
    runner = TaskRunner(services, dispatcher, name=runner_name, clock=current.clock)
    run_id = _start_run(current, name, runner_name, time.monotonic() + wait_seconds)
    started = time.monotonic()
    threading.Thread(target=_renew_lease, args=(runner,), daemon=True).start()
    result = runner.perform(get_periodic_task(name), run_id)
    click.echo(f"{name} ran in {time.monotonic() - started:.1f} s: {format_result(result)}")


@periodic.command(help="Pause a periodic task until you resume it. A run in progress finishes normally.")
@_name_argument
def pause(name: str) -> None:
    """Pause a task."""
    if _change(schedule.set_paused, name, paused=True):
        click.echo(f"{name} is paused. Run `marketplace periodic resume {name}` to resume it.")
    else:
        click.echo(f"{name} is already paused.")


@periodic.command(help="Resume a paused periodic task. It runs again at its next scheduled time.")
@_name_argument
def resume(name: str) -> None:
    """Resume a task."""
    state = _change(schedule.set_paused, name, paused=False)
    click.echo(
        f"{name} runs next at {display_value(state.next_run_at)}." if state else f"{name} is not paused."
    )


@periodic.command(
    name="schedule",
    help=f"""Change the schedule of a periodic task. WHEN is {_PLAIN_EXAMPLES}.

    Crontab fields are minute, hour, day of the month, month, day of the week (0 or 7 is Sunday). Quote the
    expression, so that the shell does not expand the stars. Times are UTC.

    \b
    Examples:
      marketplace periodic schedule check-invariants "*/30 * * * *"
      marketplace periodic schedule relay-inbox every 30s
      marketplace periodic schedule relay-inbox --default""",
)
@_name_argument
@click.argument("when", nargs=-1)
@click.option("--default", "declared", is_flag=True, help="Restore the default schedule.")
def schedule_task(name: str, when: tuple[str, ...], *, declared: bool) -> None:
    """Change the schedule of a task."""
    if bool(when) == declared:
        raise click.UsageError(f"Give either WHEN or --default. WHEN is {_PLAIN_EXAMPLES}.")
    try:
        new_schedule = None if declared else parse_schedule(" ".join(when))
    except InvalidScheduleError as error:
        raise click.BadParameter(str(error).replace("`", ""), param_hint="WHEN") from error
    state = _change(schedule.reschedule_task, name, schedule=new_schedule)
    paused = " The task is paused." if state.paused_at else ""
    words, following = state.effective_schedule.description, display_value(state.next_run_at)
    click.echo(f"{name} runs {words}, next at {following}.{paused}")


def _apply(services: Services, work: Callable[..., _Result], **given: Any) -> _Result:
    """Register new tasks and run work on the schedule, in one transaction."""
    with services.database.transaction() as session:
        schedule.register_tasks(session, tasks=PERIODIC_TASKS, now=services.clock())
        return work(session, **given)


def _change(change: Callable[..., _Result], name: str, **given: Any) -> _Result:
    services = build_services()
    return _apply(services, change, name=name, act=build_operator_act(services.clock()), **given)


def _start_run(services: Services, name: str, runner_name: str, deadline: float) -> UUID:
    """Start a run, after waiting for a run in progress.

    :param deadline: monotonic time in seconds
    :raises CommandFailedError: the run in progress does not end before the deadline
    """
    while True:
        act = build_operator_act(services.clock())
        given = {"name": name, "runner_name": runner_name, "now": act.now, "act": act}
        if run_id := _apply(services, schedule.start_run, **given):
            return run_id
        [state] = [state for state in _apply(services, schedule.list_tasks) if state.name == name]
        progress = f"{name} has been running on {state.run_by} since {display_value(state.started_at)}."
        if time.monotonic() >= deadline:
            raise CommandFailedError(f"{progress} Try again later, or wait longer with --wait SECONDS.")
        click.echo(f"{progress} Waiting for that run ...", err=True)
        time.sleep(1)


def _renew_lease(runner: TaskRunner) -> None:
    """Renew the lease of the run until the process ends."""
    while True:
        time.sleep(1)
        with suppress(ServiceUnavailableError):
            runner.report_runs()
