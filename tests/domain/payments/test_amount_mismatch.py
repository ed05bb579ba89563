"""Refunds sent with a different amount: finance credits the refund, and the ledger records the sent amount."""

from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.identity.queries import Caller
from marketplace.kernel.money import format_naira
from marketplace.ledger.queries import fetch_balances_by_kind
from marketplace.payments import states
from marketplace.payments.refunds import gateway_refund
from marketplace.payments.refunds.recovery import RefundStillInFlightError
from marketplace.providers.gateway.payloads import GatewayRefund
from tests.support.alerts import open_about
from tests.support.finance import (
    audit_entries_of,
    buyer_debt_of,
    charge_of,
    dispute_charge,
    recover_refund,
    refund,
    refunds_of,
)
from tests.support.purchases import (
    NOW,
    Shop,
    assert_ledger_is_consistent,
    fill_wallet,
    paid_order,
    row_of,
    wallet_of,
)

REQUESTED = 1_000


@pytest.fixture
def order_id(session: Session, shop: Shop) -> UUID:
    return paid_order(session, shop)


@pytest.fixture
def refund_id(session: Session, officer: Caller, order_id: UUID) -> UUID:
    refund(session, order_id, officer, amount_minor=REQUESTED)
    [row] = refunds_of(session, order_id)
    found: UUID = row["id"]
    return found


def make_report(refund_id: UUID, minor: int, status: str = "processed", *, attempt: int = 1) -> GatewayRefund:
    return GatewayRefund(f"7{attempt}", status, minor, gateway_refund.refund_reference(refund_id, attempt))


def apply_report(session: Session, refund_id: UUID, report: GatewayRefund) -> str:
    return gateway_refund.apply_gateway_status(session, refund_id=refund_id, reported=report, now=NOW)


def notification_texts(session: Session, user_id: UUID) -> list[str]:
    found = session.execute(
        text("SELECT title || ': ' || body FROM notifications WHERE user_id = :id ORDER BY id"),
        {"id": user_id},
    )
    return list(found.scalars())


@pytest.mark.parametrize(
    ("sent", "before", "wallet", "owed"),
    [(400, 0, 600, 0), (1_500, 0, 0, 500), (1_500, 200, 0, 300), (1_500, 700, 200, 0)],
)
def test_difference_is_credited_to_the_wallet_or_owed(
    session: Session,
    shop: Shop,
    officer: Caller,
    refund_id: UUID,
    sent: int,
    before: int,
    wallet: int,
    owed: int,
) -> None:
    buyer_id = shop.buyer.id
    if before:
        fill_wallet(session, buyer_id, before)
    assert apply_report(session, refund_id, make_report(refund_id, sent)) == "needs_attention"
    balances = fetch_balances_by_kind(session)

    done = recover_refund(session, refund_id, officer, states.CREDIT, make_report(refund_id, sent))

    assert done.status == "credited"
    assert (wallet_of(session, buyer_id), buyer_debt_of(session, buyer_id)) == (wallet, owed)
    after = fetch_balances_by_kind(session)
    assert after["gateway_clearing"] == balances["gateway_clearing"] - sent
    assert after["refunds_in_transit"] == balances["refunds_in_transit"] - REQUESTED
    row = row_of(session, "refunds", id=refund_id)
    assert row["paid_twice_minor"] == sent
    assert row_of(session, "gateway_charges", id=row["charge_id"])["refunded_minor"] == sent
    assert open_about(session, f"refund:{refund_id}") == {}
    assert [entry[0] for entry in audit_entries_of(session, refund_id)] == ["refund.credit"]
    # The gateway keeps reporting the same refund.
    assert apply_report(session, refund_id, make_report(refund_id, sent)) == "credited"
    assert (wallet_of(session, buyer_id), buyer_debt_of(session, buyer_id)) == (wallet, owed)
    assert_ledger_is_consistent(session)


TAKEN = f"We took {format_naira(200)} of the excess from your wallet."
OWED = f"You owe us {format_naira(300)}. We will deduct the debt from future credits to your wallet."


@pytest.mark.parametrize(
    ("sent", "words"),
    [(400, f"The remaining {format_naira(600)} is in your wallet."), (1_500, f"{TAKEN} {OWED}")],
)
def test_buyer_is_notified_about_the_difference(
    session: Session, shop: Shop, officer: Caller, refund_id: UUID, sent: int, words: str
) -> None:
    fill_wallet(session, shop.buyer.id, 200)
    apply_report(session, refund_id, make_report(refund_id, sent))

    recover_refund(session, refund_id, officer, states.CREDIT, make_report(refund_id, sent))

    assert notification_texts(session, shop.buyer.id)[-1] == (
        f"Your refund was sent with a different amount: {format_naira(sent)} was sent to your original payment method"
        f" instead of {format_naira(REQUESTED)}. {words}"
    )


def test_returned_mismatched_refund_is_fully_credited(
    session: Session, shop: Shop, officer: Caller, refund_id: UUID
) -> None:
    apply_report(session, refund_id, make_report(refund_id, 400))
    recover_refund(session, refund_id, officer, states.CREDIT, make_report(refund_id, 400))

    assert apply_report(session, refund_id, make_report(refund_id, 400, "failed")) == "credited"

    assert (wallet_of(session, shop.buyer.id), buyer_debt_of(session, shop.buyer.id)) == (REQUESTED, 0)
    assert row_of(session, "refunds", id=refund_id)["paid_twice_minor"] == 0
    assert_ledger_is_consistent(session)


def test_mismatched_earlier_attempt_is_credited_with_the_difference(
    session: Session, shop: Shop, officer: Caller, refund_id: UUID
) -> None:
    apply_report(session, refund_id, make_report(refund_id, REQUESTED, "failed"))
    recover_refund(session, refund_id, officer, states.RETRY)
    second = make_report(refund_id, REQUESTED, "failed", attempt=2)
    apply_report(session, refund_id, second)

    recover_refund(session, refund_id, officer, states.CREDIT, make_report(refund_id, 400), second)

    assert (wallet_of(session, shop.buyer.id), buyer_debt_of(session, shop.buyer.id)) == (600, 0)
    assert_ledger_is_consistent(session)


@pytest.mark.parametrize("status", ["pending", "processing"])
def test_mismatched_refund_in_transit_cannot_be_credited(
    session: Session, shop: Shop, officer: Caller, refund_id: UUID, status: str
) -> None:
    apply_report(session, refund_id, make_report(refund_id, 400, status))

    with pytest.raises(RefundStillInFlightError, match=f"gateway status: {status}, amount: 400 kobo"):
        recover_refund(session, refund_id, officer, states.CREDIT, make_report(refund_id, 400, status))

    assert row_of(session, "refunds", id=refund_id)["status"] == "needs_attention"
    assert wallet_of(session, shop.buyer.id) == 0


def test_second_gateway_refund_with_same_note_blocks_credit(
    session: Session, shop: Shop, officer: Caller, refund_id: UUID
) -> None:
    """A separate alert reports the possible duplicate."""
    apply_report(session, refund_id, make_report(refund_id, REQUESTED, "needs-attention"))
    other = GatewayRefund("99", "processed", 400, gateway_refund.refund_reference(refund_id, 1))

    with pytest.raises(RefundStillInFlightError):
        recover_refund(session, refund_id, officer, states.CREDIT, other)

    assert wallet_of(session, shop.buyer.id) == 0
    assert "REFUND_ID_DIFFERS" in open_about(session, f"refund:{refund_id}")


def test_credit_after_lost_dispute_is_offset_against_buyer_debt(
    session: Session, shop: Shop, officer: Caller, order_id: UUID, refund_id: UUID
) -> None:
    apply_report(session, refund_id, make_report(refund_id, 400))
    charge_id = charge_of(session, order_id)
    dispute_charge(session, charge_id)
    dispute_charge(session, charge_id, resolution="merchant-accepted")
    assert buyer_debt_of(session, shop.buyer.id) == REQUESTED

    recover_refund(session, refund_id, officer, states.CREDIT, make_report(refund_id, 400))

    # The credit of 600 offsets the debt of 1,000. The 400 sent by the gateway remain owed.
    assert (wallet_of(session, shop.buyer.id), buyer_debt_of(session, shop.buyer.id)) == (0, 400)
    assert_ledger_is_consistent(session)
