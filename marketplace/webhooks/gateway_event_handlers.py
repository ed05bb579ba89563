"""What the gateway's events do here, each by its type; types that do nothing are recorded as ignored."""

from datetime import datetime

from sqlalchemy.orm import Session

from marketplace.payments.chargebacks.intake import note_dispute
from marketplace.payments.charges.apply import apply_charge
from marketplace.payments.refunds import refund_events
from marketplace.payouts.transfers import transfer_events
from marketplace.providers.gateway.payloads import GatewayDispute, GatewayTransfer
from marketplace.providers.gateway.payments import Charge, GatewayRefund
from marketplace.webhooks.events import DISPUTE_RESOLVED, Event, HopelessEventError

_DISPUTES = frozenset({"charge.dispute.create", "charge.dispute.remind", DISPUTE_RESOLVED})
_TRANSFERS = {"transfer.success": "success", "transfer.failed": "failed", "transfer.reversed": "reversed"}


def apply(session: Session, event: Event, *, fee_bearer: str, now: datetime) -> str:
    """Have an event its effect, in the caller's transaction.

    :param fee_bearer: ``platform`` or ``customer``
    :param now: the time of processing
    :return: ``processed``, or ``ignored`` where it has none
    :raises HopelessEventError: it contradicts itself, so that it can never have one
    :raises MalformedChargeError: a field that it takes is missing, or of another type
    :raises UnknownReferenceError: it is about a payment that is not known, at least not yet
    """
    if event.type == "charge.success":
        return _apply_charge(session, event, fee_bearer=fee_bearer, now=now)
    if event.type.startswith("refund."):
        return _apply_refund(session, event, now=now)
    if event.type in _DISPUTES:
        told = GatewayDispute.from_wire(event.data)
        news = note_dispute(session, told=told, over=event.type == DISPUTE_RESOLVED, now=now)
        return "processed" if news else "ignored"
    if event.type in _TRANSFERS:
        told_transfer = GatewayTransfer.from_wire(event.data)
        transfer_events.hear(session, outcome=_TRANSFERS[event.type], told=told_transfer, now=now)
        return "processed"
    return "ignored"


def _apply_charge(session: Session, event: Event, *, fee_bearer: str, now: datetime) -> str:
    charge = Charge.from_wire(event.data)
    if not charge.settled:
        raise HopelessEventError("the charge of a charge.success is not a success")
    apply_charge(session, charge=charge, fee_bearer=fee_bearer, now=now)
    return "processed"


def _apply_refund(session: Session, event: Event, *, now: datetime) -> str:
    """Note what the gateway tells of a refund; one that is not ours is recorded as ignored."""
    told = GatewayRefund.from_wire(event.data)
    return "processed" if refund_events.hear(session, told=told, now=now) else "ignored"
