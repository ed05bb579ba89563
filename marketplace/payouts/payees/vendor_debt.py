"""Vendors' debts to us from orders that were refunded after their release, and the collected part."""

from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.infra.tables import SortedTable
from marketplace.kernel.paging import TablePage, TableRequest

SORTS = {"owedMinor": "a.balance_minor", "lastClaimedAt": "sums.last_claimed_at"}


@dataclass(frozen=True)
class VendorDebt:
    """A vendor's debt in kobo, and our debt to the vendor."""

    vendor_id: UUID
    vendor_name: str
    owed_minor: int
    payable_minor: int
    claimed_minor: int
    collected_minor: int
    last_claimed_at: datetime


_FROM_VENDOR_DEBTS = "FROM ledger_accounts a JOIN vendor_profiles v ON v.id = a.owner_id"
_WHERE_INDEBTED = """
    WHERE a.kind = 'vendor_receivable' AND a.balance_minor > 0
        AND (CAST(:vendor_id AS uuid) IS NULL OR a.owner_id = :vendor_id)
"""
# Few vendors owe something, so all of their entries are summed.
_VENDOR_DEBTS = SortedTable(
    """
    SELECT v.id AS vendor_id, v.display_name AS vendor_name, a.balance_minor AS owed_minor,
        coalesce(p.balance_minor, 0) AS payable_minor, sums.*
    """,
    f"""
    {_FROM_VENDOR_DEBTS}
        LEFT JOIN ledger_accounts p ON p.kind = 'vendor_payable' AND p.owner_id = a.owner_id
        CROSS JOIN LATERAL (
            SELECT coalesce(sum(e.amount_minor) FILTER (WHERE e.direction = 'debit'), 0)::bigint AS claimed_minor,
                coalesce(sum(e.amount_minor) FILTER (WHERE e.direction = 'credit'), 0)::bigint AS collected_minor,
                max(e.created_at) FILTER (WHERE e.direction = 'debit') AS last_claimed_at
            FROM ledger_entries e WHERE e.account_id = a.id
        ) sums
    {_WHERE_INDEBTED}
    """,
    SORTS,
    row=VendorDebt,
    tie_breaker="v.id",
    count_from=f"{_FROM_VENDOR_DEBTS} {_WHERE_INDEBTED}",
)
_SUM_VENDOR_DEBTS = Statement(
    text(f"SELECT coalesce(sum(a.balance_minor), 0)::bigint {_FROM_VENDOR_DEBTS} {_WHERE_INDEBTED}")
)


def list_vendor_debts(session: Session, *, vendor_id: UUID | None, page: TableRequest) -> TablePage:
    """List the vendors with debts, in three queries; the page's meta gives the sum of the debts.

    :param vendor_id: the only vendor to list
    :param page: sorted by one of ``SORTS``
    """
    found = _VENDOR_DEBTS.fetch_page(session, page, vendor_id=vendor_id)
    return replace(found, extra_meta={"owed_minor": _SUM_VENDOR_DEBTS.scalar(session, vendor_id=vendor_id)})
