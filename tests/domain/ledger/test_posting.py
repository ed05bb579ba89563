"""Posting: balanced, once per source, never below zero, and enforced by the database."""

from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from marketplace.infra.db import Database, violated_constraint
from marketplace.ledger import accounts
from marketplace.ledger.accounts import Account
from marketplace.ledger.operations import (
    AlreadyPostedError,
    InsufficientFundsError,
    NewTransaction,
    Posting,
    post_transaction,
    post_transactions,
)
from tests.support.purchases import NOW, assert_ledger_is_consistent, row_of

RESTRICT_VIOLATION, CHECK_VIOLATION = "23001", "23514"


def post(session: Session, *postings: Posting, source: str | None = None, kind: str = "test") -> UUID:
    return post_transaction(
        session,
        kind=kind,
        source=source or uuid4().hex,
        description="Of a test",
        postings=postings,
        now=NOW,
    )


def fund(session: Session, account: Account, minor: int) -> UUID:
    return post(
        session,
        Posting(accounts.GATEWAY_CLEARING, "debit", minor),
        Posting(account, "credit", minor),
    )


def execute_refused(session: Session, sql: str, **parameters: object) -> DBAPIError:
    """Run a statement that the database must refuse, with immediate constraints, and return the error."""
    session.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))
    with pytest.raises(DBAPIError) as error, session.begin_nested():
        session.execute(text(sql), parameters)
    return error.value


def sqlstate_of(error: DBAPIError) -> str | None:
    state: str | None = getattr(error.orig, "pgcode", None)
    return state


def test_balanced_transaction_updates_owner_balances(session: Session) -> None:
    wallet, order_id = accounts.wallet(uuid4()), uuid4()

    transaction_id = post(
        session,
        Posting(accounts.GATEWAY_CLEARING, "debit", 700),
        Posting(wallet, "credit", 700),
        Posting(wallet, "debit", 600, order_id),
        Posting(accounts.ESCROW, "credit", 600, order_id),
    )

    entries = session.execute(
        text(
            "SELECT account_id, direction, amount_minor, balance_after_minor, order_id FROM ledger_entries"
            " WHERE transaction_id = :id ORDER BY id"
        ),
        {"id": transaction_id},
    ).all()
    assert [tuple(entry) for entry in entries] == [
        (accounts.GATEWAY_CLEARING.id, "debit", 700, None, None),
        (wallet.id, "credit", 700, 700, None),
        (wallet.id, "debit", 600, 100, order_id),
        (accounts.ESCROW.id, "credit", 600, None, order_id),
    ]
    assert row_of(session, "ledger_accounts", id=wallet.id)["balance_minor"] == 100


@pytest.mark.parametrize(
    "postings",
    [
        (),
        (Posting(accounts.ESCROW, "debit", 5),),
        (Posting(accounts.ESCROW, "debit", 5), Posting(accounts.QUARANTINE, "credit", 4)),
        (Posting(accounts.ESCROW, "debit", 0), Posting(accounts.QUARANTINE, "credit", 0)),
        (Posting(accounts.ESCROW, "debit", -5), Posting(accounts.QUARANTINE, "credit", -5)),
    ],
    ids=["none", "one side", "unequal", "zero", "negative"],
)
def test_unbalanced_or_non_positive_postings_raise_value_error(
    session: Session, postings: tuple[Posting, ...]
) -> None:
    with pytest.raises(ValueError, match=r"balance|at least 1 kobo"):
        post(session, *postings)


def test_owner_balance_cannot_go_below_zero(session: Session) -> None:
    wallet = accounts.wallet(uuid4())
    fund(session, wallet, 100)

    with pytest.raises(InsufficientFundsError, match="wallet"):
        post(session, Posting(wallet, "debit", 101), Posting(accounts.ESCROW, "credit", 101))

    assert row_of(session, "ledger_accounts", id=wallet.id)["balance_minor"] == 100


def test_owner_balance_cannot_go_below_zero_within_a_transaction(session: Session) -> None:
    wallet = accounts.wallet(uuid4())

    with pytest.raises(InsufficientFundsError):
        post(
            session,
            Posting(wallet, "debit", 100),
            Posting(accounts.ESCROW, "credit", 100),
            Posting(accounts.GATEWAY_CLEARING, "debit", 100),
            Posting(wallet, "credit", 100),
        )


def test_source_is_posted_once_per_kind(session: Session) -> None:
    wallet, source = accounts.wallet(uuid4()), uuid4().hex
    sides = (Posting(accounts.GATEWAY_CLEARING, "debit", 10), Posting(wallet, "credit", 10))
    post(session, *sides, source=source)

    with pytest.raises(AlreadyPostedError):
        post(session, *sides, source=source)
    post(session, *sides, source=source, kind="another")

    assert row_of(session, "ledger_accounts", id=wallet.id)["balance_minor"] == 20
    assert_ledger_is_consistent(session)


def make_transfer(source: str, from_: Account, to: Account, minor: int) -> NewTransaction:
    """Build a transfer between two accounts with a credit balance."""
    return NewTransaction(
        "test", source, "Of a test", [Posting(from_, "debit", minor), Posting(to, "credit", minor)]
    )


def test_several_transactions_are_posted_in_order(session: Session) -> None:
    first, second = accounts.wallet(uuid4()), accounts.wallet(uuid4())
    fund(session, first, 1_000)
    sources = [uuid4().hex for _ in range(3)]

    post_transactions(
        session,
        transactions=[
            make_transfer(sources[0], first, second, 700),
            make_transfer(sources[1], second, first, 200),
            make_transfer(sources[2], first, accounts.PAYOUTS_IN_TRANSIT, 500),
        ],
        now=NOW,
    )

    after = {
        (row["source"], row["direction"]): (row["account_id"], row["balance_after_minor"])
        for row in session.execute(
            text(
                "SELECT t.source, e.direction, e.account_id, e.balance_after_minor FROM ledger_transactions t"
                " JOIN ledger_entries e ON e.transaction_id = t.id WHERE t.source = ANY(:sources)"
            ),
            {"sources": sources},
        ).mappings()
    }
    assert after == {
        (sources[0], "debit"): (first.id, 300),
        (sources[0], "credit"): (second.id, 700),
        (sources[1], "debit"): (second.id, 500),
        (sources[1], "credit"): (first.id, 500),
        (sources[2], "debit"): (first.id, 0),
        (sources[2], "credit"): (accounts.PAYOUTS_IN_TRANSIT.id, None),
    }
    assert row_of(session, "ledger_accounts", id=first.id)["balance_minor"] == 0
    assert row_of(session, "ledger_accounts", id=second.id)["balance_minor"] == 500


def test_unbalanced_transaction_in_bulk_raises_value_error(session: Session) -> None:
    wallet = accounts.wallet(uuid4())
    unbalanced = NewTransaction("test", uuid4().hex, "Of a test", [Posting(wallet, "credit", 5)])

    with pytest.raises(ValueError, match="do not balance"):
        post_transactions(
            session,
            transactions=[make_transfer(uuid4().hex, accounts.ESCROW, wallet, 5), unbalanced],
            now=NOW,
        )


def test_bulk_posting_cannot_take_owner_below_zero(session: Session) -> None:
    first, second = accounts.wallet(uuid4()), accounts.wallet(uuid4())
    fund(session, first, 100)

    with pytest.raises(InsufficientFundsError):
        post_transactions(
            session,
            transactions=[
                make_transfer(uuid4().hex, first, second, 100),
                make_transfer(uuid4().hex, first, second, 1),
            ],
            now=NOW,
        )

    assert row_of(session, "ledger_accounts", id=first.id)["balance_minor"] == 100


def test_bulk_posting_with_known_source_moves_no_balance(session: Session) -> None:
    first, second = accounts.wallet(uuid4()), accounts.wallet(uuid4())
    fund(session, first, 100)
    known, new = uuid4().hex, uuid4().hex
    post_transactions(session, transactions=[make_transfer(known, first, second, 10)], now=NOW)

    with pytest.raises(AlreadyPostedError):
        post_transactions(
            session,
            transactions=[make_transfer(known, first, second, 10), make_transfer(new, first, second, 20)],
            now=NOW,
        )

    assert row_of(session, "ledger_accounts", id=first.id)["balance_minor"] == 90
    assert row_of(session, "ledger_accounts", id=second.id)["balance_minor"] == 10
    # Until the caller rolls back, the new transaction has no entries.
    session.execute(text("SET CONSTRAINTS ALL DEFERRED"))
    session.rollback()


def test_empty_bulk_posting_posts_nothing(session: Session) -> None:
    before = session.execute(text("SELECT count(*) FROM ledger_transactions")).scalar_one()

    post_transactions(session, transactions=[], now=NOW)

    assert session.execute(text("SELECT count(*) FROM ledger_transactions")).scalar_one() == before


def test_database_rejects_negative_balance(session: Session) -> None:
    wallet = accounts.wallet(uuid4())
    fund(session, wallet, 100)

    error = execute_refused(
        session, "UPDATE ledger_accounts SET balance_minor = -1 WHERE id = :id", id=wallet.id
    )

    assert violated_constraint(error) == "ck_ledger_accounts_balance_not_negative"


def test_database_rejects_unbalanced_transaction(session: Session) -> None:
    error = execute_refused(
        session,
        """
        WITH posted AS (
            INSERT INTO ledger_transactions (kind, source, description) VALUES ('test', 'x', 'x') RETURNING id
        )
        INSERT INTO ledger_entries (transaction_id, kind, account_id, direction, amount_minor)
        SELECT posted.id, 'test', side.account, side.direction, side.minor FROM posted, (VALUES
            (CAST(:one AS uuid), 'debit', 5), (CAST(:two AS uuid), 'credit', 4)) AS side (account, direction, minor)
        """,
        one=accounts.ESCROW.id,
        two=accounts.QUARANTINE.id,
    )

    assert sqlstate_of(error) == CHECK_VIOLATION
    assert "does not balance" in str(error)


def test_database_rejects_transaction_without_entries(session: Session) -> None:
    error = execute_refused(
        session, "INSERT INTO ledger_transactions (kind, source, description) VALUES ('test', 'empty', 'x')"
    )

    assert sqlstate_of(error) == CHECK_VIOLATION
    assert "has no entries" in str(error)


@pytest.mark.parametrize("minor", [0, -5])
def test_database_rejects_entry_without_positive_amount(session: Session, minor: int) -> None:
    transaction_id = fund(session, accounts.wallet(uuid4()), 10)

    error = execute_refused(
        session,
        "INSERT INTO ledger_entries (transaction_id, kind, account_id, direction, amount_minor)"
        " VALUES (:id, 'test', :account, 'debit', :minor)",
        id=transaction_id,
        account=accounts.ESCROW.id,
        minor=minor,
    )

    assert violated_constraint(error) == "ck_ledger_entries_amount_positive"


@pytest.mark.parametrize(
    "table",
    ["ledger_entries", "ledger_transactions", "order_events", "processed_webhook_events", "audit_logs"],
)
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE {0} SET id = DEFAULT",
        "UPDATE {0} SET id = DEFAULT WHERE false",
        "DELETE FROM {0}",
        "TRUNCATE {0} CASCADE",
    ],
)
def test_database_rejects_changes_to_append_only_tables(session: Session, table: str, change: str) -> None:
    fund(session, accounts.wallet(uuid4()), 10)

    error = execute_refused(session, change.format(table))

    assert sqlstate_of(error) == RESTRICT_VIOLATION
    assert "append-only" in str(error)


def test_database_rejects_later_entries_of_posted_transaction(committed_database: Database) -> None:
    with committed_database.transaction() as session:
        transaction_id = fund(session, accounts.wallet(uuid4()), 10)

    with committed_database.transaction() as session:
        error = execute_refused(
            session,
            """
            INSERT INTO ledger_entries (transaction_id, kind, account_id, direction, amount_minor)
            VALUES (:id, 'test', :one, 'debit', 5), (:id, 'test', :two, 'credit', 5)
            """,
            id=transaction_id,
            one=accounts.ESCROW.id,
            two=accounts.QUARANTINE.id,
        )

    assert sqlstate_of(error) == RESTRICT_VIOLATION
    assert "takes no further entries" in str(error)


def test_account_has_stable_id_and_name() -> None:
    owner = UUID(int=7)

    assert accounts.wallet(owner).name == f"wallet:{owner}"
    assert accounts.ESCROW.name == "escrow"
    assert accounts.wallet(owner).id == accounts.wallet(owner).id
    assert len({accounts.wallet(owner).id, accounts.vendor_payable(owner).id, accounts.ESCROW.id}) == 3


def test_system_accounts_in_database_match_the_code(session: Session) -> None:
    rows = session.execute(
        text("SELECT id, kind, normal_side FROM ledger_accounts WHERE owner_id IS NULL")
    ).all()

    assert {(row.id, row.kind, row.normal_side) for row in rows} == {
        (Account(kind).id, kind, side)
        for kind, side in accounts.NORMAL_SIDES.items()
        if kind not in accounts.OWNED_KINDS
    }
