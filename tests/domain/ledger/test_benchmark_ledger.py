"""Benchmark ledger: the loaded rows satisfy the invariants, like postings of the application."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from bench import ledger
from marketplace.infra.db import Database
from marketplace.kernel.paging import PageRequest
from marketplace.ledger.accounts import vendor_payable
from marketplace.ledger.queries import (
    INVARIANTS,
    EntryFilter,
    fetch_balance,
    fetch_statement_page,
    find_violations,
)
from tests.support.servers import Addresses, create_database, drop_database

ENTRIES = 5_003


@pytest.fixture
def database(addresses: Addresses) -> Iterator[Database]:
    name = f"long_{uuid4().hex[:8]}"
    url = create_database(addresses, name)
    ledger.load(url, entries=ENTRIES, others=2)
    made = Database(url, pool_size=1, application_name="tests")
    yield made
    made.close()
    drop_database(addresses, name)


def test_loaded_ledger_satisfies_invariants_and_running_balance(database: Database) -> None:
    with database.reading() as session:
        assert find_violations(session, INVARIANTS) == []
        page = fetch_statement_page(
            session, owners=[ledger.OWNER_ID], entry_filter=EntryFilter(), page=PageRequest(ENTRIES + 1)
        )
        balance = fetch_balance(session, account=vendor_payable(ledger.OWNER_ID))

    entries = page.items[::-1]
    assert len(entries) == ENTRIES
    assert entries == sorted(entries, key=lambda entry: entry.created_at)
    running = 0
    for entry in entries:
        running += entry.amount_minor if entry.direction == "credit" else -entry.amount_minor
        assert entry.balance_after_minor == running >= 0
    assert running == balance
    assert [entry.kind for entry in entries if entry.direction == "debit"] == ["payout"]
