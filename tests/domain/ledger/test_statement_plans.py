"""Query plans of statements: any page of a long statement reads only the rows of that page."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Database
from marketplace.ledger import accounts, queries
from marketplace.ledger.operations import Posting, post_transaction
from marketplace.payouts.payees import statements
from tests.support.purchases import NOW
from tests.support.query_plans import bulk_load, run_and_explain
from tests.support.resource_usage import peak_memory

ROWS = 20_000
LIMIT = 20
RARE = 4_000  # entries per entry of the rare kind

_TRANSACTIONS = text(
    """
    INSERT INTO ledger_transactions (id, kind, source, description, created_at)
    SELECT uuidv7(), CASE WHEN n % :rare = 0 THEN 'prize' ELSE 'gift' END,
        :prefix || lpad(n::text, 9, '0'), 'Of a test',
        CAST(:now AS timestamptz) + n * interval '1 second'
    FROM generate_series(1, :rows) AS n
    """
)
_ENTRIES = text(
    """
    INSERT INTO ledger_entries
        (transaction_id, kind, account_id, direction, amount_minor, balance_after_minor, created_at)
    SELECT t.id, t.kind, side.account_id, CASE WHEN (t.kind = 'prize') = side.ours THEN 'debit' ELSE 'credit' END, 1,
        CASE WHEN side.ours THEN 1 END, t.created_at
    FROM ledger_transactions t CROSS JOIN (
        VALUES (CAST(:account AS uuid), true), (CAST(:clearing AS uuid), false)) AS side (account_id, ours)
    WHERE t.source LIKE :prefix || '%'
    ORDER BY t.source
    """
)


class LongStatement:
    """A user and a store with a long statement in two accounts."""

    def __init__(self, session: Session) -> None:
        self.session, self.owner, self.store = session, uuid4(), uuid4()
        for account in (accounts.wallet(self.owner), accounts.vendor_payable(self.store)):
            prefix = f"plan:{uuid4().hex}:"
            post_transaction(
                session,
                kind="gift",
                source=prefix + "first",
                description="Of a test",
                postings=[
                    Posting(accounts.GATEWAY_CLEARING, "debit", 1),
                    Posting(account, "credit", 1),
                ],
                now=NOW,
            )
            with bulk_load(session):
                session.execute(
                    _TRANSACTIONS, {"rare": RARE, "prefix": f"{prefix}n", "now": NOW, "rows": ROWS}
                )
                session.execute(
                    _ENTRIES,
                    {
                        "account": account.id,
                        "clearing": accounts.GATEWAY_CLEARING.id,
                        "prefix": f"{prefix}n",
                    },
                )
        session.execute(text("ANALYZE ledger_entries, ledger_transactions, ledger_accounts"))


@pytest.fixture(scope="module")
def long_statement(own_database: Database) -> Iterator[LongStatement]:
    with own_database.engine.connect() as connection, Session(connection) as session:
        yield LongStatement(session)
        session.rollback()


FILTERS: dict[str, dict[str, Any]] = {
    "none": {},
    "rare kind": {"kind": "prize"},
    "common kind": {"kind": "gift"},
    "rare direction": {"direction": "debit"},
    "common direction": {"direction": "credit"},
    "early period": {"ends": NOW + timedelta(seconds=500)},
    "late period": {"starts": NOW + timedelta(seconds=ROWS - 500)},
    "middle period": {
        "starts": NOW + timedelta(seconds=9_000),
        "ends": NOW + timedelta(seconds=9_500),
    },
    "unknown order": {"order_id": UUID(int=1)},
}


@pytest.mark.parametrize("of_store", [False, True], ids=["one account", "two accounts"])
@pytest.mark.parametrize("filtered", FILTERS)
def test_first_page_reads_only_the_rows_of_the_page(
    long_statement: LongStatement, filtered: str, *, of_store: bool
) -> None:
    wanted = FILTERS[filtered]
    owners = [long_statement.owner, long_statement.store] if of_store else [long_statement.owner]
    statement = (
        queries._SELECT_ENTRIES_BY_TIME
        if wanted.keys() & {"starts", "ends"}
        else queries._SELECT_ENTRIES_BY_ID
    )
    nothing = dict.fromkeys(("after", "at", "kind", "direction", "order_id", "starts", "ends"))

    found = run_and_explain(
        long_statement.session,
        statement,
        nothing | wanted | {"owners": owners, "limit": LIMIT + 1},
        table="ledger_entries",
    )

    assert found.scanned_rows <= (LIMIT + 1) * len(owners), found.plan
    assert (found.rows > 0) == (filtered != "unknown order")
    if "rare" not in filtered and found.rows:
        assert found.rows == LIMIT + 1


@pytest.mark.parametrize("of_store", [False, True], ids=["one account", "two accounts"])
@pytest.mark.parametrize(
    "filtered", [name for name in FILTERS if "rare" not in name and "period" not in name]
)
@pytest.mark.parametrize("by_time", [False, True], ids=["by id", "by time"])
def test_deep_page_reads_no_more_than_the_first(
    long_statement: LongStatement, filtered: str, *, of_store: bool, by_time: bool
) -> None:
    last = long_statement.session.execute(
        text(
            "SELECT id, created_at FROM ledger_entries WHERE account_id = :id ORDER BY id OFFSET 9000 LIMIT 1"
        ),
        {"id": accounts.wallet(long_statement.owner).id},
    ).one()
    owners = [long_statement.owner, long_statement.store] if of_store else [long_statement.owner]
    wanted = FILTERS[filtered] | ({"starts": NOW} if by_time else {})
    nothing = dict.fromkeys(("after", "at", "kind", "direction", "order_id", "starts", "ends"))
    values = nothing | wanted | {"owners": owners, "limit": LIMIT + 1}
    statement = queries._SELECT_ENTRIES_BY_TIME if by_time else queries._SELECT_ENTRIES_BY_ID

    first, deep = (
        run_and_explain(long_statement.session, statement, values | place, table="ledger_entries")
        for place in ({}, {"after": last.id, "at": last.created_at})
    )

    assert deep.rows == first.rows
    # A read by time also meets entries of other kinds and directions, such as the latest entry.
    assert deep.scanned_rows <= (LIMIT + 1) * len(owners), deep.plan
    assert first.scanned_rows <= (LIMIT + 1 + by_time) * len(owners), first.plan
    # A deep page uses other blocks of the same indexes and may read a few more.
    assert deep.buffers <= first.buffers + 4 * len(owners), deep.plan


def test_vendor_statement_reads_only_entries_since_period_start(long_statement: LongStatement) -> None:
    ids = [
        accounts.vendor_payable(long_statement.store).id,
        accounts.vendor_receivable(long_statement.store).id,
    ]
    since = 500
    period = {
        "starts": NOW + timedelta(seconds=ROWS - since + 1),
        "ends": NOW + timedelta(seconds=ROWS - 400),
    }

    found = run_and_explain(
        long_statement.session,
        statements._SELECT_ENTRIES,
        {"ids": ids, "limit": 1_001} | period,
        table="ledger_entries",
    )

    assert found.rows == since - 400 - 1
    # Entries are read once for the opening balance and once for the rows of the statement.
    assert found.scanned_rows <= 2 * since, found.plan


def test_statement_export_uses_bounded_memory(long_statement: LongStatement) -> None:
    with peak_memory() as peak:
        rows = queries.iterate_statement_entries(
            long_statement.session,
            owners=[long_statement.owner, long_statement.store],
            entry_filter=queries.EntryFilter(),
            limit=10_000,
        )
        ids = {row.id.bytes for row in rows}

    assert len(ids) == 10_000
    # A batch of rows plus the ids fit. All rows would take more than 10 MiB.
    assert peak.mebibytes < 5


def test_posting_reads_only_its_own_entries(long_statement: LongStatement) -> None:
    session = long_statement.session
    read = text(
        "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'ledger_entries'"
    )
    wallet = accounts.wallet(uuid4())

    def entries_read_by_posting() -> int:
        before = session.scalars(read).one()
        post_transaction(
            session,
            kind="gift",
            source=uuid4().hex,
            description="Of a test",
            postings=[Posting(accounts.GATEWAY_CLEARING, "debit", 1), Posting(wallet, "credit", 1)],
            now=NOW,
        )
        session.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))
        return int(session.scalars(read).one() - before)

    # Without nested loops, a check that joins the new rows with all entries reads all entries.
    session.execute(text("SET LOCAL enable_nestloop = off; DISCARD PLANS"))
    # The first posting opens the account.
    assert max(entries_read_by_posting(), entries_read_by_posting()) <= 10
    session.execute(text("SET LOCAL enable_nestloop = on; DISCARD PLANS"))
