"""What the gateway's events do here, each by its type; types that do nothing are recorded as ignored."""

from datetime import datetime

from sqlalchemy.orm import Session

from marketplace.payments import sending
from marketplace.payments.charges import apply_charge
from marketplace.providers.gateway import Charge, GatewayRefund
from marketplace.webhooks.events import Event, HopelessEventError


def apply(session: Session, event: Event, *, fee_bearer: str, now: datetime) -> str:
    """This function will have an event its effect, in the caller's transaction.

    :param fee_bearer: ``platform`` or ``customer``
    :param now: the time of processing
    :return: ``processed``, or ``ignored`` where it has none
    :raises HopelessEventError: it contradicts itself, so that it can never have one
    :raises MalformedChargeError: a field that it takes is missing, or of another type
    :raises UnknownReferenceError: it is about a payment that is not known, at least not yet
    """
    if event.type.startswith("refund."):
        return _apply_refund(session, event, now=now)
    if event.type != "charge.success":
        return "ignored"
    charge = Charge.from_wire(event.data)
    if not charge.settled:
        raise HopelessEventError("the charge of a charge.success is not a success")
    apply_charge(session, charge=charge, fee_bearer=fee_bearer, now=now)
    return "processed"


def _apply_refund(session: Session, event: Event, *, now: datetime) -> str:
    """Note what the gateway tells of a refund; one that is not ours is recorded as ignored."""
    told = GatewayRefund.from_wire(event.data)
    refund_id = sending.find_by_event(session, told)
    if refund_id is None:
        return "ignored"
    sending.settle(session, refund_id=refund_id, told=told, now=now)
    return "processed"
