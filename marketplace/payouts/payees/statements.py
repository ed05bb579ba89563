"""Vendors' statements: all ledger entries of a period, between the opening and the closing balance."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.sql.statements import Statement as Sql
from marketplace.kernel.errors import InvalidParam, ValidationError
from marketplace.kernel.money import CURRENCY
from marketplace.ledger import accounts
from marketplace.payouts import accounting, states, texts
from marketplace.payouts.models import ACCOUNT_NUMBER
from marketplace.payouts.payees.bank_accounts import BankAccount
from marketplace.vendors.queries import Store

LONGEST_PERIOD = timedelta(days=366)
# Maximum entries of CSV files, and of JSON and PDF.
FILE_ROWS_LIMIT = 10_000
PAGED_ROWS_LIMIT = 1_000
_SENT_STATUSES = [states.SUBMITTED, states.UNKNOWN, states.SUCCESS]


@dataclass(frozen=True)
class StatementPeriod:
    """A period from ``starts`` to before ``ends``."""

    starts: datetime
    ends: datetime


@dataclass(frozen=True)
class VendorStatementEntry:
    """A ledger entry and the resulting balance in kobo. Opening and closing rows have only a balance."""

    at: datetime
    kind: str
    description: str
    balance_minor: int
    order_number: str | None = None
    account: str | None = None
    direction: str | None = None
    amount_minor: int | None = None
    order_id: UUID | None = None
    transaction_id: UUID | None = None
    source: str | None = None
    opening_minor: int | None = None


@dataclass(frozen=True)
class StatementVendor:
    """The vendor of a statement."""

    id: UUID
    display_name: str
    owner_name: str | None


@dataclass(frozen=True)
class VendorStatement:
    """A vendor's statement. Amounts are in kobo, and the vendor owes a negative balance.

    ``paid_accounts`` are the bank accounts of the period's payouts, not the vendor's current account.
    """

    vendor: StatementVendor
    paid_accounts: list[BankAccount]
    period: StatementPeriod
    opening_balance_minor: int
    entries: list[VendorStatementEntry]
    currency = CURRENCY

    def _sum(self, direction: str) -> int:
        return sum(entry.amount_minor or 0 for entry in self.entries if entry.direction == direction)

    @property
    def credited_minor(self) -> int:
        """The sum of the credits."""
        return self._sum("credit")

    @property
    def debited_minor(self) -> int:
        """The sum of the debits."""
        return self._sum("debit")

    @property
    def closing_balance_minor(self) -> int:
        """The balance at the end of the period."""
        return self.opening_balance_minor + self.credited_minor - self.debited_minor

    def rows(self) -> Iterator[VendorStatementEntry]:
        """Iterate over the entries, between rows of the opening and the closing balance."""
        yield VendorStatementEntry(
            self.period.starts, "opening_balance", texts.STATEMENT_OPENING_BALANCE, self.opening_balance_minor
        )
        yield from self.entries
        yield VendorStatementEntry(
            self.period.ends, "closing_balance", texts.STATEMENT_CLOSING_BALANCE, self.closing_balance_minor
        )


def resolve_period(starts: datetime | None, ends: datetime | None, *, now: datetime) -> StatementPeriod:
    """Resolve the period of a statement. By default the period starts with the UTC month of its end.

    :param ends: exclusive; now by default and at the latest
    :raises ValidationError: the start is not before the end, or the period is longer than 366 days
    """
    last = now if ends is None else min(ends, now)
    first = starts
    if first is None:
        # The end is exclusive, so the first of a month belongs to the month before.
        last_moment = (last - timedelta(microseconds=1)).astimezone(UTC)
        first = last_moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    if first >= last:
        raise ValidationError.of("from", "Must be before the end of the period.")
    if last - first > LONGEST_PERIOD:
        raise ValidationError.of(
            "from", f"Must be at most {LONGEST_PERIOD.days} days before the end of the period."
        )
    return StatementPeriod(first, last)


# A statement's balance is the payable balance minus the vendor's debt, so a credit of either account increases the
# balance. The query reads a consistent snapshot of the ledger. The opening balance is the current balance minus the
# entries since the start, so the order of simultaneous transactions does not matter. All entries of accounts with an
# owner have a ``balance_after_minor``. The condition lets the planner use the partial index.
_SELECT_ENTRIES = Sql(
    text(
        """
        WITH booked AS (
            SELECT coalesce(sum(CASE normal_side WHEN 'credit' THEN balance_minor ELSE -balance_minor END), 0)::bigint
                AS minor FROM ledger_accounts WHERE id = ANY(:ids)
        ), since AS (
            SELECT coalesce(sum(CASE direction WHEN 'credit' THEN amount_minor ELSE -amount_minor END), 0)::bigint
                AS minor FROM ledger_entries
            WHERE account_id = ANY(:ids) AND created_at >= :starts AND balance_after_minor IS NOT NULL
        ), opening AS (SELECT booked.minor - since.minor AS minor FROM booked CROSS JOIN since)
        SELECT e.created_at AS at, e.kind, t.description,
            (opening.minor + sum(CASE e.direction WHEN 'credit' THEN e.amount_minor ELSE -e.amount_minor END)
                OVER (ORDER BY e.created_at, e.id))::bigint AS balance_minor,
            o.number AS order_number, a.kind AS account, e.direction, e.amount_minor, e.order_id, e.transaction_id,
            t.source, opening.minor AS opening_minor
        FROM opening LEFT JOIN LATERAL (
            SELECT * FROM ledger_entries
            WHERE account_id = ANY(:ids) AND created_at >= :starts AND created_at < :ends
                AND balance_after_minor IS NOT NULL
            ORDER BY created_at, id LIMIT :limit
        ) e ON true
        LEFT JOIN ledger_accounts a ON a.id = e.account_id
        LEFT JOIN ledger_transactions t ON t.id = e.transaction_id
        LEFT JOIN orders o ON o.id = e.order_id
        ORDER BY e.created_at, e.id
        """
    ),
    row=VendorStatementEntry,
)
# Failed and reversed payouts reached no account, and pending payouts may still go to another account. An account that
# was replaced and used again later is listed once.
_SELECT_PAID_ACCOUNTS = Sql(
    text(
        """
        SELECT DISTINCT ON (a.bank_code, a.account_number_index)
            a.bank_code, a.bank_name, a.account_number, a.account_name
        FROM payout_transfer_intents i JOIN payout_accounts a ON a.id = i.account_id
        WHERE i.id = ANY(:payout_ids) AND i.status = ANY(:statuses)
        ORDER BY a.bank_code, a.account_number_index, a.id DESC
        """
    ),
    row=BankAccount,
    encrypted={"account_number": ACCOUNT_NUMBER},
)
_SELECT_VENDOR = Sql(
    text(
        """
        SELECT v.id, v.display_name, p.name AS owner_name
        FROM vendor_profiles v JOIN profiles p ON p.id = v.user_id WHERE v.id = :vendor_id
        """
    ),
    row=StatementVendor,
)


def build_statement(
    session: Session, *, store: Store, period: StatementPeriod, limit: int
) -> VendorStatement:
    """Build a vendor's statement, in three queries.

    :param limit: the maximum number of entries
    :raises ValidationError: the period has more entries; a partial statement would be misleading
    """
    rows = _SELECT_ENTRIES.all(
        session,
        ids=[accounts.vendor_payable(store.id).id, accounts.vendor_receivable(store.id).id],
        starts=period.starts,
        ends=period.ends,
        limit=limit + 1,
    )
    entries = [row for row in rows if row.transaction_id is not None]
    if len(entries) > limit:
        raise ValidationError(
            (
                texts.STATEMENT_TOO_LONG_EXCEPT_CSV if limit < FILE_ROWS_LIMIT else texts.STATEMENT_TOO_LONG
            ).format(limit=limit),
            invalid_params=[InvalidParam("to", f"The period has more than {limit} entries.")],
        )
    payout_ids = [
        accounting.parse_payout_source(entry.source)
        for entry in entries
        if entry.source is not None and entry.kind == accounting.STAGED
    ]
    paid_accounts = _SELECT_PAID_ACCOUNTS.all(session, payout_ids=payout_ids, statuses=_SENT_STATUSES)
    return VendorStatement(
        vendor=_SELECT_VENDOR.one(session, vendor_id=store.id),
        paid_accounts=sorted(paid_accounts, key=lambda account: (account.bank_code, account.account_number)),
        period=period,
        opening_balance_minor=rows[0].opening_minor or 0,
        entries=entries,
    )
