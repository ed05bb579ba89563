"""A vendor's statement: what was earned, paid out and owed in a period, from one balance to the next, by the books."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement as Sql
from marketplace.kernel.errors import InvalidParam, ValidationError
from marketplace.kernel.money import CURRENCY
from marketplace.ledger import accounts
from marketplace.payouts import states
from marketplace.payouts.accounting import reservations
from marketplace.payouts.payees.bank_accounts import mask_account_number
from marketplace.vendors.queries import Store

LONGEST_PERIOD = timedelta(days=366)
# Of a file, and of what is laid out in pages.
FILE_ROWS_LIMIT = 10_000
PAGED_ROWS_LIMIT = 1_000

# What a vendor owes us is taken off what we owe them: of both accounts a credit adds to the balance and a debit takes
# from it. All comes out of one statement, so of one moment of the books. The balance at the beginning is what there is
# now, less all that has been booked since: whatever the order in which transactions of one moment were booked. Entries
# of accounts with owners, which these are, have their balance after them: the index is of those alone.
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
        )
        SELECT booked.minor - since.minor AS opening_minor, e.id, e.created_at, e.kind, e.direction, e.amount_minor,
            e.transaction_id, e.order_id, e.account_id, t.description, t.source, o.number AS order_number
        FROM booked CROSS JOIN since LEFT JOIN LATERAL (
            SELECT * FROM ledger_entries
            WHERE account_id = ANY(:ids) AND created_at >= :starts AND created_at < :ends
                AND balance_after_minor IS NOT NULL
            ORDER BY created_at, id LIMIT :limit
        ) e ON true
        LEFT JOIN ledger_transactions t ON t.id = e.transaction_id
        LEFT JOIN orders o ON o.id = e.order_id
        ORDER BY e.created_at, e.id
        """
    )
)
# Of payouts that are on their way or have arrived: what failed or came back went nowhere, what waits may yet go
# elsewhere. An account that was left and taken up again is one.
_SELECT_PAID_ACCOUNTS = Sql(
    text(
        """
        SELECT DISTINCT ON (a.bank_code, a.account_number)
            a.bank_code, a.bank_name, a.account_number, a.account_name
        FROM payout_transfer_intents i JOIN payout_accounts a ON a.id = i.account_id
        WHERE i.id = ANY(:intent_ids) AND i.status = ANY(:statuses)
        ORDER BY a.bank_code, a.account_number, a.id DESC
        """
    )
)
_SENT_STATUSES = [states.SUBMITTED, states.UNKNOWN, states.SUCCESS]
_SELECT_VENDOR_NAMES = Sql(
    text(
        """
        SELECT v.display_name, p.name AS owner_name FROM vendor_profiles v JOIN profiles p ON p.id = v.user_id
        WHERE v.id = :vendor_id
        """
    )
)


@dataclass(frozen=True)
class StatementPeriod:
    """From a moment on, until before another one."""

    starts: datetime
    ends: datetime


@dataclass(frozen=True)
class PaidAccount:
    """A bank account that payouts went to; of its number the last digits alone."""

    bank: str
    account_number: str
    account_name: str


@dataclass(frozen=True)
class VendorStatement:
    """A vendor's statement. Amounts are in kobo; a balance below zero is owed to us.

    ``paid_accounts`` are the bank accounts that the payouts of the period went to, whichever is the vendor's today.
    """

    vendor_id: UUID
    display_name: str
    owner_name: str | None
    paid_accounts: list[PaidAccount]
    period: StatementPeriod
    opening_minor: int
    credited_minor: int
    debited_minor: int
    entries: list[dict[str, Any]]

    @property
    def closing_minor(self) -> int:
        """Give the balance at the end of the period."""
        return self.opening_minor + self.credited_minor - self.debited_minor

    def to_json(self) -> dict[str, Any]:
        """Give the statement as JSON has it."""
        return {
            "vendor": {"id": self.vendor_id, "displayName": self.display_name},
            "from": self.period.starts,
            "to": self.period.ends,
            "currency": CURRENCY,
            "openingBalanceMinor": self.opening_minor,
            "creditedMinor": self.credited_minor,
            "debitedMinor": self.debited_minor,
            "closingBalanceMinor": self.closing_minor,
            "entries": self.entries,
        }

    def rows(self) -> Iterator[dict[str, Any]]:
        """Give the statement as a table has it, between its first and its last balance."""
        yield self._balance_row(
            "opening_balance", "Balance at the beginning", self.period.starts, self.opening_minor
        )
        yield from self.entries
        yield self._balance_row("closing_balance", "Balance at the end", self.period.ends, self.closing_minor)

    def _balance_row(self, kind: str, description: str, at: datetime, balance_minor: int) -> dict[str, Any]:
        empty = dict.fromkeys(COLUMNS)
        return empty | {"at": at, "kind": kind, "description": description, "balanceMinor": balance_minor}


COLUMNS = (
    *("at", "kind", "description", "orderNumber", "account", "direction", "amountMinor", "balanceMinor"),
    *("orderId", "transactionId"),
)


def resolve_period(starts: datetime | None, ends: datetime | None, *, now: datetime) -> StatementPeriod:
    """Give the period that a statement is asked for: by default the month that its end is in.

    :param starts: the first moment, or none
    :param ends: the moment before which it ends, or none for now
    :param now: the time of the request; no period ends later
    :raises ValidationError: it ends before it begins, or is longer than a year
    """
    last = now if ends is None else min(ends, now)
    first = starts
    if first is None:
        # A month that is asked for by its end alone is the one before that.
        last_moment = (last - timedelta(microseconds=1)).astimezone(UTC)
        first = last_moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    if first >= last:
        raise ValidationError.of("from", "Is not before the end of the period.")
    if last - first > LONGEST_PERIOD:
        raise ValidationError.of(
            "from", f"Is more than {LONGEST_PERIOD.days} days before the end of the period."
        )
    return StatementPeriod(first, last)


def build_statement(
    session: Session, *, store: Store, period: StatementPeriod, limit: int
) -> VendorStatement:
    """Draw up a vendor's statement, in three queries.

    :param store: the vendor's
    :param period: see ``resolve_period``
    :param limit: so many entries at most
    :raises ValidationError: there are more in the period: a part of them would be no statement
    """
    payable, debt = accounts.vendor_payable(store.id), accounts.vendor_receivable(store.id)
    account_kinds = {payable.id: payable.kind, debt.id: debt.kind}
    rows = _SELECT_ENTRIES.all(
        session, ids=list(account_kinds), starts=period.starts, ends=period.ends, limit=limit + 1
    )
    opening = rows[0]["opening_minor"]
    rows = [row for row in rows if row["id"] is not None]
    if len(rows) > limit:
        raise ValidationError(
            f"There are more than {limit} movements in this period: choose a shorter one"
            f"{', or CSV' if limit < FILE_ROWS_LIMIT else ''}.",
            invalid_params=[InvalidParam("to", f"More than {limit} movements.")],
        )
    entries = _add_running_balance(rows, opening, account_kinds)
    sums = {"credit": 0, "debit": 0}
    for entry in entries:
        sums[entry["direction"]] += entry["amountMinor"]
    vendor = _SELECT_VENDOR_NAMES.one(session, vendor_id=store.id)
    return VendorStatement(
        vendor_id=store.id,
        display_name=vendor["display_name"],
        owner_name=vendor["owner_name"],
        paid_accounts=_list_paid_accounts(session, rows),
        period=period,
        opening_minor=opening,
        credited_minor=sums["credit"],
        debited_minor=sums["debit"],
        entries=entries,
    )


def _list_paid_accounts(session: Session, rows: list[dict[str, Any]]) -> list[PaidAccount]:
    """Give the bank accounts that payouts among entries went to."""
    payout_ids = [
        reservations.parse_payout_source(row["source"]) for row in rows if row["kind"] == reservations.STAGED
    ]
    paid_accounts = _SELECT_PAID_ACCOUNTS.all(session, intent_ids=payout_ids, statuses=_SENT_STATUSES)
    return [
        PaidAccount(
            row["bank_name"] or row["bank_code"],
            mask_account_number(row["account_number"]),
            row["account_name"],
        )
        for row in paid_accounts
    ]


def _add_running_balance(
    rows: list[dict[str, Any]], opening_minor: int, account_kinds: dict[UUID, str]
) -> list[dict[str, Any]]:
    """Give the entries with the balance after each."""
    balance = opening_minor
    entries = []
    for row in rows:
        balance += row["amount_minor"] if row["direction"] == "credit" else -row["amount_minor"]
        entries.append(
            {
                "at": row["created_at"],
                "kind": row["kind"],
                "description": row["description"],
                "orderNumber": row["order_number"],
                "account": account_kinds[row["account_id"]],
                "direction": row["direction"],
                "amountMinor": row["amount_minor"],
                "balanceMinor": balance,
                "orderId": row["order_id"],
                "transactionId": row["transaction_id"],
            }
        )
    return entries
