"""Finance for tests: officers, refunds in any state, and queries."""

from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act
from marketplace.audit.person_keys import unseal_values
from marketplace.identity.queries import Caller
from marketplace.ledger import accounts
from marketplace.ledger.queries import fetch_balance
from marketplace.orders import operations as orders
from marketplace.payments import states
from marketplace.payments.chargebacks.intake import record_chargeback
from marketplace.payments.models import Refund
from marketplace.payments.refunds import admin_refund, gateway_refund, order_cancellation, recovery
from marketplace.payments.refunds.admin_refund import ProcessedRefund, RefundRequest, process_refund
from marketplace.providers.gateway.payloads import GatewayDispute, GatewayRefund
from tests.support.gateway_events import dispute_data
from tests.support.purchases import (
    COMMISSION_BPS,
    DELIVERY_FEE_MINOR,
    NOW,
    PRICE_MINOR,
    SERVICE_FEE_MINOR,
    Shop,
    make_person,
    paid_order,
    release,
)

REASON = "The lamp came broken."
# The total of an order of one unit, and the shares of vendor and platform after release.
TOTAL = PRICE_MINOR + DELIVERY_FEE_MINOR + SERVICE_FEE_MINOR
VENDOR_SHARE = PRICE_MINOR - PRICE_MINOR * COMMISSION_BPS // 10_000 + DELIVERY_FEE_MINOR
PLATFORM_SHARE = TOTAL - VENDOR_SHARE
# A gateway payment arrives without an order. The refund and the wallet payment belong to the order.
VENDOR_BALANCES_AFTER_CLAWBACK = {"vendor_payable": VENDOR_SHARE, "vendor_receivable": VENDOR_SHARE}
BALANCES_AFTER_MONEY_RETURNED = {"gateway_clearing": -TOTAL, "wallet": -TOTAL}


def make_officer(session: Session) -> Caller:
    """Create a finance officer."""
    return make_person(session, role="staff", staff_role="finance")


def act_of(officer: Caller, *, now: datetime = NOW) -> Act:
    """Build an act of a finance officer."""
    return Act("finance", now, user_id=officer.id, ip_address="127.0.0.1")


def refund(session: Session, order_id: UUID, officer: Caller, **wanted: Any) -> ProcessedRefund:
    """Refund an order as an officer."""
    given = {"destination": "gateway", "reason": REASON} | wanted
    return process_refund(
        session,
        order_id=order_id,
        act=act_of(officer, now=NOW),
        refund_request=RefundRequest(**given),
    )


def cancelled_order(session: Session, shop: Shop) -> UUID:
    """Create an order that was paid by the gateway and cancelled, with a refund ready to send."""
    order_id = paid_order(session, shop)
    order_cancellation.cancel_order(session, order_id=order_id, caller=shop.buyer, reason=None, now=NOW)
    return order_id


def delivered_order(session: Session, shop: Shop) -> UUID:
    """Create an order with released escrow."""
    order_id = paid_order(session, shop)
    deliver(session, shop, order_id)
    return order_id


def deliver(session: Session, shop: Shop, order_id: UUID) -> None:
    """Accept and ship a paid order, and release the escrow."""
    orders.accept_order(session, order_id=order_id, caller=shop.vendor, now=NOW)
    orders.ship_order(session, order_id=order_id, caller=shop.vendor, tracking_note=None, now=NOW)
    release(session, shop, order_id)


def recover_refund(
    session: Session,
    refund_id: UUID,
    officer: Caller,
    trigger: str,
    *known: GatewayRefund,
    now: datetime = NOW,
) -> Refund:
    """Retry or credit a refund as an officer, given the gateway's list of refunds."""
    stuck = recovery.find_failed_refund(session, refund_id=refund_id, trigger=trigger, officer_id=officer.id)
    work = recovery.retry_failed_refund if trigger == states.RETRY else recovery.credit_failed_refund
    return work(session, failed_refund=stuck, attempts=known, act=act_of(officer, now=now))


def buyer_debt_of(session: Session, buyer_id: UUID) -> int:
    """Return the buyer's debt."""
    return fetch_balance(session, account=accounts.buyer_receivable(buyer_id))


def charge_of(session: Session, order_id: UUID) -> str:
    """Return the gateway's id of the charge that paid an order."""
    found: str = session.execute(
        text(
            "SELECT c.gateway_charge_id FROM gateway_charges c JOIN payment_allocations a"
            " ON a.intent_id = c.intent_id WHERE a.order_id = :id AND c.outcome = 'applied'"
        ),
        {"id": order_id},
    ).scalar_one()
    return found


def dispute_charge(
    session: Session, gateway_charge_id: str, resolution: str | None = None, **values: Any
) -> UUID:
    """Open a chargeback dispute about a charge, or resolve the open dispute."""
    reference: str = session.execute(
        text(
            "SELECT i.reference FROM gateway_charges c JOIN payment_intents i ON i.id = c.intent_id"
            " WHERE c.gateway_charge_id = :id"
        ),
        {"id": gateway_charge_id},
    ).scalar_one()
    data = dispute_data(reference, int(gateway_charge_id), id=int(gateway_charge_id)) | values
    reported = GatewayDispute.from_wire(data | {"resolution": resolution})
    assert record_chargeback(session, reported=reported, is_final=resolution is not None, now=NOW)
    found: UUID = session.execute(
        text("SELECT id FROM charge_disputes WHERE gateway_dispute_id = :id"), {"id": reported.id}
    ).scalar_one()
    return found


def claw_back(session: Session, order_id: UUID, officer: Caller, **wanted: Any) -> ProcessedRefund:
    """Refund an order after release, as an officer."""
    given = {"destination": "wallet", "reason": REASON} | wanted
    return admin_refund.claw_back(
        session,
        order_id=order_id,
        act=act_of(officer, now=NOW),
        refund_request=RefundRequest(**given),
    )


def lose_dispute(
    session: Session, order_id: UUID, *, amount_minor: int | None, resolution: str = "merchant-accepted"
) -> UUID:
    """Process the gateway's event that an order's chargeback dispute ended, by default as lost."""
    charge_id = charge_of(session, order_id)
    return dispute_charge(session, charge_id, resolution, id=uuid4().int % 10**12, refund_amount=amount_minor)


def refunds_of(session: Session, order_id: UUID) -> list[dict[str, Any]]:
    """List an order's refunds, oldest first."""
    rows = session.execute(text("SELECT * FROM refunds WHERE order_id = :id ORDER BY id"), {"id": order_id})
    return [dict(row) for row in rows.mappings()]


def refund_summaries_of(session: Session, order_id: UUID) -> list[tuple[str, str, int]]:
    """List destination, status and amount of an order's refunds."""
    return [(row["destination"], row["status"], row["amount_minor"]) for row in refunds_of(session, order_id)]


def report_refund_status(session: Session, refund_id: UUID, status: str, **values: Any) -> str:
    """Apply a refund status reported by the gateway."""
    row = session.execute(
        text("SELECT amount_minor, attempt FROM refunds WHERE id = :id"), {"id": refund_id}
    ).one()
    # An attempt keeps the same gateway id in all reports.
    given = {"id": str((refund_id.int + row[1]) % 10**12), "amount_minor": row[0]} | values
    reported = GatewayRefund(
        status=status, merchant_note=gateway_refund.refund_reference(refund_id, row[1]), **given
    )
    return gateway_refund.apply_gateway_status(session, refund_id=refund_id, reported=reported, now=NOW)


def count_status_requests(session: Session, refund_id: UUID) -> int:
    """Count the outbox events that request the gateway's status of a refund."""
    found: int = session.execute(
        text(
            "SELECT count(*) FROM outbox_events WHERE topic = 'refund.ask' AND payload ->> 'refundId' = :id"
        ),
        {"id": str(refund_id)},
    ).scalar_one()
    return found


def audit_entries_of(session: Session, target_id: UUID) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """List action, before and after of the audit entries of a target."""
    rows = session.execute(
        text("SELECT action, before, after FROM audit_logs WHERE target_id = :id ORDER BY id"),
        {"id": str(target_id)},
    )
    return [
        (row.action, unseal_values(session, row.before), unseal_values(session, row.after)) for row in rows
    ]


def notification_types_of(session: Session, user_id: UUID) -> list[str]:
    """List the types of a user's notifications, oldest first."""
    rows = session.execute(
        text("SELECT type FROM notifications WHERE user_id = :id ORDER BY id"), {"id": user_id}
    )
    return list(rows.scalars())
