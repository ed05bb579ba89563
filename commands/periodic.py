"""Periodic tasks: what there is, running one by hand, and having them run at other times or not at all."""

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
    """A time to take for now, of the centuries that tasks can reckon with: calendars end."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Read a time."""
        moment = super().convert(value, param, ctx)
        # Tasks reckon with years before and after it.
        if not 2000 <= moment.year <= 2999:
            self.fail(f"is in the year {moment.year}; take one from 2000 to 2999", param, ctx)
        return moment


_TIME_OR_OFFSET = _RunTime(
    r"\+(\d{1,6})([smhd])", 1, "a time such as 2026-03-01T10:00:00Z, or +31m, +2h, +14d from now"
)
_name_argument = click.argument("name", type=click.Choice(_TASK_NAMES), metavar="NAME")


@click.group(
    help="""List periodic tasks, run one now, pause, resume and re-schedule them. All times are UTC.

    What is changed here is kept in the database and audited; workers go by it within seconds."""
)
def periodic() -> None:
    """Group the commands."""


@periodic.command(
    name="list", help="List the periodic tasks: when each runs, what came of it, and what it is for."
)
def list_tasks() -> None:
    """List the tasks."""
    states = _task_states()
    print_table(
        ("Task", "When", "Next run", "Last run", "Took", "Outcome", "Now", "What it does"),
        [_table_row(task, states.get(task.name)) for task in PERIODIC_TASKS],
        wrapped_columns=("When", "What it does"),
    )


@periodic.command(help="Show all that is known of the periodic task NAME.")
@_name_argument
def show(name: str) -> None:
    """Show a task."""
    task, state = get_periodic_task(name), _task_states().get(name)
    shown: list[tuple[str, Any]] = [
        ("task", name),
        ("purpose", task.purpose),
        ("queue", task.queue),
        ("when", state.effective_schedule.description if state else task.schedule.description),
        ("declared", task.schedule_text),
    ]
    if state is not None:
        shown += [
            ("set to", state.timetable),
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
            ("failed in a row", state.failures),
        ]
    print_facts(shown)


@periodic.command(
    help=f"""Run the periodic task NAME once, in this process, whatever its schedule says.

    A task that is running is not started twice: this waits for it first. Ends with status 1 if the task fails.

    \b
    Names:
    {_INDENTED_TASK_NAMES}

    \b
    Examples:
      marketplace periodic run relay-inbox
      marketplace periodic run expire-checkouts --now +31m   as of then (embedded stack)"""
)
@_name_argument
@click.option(
    "--now",
    "moment",
    type=_TIME_OR_OFFSET,
    help="The time to take for now: ISO 8601, or such as +31m; not in production.",
)
@click.option(
    "--wait",
    "wait_seconds",
    type=click.IntRange(0, 3600),
    default=60,
    show_default=True,
    help="Wait so many seconds for a run that goes on.",
)
def run(name: str, moment: datetime | None, wait_seconds: int) -> None:
    """Run a task."""
    services = current = build_services()
    if moment is not None:
        if services.settings.environment == "production":
            raise CommandFailedError("ENVIRONMENT is production: --now would do there what is not due yet.")
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


@periodic.command(
    help="Have the periodic task NAME not run until it is resumed. A run that goes on ends in peace."
)
@_name_argument
def pause(name: str) -> None:
    """Pause a task."""
    if _change_task(schedule.set_paused, get_periodic_task(name), paused=True):
        program = Path(sys.argv[0]).name or "marketplace"
        click.echo(f"{name} is paused. `{program} periodic resume {name}` has it run again.")
    else:
        click.echo(f"{name} was paused already.")


@periodic.command(help="Have the paused periodic task NAME run again, from its next tick on.")
@_name_argument
def resume(name: str) -> None:
    """Resume a task."""
    if _change_task(schedule.set_paused, get_periodic_task(name), paused=False):
        click.echo(f"{name} runs next at {display_value(_task_states()[name].next_run_at)}.")
    else:
        click.echo(f"{name} was not paused.")


@periodic.command(
    name="schedule",
    help=f"""Have the periodic task NAME run at other times: WHEN is {EXAMPLES.replace("`", "")}.

    Crontab fields are minute, hour, day of the month, month, day of the week (0 or 7 is Sunday). Put them in
    quotes, so that the shell leaves the stars alone. Times are UTC.

    \b
    Examples:
      marketplace periodic schedule check-invariants "*/30 * * * *"
      marketplace periodic schedule relay-inbox every 30s
      marketplace periodic schedule relay-inbox --default""",
)
@_name_argument
@click.argument("when", nargs=-1)
@click.option("--default", "declared", is_flag=True, help="Go back to what the task declares.")
def schedule_task(name: str, when: tuple[str, ...], *, declared: bool) -> None:
    """Give a task another timetable."""
    if bool(when) == declared:
        raise click.UsageError(
            f"Say when {name} is to run, or --default. WHEN is {EXAMPLES.replace('`', '')}."
        )
    task, new_schedule = get_periodic_task(name), None
    if not declared:
        try:
            new_schedule = parse_schedule(" ".join(when))
        except InvalidScheduleError as error:
            raise click.BadParameter(str(error).replace("`", ""), param_hint="WHEN") from error
    following = _change_task(schedule.reschedule_task, task, schedule=new_schedule)
    words = (new_schedule or task.schedule).description
    paused = " It is paused." if _task_states()[name].paused_at else ""
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
        state.effective_schedule.description + (" (set)" if state.timetable else ""),
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
    """Begin a run, waiting for one that goes on; one whose worker is gone is given up.

    :raises CommandFailedError: the task is running for longer than is waited
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
                f"{task.name} is running on {state.run_by} since {display_value(state.started_at)},"
                " and is not started twice. Try again later, or wait longer with --wait SECONDS."
            )
        elif not announced:
            announced = True
            click.echo(f"{task.name} is running on {state.run_by}; this waits for it.", err=True)
        pause_between.wait(SCHEDULE_POLL_SECONDS)


@contextmanager
def _send_heartbeats(name: str, runner: TaskRunner) -> Iterator[None]:
    """Beat while a run goes on, and show on a terminal that it does."""
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
