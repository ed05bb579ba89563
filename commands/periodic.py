"""Commands for periodic tasks: list, run, pause and reschedule."""

import dataclasses
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime
from pathlib import Path
from textwrap import fill
from typing import Any, TypeVar
from uuid import UUID

import click
from rich.console import Console

from commands.console.database import build_operator_act, build_services, read_session
from commands.console.failures import CommandFailedError
from commands.console.output import display_value, print_facts, print_table
from commands.console.times import RelativeTime
from marketplace.background import schedule
from marketplace.background.models import PeriodicTaskState
from marketplace.kernel.schedules import EXAMPLES, InvalidScheduleError, parse_schedule
from marketplace.services import Services
from tasks.all_tasks import PERIODIC_TASKS, get_periodic_task
from tasks.dispatcher import Dispatcher, connect_wakeups
from tasks.registry import PeriodicTask
from tasks.scheduler import (
    HEARTBEAT_SECONDS,
    SCHEDULE_POLL_SECONDS,
    HeartbeatMonitor,
    TaskRunner,
    format_result,
)

_Result = TypeVar("_Result")

_TASK_NAMES = [task.name for task in PERIODIC_TASKS]
_INDENTED_TASK_NAMES = fill(", ".join(_TASK_NAMES), 70, break_on_hyphens=False, subsequent_indent="    ")


class _RunTime(RelativeTime):
    """A time to use as the present. Very early and very late years are refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Parse a time."""
        moment = super().convert(value, param, ctx)
        # Tasks calculate with dates some years before and after this time.
        if not 2000 <= moment.year <= 2999:
            self.fail(f"is in the year {moment.year}; use a year from 2000 to 2999", param, ctx)
        return moment


_TIME_OR_OFFSET = _RunTime(
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
    states = _task_states()
    print_table(
        ("Task", "When", "Next run", "Last run", "Took", "Outcome", "Now", "Purpose"),
        [_table_row(task, states.get(task.name)) for task in PERIODIC_TASKS],
        wrapped_columns=("When", "Purpose"),
    )


@periodic.command(help="Show all details of a periodic task.")
@_name_argument
def show(name: str) -> None:
    """Show a task."""
    task, state = get_periodic_task(name), _task_states().get(name)
    shown: list[tuple[str, Any]] = [
        ("task", name),
        ("purpose", task.purpose),
        ("queue", task.queue),
        ("when", state.effective_schedule.description if state else task.schedule.description),
        ("default", task.schedule_text),
    ]
    if state is not None:
        shown += [
            ("override", state.timetable),
            ("paused since", state.paused_at),
            ("next run", state.next_run_at),
            ("running since", state.started_at),
            ("running on", state.run_by),
            ("ended", state.finished_at),
            ("took", _duration_text(state)),
            ("outcome", state.outcome),
            ("error", state.error),
            ("result", state.result),
            ("runs", state.runs),
            ("failures in a row", state.failures),
        ]
    print_facts(shown)


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
    runner = TaskRunner(
        services,
        dispatcher,
        runner_name=f"operator@{socket.gethostname()}:{os.getpid()}",
        clock=current.clock,
    )
    task = get_periodic_task(name)
    run_id = _start_run(task, current, runner.runner_name, wait_seconds)
    started = time.monotonic()
    with _send_heartbeats(name, runner):
        result = runner.perform(task, run_id)
    click.echo(f"{name} ran in {time.monotonic() - started:.1f} s: {format_result(result)}")


@periodic.command(help="Pause a periodic task until you resume it. A run in progress finishes normally.")
@_name_argument
def pause(name: str) -> None:
    """Pause a task."""
    if _change_task(schedule.set_paused, get_periodic_task(name), paused=True):
        program = Path(sys.argv[0]).name or "marketplace"
        click.echo(f"{name} is paused. Run `{program} periodic resume {name}` to resume it.")
    else:
        click.echo(f"{name} is already paused.")


@periodic.command(help="Resume a paused periodic task. It runs again at its next scheduled time.")
@_name_argument
def resume(name: str) -> None:
    """Resume a task."""
    if _change_task(schedule.set_paused, get_periodic_task(name), paused=False):
        click.echo(f"{name} runs next at {display_value(_task_states()[name].next_run_at)}.")
    else:
        click.echo(f"{name} is not paused.")


@periodic.command(
    name="schedule",
    help=f"""Change the schedule of a periodic task. WHEN is {EXAMPLES.replace("`", "")}.

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
        raise click.UsageError(f"Give either WHEN or --default. WHEN is {EXAMPLES.replace('`', '')}.")
    task, new_schedule = get_periodic_task(name), None
    if not declared:
        try:
            new_schedule = parse_schedule(" ".join(when))
        except InvalidScheduleError as error:
            raise click.BadParameter(str(error).replace("`", ""), param_hint="WHEN") from error
    following = _change_task(schedule.reschedule_task, task, schedule=new_schedule)
    words = (new_schedule or task.schedule).description
    paused = " The task is paused." if _task_states()[name].paused_at else ""
    click.echo(f"{name} runs {words}, next at {display_value(following)}.{paused}")


def _change_task(change: Callable[..., _Result], task: PeriodicTask, **given: Any) -> _Result:
    services = build_services()
    return services.database.in_transaction(
        change, task=task, act=build_operator_act(services.clock()), **given
    )


def _task_states() -> dict[str, PeriodicTaskState]:
    with read_session() as session:
        return {state.name: state for state in schedule.fetch_snapshots(session, PERIODIC_TASKS)}


def _table_row(task: PeriodicTask, state: PeriodicTaskState | None) -> tuple[Any, ...]:
    if state is None:
        return task.name, task.schedule.description, None, None, None, None, "no worker yet", task.purpose
    now = "paused" if state.paused_at else ""
    if state.run_id is not None:
        now = f"{now}, running" if now else "running"
    outcome = f"{state.outcome}: {state.error}" if state.error else state.outcome
    return (
        task.name,
        state.effective_schedule.description + (" (override)" if state.timetable else ""),
        None if state.paused_at else state.next_run_at,
        state.finished_at,
        _duration_text(state),
        outcome,
        now,
        task.purpose,
    )


def _duration_text(state: PeriodicTaskState) -> str | None:
    return None if state.duration_milliseconds is None else f"{state.duration_milliseconds / 1000:.1f} s"


def _start_run(task: PeriodicTask, services: Services, runner_name: str, wait_seconds: int) -> UUID:
    """Start a run, after waiting for a run in progress. The run of a dead worker is marked as lost.

    :raises CommandFailedError: the run in progress does not finish within the given seconds
    """
    monitor, pause_between, announced = HeartbeatMonitor(), threading.Event(), False
    until = time.monotonic() + wait_seconds
    while True:
        run_id = services.database.in_transaction(
            schedule.start_manual_run,
            task=task,
            runner_name=runner_name,
            act=build_operator_act(services.clock()),
        )
        if run_id is not None:
            return run_id
        state = _task_states()[task.name]
        if monitor.is_stalled(state):
            services.database.in_transaction(schedule.mark_run_lost, state=state, now=services.clock())
        elif time.monotonic() >= until:
            raise CommandFailedError(
                f"{task.name} has been running on {state.run_by} since {display_value(state.started_at)}."
                " Try again later, or wait longer with --wait SECONDS."
            )
        elif not announced:
            announced = True
            click.echo(f"{task.name} is running on {state.run_by}. Waiting for that run ...", err=True)
        pause_between.wait(SCHEDULE_POLL_SECONDS)


@contextmanager
def _send_heartbeats(name: str, runner: TaskRunner) -> Iterator[None]:
    """Send heartbeats during a run. On a terminal show a spinner, too."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(HEARTBEAT_SECONDS):
            runner.send_heartbeats()

    thread = threading.Thread(target=beat, name="beat", daemon=True)
    thread.start()
    spinner = Console(stderr=True).status(f"{name} is running ...") if sys.stderr.isatty() else nullcontext()
    try:
        with spinner:
            yield
    finally:
        ended.set()
        thread.join(HEARTBEAT_SECONDS)
