"""Ledger verification: damage each invariant with triggers disabled, then roll back."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import count
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.alerts.operations import redact_facts
from marketplace.alerts.queries import list_open_subjects
from marketplace.kernel.redaction import redact_text
from marketplace.ledger import queries as ledger
from marketplace.orders import invariants as order_invariants
from marketplace.orders.placing.place_order import WalletUse
from marketplace.payments.charges.apply import ChargeOutcome
from marketplace.payments.integrity import drift, invariants as payment_invariants
from marketplace.platform.halts import are_payouts_halted
from marketplace.reconciliation.ledger_check import verify_ledger
from tests.support import purchases
from tests.support.alerts import alerts_about
from tests.support.finance import claw_back, lose_dispute, make_officer, refund
from tests.support.payout_halts import resume
from tests.support.purchases import (
    NOW,
    apply,
    assert_ledger_is_consistent,
    fill_wallet,
    make_charge,
    make_intent,
    make_product,
    make_shop,
    paid_order,
    place,
    release,
    row_of,
    shipped_order,
)


@contextmanager
def triggers_disabled(session: Session) -> Iterator[None]:
    """Disable triggers and foreign keys, as a database superuser could."""
    session.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))
    session.execute(text("SET LOCAL session_replication_role = replica"))
    yield
    session.execute(text("SET LOCAL session_replication_role = origin"))


def violated_rules(session: Session) -> set[str]:
    return {violation.rule for violation in verify_ledger(session)}


@pytest.fixture
def order_id(session: Session) -> UUID:
    """An order with money in escrow and a consistent ledger."""
    order_id = paid_order(session, make_shop(session))
    assert_ledger_is_consistent(session)
    return order_id


@dataclass(frozen=True)
class SampleOrders:
    """Orders of every kind with a consistent ledger, and the buyer of the orders."""

    paid: UUID
    unpaid: UUID
    refunded: UUID
    clawed_back: UUID
    disputed: UUID
    buyer: UUID


@pytest.fixture
def samples(session: Session, monkeypatch: pytest.MonkeyPatch) -> SampleOrders:
    """Create orders of every kind, with a quarantined charge and a returned charge."""
    # The gateway's ids have ten digits, like account numbers.
    monkeypatch.setattr(purchases, "_charge_ids", count(4_099_260_516))
    shop = make_shop(session)
    paid, refunded = paid_order(session, shop), paid_order(session, shop)
    refund(session, refunded, make_officer(session), amount_minor=1_000)
    fill_wallet(session, shop.buyer.id, 5_000)
    unpaid = place(session, shop, make_product(session, shop), wallet=WalletUse(5_000))
    intent = make_intent(session, shop, unpaid)
    apply(session, make_charge(intent, amount_minor=700))
    reference = row_of(session, "orders", id=paid)["payment_reference"]
    again = replace(intent, reference=reference)
    assert apply(session, make_charge(again, amount_minor=900)) is ChargeOutcome.RETURNED
    clawed_back = shipped_order(session, shop)
    release(session, shop, clawed_back)
    claw_back(session, clawed_back, make_officer(session), amount_minor=1_000)
    lose_dispute(session, clawed_back, amount_minor=2_000)
    disputed = paid_order(session, shop)
    lose_dispute(session, disputed, amount_minor=3_000)
    assert_ledger_is_consistent(session)
    return SampleOrders(paid, unpaid, refunded, clawed_back, disputed, shop.buyer.id)


OF_PAID = "SELECT transaction_id FROM ledger_entries WHERE order_id = :paid"
DAMAGE = {
    "total debits equal total credits": "DELETE FROM ledger_entries WHERE order_id = :paid AND direction = 'debit'",
    "every transaction's debits equal its credits": """UPDATE ledger_entries SET amount_minor = amount_minor + 1
        WHERE order_id = :paid AND direction = 'debit'""",
    "every transaction has entries": "DELETE FROM ledger_entries WHERE transaction_id IN (OF_PAID)",
    "every stored balance equals the sum of its entries": """UPDATE ledger_accounts
        SET balance_minor = balance_minor + 5 WHERE owner_id = :buyer""",
    "only gateway_clearing, own_funds and wallet_adjustments may be negative": """UPDATE ledger_entries
        SET amount_minor = amount_minor + 10000 WHERE order_id = :paid AND direction = 'debit'""",
    "the ledger's escrow balance of each order equals its escrow record": """UPDATE escrows
        SET refunded_minor = refunded_minor + 1 WHERE order_id = :refunded""",
    "all money in escrow belongs to an order": "DELETE FROM escrows WHERE order_id = :paid",
    "each escrow's state is allowed by the state of its order": """UPDATE escrows SET status = 'frozen'
        WHERE order_id = :paid""",
    "each escrow's amounts match its state": """UPDATE escrows SET amount_minor = amount_minor - 1
        WHERE order_id = :paid""",
    "the payments of each paid order add up to its total": """UPDATE orders
        SET total_minor = total_minor + 1, subtotal_minor = subtotal_minor + 1 WHERE id = :paid""",
    "the wallet payment of each order is in the ledger": """UPDATE orders SET wallet_minor = wallet_minor - 1
        WHERE id = :unpaid""",
    "every paid order has a time of payment": "UPDATE orders SET paid_at = NULL WHERE id = :paid",
    "every paid order is covered by its charges and the wallet": """UPDATE gateway_charges
        SET outcome = 'returned' WHERE ledger_transaction_id IN (OF_PAID)""",
    "every succeeded payment has an applied charge": """DELETE FROM gateway_charges
        WHERE ledger_transaction_id IN (OF_PAID)""",
    "every charge is posted with its full principal": """UPDATE gateway_charges
        SET principal_minor = principal_minor + 1 WHERE ledger_transaction_id IN (OF_PAID)""",
    "every posted payment has a charge": """DELETE FROM gateway_charges
        WHERE ledger_transaction_id IN (OF_PAID)""",
    "every returned charge has refunds of its principal": "DELETE FROM refunds WHERE cause LIKE 'charge:%'",
    "every quarantined charge has a quarantine record": "DELETE FROM quarantined_charges WHERE amount_minor = 700",
    "the quarantine account holds the amount of each unresolved charge": """UPDATE quarantined_charges
        SET status = 'resolved', resolved_at = now() WHERE amount_minor = 700""",
    "the quarantine account equals the sum of unresolved charges": """DELETE FROM quarantined_charges
        WHERE amount_minor = 700""",
    "every refund is posted with its amount": """UPDATE refunds SET amount_minor = amount_minor + 1
        WHERE order_id = :refunded""",
    "refunds_in_transit holds the amount of each unsent refund": """UPDATE refunds SET status = 'processed'
        WHERE order_id = :refunded""",
    "refunds_in_transit equals the sum of unsent refunds": "DELETE FROM refunds WHERE order_id = :refunded",
    "each charge's refunded amount equals the sum of its refunds": """UPDATE gateway_charges
        SET refunded_minor = refunded_minor - 1 WHERE amount_minor = 900""",
    "every duplicate refund payment is posted with its amount": """UPDATE refunds SET paid_twice_minor = 1
        WHERE order_id = :refunded""",
    "each order's refunds equal its escrow's refunded amount and do not exceed the payment": """UPDATE refunds
        SET amount_minor = amount_minor + 1 WHERE order_id = :refunded""",
    "each escrow's clawed-back amount equals its posted clawbacks": """UPDATE escrows
        SET clawed_back_minor = clawed_back_minor - 1 WHERE order_id = :clawed_back""",
    "vendor and platform bear each clawback refund in full": """DELETE FROM refunds
        WHERE order_id = :clawed_back""",
    "no vendor bears more of an order than was released to the vendor": """UPDATE ledger_entries SET kind = 'other'
        WHERE order_id = :clawed_back AND kind = 'release'""",
    "lost_disputes holds amounts of disputed orders only, up to the escrow balance": """UPDATE orders
        SET status = 'shipped' WHERE id = :disputed""",
    "every posted chargeback belongs to a lost dispute": """UPDATE charge_disputes SET resolution = 'declined'
        WHERE amount_minor = 2000""",
    "the accepted part of quarantined charges is in the ledger for each order": """UPDATE orders
        SET accepted_minor = accepted_minor + 1 WHERE id = :unpaid""",
    "accepted amounts of unpaid closed orders are refunded exactly once": """UPDATE orders
        SET status = 'expired', accepted_minor = 1 WHERE id = :unpaid""",
}


def damage(session: Session, samples: SampleOrders, statement: str) -> None:
    with triggers_disabled(session):
        changed = session.execute(text(statement.replace("OF_PAID", OF_PAID)), asdict(samples))
    assert changed.rowcount > 0, "nothing was damaged"  # type: ignore[attr-defined]


@pytest.mark.parametrize("rule", DAMAGE)
def test_damage_is_reported_under_the_violated_invariant(
    session: Session, samples: SampleOrders, rule: str
) -> None:
    damage(session, samples, DAMAGE[rule])

    rows = {violation.rule: violation.rows for violation in verify_ledger(session)}
    assert rule in rows
    # An alert must not hide which rows are damaged.
    assert redact_facts({"first": rows[rule]}) == {"first": rows[rule]}
    if "charge" in rows[rule][0] or "quarantine" in rows[rule][0]:
        assert str(rows[rule][0]["reference"]).startswith("checkout-")


def test_every_invariant_has_a_damage_case() -> None:
    names = [*ledger.INVARIANTS, *order_invariants.INVARIANTS, *payment_invariants.INVARIANTS]

    assert set(names) == set(DAMAGE)
    assert len(names) == len(DAMAGE)


def test_damaged_order_is_the_only_order_reported(session: Session, samples: SampleOrders) -> None:
    damage(session, samples, "UPDATE orders SET wallet_minor = wallet_minor - 1 WHERE id = :unpaid")

    number = row_of(session, "orders", id=samples.unpaid)["number"]
    for violation in verify_ledger(session):
        assert {row["number"] for row in violation.rows} == {number}


def test_order_set_to_paid_without_payment_is_reported(session: Session) -> None:
    shop = make_shop(session)
    order_id = place(session, shop, make_product(session, shop))

    session.execute(
        text("UPDATE orders SET status = 'paid_escrow', paid_at = now() WHERE id = :id"), {"id": order_id}
    )

    assert violated_rules(session) == {
        "the payments of each paid order add up to its total",
        "every paid order is covered by its charges and the wallet",
        "each escrow's state is allowed by the state of its order",
    }


def test_each_violated_invariant_has_an_alert_until_restored(session: Session, samples: SampleOrders) -> None:
    def open_rules() -> set[str]:
        return list_open_subjects(session, identifier="ESCROW_DRIFT")

    drift.update_invariant_alerts(session, verify_ledger(session), now=NOW)
    assert open_rules() == set()
    damage(
        session, samples, "UPDATE escrows SET refunded_minor = refunded_minor + 1 WHERE order_id = :refunded"
    )
    found = verify_ledger(session)
    drift.update_invariant_alerts(session, found, now=NOW)
    drift.update_invariant_alerts(session, found[:1], now=NOW)

    assert len(found) > 1
    assert open_rules() == {found[0].rule}
    [alert] = alerts_about(session, found[0].rule)
    assert (alert["severity"], alert["occurrences"], alert["title"]) == (
        "SEV-1",
        2,
        "A ledger invariant does not hold",
    )
    number = row_of(session, "orders", id=samples.refunded)["number"]
    assert alert["facts"]["rows"] == len(found[0].rows)
    assert alert["facts"]["first"][0]["number"] == number
    drift.update_invariant_alerts(session, [], now=NOW)
    assert open_rules() == set()


def test_drift_halts_payouts_and_a_repair_does_not_resume_payouts(
    session: Session, samples: SampleOrders
) -> None:
    drift.update_invariant_alerts(session, verify_ledger(session), now=NOW)
    assert not are_payouts_halted(session)
    damage(
        session, samples, "UPDATE escrows SET refunded_minor = refunded_minor + 1 WHERE order_id = :refunded"
    )
    drift.update_invariant_alerts(session, verify_ledger(session), now=NOW)
    assert are_payouts_halted(session)
    drift.update_invariant_alerts(session, [], now=NOW)
    assert are_payouts_halted(session)


def test_payouts_resumed_during_a_drift_are_halted_only_by_another_drift(
    session: Session, samples: SampleOrders
) -> None:
    broken = "UPDATE escrows SET refunded_minor = refunded_minor + 1 WHERE order_id = :refunded"
    damage(session, samples, broken)
    drift.update_invariant_alerts(session, verify_ledger(session), now=NOW)
    resume(session)

    drift.update_invariant_alerts(session, verify_ledger(session), now=NOW)
    assert not are_payouts_halted(session)

    damage(session, samples, broken)
    drift.update_invariant_alerts(session, verify_ledger(session), now=NOW)
    assert are_payouts_halted(session)


def test_recurring_drift_halts_payouts_again(session: Session, samples: SampleOrders) -> None:
    damage(
        session, samples, "UPDATE escrows SET refunded_minor = refunded_minor + 1 WHERE order_id = :refunded"
    )
    found = verify_ledger(session)
    drift.update_invariant_alerts(session, found, now=NOW)
    resume(session)
    drift.update_invariant_alerts(session, [], now=NOW)
    drift.update_invariant_alerts(session, found, now=NOW)
    assert are_payouts_halted(session)


def test_redaction_leaves_invariant_names_unchanged() -> None:
    for rule in (*ledger.INVARIANTS, *order_invariants.INVARIANTS, *payment_invariants.INVARIANTS):
        assert redact_text(rule) == rule


def test_violation_lists_the_affected_rows(session: Session, order_id: UUID) -> None:
    with triggers_disabled(session):
        session.execute(
            text("UPDATE escrows SET amount_minor = amount_minor - 1 WHERE order_id = :id"), {"id": order_id}
        )

    found = {violation.rule: violation.rows for violation in verify_ledger(session)}
    [row] = found["the ledger's escrow balance of each order equals its escrow record"]
    number = session.execute(text("SELECT number FROM orders WHERE id = :id"), {"id": order_id}).scalar_one()
    assert row["number"] == number
    assert row["booked_minor"] == row["expected_minor"] + 1


def test_release_leaves_the_ledger_consistent(session: Session) -> None:
    shop = make_shop(session)
    release(session, shop, shipped_order(session, shop))

    assert_ledger_is_consistent(session)
