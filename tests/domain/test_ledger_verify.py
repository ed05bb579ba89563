"""``verify`` finds each kind of damage: it is done here behind the triggers' back, and rolled back."""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.ledger import accounts
from marketplace.ledger.queries import verify
from tests.support.purchases import (
    assert_books_are_whole,
    make_product,
    make_shop,
    paid_order,
    place,
    release,
    shipped_order,
)


@contextmanager
def unguarded(session: Session) -> Iterator[None]:
    """Lay triggers and foreign keys to rest, as somebody with too many rights could."""
    session.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))
    session.execute(text("SET LOCAL session_replication_role = replica"))
    yield
    session.execute(text("SET LOCAL session_replication_role = origin"))


def rules_broken(session: Session) -> set[str]:
    return {violation.rule for violation in verify(session)}


@pytest.fixture
def order_id(session: Session) -> UUID:
    """An order whose money is held; the books are whole."""
    order_id = paid_order(session, make_shop(session))
    assert_books_are_whole(session)
    return order_id


@pytest.mark.parametrize(
    ("damage", "rules"),
    [
        (
            """UPDATE ledger_entries SET amount_minor = amount_minor + 1
            WHERE order_id = :order AND direction = 'debit'""",
            {
                "every transaction's debits equal its credits",
                "every kept balance equals the sum of its entries",
                "no account but gateway_clearing is negative",
            },
        ),
        (
            """DELETE FROM ledger_entries WHERE transaction_id IN
            (SELECT transaction_id FROM ledger_entries WHERE order_id = :order)""",
            {
                "every transaction has entries",
                "each order's escrow in the books is what its escrow record holds",
                "every paid order has its payment in the books",
            },
        ),
        (
            """UPDATE ledger_accounts SET balance_minor = balance_minor + 5 WHERE owner_id =
            (SELECT buyer_id FROM orders WHERE id = :order)""",
            {"every kept balance equals the sum of its entries"},
        ),
        (
            "UPDATE escrows SET amount_minor = amount_minor - 1 WHERE order_id = :order",
            {"each order's escrow in the books is what its escrow record holds"},
        ),
        (
            "UPDATE escrows SET status = 'pending' WHERE order_id = :order",
            {"each order's escrow in the books is what its escrow record holds"},
        ),
        (
            "UPDATE escrows SET status = 'released', released_minor = amount_minor WHERE order_id = :order",
            {"each order's escrow in the books is what its escrow record holds"},
        ),
        (
            "UPDATE orders SET paid_at = NULL WHERE id = :order",
            {"no order is paid without a time of payment"},
        ),
    ],
    ids=[
        "an entry grew",
        "entries vanished",
        "a balance was edited",
        "an escrow shrank",
        "an escrow forgot its money",
        "an escrow was released without books",
        "a paid order without its time",
    ],
)
def test_damage_is_found(session: Session, order_id: UUID, damage: str, rules: set[str]) -> None:
    with unguarded(session):
        session.execute(text(damage), {"order": order_id})

    assert rules_broken(session) == rules


def test_an_order_paid_by_hand_is_found(session: Session) -> None:
    shop = make_shop(session)
    order_id = place(session, shop, make_product(session, shop))

    session.execute(
        text("UPDATE orders SET status = 'paid_escrow', paid_at = now() WHERE id = :id"), {"id": order_id}
    )
    assert rules_broken(session) == {"every paid order has its payment in the books"}

    session.execute(text("UPDATE escrows SET status = 'held' WHERE order_id = :id"), {"id": order_id})
    assert rules_broken(session) == {
        "every paid order has its payment in the books",
        "each order's escrow in the books is what its escrow record holds",
    }


def test_a_negative_account_is_found(session: Session) -> None:
    with unguarded(session):
        session.execute(
            text(
                """
                WITH posted AS (
                    INSERT INTO ledger_transactions (kind, source, description) VALUES ('test', :source, 'x')
                    RETURNING id
                )
                INSERT INTO ledger_entries (transaction_id, account_id, direction, amount_minor)
                SELECT posted.id, side.account, side.direction, 5 FROM posted, (VALUES
                    (CAST(:one AS uuid), 'debit'), (CAST(:two AS uuid), 'credit')) AS side (account, direction)
                """
            ),
            {"source": uuid4().hex, "one": accounts.Account("rewards").id, "two": accounts.QUARANTINE.id},
        )

    assert rules_broken(session) == {"no account but gateway_clearing is negative"}


def test_a_violation_names_its_rows(session: Session, order_id: UUID) -> None:
    with unguarded(session):
        session.execute(
            text("UPDATE escrows SET amount_minor = amount_minor - 1 WHERE order_id = :id"), {"id": order_id}
        )

    [violation] = verify(session)
    [row] = violation.rows
    number = session.execute(text("SELECT number FROM orders WHERE id = :id"), {"id": order_id}).scalar_one()
    assert row["number"] == number
    assert row["booked_minor"] == row["expected_minor"] + 1


def test_a_released_order_leaves_the_books_whole(session: Session) -> None:
    shop = make_shop(session)
    release(session, shop, shipped_order(session, shop))

    assert_books_are_whole(session)
