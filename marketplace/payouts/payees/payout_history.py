"""Lists of payouts: a payee's own payouts, or all payouts for finance."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.sql.statements import Statement
from marketplace.kernel.errors import found
from marketplace.kernel.money import CURRENCY
from marketplace.kernel.paging import TablePage, TableRequest
from marketplace.payouts import states, texts
from marketplace.payouts.models import ACCOUNT_NUMBER
from marketplace.payouts.payees.bank_accounts import BankAccount

SOURCES = ("store", "wallet")
# Ids are ordered by creation time.
SORTS = {"created_at": "i.id", "amount_minor": "i.amount_minor"}
_FINAL_STATUSES = (states.SUCCESS, states.FAILED, states.REVERSED, states.CANCELLED)


@dataclass(frozen=True)
class PayoutPayee:
    """The payee of a payout."""

    id: UUID
    name: str | None


@dataclass(frozen=True)
class PayoutVendor:
    """The store of a payout's payee."""

    id: UUID
    display_name: str | None


@dataclass(frozen=True)
class PayoutView(BankAccount):
    """A payout with payee, transfer and bank account."""

    id: UUID
    status: str
    amount_minor: int
    asked_for: bool
    source: str
    reason: str | None
    batch_id: UUID | None
    reference: str | None
    sent_at: datetime | None
    created_at: datetime
    updated_at: datetime
    payee_id: UUID
    payee_name: str | None
    vendor_id: UUID | None
    vendor_name: str | None
    currency = CURRENCY

    @property
    def payee(self) -> PayoutPayee:
        """The payout's payee."""
        return PayoutPayee(self.payee_id, self.payee_name)

    @property
    def vendor(self) -> PayoutVendor | None:
        """The payee's store; none for a payout from a wallet."""
        return PayoutVendor(self.vendor_id, self.vendor_name) if self.vendor_id else None

    @property
    def settled_at(self) -> datetime | None:
        """The time of the final status, if reached."""
        return self.updated_at if self.status in _FINAL_STATUSES else None

    @property
    def bank_account(self) -> BankAccount:
        """The payout's bank account: columns of this row, for the nested view."""
        return self


_COLUMNS = """
    SELECT a.bank_code, a.bank_name, a.account_number, a.account_name, i.id, i.status, i.amount_minor, i.asked_for,
        CASE WHEN i.vendor_id IS NULL THEN 'wallet' ELSE 'store' END AS source, i.failure_reason AS reason,
        i.batch_id, t.reference, t.sent_at, i.created_at, i.updated_at,
        i.user_id AS payee_id, p.name AS payee_name, i.vendor_id, v.display_name AS vendor_name
"""
_JOINS = """
    JOIN profiles p ON p.id = i.user_id
    JOIN payout_accounts a ON a.id = i.account_id
    LEFT JOIN vendor_profiles v ON v.id = i.vendor_id
    LEFT JOIN payout_transfers t ON t.intent_id = i.id
"""


# The driver inlines parameter values, so the planner sees the filters in use.
_FROM_MATCHING_PAYOUTS = """
    FROM payout_transfer_intents i
    WHERE (CAST(:user_id AS uuid) IS NULL OR i.user_id = :user_id)
        AND (CAST(:vendor_id AS uuid) IS NULL OR i.vendor_id = :vendor_id)
        AND (CAST(:batch_id AS uuid) IS NULL OR i.batch_id = :batch_id)
        AND (CAST(:status AS text) IS NULL OR i.status = :status)
        AND (CAST(:source AS text) IS NULL OR (i.vendor_id IS NULL) = (:source = 'wallet'))
        AND (CAST(:starts AS timestamptz) IS NULL OR i.created_at >= :starts)
        AND (CAST(:ends AS timestamptz) IS NULL OR i.created_at < :ends)
"""


def _build_page_statement(column: str, direction: str) -> Statement[PayoutView]:
    order_by = f"{column} {direction}, i.id {direction}" if column != "i.id" else f"i.id {direction}"
    return Statement(
        text(
            f"{_COLUMNS} FROM (SELECT i.* {_FROM_MATCHING_PAYOUTS} ORDER BY {order_by} LIMIT :limit OFFSET :offset) i"
            f" {_JOINS} ORDER BY {order_by}"
        ),
        row=PayoutView,
        encrypted={"account_number": ACCOUNT_NUMBER},
    )


_SELECT_PAYOUT_PAGES = {
    (sort, descending): _build_page_statement(order, "DESC" if descending else "ASC")
    for sort, order in SORTS.items()
    for descending in (True, False)
}


_COUNT_PAYOUTS = Statement(text(f"SELECT count(*) {_FROM_MATCHING_PAYOUTS}"))


def list_payouts(
    session: Session,
    *,
    page: TableRequest,
    user_id: UUID | None,
    vendor_id: UUID | None = None,
    batch_id: UUID | None = None,
    status: str | None,
    source: str | None,
    starts: datetime | None,
    ends: datetime | None,
) -> TablePage:
    """List payouts in two queries. Filters that are none are not applied.

    :param page: sorted by a key of ``SORTS``
    :param source: one of ``SOURCES``
    :param ends: exclusive
    """
    filters = {
        "user_id": user_id,
        "vendor_id": vendor_id,
        "batch_id": batch_id,
        "status": status,
        "source": source,
        "starts": starts,
        "ends": ends,
    }
    rows = _SELECT_PAYOUT_PAGES[page.sort, page.descending].all(
        session, **filters, limit=page.limit, offset=page.offset
    )
    return TablePage(rows, page, _COUNT_PAYOUTS.scalar(session, **filters))


_SELECT_PAYOUT = Statement(
    text(f"{_COLUMNS} FROM payout_transfer_intents i {_JOINS} WHERE i.id = :payout_id"),
    row=PayoutView,
    encrypted={"account_number": ACCOUNT_NUMBER},
)


def show_payout(session: Session, *, payout_id: UUID) -> PayoutView:
    """Show a payout with the columns of the list.

    :raises NotFoundError: the payout does not exist
    """
    return found(_SELECT_PAYOUT.first(session, payout_id=payout_id), texts.PAYOUT_NOT_FOUND)
