"""Payouts as a table: a payee's own, and all of them for finance."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Row, Statement
from marketplace.kernel.errors import NotFoundError
from marketplace.kernel.money import CURRENCY
from marketplace.kernel.paging import TablePage, TableRequest
from marketplace.payouts import states
from marketplace.payouts.payees.bank_accounts import mask_account_number

PayoutSource = Literal["store", "wallet"]
SOURCES = ("store", "wallet")
# Ids are made in the order of time.
_SORTS = {"createdAt": "i.id", "amountMinor": "i.amount_minor"}
SORTS = tuple(_SORTS)
_FINAL_STATUSES = (states.SUCCESS, states.FAILED, states.REVERSED, states.CANCELLED)

_COLUMNS = """
    SELECT i.id, i.status, i.amount_minor AS "amountMinor", i.asked_for AS "askedFor",
        CASE WHEN i.vendor_id IS NULL THEN 'wallet' ELSE 'store' END AS source,
        i.failure_reason AS reason, i.batch_id AS "batchId", t.reference, t.sent_at AS "sentAt",
        i.created_at AS "createdAt", i.updated_at AS "updatedAt", i.user_id, p.name AS payee_name,
        i.vendor_id, v.display_name, a.bank_name, a.bank_code, a.account_number, a.account_name
"""
_JOINS = """
    JOIN profiles p ON p.id = i.user_id
    JOIN payout_accounts a ON a.id = i.account_id
    LEFT JOIN vendor_profiles v ON v.id = i.vendor_id
    LEFT JOIN payout_transfers t ON t.intent_id = i.id
"""
# Values are the driver's to write into the text, so that the planner knows which filters there are.
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
_SELECT_PAYOUT = Statement(
    text(f"{_COLUMNS} FROM payout_transfer_intents i {_JOINS} WHERE i.id = :payout_id")
)
_COUNT_PAYOUTS = Statement(text(f"SELECT count(*) AS total {_FROM_MATCHING_PAYOUTS}"))


def _build_page_statement(column: str, direction: str) -> Statement[Row]:
    order_by = f"{column} {direction}, i.id {direction}" if column != "i.id" else f"i.id {direction}"
    return Statement(
        text(
            f"{_COLUMNS} FROM (SELECT i.* {_FROM_MATCHING_PAYOUTS} ORDER BY {order_by} LIMIT :limit OFFSET :offset) i"
            f" {_JOINS} ORDER BY {order_by}"
        )
    )


_SELECT_PAYOUT_PAGES = {
    (sort, descending): _build_page_statement(order, "DESC" if descending else "ASC")
    for sort, order in _SORTS.items()
    for descending in (True, False)
}


@dataclass(frozen=True, kw_only=True)
class PayoutFilters:
    """Which payouts are wanted; none means that a filter is not applied. ``ends`` is exclusive.

    :param user_id: whose alone
    :param source: out of what they are paid
    """

    user_id: UUID | None = None
    vendor_id: UUID | None = None
    batch_id: UUID | None = None
    status: str | None = None
    source: PayoutSource | None = None
    starts: datetime | None = None
    ends: datetime | None = None


def list_payouts(session: Session, *, filters: PayoutFilters, page: TableRequest) -> TablePage:
    """List payouts, in two queries.

    :param filters: which
    :param page: which page, sorted by one of ``SORTS``
    """
    filter_values = asdict(filters)
    rows = _SELECT_PAYOUT_PAGES[page.sort, page.descending].all(
        session, **filter_values, limit=page.limit, offset=page.offset
    )
    return TablePage(
        [_serialize_payout(row) for row in rows], page, _COUNT_PAYOUTS.one(session, **filter_values)["total"]
    )


def show_payout(session: Session, *, payout_id: UUID) -> dict[str, Any]:
    """Give one payout as it is listed.

    :raises NotFoundError: there is none of that id
    """
    row = _SELECT_PAYOUT.first(session, payout_id=payout_id)
    if row is None:
        raise NotFoundError("There is no such payout.")
    return _serialize_payout(row)


def _serialize_payout(row: dict[str, Any]) -> dict[str, Any]:
    """Give a payout as its payee and finance are shown it, of the account's number the last digits alone."""
    row["currency"] = CURRENCY
    row["settledAt"] = row["updatedAt"] if row["status"] in _FINAL_STATUSES else None
    row["payee"] = {"id": row.pop("user_id"), "name": row.pop("payee_name")}
    vendor_id, name = row.pop("vendor_id"), row.pop("display_name")
    row["vendor"] = None if vendor_id is None else {"id": vendor_id, "displayName": name}
    row["bankAccount"] = {
        "bankCode": row.pop("bank_code"),
        "bankName": row.pop("bank_name"),
        "accountNumber": mask_account_number(row.pop("account_number")),
        "accountName": row.pop("account_name"),
    }
    return row
