"""Finance's desk for tests: officers, refunds in whatever state, and what is read of them."""

from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.operations import AuditActor
from marketplace.identity.queries import Caller
from marketplace.payments import clawbacks, sending
from marketplace.payments.chargebacks import note_dispute
from marketplace.payments.refunding import Wanted, process_refund
from marketplace.providers.gateway import GatewayRefund
from marketplace.providers.gateway_events import GatewayDispute
from tests.support.events import dispute_data
from tests.support.purchases import NOW, make_person

REASON = "The lamp came broken."


def make_officer(session: Session) -> Caller:
    """Make an officer of finance."""
    return make_person(session, role="staff", staff_role="finance")


def actor_of(officer: Caller) -> AuditActor:
    """Name an officer as the audit does."""
    return AuditActor("finance", id=officer.id, ip_address="127.0.0.1")


def refund(session: Session, order_id: UUID, officer: Caller, **wanted: Any) -> dict[str, Any]:
    """Have an officer refund an order."""
    given = {"destination": "gateway", "reason": REASON} | wanted
    return process_refund(
        session,
        order_id=order_id,
        officer=officer,
        actor=actor_of(officer),
        wanted=Wanted(**given),
        now=NOW,
    )


def dispute_charge(session: Session, gateway_charge_id: str) -> None:
    """Have the buyer's bank dispute a charge."""
    reference: str = session.execute(
        text(
            "SELECT i.reference FROM gateway_charges c JOIN payment_intents i ON i.id = c.intent_id"
            " WHERE c.gateway_charge_id = :id"
        ),
        {"id": gateway_charge_id},
    ).scalar_one()
    told = GatewayDispute.from_wire(dispute_data(reference, int(gateway_charge_id)))
    assert note_dispute(session, told=told, over=False, now=NOW)


def claw_back(session: Session, order_id: UUID, officer: Caller, **wanted: Any) -> dict[str, Any]:
    """Have an officer refund an order whose money was released."""
    given = {"destination": "wallet", "reason": REASON} | wanted
    return clawbacks.claw_back(
        session,
        order_id=order_id,
        officer=officer,
        actor=actor_of(officer),
        wanted=Wanted(**given),
        now=NOW,
    )


def lose_dispute(
    session: Session, order_id: UUID, *, amount_minor: int | None, resolution: str = "merchant-accepted"
) -> UUID:
    """Have the gateway tell that a dispute of what paid an order is over, lost unless told otherwise."""
    row = session.execute(
        text(
            "SELECT i.reference, c.gateway_charge_id FROM gateway_charges c"
            " JOIN payment_intents i ON i.id = c.intent_id"
            " JOIN payment_allocations a ON a.intent_id = i.id"
            " WHERE a.order_id = :id AND c.outcome = 'applied'"
        ),
        {"id": order_id},
    ).one()
    told = GatewayDispute(
        id=f"dispute-{uuid4().hex}",
        reference=row.reference,
        charge_id=row.gateway_charge_id,
        status="resolved",
        resolution=resolution,
        category="chargeback",
        amount_minor=amount_minor,
        due_at=None,
    )
    assert note_dispute(session, told=told, over=True, now=NOW)
    found: UUID = session.execute(
        text("SELECT id FROM charge_disputes WHERE gateway_dispute_id = :id"), {"id": told.id}
    ).scalar_one()
    return found


def refunds_of(session: Session, order_id: UUID) -> list[dict[str, Any]]:
    """Give an order's refunds, the earliest first."""
    rows = session.execute(text("SELECT * FROM refunds WHERE order_id = :id ORDER BY id"), {"id": order_id})
    return [dict(row) for row in rows.mappings()]


def sums_of(session: Session, order_id: UUID) -> list[tuple[str, str, int]]:
    """Give destination, status and amount of an order's refunds."""
    return [(row["destination"], row["status"], row["amount_minor"]) for row in refunds_of(session, order_id)]


def say(session: Session, refund_id: UUID, status: str, **values: Any) -> str:
    """Have the gateway tell of a refund."""
    row = session.execute(
        text("SELECT amount_minor, attempt FROM refunds WHERE id = :id"), {"id": refund_id}
    ).one()
    # A try has one id at the gateway, however often it is told of.
    given = {"id": str((refund_id.int + row[1]) % 10**12), "amount_minor": row[0]} | values
    told = GatewayRefund(status=status, note=sending.note_of(refund_id, row[1]), **given)
    return sending.settle(session, refund_id=refund_id, told=told, now=NOW)


def audited(session: Session, target_id: UUID) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Give what was audited of something: action, before and after."""
    rows = session.execute(
        text("SELECT action, before, after FROM audit_logs WHERE target_id = :id ORDER BY id"),
        {"id": str(target_id)},
    )
    return [tuple(row) for row in rows]


def told(session: Session, user_id: UUID) -> list[str]:
    """Give the types of what somebody was told, the earliest first."""
    rows = session.execute(
        text("SELECT type FROM notifications WHERE user_id = :id ORDER BY id"), {"id": user_id}
    )
    return list(rows.scalars())
