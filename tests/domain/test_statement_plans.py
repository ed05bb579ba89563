"""The plans of statements: the first page of a long one, whatever filters it, reads no more than the page."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import driver_cursor
from marketplace.ledger import accounts, queries
from marketplace.ledger.operations import Posting, post
from tests.support.purchases import NOW

ROWS = 20_000
LIMIT = 20
RARE = 4_000  # one entry in so many

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


class Long:
    """Somebody with a long statement in two accounts, and a short one in a third."""

    def __init__(self, session: Session) -> None:
        self.session, self.owner, self.store = session, uuid4(), uuid4()
        for account in (accounts.wallet(self.owner), accounts.vendor_payable(self.store)):
            prefix = f"plan:{uuid4().hex}:"
            post(
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
            session.execute(_TRANSACTIONS, {"rare": RARE, "prefix": f"{prefix}n", "now": NOW, "rows": ROWS})
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
def long(services: Any) -> Iterator[Long]:
    with services.database.engine.connect() as connection, Session(connection) as session:
        yield Long(session)
        session.rollback()


def read(session: Session, statement: Any, values: dict[str, Any]) -> tuple[int, int, str]:
    """Run a statement; give the entries that its scans read, the rows that it gave, and its plan."""
    with driver_cursor(session) as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement.sql}", statement._constants | values)
        (found,) = cursor.fetchone()
    plan = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]

    def scans(node: dict[str, Any]) -> Iterator[int]:
        if node.get("Relation Name") == "ledger_entries":
            removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
            yield round((node["Actual Rows"] + removed) * node["Actual Loops"])
        for inner in node.get("Plans", ()):
            yield from scans(inner)

    return sum(scans(plan)), round(plan["Actual Rows"]), json.dumps(plan, indent=1)


FILTERS: dict[str, dict[str, Any]] = {
    "none": {},
    "rare kind": {"kind": "prize"},
    "common kind": {"kind": "gift"},
    "rare direction": {"direction": "debit"},
    "common direction": {"direction": "credit"},
    "early period": {"ends": NOW + timedelta(seconds=500)},
    "late period": {"starts": NOW + timedelta(seconds=ROWS - 500)},
    "period in the middle": {
        "starts": NOW + timedelta(seconds=9_000),
        "ends": NOW + timedelta(seconds=9_500),
    },
    "no such order": {"order_id": UUID(int=1)},
}


@pytest.mark.parametrize("of_store", [False, True], ids=["one account", "two accounts"])
@pytest.mark.parametrize("filtered", FILTERS)
def test_the_first_page_reads_no_more_than_itself(long: Long, filtered: str, *, of_store: bool) -> None:
    wanted = FILTERS[filtered]
    owners = [long.owner, long.store] if of_store else [long.owner]
    statement = queries._BY_TIME if wanted.keys() & {"starts", "ends"} else queries._BY_ID
    nothing = dict.fromkeys(("after", "at", "kind", "direction", "order_id", "starts", "ends"))

    entries, rows, plan = read(
        long.session, statement, nothing | wanted | {"owners": owners, "most": LIMIT + 1}
    )

    assert entries <= (LIMIT + 1) * len(owners), plan
    assert (rows > 0) == (filtered != "no such order")
    if "rare" not in filtered and rows:
        assert rows == LIMIT + 1


def test_a_page_deep_inside_reads_no_more_than_itself(long: Long) -> None:
    middle = long.session.execute(
        text(
            "SELECT id, created_at FROM ledger_entries WHERE account_id = :id ORDER BY id OFFSET 9000 LIMIT 1"
        ),
        {"id": accounts.wallet(long.owner).id},
    ).one()
    nothing = dict.fromkeys(("kind", "direction", "order_id", "starts", "ends"))
    for statement, wanted in (
        (queries._BY_ID, {}),
        (queries._BY_ID, {"kind": "gift"}),
        (queries._BY_TIME, {"starts": NOW}),
    ):
        values = nothing | wanted | {"owners": [long.owner], "most": LIMIT + 1}
        entries, rows, plan = read(
            long.session, statement, values | {"after": middle.id, "at": middle.created_at}
        )
        # A sort of entries of one time looks a few ahead.
        assert entries <= 2 * (LIMIT + 1), plan
        assert rows == LIMIT + 1
