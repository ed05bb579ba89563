"""Periodic tasks: what there is, and running one by hand."""

import dataclasses
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from commands.database import services as make_services
from commands.failures import CommandFailedError
from commands.output import table
from tasks import sweeps
from tasks.relay import Relay, connect_nudges

_NAMES = [task.name for task in sweeps.PERIODIC_TASKS]
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class Now(click.ParamType[datetime]):
    """A time to take for now: ISO 8601, or so long from now, such as +31m or +14d."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """This function will read a time."""
        if isinstance(value, datetime):
            return value
        ahead = re.fullmatch(r"\+(\d{1,6})([smhd])", value)
        if ahead:
            return datetime.now(UTC) + timedelta(**{_UNITS[ahead[2]]: int(ahead[1])})
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail("must be a time such as 2026-03-01T10:00:00Z, or +31m, +2h, +14d from now", param, ctx)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@click.group(help="List periodic tasks, and run one now.")
def periodic() -> None:
    """This function will group the commands."""


@periodic.command(name="list", help="List the periodic tasks: when each runs, on which queue, and what for.")
def list_tasks() -> None:
    """This function will list the tasks."""
    table(
        ("Task", "Minute", "Hour", "Queue", "What it does"),
        [(task.name, task.minutes, task.hours, task.queue, task.purpose) for task in sweeps.PERIODIC_TASKS],
        wide=("What it does",),
    )


@periodic.command(
    help=f"""Run the periodic task NAME once, in this process.

    It is safe beside the workers: tasks lock what they work on.

    Names: {", ".join(_NAMES)}.

    \b
    Examples:
      marketplace periodic run relay-inbox
      marketplace periodic run expire-checkouts --now +31m   as of then (embedded stack)"""
)
@click.argument("name", type=click.Choice(_NAMES), metavar="NAME")
@click.option(
    "--now",
    "moment",
    type=Now(),
    help="The time to take for now: ISO 8601, or such as +31m; not in production.",
)
def run(name: str, moment: datetime | None) -> None:
    """This function will run a task."""
    services = make_services()
    if moment is not None:
        if services.settings.environment == "production":
            raise CommandFailedError("ENVIRONMENT is production: --now would do there what is not due yet.")
        fixed = moment
        services = dataclasses.replace(services, clock=lambda: fixed)
    relay = Relay(services)
    connect_nudges(relay)
    result = sweeps.run_now(name, services, relay, now=services.clock())
    click.echo(f"{name} ran: {_told(result)}")


def _told(result: Any) -> str:
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        return ", ".join(
            f"{item.name.replace('_', ' ')} {getattr(result, item.name)}"
            for item in dataclasses.fields(result)
        )
    return "done" if result is None else str(result)
