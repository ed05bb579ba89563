"""What the gateway's events do here, each by its type; types that do nothing are recorded as ignored."""

from datetime import datetime

from sqlalchemy.orm import Session

from marketplace.payments.chargebacks.intake import record_chargeback
from marketplace.payments.charges.apply import apply_charge
from marketplace.payments.refunds import gateway_reports
from marketplace.payouts.transfers import apply_status
from marketplace.providers.gateway.payloads import Charge, GatewayDispute, GatewayRefund, GatewayTransfer
from marketplace.webhooks.events import DISPUTE_RESOLVED, Event, PermanentEventError

_DISPUTE_EVENT_TYPES = frozenset({"charge.dispute.create", "charge.dispute.remind", DISPUTE_RESOLVED})
_TRANSFER_OUTCOMES = {
    "transfer.success": "success",
    "transfer.failed": "failed",
    "transfer.reversed": "reversed",
}


def apply_gateway_event(session: Session, event: Event, *, fee_bearer: str, now: datetime) -> str:
    """Apply a gateway event in the caller's transaction.

    :param fee_bearer: ``platform`` or ``customer``
    :param now: the time of processing
    :return: ``processed``, or ``ignored`` where it has none
    :raises PermanentEventError: it contradicts itself, so that it can never have one
    :raises MalformedGatewayDataError: a field that it takes is missing, or of another type
    :raises UnknownReferenceError: it is about a payment that is not known, at least not yet
    """
    if event.type == "charge.success":
        return _apply_charge(session, event, fee_bearer=fee_bearer, now=now)
    if event.type.startswith("refund."):
        return _apply_refund(session, event, now=now)
    if event.type in _DISPUTE_EVENT_TYPES:
        dispute = GatewayDispute.from_wire(event.data)
        changed = record_chargeback(
            session, reported=dispute, is_final=event.type == DISPUTE_RESOLVED, now=now
        )
        return "processed" if changed else "ignored"
    if event.type in _TRANSFER_OUTCOMES:
        transfer = GatewayTransfer.from_wire(event.data)
        apply_status.handle_transfer_event(
            session, outcome=_TRANSFER_OUTCOMES[event.type], transfer=transfer, now=now
        )
        return "processed"
    return "ignored"


def _apply_charge(session: Session, event: Event, *, fee_bearer: str, now: datetime) -> str:
    charge = Charge.from_wire(event.data)
    if not charge.is_successful:
        raise PermanentEventError("the charge of a charge.success is not a success")
    apply_charge(session, charge=charge, fee_bearer=fee_bearer, now=now)
    return "processed"


def _apply_refund(session: Session, event: Event, *, now: datetime) -> str:
    """Apply a refund event; an event about an unrecognized refund is recorded as ignored."""
    refund = GatewayRefund.from_wire(event.data)
    return (
        "processed" if gateway_reports.handle_refund_event(session, reported=refund, now=now) else "ignored"
    )
