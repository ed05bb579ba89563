"""What vendors owe us, of orders that were refunded after their release, and what of it was collected."""

from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.infra.tables import build_sorted_statements
from marketplace.kernel.paging import TablePage, TableRequest

SORTS = {"owedMinor": "owed_minor", "lastClaimedAt": "last_claimed_at"}

# Who owes something is few among all vendors: what each was claimed is summed for all of those.
_FROM_INDEBTED_VENDORS = """
    FROM ledger_accounts a JOIN vendor_profiles v ON v.id = a.owner_id
    WHERE a.kind = 'vendor_receivable' AND a.balance_minor > 0
        AND (CAST(:vendor_id AS uuid) IS NULL OR a.owner_id = :vendor_id)
"""
_SELECT_VENDOR_DEBTS = f"""
    SELECT v.id, v.display_name, a.balance_minor AS owed_minor, coalesce(p.balance_minor, 0) AS payable_minor,
        sums.*
    FROM (SELECT a.id, a.owner_id, a.balance_minor {_FROM_INDEBTED_VENDORS}) a
        JOIN vendor_profiles v ON v.id = a.owner_id
        LEFT JOIN ledger_accounts p ON p.kind = 'vendor_payable' AND p.owner_id = a.owner_id
        CROSS JOIN LATERAL (
            SELECT coalesce(sum(e.amount_minor) FILTER (WHERE e.direction = 'debit'), 0)::bigint AS claimed_minor,
                coalesce(sum(e.amount_minor) FILTER (WHERE e.direction = 'credit'), 0)::bigint AS collected_minor,
                max(e.created_at) FILTER (WHERE e.direction = 'debit') AS last_claimed_at
            FROM ledger_entries e WHERE e.account_id = a.id
        ) sums
"""
_SELECT_API_COLUMNS = """
    SELECT id AS "vendorId", display_name AS "vendorName", owed_minor AS "owedMinor",
        payable_minor AS "payableMinor", claimed_minor AS "claimedMinor",
        collected_minor AS "collectedMinor", last_claimed_at AS "lastClaimedAt"
"""
_SELECT_VENDOR_DEBT_PAGES = build_sorted_statements(
    _SELECT_API_COLUMNS, f"FROM ({_SELECT_VENDOR_DEBTS}) owing", SORTS, tie_breaker="id"
)
_SUM_VENDOR_DEBTS = Statement(
    text(
        f"SELECT count(*) AS total, coalesce(sum(a.balance_minor), 0)::bigint AS owed_minor {_FROM_INDEBTED_VENDORS}"
    )
)


def list_vendor_debts(session: Session, *, vendor_id: UUID | None, page: TableRequest) -> TablePage:
    """List the vendors who owe us something, in two queries; all that is owed stands beside them.

    :param vendor_id: of one alone; none for all
    :param page: which page, sorted by one of ``SORTS``
    """
    rows = _SELECT_VENDOR_DEBT_PAGES[page.sort, page.descending].all(
        session, vendor_id=vendor_id, most=page.limit, offset=page.offset
    )
    totals = _SUM_VENDOR_DEBTS.one(session, vendor_id=vendor_id)
    return TablePage(rows, page, totals["total"], extra_meta={"owedMinor": totals["owed_minor"]})
