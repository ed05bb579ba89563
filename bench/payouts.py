"""Measure the duration of a batch of payouts, from staging to settlement (``python -m bench.payouts``).

The gateway is the sandbox's, in a separate process. A worker sends the transfers, and events arrive by
webhook.
"""

import logging
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import click
import psycopg2
import requests
import structlog
from sqlalchemy.orm import Session

from bench.processes import resident_mebibytes
from bench.stand import Stand
from marketplace.audit.operations import Act
from marketplace.identity.queries import Caller
from marketplace.infra.settings import load_settings
from marketplace.kernel import queues
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.ledger import accounts
from marketplace.ledger.operations import NewTransaction, Posting, post_transactions
from marketplace.payouts.batches import decisions, staging
from marketplace.payouts.models import ACCOUNT_NUMBER, ACCOUNT_NUMBER_INDEX
from marketplace.payouts.transfers import dispatch
from marketplace.providers.gateway.transfers import TransferGateway
from marketplace.reconciliation.ledger_check import verify_ledger
from marketplace.services import Services
from sandbox.ports import HOST
from sandbox.process import wait_until
from tasks.dispatcher import Dispatcher, connect_wakeups

TARGET_SECONDS = 60
# Maximum growth of the worker's memory between a fifth of the transfers and the last.
MOST_GROWTH = 1.15
OWED_MINOR = 250_000
_POSTED_AT_ONCE = 500
_LOOK_AGAIN_SECONDS = 0.25
_LIMIT_SECONDS = 600.0
_ACCOUNT_NUMBER = "0123456789"
_ACCOUNT_AGE = timedelta(days=90)

_PEOPLE = (
    """INSERT INTO campuses (name, slug) VALUES ('North', 'north') RETURNING id""",
    """WITH people AS (
        INSERT INTO profiles (id, role, name) SELECT gen_random_uuid(), 'vendor', 'Vendor ' || n
        FROM generate_series(1, %(vendors)s) n RETURNING id
    ), stores AS (
        INSERT INTO vendor_profiles (user_id, campus_id, display_name, slug)
        SELECT id, %(campus)s, 'Store', 'store-' || id FROM people RETURNING id, user_id
    ), paid_to AS (
        INSERT INTO payout_accounts
            (user_id, bank_code, bank_name, account_number, account_number_index, account_name, recipient_code,
            created_at)
        SELECT user_id, '058', 'A Bank', %(number)s, %(number_index)s, 'STORE', %(recipient)s, %(since)s FROM stores
    )
    SELECT id FROM stores""",
)
_SENT = """SELECT count(*) FILTER (WHERE t.sent_at IS NOT NULL AND i.status <> 'pending'),
    count(*) FILTER (WHERE i.status = 'success')
    FROM payout_transfer_intents i JOIN payout_transfers t ON t.intent_id = i.id"""


@dataclass(frozen=True)
class Paid:
    """The result: durations in seconds, and counters that must be zero.

    :param sent: from dispatch until the gateway has accepted all transfers
    :param settled: from dispatch until events have settled all transfers
    """

    vendors: int
    staged: float
    approved: float
    dispatched: float
    sent: float
    settled: float
    memory: tuple[float, float]
    gateway_total_minor: int
    broken_rules: int
    unpaid: int

    @property
    def until_sent(self) -> float:
        """The seconds from the start of staging until all transfers are sent."""
        return self.staged + self.approved + self.dispatched + self.sent

    @property
    def sound(self) -> bool:
        """Whether all vendors were paid once and in time, memory stayed flat, and the ledger's invariants hold."""
        return (
            not (self.broken_rules or self.unpaid)
            and self.gateway_total_minor == self.vendors * OWED_MINOR
            and self.until_sent <= TARGET_SECONDS
            and self.memory[1] <= self.memory[0] * MOST_GROWTH
        )

    def lines(self) -> list[str]:
        """Format the figures, a line each."""
        met = "met" if self.until_sent <= TARGET_SECONDS else "MISSED"
        return [
            f"vendors              {self.vendors:,}",
            f"staged               {self.staged:.1f} s",
            f"approved by two      {self.approved:.1f} s",
            f"dispatched           {self.dispatched:.1f} s",
            f"sent                 {self.sent:.1f} s later",
            f"sent, total          {self.until_sent:.1f} s (target {TARGET_SECONDS} s: {met})",
            f"settled by events    {self.settled:.1f} s after dispatch",
            f"worker, resident MiB {self.memory[0]:.1f} with a fifth sent, {self.memory[1]:.1f} at the end",
            f"paid by the gateway  {self.gateway_total_minor:,} of {self.vendors * OWED_MINOR:,} kobo",
            f"unpaid               {self.unpaid}",
            f"invariants violated  {self.broken_rules}",
        ]


def pay(stand: Stand, *, vendors: int, tell: Callable[[str], None]) -> Paid:
    """Credit vendors, pay them in a batch, and measure each step.

    :param stand: with running, empty servers
    :param tell: receives progress messages
    """
    tell(f"creating {vendors:,} vendors with a balance")
    stand.migrate()
    stand.start_web()
    stand.start_providers(
        SANDBOX_WEBHOOK_URL=f"http://{HOST}:{stand.ports['web']}/api/payments/webhook",
    )
    services = Services.from_settings(load_settings(stand.variables), application_name="payouts")
    connect_wakeups(Dispatcher(services))
    _owe(stand, services, vendors)
    worker = f"worker-{queues.WEBHOOKS}-0"
    stand.start_worker(queues.WEBHOOKS, 0)
    officers = [_officer(services) for _ in range(3)]
    tell("staging, approving and dispatching")
    times = [time.perf_counter()]
    batch_id = services.database.in_transaction(_stage)
    times.append(time.perf_counter())
    for officer in officers[:2]:
        services.database.in_transaction(_approve, batch_id, officer)
    times.append(time.perf_counter())
    services.database.in_transaction(_dispatch, batch_id, officers[2])
    times.append(time.perf_counter())
    tell("sending")
    _until(lambda: _counts(stand)[0] >= vendors // 5)
    first = resident_mebibytes(stand.process_id(worker))
    _until(lambda: _counts(stand)[0] >= vendors)
    times.append(time.perf_counter())
    tell("waiting for the gateway's events")
    _until(lambda: _counts(stand)[1] >= vendors)
    times.append(time.perf_counter())
    last = resident_mebibytes(stand.process_id(worker))
    with services.database.reading() as session:
        broken = verify_ledger(session)
    pages = services.gateway_records.list_records(
        "transfer", since=datetime.now(UTC) - timedelta(days=1), until=datetime.now(UTC) + timedelta(days=1)
    )
    left = sum(record.amount_minor for page in pages for record in page if record.status == "success")
    services.database.close()
    return Paid(
        vendors=vendors,
        staged=times[1] - times[0],
        approved=times[2] - times[1],
        dispatched=times[3] - times[2],
        sent=times[4] - times[3],
        settled=times[5] - times[3],
        memory=(first, last),
        gateway_total_minor=left,
        broken_rules=len(broken),
        unpaid=vendors - _counts(stand)[1],
    )


def _until(look: Callable[[], bool]) -> None:
    wait_until(look, timeout_seconds=_LIMIT_SECONDS, pause=lambda _seconds: time.sleep(_LOOK_AGAIN_SECONDS))


def _owe(stand: Stand, services: Services, vendors: int) -> None:
    """Create vendors with bank accounts, credit all with the same amount, and fund the gateway."""
    recipient = _recipient(services.transfers)
    [[campus]] = _rows(stand, _PEOPLE[0])
    since = datetime.now(UTC) - _ACCOUNT_AGE
    account = {
        "number": ACCOUNT_NUMBER.encrypt(_ACCOUNT_NUMBER),
        "number_index": ACCOUNT_NUMBER_INDEX.compute(_ACCOUNT_NUMBER),
        "recipient": recipient,
        "since": since,
    }
    stores = [row[0] for row in _rows(stand, _PEOPLE[1], vendors=vendors, campus=campus, **account)]
    for start in range(0, len(stores), _POSTED_AT_ONCE):
        services.database.in_transaction(_post, stores[start : start + _POSTED_AT_ONCE])
    _rows(stand, "ANALYZE")
    requests.post(
        f"{services.settings.gateway_url}/sandbox/balance",
        json={"amountMinor": vendors * OWED_MINOR},
        timeout=10,
    ).raise_for_status()


def _recipient(transfers: TransferGateway) -> str:
    """Create a recipient at the gateway, as soon as the gateway answers."""
    found: list[str] = []

    def look() -> bool:
        with suppress(ProviderUnavailableError):
            code = transfers.create_recipient(name="STORE", account_number=_ACCOUNT_NUMBER, bank_code="058")
            found.extend([code] if code else [])
        return bool(found)

    _until(look)
    return found[0]


def _post(session: Session, stores: list[UUID]) -> None:
    movements = [
        NewTransaction(
            "reward",
            f"bench:{store}",
            "Owed",
            [
                Posting(accounts.GATEWAY_CLEARING, "debit", OWED_MINOR),
                Posting(accounts.vendor_payable(store), "credit", OWED_MINOR),
            ],
        )
        for store in stores
    ]
    post_transactions(session, transactions=movements, now=datetime.now(UTC))


def _officer(services: Services) -> Caller:
    with services.database.transaction() as session:
        officer_id = uuid4()
        session.connection().exec_driver_sql(
            "INSERT INTO profiles (id, role, staff_role, name) VALUES (%s, 'staff', 'finance', 'Officer')",
            (officer_id,),
        )
    return Caller(
        id=officer_id,
        email=None,
        role="staff",
        staff_role="finance",
        permissions=frozenset({"canManageFinances"}),
        account_status="active",
        campus_id=None,
        aal="aal2",
    )


def _stage(session: Session) -> UUID:
    batch_id = staging.stage_on_schedule(session, now=datetime.now(UTC)).batch_id
    if batch_id is None:
        raise RuntimeError("nothing was staged")
    return batch_id


def _approve(session: Session, batch_id: UUID, officer: Caller) -> None:
    decisions.approve_batch(session, batch_id=batch_id, act=_act_of(officer))


def _dispatch(session: Session, batch_id: UUID, officer: Caller) -> None:
    dispatch.dispatch_batch(session, batch_id=batch_id, act=_act_of(officer))


def _act_of(officer: Caller) -> Act:
    return Act("finance", datetime.now(UTC), user_id=officer.id)


def _counts(stand: Stand) -> tuple[int, int]:
    [[sent, settled]] = _rows(stand, _SENT)
    return sent, settled


def _rows(stand: Stand, statement: str, **parameters: Any) -> list[tuple[Any, ...]]:
    connection = psycopg2.connect(stand.database.url, connect_timeout=5)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []
    finally:
        connection.close()


@click.command(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help=f"""Measure the duration of a batch of payouts: staging, two approvals, dispatch, sending, settlement.

    The command starts PostgreSQL, Valkey, the web processes, a worker and the sandbox gateway, with data in a
    temporary directory. The exit status is 1 if sending takes more than {TARGET_SECONDS} s in total, the worker's
    memory grows, a vendor is not paid exactly once, or a ledger invariant is violated.

    \b
    Example:
      python -m bench.payouts --vendors 5000""",
)
@click.option("--vendors", default=5_000, show_default=True, type=click.IntRange(1, staging.PAYEES_LIMIT))
def main(vendors: int) -> None:
    """Measure, and print the figures."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with tempfile.TemporaryDirectory(prefix="payouts-", ignore_cleanup_errors=True) as directory:
        place = Path(directory)
        with Stand(place, tell=lambda text: click.echo(f"... {text}", err=True)) as stand:
            paid = pay(stand, vendors=vendors, tell=lambda text: click.echo(f"... {text}", err=True))
    for text in paid.lines():
        click.echo(text)
    if not paid.sound:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
