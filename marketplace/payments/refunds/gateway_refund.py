"""Refunds in transit: send each refund once through the gateway and apply the gateway's reports.

The gateway has no idempotency key for refunds: a repeated call creates a second refund. Therefore the request is
committed before the call, and only one worker sends a refund at a time. A worker that finds an earlier request first
looks for a refund with our reference at the gateway.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import structlog
from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.kernel.errors import ConflictError
from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, post_transaction
from marketplace.payments import states, texts
from marketplace.payments.guards import ChargebackState, find_chargeback_state
from marketplace.payments.models import GatewayCharge, PaymentIntent, Refund
from marketplace.payments.refunds import alerts, buyer_accounts, create, notifications
from marketplace.providers.client import ProviderRefusedError
from marketplace.providers.gateway.client import ensure_key_accepted
from marketplace.providers.gateway.payloads import GatewayRefund
from marketplace.providers.gateway.payments import PaymentGateway

_log = structlog.get_logger(__name__)

# Longer than the gateway's response timeout: an expired lease was left by a worker that died.
SENDING_LEASE = timedelta(minutes=2)
_REFERENCE_PATTERN = re.compile(r"marketplace refund ([0-9a-f-]{36})(?: try (\d{1,6}))?")

_STATUS_SENT = "processed"
_STATUS_FAILED = "failed"
_TRIGGER_BY_GATEWAY_STATUS = {
    _STATUS_SENT: "process",
    _STATUS_FAILED: "fail",
    "needs-attention": "need-attention",
    "pending": "submit",
    "processing": "submit",
}


class RefundInProgressError(ConflictError):
    """Another request is sending this refund to the gateway."""

    reason = "refund-in-progress"


@dataclass(frozen=True)
class RefusedRefund(GatewayRefund):
    """A refund that the gateway refused to create, in the form of a report with status ``failed``."""

    refusal_status: int = 0


@dataclass(frozen=True)
class PendingGatewayRefund:
    """A leased refund to send through the gateway.

    ``may_be_known_to_gateway`` is set if an earlier request may have reached the gateway. A refund with
    ``has_chargeback`` is only looked up at the gateway, never sent.
    """

    id: UUID
    amount_minor: int
    attempt: int
    may_be_known_to_gateway: bool
    reference: str
    has_chargeback: bool = False

    @property
    def refund_reference(self) -> str:
        """The merchant note that the gateway stores with the refund and returns in reports."""
        return refund_reference(self.id, self.attempt)


def refund_reference(refund_id: UUID, attempt: int) -> str:
    """Build the merchant note that identifies an attempt of a refund at the gateway."""
    reference = f"marketplace refund {refund_id}"
    return reference if attempt == 1 else f"{reference} try {attempt}"


def parse_refund_reference(note: str) -> tuple[UUID, int] | None:
    """Parse a merchant note that ``refund_reference`` built.

    :return: refund id and attempt number; none for a note of another system
    """
    match = _REFERENCE_PATTERN.fullmatch(note)
    try:
        return (UUID(match[1]), int(match[2] or 1)) if match else None
    except ValueError:
        return None


def lease_refund(session: Session, *, refund_id: UUID, now: datetime) -> PendingGatewayRefund | None:
    """Lease the sending of a refund, and record the request before the gateway is called.

    While a bank disputes the charge, a refund that was not requested yet waits. The end of the dispute enqueues the
    refund again. A refund of a charged-back charge is credited to the wallet instead. Rows are locked in this
    sequence: charge, refund, balances.

    :param session: session of a transaction that commits before the gateway is called
    :return: none if the refund is already sent or final, or must not be sent
    :raises RefundInProgressError: another request holds the lease
    """
    refund = lock_refund(session, refund_id=refund_id)
    if refund.status != states.REFUND.initial:
        return None
    if refund.asking_until is not None and refund.asking_until > now:
        raise RefundInProgressError("Another request is sending this refund.")
    chargeback_state = find_chargeback_state(session, charge_id=refund.charge_id)
    may_be_known_to_gateway = refund.asked_at is not None
    if chargeback_state is not None and not may_be_known_to_gateway:
        _defer_or_credit(session, refund, chargeback_state, now=now)
        return None
    refund.asked_at = refund.asked_at or now
    refund.asking_until = now + SENDING_LEASE
    reference = session.execute(
        select(PaymentIntent.reference)
        .join(GatewayCharge, GatewayCharge.intent_id == PaymentIntent.id)
        .where(GatewayCharge.id == refund.charge_id)
    ).scalar_one()
    return PendingGatewayRefund(
        refund_id,
        refund.amount_minor,
        refund.attempt,
        may_be_known_to_gateway,
        reference,
        chargeback_state is not None,
    )


def record_refund_unknown_to_gateway(
    session: Session, *, pending_refund: PendingGatewayRefund, now: datetime
) -> None:
    """Record that the gateway does not know a refund of a disputed charge, which must not be sent.

    :param pending_refund: leased and looked up at the gateway
    """
    refund = lock_refund(session, refund_id=pending_refund.id)
    if refund.status != states.REFUND.initial or refund.attempt != pending_refund.attempt:
        return
    refund.asking_until = None
    chargeback_state = find_chargeback_state(session, charge_id=refund.charge_id)
    if chargeback_state is None:
        # The dispute ended while the lease kept others from sending the refund.
        create.enqueue_task(session, refund_id=pending_refund.id, now=now)
    else:
        _defer_or_credit(session, refund, chargeback_state, now=now)


def _defer_or_credit(
    session: Session, refund: Refund, chargeback_state: ChargebackState, *, now: datetime
) -> None:
    """Credit a locked refund of a charged-back payment to the wallet; leave it pending during an open dispute."""
    if chargeback_state == "lost":
        buyer_accounts.credit_and_offset_debt(session, refund, trigger=states.WITHDRAW, now=now)
    else:
        _log.info("refund deferred until dispute ends", refundId=str(refund.id))


def send_refund(gateway: PaymentGateway, pending_refund: PendingGatewayRefund | None) -> GatewayRefund | None:
    """Send a refund through the gateway, unless the gateway already knows the refund.

    :param pending_refund: leased, with the lease committed
    :return: the gateway's report; none if nothing is to be sent
    :raises GatewayKeyRefusedError: the gateway rejects our secret key
    :raises ProviderUnavailableError: the gateway gave no usable response; the next try starts with a look-up
    """
    if pending_refund is None:
        return None
    if pending_refund.may_be_known_to_gateway:
        for reported in gateway.list_refunds(pending_refund.reference):
            if reported.merchant_note == pending_refund.refund_reference:
                return reported
    if pending_refund.has_chargeback:
        return None
    try:
        return gateway.create_refund(
            charge_reference=pending_refund.reference,
            amount_minor=pending_refund.amount_minor,
            merchant_note=pending_refund.refund_reference,
        )
    except ProviderRefusedError as error:
        ensure_key_accepted(error)
        return RefusedRefund(
            "",
            "failed",
            pending_refund.amount_minor,
            pending_refund.refund_reference,
            pending_refund.reference,
            error.status,
        )


def lock_refund(session: Session, *, refund_id: UUID) -> Refund:
    """Lock a refund after its charge, as every transaction that refunds a charge does."""
    session.execute(
        select(GatewayCharge.id)
        .where(GatewayCharge.id == select(Refund.charge_id).where(Refund.id == refund_id).scalar_subquery())
        .with_for_update(key_share=True)
    )
    return session.get_one(Refund, refund_id, with_for_update={"key_share": True}, populate_existing=True)


def apply_gateway_status(session: Session, *, refund_id: UUID, reported: GatewayRefund, now: datetime) -> str:
    """Apply the gateway's report on a refund, and post money that was sent or returned.

    A repeated report has no effect. A report on an earlier attempt counts only if that attempt was sent. A duplicate
    payment is posted as a duplicate and reclaimed from the buyer, until the gateway reports its return. The caller
    must not pass a report that is older than the refund's status.

    :return: the refund's status
    """
    refund = lock_refund(session, refund_id=refund_id)
    attempt = resolve_attempt(refund, reported)
    is_duplicate = buyer_accounts.is_duplicate_attempt(session, refund, attempt=attempt)
    if reported.status == _STATUS_SENT and (is_duplicate or _is_already_reimbursed(refund, attempt)):
        buyer_accounts.record_duplicate_refund(session, refund, reported, attempt=attempt, now=now)
        return refund.status
    if reported.status == _STATUS_FAILED and is_duplicate:
        buyer_accounts.reverse_duplicate_refund(session, refund, attempt=attempt, now=now)
        return refund.status
    trigger = _choose_trigger(session, refund, reported, attempt, now=now)
    if trigger is None or not states.REFUND.allows(refund.status, trigger):
        return refund.status
    status = states.REFUND.target(refund.status, trigger)
    if status == states.PROCESSED:
        _post_sent_or_returned(session, refund, "refund_sent", "Refund sent by the gateway", now=now)
        notifications.notify_refund_sent(session, refund, now=now)
        alerts.resolve_refund_alerts(
            session, refund_id=refund_id, note=texts.ALERT_REFUND_RESOLVED.format(status=status), now=now
        )
    elif refund.status == states.PROCESSED:
        # The buyer is notified after an officer has retried or credited the refund.
        _post_sent_or_returned(session, refund, "refund_returned", "Refund returned to the gateway", now=now)
        alerts.raise_refund_alert(session, "REFUND_CAME_BACK", refund, {}, now=now)
        refund.times_returned += 1
    elif status in (states.FAILED, states.NEEDS_ATTENTION):
        # An amount mismatch has a separate alert.
        if reported.amount_minor == refund.amount_minor:
            if isinstance(reported, RefusedRefund):
                facts = {"status": status, "refusedWith": reported.refusal_status}
                alerts.raise_refund_alert(session, "REFUND_REFUSED", refund, facts, now=now)
            else:
                alerts.raise_refund_alert(session, "REFUND_STUCK", refund, {"status": status}, now=now)
        notifications.notify_refund_delayed(session, refund, now=now)
    # An attempt keeps its gateway id: a different id belongs to another refund.
    if attempt != refund.attempt or refund.gateway_refund_id is None:
        refund.gateway_refund_id = reported.id or None
    refund.status, refund.attempt, refund.asking_until = status, attempt, None
    refund.settled_at = now if status == states.PROCESSED else None
    refund.updated_at = now
    session.flush()
    return status


def _post_sent_or_returned(
    session: Session, refund: Refund, kind: accounts.TransactionKind, description: str, *, now: datetime
) -> None:
    """Post a refund as sent or returned. Each can happen several times to the same refund."""
    debited, credited = accounts.REFUNDS_IN_TRANSIT, accounts.GATEWAY_CLEARING
    if kind == "refund_returned":
        debited, credited = credited, debited
    post_transaction(
        session,
        kind=kind,
        source=f"refund:{refund.id}" + (f":{refund.times_returned + 1}" if refund.times_returned else ""),
        description=description,
        postings=[
            Posting(debited, "debit", refund.amount_minor, refund.order_id),
            Posting(credited, "credit", refund.amount_minor, refund.order_id),
        ],
        now=now,
    )


def resolve_attempt(refund: Refund, reported: GatewayRefund) -> int:
    """Return the number of the attempt that a report is about.

    :return: the current attempt, unless the merchant note names another
    """
    named = parse_refund_reference(reported.merchant_note)
    return refund.attempt if named is None else named[1]


def is_amount_mismatch(refund: Refund, reported: GatewayRefund) -> bool:
    """Return whether the gateway sent a refund with another amount."""
    return (
        reported.status == _STATUS_SENT
        and reported.amount_minor != refund.amount_minor
        and not (
            resolve_attempt(refund, reported) == refund.attempt
            and _is_second_gateway_refund(refund, reported)
        )
    )


def _is_second_gateway_refund(refund: Refund, reported: GatewayRefund) -> bool:
    """Return whether the gateway reports a second refund for the same attempt."""
    return bool(reported.id) and refund.gateway_refund_id not in (None, reported.id)


def _is_already_reimbursed(refund: Refund, attempt: int) -> bool:
    """Return whether the buyer has received or will receive the refund by other means than this attempt.

    An earlier attempt that was reported as failed may have been sent after all. That attempt counts as the refund while
    the current attempt is not requested yet, has failed or needs attention.
    """
    if refund.status == states.CREDITED:
        return True
    if attempt == refund.attempt:
        return False
    never_asked = refund.status == states.PENDING and refund.asked_at is None
    return not never_asked and refund.status not in (states.FAILED, states.NEEDS_ATTENTION)


def _choose_trigger(
    session: Session, refund: Refund, reported: GatewayRefund, attempt: int, *, now: datetime
) -> str | None:
    """Choose the trigger of the refund's state machine that a report causes, if any."""
    if attempt != refund.attempt and reported.status != _STATUS_SENT:
        _log.info("report on earlier refund attempt ignored", refundId=str(refund.id), status=reported.status)
        return None
    if attempt == refund.attempt and _is_second_gateway_refund(refund, reported):
        alerts.raise_refund_alert(
            session,
            "REFUND_ID_DIFFERS",
            refund,
            {"toldId": reported.id, "toldStatus": reported.status},
            now=now,
        )
        return None
    if reported.amount_minor != refund.amount_minor:
        alerts.raise_refund_alert(
            session,
            "REFUND_AMOUNT_DIFFERS",
            refund,
            {"toldMinor": reported.amount_minor, "toldStatus": reported.status},
            now=now,
        )
        return "need-attention"
    return _TRIGGER_BY_GATEWAY_STATUS.get(reported.status)
