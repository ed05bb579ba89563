"""Measure how fast one worker delivers notifications to native apps (``python -m bench.fan_out``).

Each notification goes to one device through the simulated Firebase Cloud Messaging, which runs in another process.
"""

import logging
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import click
import requests
import structlog

from bench import data
from bench.data import row_id
from bench.stand import Stand
from marketplace.infra.settings import load_settings
from marketplace.kernel import queues
from marketplace.notifications import devices
from marketplace.notifications.delivery.drain import deliver_due
from marketplace.notifications.operations import NewNotification, notify_all
from marketplace.services import Services
from sandbox.ports import HOST
from sandbox.providers.inbox.service_account import make_private_key, make_service_account
from tasks.notifications import delivery_services

TARGET_A_SECOND = 200
_PEOPLE = 1_000
_BATCH = 500
_TIMEOUT_SECONDS = 5


def fan_out(stand: Stand, *, notifications: int, tell: Callable[[str], None]) -> tuple[int, float]:
    """Write notifications, deliver them in this process, and return the accepted pushes and the seconds.

    :param stand: with running, empty servers
    """
    stand.migrate()
    data.load(stand.database, data.Sizes(products=10, buyers=_PEOPLE, shipped=0, payable=0, charged=0))
    inbox = f"http://{HOST}:{stand.ports['providers']}/inbox"
    credentials = make_service_account(f"{inbox}/fcm/token", key=make_private_key())
    stand.start_providers(FCM_CREDENTIALS=credentials)
    settings = load_settings(stand.variables | {"FCM_CREDENTIALS": credentials, "FCM_URL": f"{inbox}/fcm"})
    services = Services.from_settings(settings, application_name="fan-out")
    now = datetime.now(UTC)
    people = [UUID(row_id("buyer", number)) for number in range(_PEOPLE)]
    tell(f"registering {_PEOPLE:,} devices and writing {notifications:,} notifications")
    for person in people:
        services.database.in_transaction(
            devices.register_device,
            user_id=person,
            name=None,
            subscription=None,
            token=f"bench-{person.hex}",
            now=now,
        )
    for first in range(0, notifications, _BATCH):
        services.database.in_transaction(
            notify_all,
            notifications=[
                NewNotification(
                    people[number % _PEOPLE],
                    "wallet_credited",
                    "Your refund is in your wallet",
                    "We added the amount of your refund to your wallet.",
                    "/wallet",
                    f"bench:{number}",
                )
                for number in range(first, min(first + _BATCH, notifications))
            ],
            now=now,
        )
    data.settle(stand.database)
    tell(f"delivering with one process of the queue {queues.NOTIFICATIONS}")
    started = time.monotonic()
    result = deliver_due(delivery_services(services), max_seconds=600)
    seconds = time.monotonic() - started
    calls = requests.get(f"{inbox}/sandbox/messages?to=none", timeout=_TIMEOUT_SECONDS).json()["data"][
        "calls"
    ]
    services.database.close()
    if result.sent != calls.get("fcm") or result.sent != notifications:
        raise click.ClickException(f"{result.sent} of {notifications} sent, {calls.get('fcm')} received")
    return result.sent, seconds


@click.command(help=__doc__)
@click.option("--notifications", default=10_000, show_default=True, type=click.IntRange(10, 100_000))
def main(*, notifications: int) -> None:
    """Measure, print the figures, and fail if a push was lost or sent twice."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    started = time.monotonic()

    def tell(line: str) -> None:
        click.echo(f"[{time.monotonic() - started:5.1f} s] {line}", err=True)

    with (
        tempfile.TemporaryDirectory(prefix="marketplace-fan-out-") as directory,
        Stand(Path(directory), tell=tell) as stand,
    ):
        sent, seconds = fan_out(stand, notifications=notifications, tell=tell)
    met = "met" if sent / seconds >= TARGET_A_SECOND else "missed"
    click.echo(
        f"{sent:,} pushes in {seconds:.1f} s: {sent / seconds:.0f} a second (target {TARGET_A_SECOND}: {met})"
    )


if __name__ == "__main__":
    main()
