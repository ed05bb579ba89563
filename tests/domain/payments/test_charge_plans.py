"""Query plans: the charges of an order are found by index, however many charges exist."""

from collections.abc import Iterator
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.sessions import driver_cursor
from marketplace.infra.sql.statements import Statement
from marketplace.ledger import accounts
from marketplace.payments import guards
from marketplace.payments.refunds import create
from tests.support.purchases import make_shop, paid_order
from tests.support.query_plans import bulk_load

# Each charge has a ledger entry, like the payment of an order.
_CHARGES = text(
    """
    WITH made AS (
        SELECT gen_random_uuid() AS intent_id, gen_random_uuid() AS transaction_id, gen_random_uuid() AS order_id, n
        FROM generate_series(1, 5000) AS n
    ), entered AS (
        INSERT INTO ledger_entries (transaction_id, kind, account_id, direction, amount_minor, order_id, created_at)
        SELECT transaction_id, 'payment', :escrow_id, 'credit', 100, order_id, now() FROM made
    )
    INSERT INTO gateway_charges (gateway_charge_id, intent_id, outcome, amount_minor, fees_minor, principal_minor,
        currency, channel, ledger_transaction_id)
    SELECT 'plan:' || n, intent_id, 'applied', 100, 0, 100, 'NGN', 'card', transaction_id FROM made
    """
)


@pytest.fixture
def order_id(session: Session) -> Iterator[UUID]:
    found = paid_order(session, make_shop(session))
    with bulk_load(session):
        session.execute(_CHARGES, {"escrow_id": accounts.ESCROW.id})
    session.execute(text("ANALYZE gateway_charges, ledger_entries"))
    yield found
    session.rollback()


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        (guards._SELECT_STATE_OF_ORDER, "id"),
        (create._LOCK_CHARGES, "order_id"),
        (create._SELECT_CHARGES_OF_ORDER, "order_id"),
    ],
    ids=["chargeback state", "lock charges", "select charges"],
)
def test_charges_of_order_are_found_without_sequential_scan(
    session: Session, order_id: UUID, statement: Statement, name: str
) -> None:
    with driver_cursor(session) as cursor:
        cursor.execute(f"EXPLAIN {statement.sql}", {name: order_id, "escrow_id": accounts.ESCROW.id})
        plan = "\n".join(row[0] for row in cursor.fetchall())

    assert "Seq Scan on gateway_charges" not in plan, plan
