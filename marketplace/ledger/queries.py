"""Statements and balances of the ledger, and checks of ledger invariants."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from marketplace.infra.sql.statements import Row, Statement
from marketplace.kernel.clock import iso
from marketplace.kernel.paging import Page, PageRequest, page_of
from marketplace.ledger.accounts import Account
from marketplace.ledger.models import LedgerAccount, LedgerTransaction

EXPORT_BATCH_SIZE = 500


@dataclass(frozen=True)
class EntryFilter:
    """Filters of a statement's entries; ``ends`` is exclusive."""

    starts: datetime | None = None
    ends: datetime | None = None
    kind: str | None = None
    direction: str | None = None
    order_id: UUID | None = None


@dataclass(frozen=True)
class Violation:
    """A broken ledger invariant, with rows that break the invariant."""

    rule: str
    rows: list[Row]


@dataclass(frozen=True)
class StatementEntry:
    """An entry of an account's statement; amounts are kobo."""

    id: UUID
    transaction_id: UUID
    account: str
    kind: str
    direction: str
    amount_minor: int
    balance_after_minor: int | None
    order_id: UUID | None
    description: str
    created_at: datetime


# The lateral join reads each account from an index in order. Sorting all accounts together would read all entries.
# Filters may be NULL. The driver writes values into the SQL text, so the planner knows which filters apply.
# A period uses the index by time, so any period of a long statement is found without a scan.
_SELECT_ENTRIES_BY_ID, _SELECT_ENTRIES_BY_TIME = (
    Statement(
        text(
            f"""
            SELECT e.id, e.transaction_id,
                CASE WHEN a.owner_id IS NULL THEN a.kind ELSE a.kind || ':' || a.owner_id END AS account,
                t.kind, e.direction, e.amount_minor, e.balance_after_minor, e.order_id, t.description, e.created_at
            FROM ledger_accounts a
            CROSS JOIN LATERAL (
                SELECT e.* FROM ledger_entries e
                WHERE e.account_id = a.id AND e.balance_after_minor IS NOT NULL {after}
                    AND (CAST(:kind AS text) IS NULL OR e.kind = :kind)
                    AND (CAST(:direction AS text) IS NULL OR e.direction = :direction)
                    AND (CAST(:order_id AS uuid) IS NULL OR e.order_id = :order_id)
                    AND (CAST(:starts AS timestamptz) IS NULL OR e.created_at >= :starts)
                    AND (CAST(:ends AS timestamptz) IS NULL OR e.created_at < :ends)
                ORDER BY {order} LIMIT :limit
            ) e
            JOIN ledger_transactions t ON t.id = e.transaction_id
            WHERE a.owner_id = ANY(:owners)
            ORDER BY {order} LIMIT :limit
            """
        ),
        row=StatementEntry,
    )
    for after, order in (
        ("AND (CAST(:after AS uuid) IS NULL OR e.id < :after)", "e.id DESC"),
        (
            "AND (CAST(:after AS uuid) IS NULL OR (e.created_at, e.id) < (CAST(:at AS timestamptz), :after))",
            "e.created_at DESC, e.id DESC",
        ),
    )
)


def fetch_statement_page(
    session: Session, *, owners: list[UUID], entry_filter: EntryFilter, page: PageRequest
) -> Page:
    """List the entries of a user's accounts, newest first.

    :param owners: the user's id, and the id of the user's store if any
    """
    by_time = entry_filter.starts is not None or entry_filter.ends is not None
    after, at = page.after("id", "time")
    rows = (_SELECT_ENTRIES_BY_TIME if by_time else _SELECT_ENTRIES_BY_ID).all(
        session,
        owners=owners,
        after=after,
        at=at,
        kind=entry_filter.kind,
        direction=entry_filter.direction,
        order_id=entry_filter.order_id,
        starts=entry_filter.starts,
        ends=entry_filter.ends,
        limit=page.limit + 1,
    )
    return page_of(rows, request=page, position_of=lambda row: [str(row.id), iso(row.created_at)])


def iterate_statement_entries(
    session: Session, *, owners: list[UUID], entry_filter: EntryFilter, limit: int
) -> Iterator[StatementEntry]:
    """Iterate over a statement's entries, read in batches so that a long export needs little memory.

    Entries posted meanwhile cause neither gaps nor duplicates, since the ledger is append-only.

    :param limit: maximum number of entries, newest first
    """
    position: list[Any] | None = None
    for start in range(0, limit, EXPORT_BATCH_SIZE):
        page = fetch_statement_page(
            session,
            owners=owners,
            entry_filter=entry_filter,
            page=PageRequest(min(EXPORT_BATCH_SIZE, limit - start), position),
        )
        yield from page.items
        position = page.next_position
        if position is None:
            return


def fetch_balance(session: Session, *, account: Account) -> int:
    """Fetch the balance of an account with an owner, in kobo; 0 if the account was never opened."""
    return session.scalar(select(LedgerAccount.balance_minor).where(LedgerAccount.id == account.id)) or 0


def fetch_balances(session: Session, *accounts: Account) -> list[int]:
    """Fetch the balances of accounts with owners at one moment, in kobo; 0 for accounts that were never opened."""
    rows = session.execute(
        select(LedgerAccount.id, LedgerAccount.balance_minor).where(
            LedgerAccount.id.in_([account.id for account in accounts])
        )
    )
    balances = dict(rows.all())
    return [balances.get(account.id) or 0 for account in accounts]


def is_posted(session: Session, *, kind: str, source: str) -> bool:
    """Return whether a transaction of a kind was posted for a source."""
    return session.scalar(select(LedgerTransaction.id).filter_by(kind=kind, source=source)) is not None


_SELECT_BALANCES_BY_KIND = Statement(
    text(
        """
        SELECT a.kind, coalesce(sum(CASE WHEN e.direction = a.normal_side THEN e.amount_minor
            ELSE -e.amount_minor END), 0)::bigint AS balance_minor
        FROM ledger_accounts a LEFT JOIN ledger_entries e ON e.account_id = a.id
        GROUP BY a.kind ORDER BY a.kind
        """
    )
)


def fetch_balances_by_kind(session: Session) -> dict[str, int]:
    """Sum the balances by kind of account, in kobo on the normal side of each kind."""
    return dict(_SELECT_BALANCES_BY_KIND.tuples(session))


def build_invariants(queries_by_rule: Mapping[str, str]) -> dict[str, Statement[Row]]:
    """Build ledger invariants from SQL.

    :param queries_by_rule: for each rule, a query of at most 100 rows that break the rule
    """
    return {rule: Statement(text(sql)) for rule, sql in queries_by_rule.items()}


def find_violations(session: Session, invariants: Mapping[str, Statement[Row]]) -> list[Violation]:
    """Check invariants, and return a violation for each broken invariant.

    Each invariant is a single statement, so the check sees a consistent state of the ledger.

    :param invariants: a result of ``build_invariants``
    """
    rows_by_rule = [(rule, check.all(session)) for rule, check in invariants.items()]
    return [Violation(rule, rows) for rule, rows in rows_by_rule if rows]


# The gateway keeps the fee of a refunded charge, so gateway_clearing may be slightly negative. Debits of wallets may
# exceed credits.
INVARIANTS = build_invariants(
    {
        "total debits equal total credits": """
            SELECT sum(CASE direction WHEN 'debit' THEN amount_minor ELSE -amount_minor END)::bigint AS off_by_minor
            FROM ledger_entries
            HAVING sum(CASE direction WHEN 'debit' THEN amount_minor ELSE -amount_minor END) <> 0
            """,
        "every transaction's debits equal its credits": """
            SELECT transaction_id::text AS transaction,
                sum(CASE direction WHEN 'debit' THEN amount_minor ELSE -amount_minor END)::bigint AS off_by_minor
            FROM ledger_entries GROUP BY transaction_id
            HAVING sum(CASE direction WHEN 'debit' THEN amount_minor ELSE -amount_minor END) <> 0 LIMIT 100
            """,
        "every transaction has entries": """
            SELECT id::text AS transaction FROM ledger_transactions t
            WHERE NOT EXISTS (SELECT FROM ledger_entries e WHERE e.transaction_id = t.id) LIMIT 100
            """,
        "every stored balance equals the sum of its entries": """
            SELECT a.kind, a.owner_id::text AS owner, a.balance_minor,
                coalesce(sum(CASE WHEN e.direction = a.normal_side THEN e.amount_minor ELSE -e.amount_minor END),
                    0)::bigint AS entries_minor
            FROM ledger_accounts a LEFT JOIN ledger_entries e ON e.account_id = a.id
            WHERE a.owner_id IS NOT NULL GROUP BY a.id
            HAVING a.balance_minor <> coalesce(
                sum(CASE WHEN e.direction = a.normal_side THEN e.amount_minor ELSE -e.amount_minor END), 0)
            LIMIT 100
            """,
        "only gateway_clearing, own_funds and wallet_adjustments may be negative": """
            SELECT a.kind, a.owner_id::text AS owner,
                sum(CASE WHEN e.direction = a.normal_side THEN e.amount_minor ELSE -e.amount_minor END)::bigint
                    AS balance_minor
            FROM ledger_accounts a JOIN ledger_entries e ON e.account_id = a.id
            WHERE a.kind NOT IN ('gateway_clearing', 'own_funds', 'wallet_adjustments')
            GROUP BY a.id
            HAVING sum(CASE WHEN e.direction = a.normal_side THEN e.amount_minor ELSE -e.amount_minor END) < 0
            LIMIT 100
            """,
    }
)
