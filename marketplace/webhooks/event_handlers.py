"""Effects of webhook events: gateway events by type, incoming messages and delivery statuses."""

import re
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.kernel.ids import parse_uuid
from marketplace.notifications import operations as notifications
from marketplace.notifications.opt_outs import apply_opt_words
from marketplace.payments.chargebacks.intake import record_chargeback
from marketplace.payments.charges.apply import apply_charge
from marketplace.payments.refunds import gateway_reports
from marketplace.payouts.transfers import apply_status
from marketplace.providers.gateway.payloads import Charge, GatewayDispute, GatewayRefund, GatewayTransfer
from marketplace.support import answers, contacts
from marketplace.webhooks.events import DISPUTE_RESOLVED, Event, PermanentEventError, RetryableEventError

_DISPUTE_EVENT_TYPES = frozenset({"charge.dispute.create", "charge.dispute.remind", DISPUTE_RESOLVED})
_TRANSFER_OUTCOMES = {
    "transfer.success": "success",
    "transfer.failed": "failed",
    "transfer.reversed": "reversed",
}


def apply_gateway_event(session: Session, event: Event, *, fee_bearer: str, now: datetime) -> str:
    """Apply a gateway event in the caller's transaction.

    :param fee_bearer: ``platform`` or ``customer``
    :return: ``processed``, or ``ignored`` for an event without effect
    :raises PermanentEventError: the event contradicts itself and can never be applied
    :raises MalformedGatewayDataError: a required field is missing or has a wrong type
    :raises UnknownReferenceError: the payment of the event is not known yet
    """
    has_effect = True
    if event.type == "charge.success":
        charge = Charge.from_wire(event.data)
        if not charge.is_successful:
            raise PermanentEventError("charge.success reports a charge that did not succeed")
        apply_charge(session, charge=charge, fee_bearer=fee_bearer, now=now)
    elif event.type.startswith("refund."):
        # An unrecognized refund has no effect.
        refund = GatewayRefund.from_wire(event.data)
        has_effect = gateway_reports.handle_refund_event(session, reported=refund, now=now)
    elif event.type in _DISPUTE_EVENT_TYPES:
        dispute = GatewayDispute.from_wire(event.data)
        has_effect = record_chargeback(
            session, reported=dispute, is_final=event.type == DISPUTE_RESOLVED, now=now
        )
    elif event.type in _TRANSFER_OUTCOMES:
        transfer = GatewayTransfer.from_wire(event.data)
        apply_status.handle_transfer_event(
            session, outcome=_TRANSFER_OUTCOMES[event.type], transfer=transfer, now=now
        )
    else:
        has_effect = False
    return "processed" if has_effect else "ignored"


def apply_messaging_event(session: Session, event: Event, *, last_try: bool, now: datetime) -> str:
    """Apply an incoming message or a delivery status in the caller's transaction.

    :param event: a result of ``envelopes.parse_envelope``
    :param last_try: whether a status of an unknown message is ignored instead of retried
    :return: ``processed``, or ``ignored`` for an event without effect
    :raises RetryableEventError: the sent message of the status is not known yet
    """
    if "message" in event.data:
        _record_message(session, event.data, now=now)
        return "processed"
    return _record_delivery_status(session, event.data["status"], last_try=last_try, now=now)


def _record_message(session: Session, data: dict[str, Any], *, now: datetime) -> None:
    message, kind = data["message"], data["type"]
    content = message.get(kind)
    text, phone = _readable_text(kind, content), contacts.parse_sender_phone(message["from"])
    is_opt_word = (
        text is not None and phone is not None and apply_opt_words(session, phone=phone, text=text, now=now)
    )
    contacts.record_message(
        session,
        sender=message["from"],
        name=data["name"],
        message=contacts.IncomingMessage(
            provider_message_id=message["id"],
            type=kind,
            text=text,
            content=_message_content(kind, content),
            replies_to=_read_text(message.get("context"), "id"),
            # The sender's clock may be ahead. No message is written after its arrival.
            sent_at=min(_parse_epoch_seconds(message.get("timestamp")) or now, now),
        ),
        now=now,
        opens_ticket=not is_opt_word,
    )


def _record_delivery_status(
    session: Session, status: dict[str, Any], *, last_try: bool, now: datetime
) -> str:
    status_name = status["status"]
    if status_name not in notifications.PROVIDER_STATUSES:
        return "ignored"
    delivery_id, error_code = (
        _delivery_id(status.get("biz_opaque_callback_data")),
        _error_code(status.get("errors")),
    )
    recorded = notifications.record_delivery_status(
        session,
        provider_message_id=status["id"],
        delivery_id=delivery_id,
        status=status_name,
        error_code=error_code,
        at=_parse_epoch_seconds(status.get("timestamp")) or now,
        now=now,
    )
    if recorded is None and delivery_id is not None:
        recorded = answers.record_receipt(
            session, message_id=delivery_id, status=status_name, error_code=error_code
        )
    if recorded is None and not last_try:
        # The status may arrive before the response to our send request is stored.
        raise RetryableEventError("no sent message has this id")
    return "processed" if recorded else "ignored"


def _readable_text(kind: str, content: Any) -> str | None:
    """Return the readable text of a message: the written text, a caption or the chosen option."""
    if kind == "interactive":
        return _read_text(_read_field(content, "button_reply") or _read_field(content, "list_reply"), "title")
    return _read_text(content, {"text": "body", "button": "text", "reaction": "emoji"}.get(kind, "caption"))


def _message_content(kind: str, content: Any) -> dict[str, Any] | None:
    if isinstance(content, list):
        # Shared contacts are the only type that arrives as a list.
        return {kind: content}
    return content if isinstance(content, dict) else None


def _read_field(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, dict) else None


def _read_text(holder: Any, name: str) -> str | None:
    value = _read_field(holder, name)
    return value if isinstance(value, str) and value else None


def _delivery_id(callback_data: Any) -> UUID | None:
    return parse_uuid(callback_data) if isinstance(callback_data, str) else None


def _error_code(errors: Any) -> str | None:
    """Return the code of the first error. The message of an error may contain the recipient."""
    first = errors[0] if isinstance(errors, list) and errors else None
    code = _read_field(first, "code")
    return str(code) if isinstance(code, int) and not isinstance(code, bool) else None


def _parse_epoch_seconds(epoch: Any) -> datetime | None:
    """Parse seconds since 1970 written as digits. Return None for any other value, or outside the years 2000-2999."""
    if not isinstance(epoch, str) or not re.fullmatch("[0-9]{1,12}", epoch):
        return None
    try:
        moment = datetime.fromtimestamp(int(epoch), UTC)
    except (ValueError, OverflowError):
        return None
    return moment if 2000 <= moment.year <= 2999 else None
