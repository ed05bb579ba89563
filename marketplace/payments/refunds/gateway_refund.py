"""Refunds on their way: asked of the gateway once, and settled by its word, which may come by several ways.

The gateway does not know a second call for the first one again. So the wish to ask is committed before the call,
one worker asks at a time, and whoever finds that the gateway was asked before looks for our note first.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import structlog
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.kernel.errors import ConflictError
from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, post_transaction
from marketplace.payments import states
from marketplace.payments.chargeback_guard import ChargebackState, find_chargeback_state
from marketplace.payments.refunds import alerts, create, duplicate_payment, notifications, wallet_fallback
from marketplace.providers.client import ProviderRefusedError
from marketplace.providers.gateway.errors import ensure_key_accepted
from marketplace.providers.gateway.payloads import GatewayRefund
from marketplace.providers.gateway.payments import PaymentGateway

_log = structlog.get_logger(__name__)

# Longer than the gateway may take to answer: a claim that ran out was left by somebody who died.
SENDING_LEASE = timedelta(minutes=2)
# Our key was refused, not the refund: a matter of configuration, worth another try.
_REFERENCE_FORMAT = "marketplace refund {id}"
_REFERENCE_PATTERN = re.compile(r"marketplace refund ([0-9a-f-]{36})(?: try (\d{1,6}))?")

_LEASE_REFUND = Statement(
    text(
        """
        UPDATE refunds r SET asked_at = coalesce(r.asked_at, :now), asking_until = :until
        FROM gateway_charges c, payment_intents i
        WHERE r.id = :refund_id AND c.id = r.charge_id AND i.id = c.intent_id
        RETURNING i.reference
        """
    )
)
_RELEASE_LEASE = Statement(text("UPDATE refunds SET asking_until = NULL WHERE id = :refund_id"))
_LOCK_CHARGE = Statement(
    text(
        """
        SELECT id FROM gateway_charges WHERE id = (SELECT charge_id FROM refunds WHERE id = :refund_id)
        FOR NO KEY UPDATE
        """
    )
)
_LOCK_REFUND = Statement(
    text(
        """
        SELECT id, order_id, charge_id, buyer_id, amount_minor, status, attempt, asked_at, asking_until,
            gateway_refund_id, times_returned, paid_twice_minor, updated_at
        FROM refunds WHERE id = :refund_id FOR NO KEY UPDATE
        """
    )
)
# What the gateway calls a try of ours stays: another id is another refund.
_UPDATE_REFUND_STATUS = Statement(
    text(
        """
        UPDATE refunds SET status = :status, attempt = :attempt, settled_at = :settled_at,
            gateway_refund_id = CASE WHEN attempt = :attempt THEN coalesce(gateway_refund_id, :gateway_refund_id)
                ELSE :gateway_refund_id END,
            times_returned = times_returned + :returned, asking_until = NULL, updated_at = :now
        WHERE id = :refund_id
        """
    )
)
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
    """That the gateway refused to send a refund, as if it had told us that it failed."""

    refusal_status: int = 0


@dataclass(frozen=True)
class PendingGatewayRefund:
    """A refund that is ours to send; ``may_be_known_to_gateway`` says that the gateway may know it already.

    Of one whose charge is ``has_chargeback`` it is only asked whether it does.
    """

    id: UUID
    amount_minor: int
    attempt: int
    may_be_known_to_gateway: bool
    reference: str
    has_chargeback: bool = False

    @property
    def refund_reference(self) -> str:
        """Give what the gateway is told to keep with the refund, and gives back."""
        return refund_reference(self.id, self.attempt)


def refund_reference(refund_id: UUID, attempt: int) -> str:
    """Name a try at a refund, for the gateway."""
    reference = _REFERENCE_FORMAT.format(id=refund_id)
    return reference if attempt == 1 else f"{reference} try {attempt}"


def parse_refund_reference(note: str) -> tuple[UUID, int] | None:
    """Read a note of ours.

    :return: which refund, and which try at it; none if it is no note of ours
    """
    match = _REFERENCE_PATTERN.fullmatch(note)
    try:
        return (UUID(match[1]), int(match[2] or 1)) if match else None
    except ValueError:
        return None


def lease_refund(session: Session, *, refund_id: UUID, now: datetime) -> PendingGatewayRefund | None:
    """Claim the sending of a refund for a while, noting that the gateway is asked.

    While the buyer's bank disputes the charge, a refund that was not asked for waits: the end of the dispute hands it
    on again. Of a charge that the bank took back it goes to the wallet instead. Rows are locked in the order: the
    charge, the refund, balances.

    :param session: of a transaction that commits before the gateway is called
    :param refund_id: ours
    :param now: the time
    :return: none if it was sent, or settled, already, or is not to be sent
    :raises RefundInProgressError: somebody else is at it
    """
    row = lock_refund(session, refund_id=refund_id)
    if row["status"] != states.REFUND.initial:
        return None
    if row["asking_until"] is not None and row["asking_until"] > now:
        raise RefundInProgressError("The refund is being sent.")
    chargeback_state = find_chargeback_state(session, charge_id=row["charge_id"])
    may_be_known_to_gateway = row["asked_at"] is not None
    if chargeback_state is not None and not may_be_known_to_gateway:
        _defer_or_credit(session, row, chargeback_state, now=now)
        return None
    leased = _LEASE_REFUND.one(session, refund_id=refund_id, now=now, until=now + SENDING_LEASE)
    return PendingGatewayRefund(
        refund_id,
        row["amount_minor"],
        row["attempt"],
        may_be_known_to_gateway,
        leased["reference"],
        chargeback_state is not None,
    )


def record_refund_unknown_to_gateway(
    session: Session, *, pending_refund: PendingGatewayRefund, now: datetime
) -> None:
    """Note that the gateway does not know a refund that it is not to be told to send.

    :param pending_refund: claimed, its charge disputed, and asked about
    :param now: when
    """
    row = lock_refund(session, refund_id=pending_refund.id)
    if row["status"] != states.REFUND.initial or row["attempt"] != pending_refund.attempt:
        return
    _RELEASE_LEASE.run(session, refund_id=pending_refund.id)
    chargeback_state = find_chargeback_state(session, charge_id=row["charge_id"])
    if chargeback_state is None:
        # It ended meanwhile, while nobody could send it.
        create.enqueue_sending(session, refund_id=pending_refund.id, now=now)
    else:
        _defer_or_credit(session, row, chargeback_state, now=now)


def _defer_or_credit(
    session: Session, row: dict[str, Any], chargeback_state: ChargebackState, *, now: datetime
) -> None:
    """Leave a locked refund unsent that the gateway does not know: it waits, or goes to the wallet."""
    if chargeback_state == "lost":
        wallet_fallback.credit_and_offset_debt(session, row, trigger=states.WITHDRAW, now=now)
    else:
        _log.info("refund waits for the end of a dispute", refundId=str(row["id"]))


def send_refund(gateway: PaymentGateway, pending_refund: PendingGatewayRefund | None) -> GatewayRefund | None:
    """Have the gateway send a refund, unless it knows of it already.

    :param pending_refund: claimed, and the claim committed
    :return: what the gateway says of it; none if there is nothing to send, or nothing may be sent
    :raises GatewayKeyRefusedError: the gateway refuses our key
    :raises ProviderUnavailableError: no usable answer: it is asked again later, by the note first
    """
    if pending_refund is None:
        return None
    if pending_refund.may_be_known_to_gateway:
        reported = find_gateway_refund(
            gateway, reference=pending_refund.reference, note=pending_refund.refund_reference
        )
        if reported is not None:
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


def find_gateway_refund(gateway: PaymentGateway, *, reference: str, note: str) -> GatewayRefund | None:
    """Ask whether the gateway knows a refund by our note.

    :param reference: the charge's
    :param note: as ``refund_reference`` names it
    :raises ProviderUnavailableError: no usable answer
    """
    return next(
        (reported for reported in gateway.list_refunds(reference) if reported.merchant_note == note), None
    )


def list_gateway_attempts(
    gateway: PaymentGateway, *, reference: str, refund_id: UUID, gateway_refund_id: str | None
) -> list[GatewayRefund]:
    """Ask for all that the gateway knows of a refund: each try at it.

    :param reference: the charge's
    :param refund_id: ours, which our notes name
    :param gateway_refund_id: the gateway's own, if it told us one
    :raises ProviderUnavailableError: no usable answer
    """
    attempts = []
    for reported in gateway.list_refunds(reference):
        named = parse_refund_reference(reported.merchant_note)
        if (named[0] == refund_id) if named else bool(reported.id) and reported.id == gateway_refund_id:
            attempts.append(reported)
    return attempts


def lock_refund(session: Session, *, refund_id: UUID) -> dict[str, Any]:
    """Lock a refund, its charge before it, as whoever refunds of a charge does.

    :param refund_id: ours
    :return: its row
    """
    _LOCK_CHARGE.run(session, refund_id=refund_id)
    return _LOCK_REFUND.one(session, refund_id=refund_id)


def apply_gateway_status(session: Session, *, refund_id: UUID, reported: GatewayRefund, now: datetime) -> str:
    """Note what the gateway says of a refund, and book it when the money has left, or come back.

    It may come any number of times: what is said once more changes nothing, and what is said of an earlier try
    says nothing of the present one, unless that it was sent. What was sent although the buyer had the money is
    booked as such, and asked back of them, until that comes back. The caller sees to it that the word is no older
    than what it changes.

    :param refund_id: ours
    :param reported: the gateway's word
    :param now: when
    :return: the refund's status
    """
    row = lock_refund(session, refund_id=refund_id)
    attempt = resolve_attempt(row, reported)
    is_duplicate = duplicate_payment.is_duplicate_attempt(session, row, attempt=attempt)
    if reported.status == _STATUS_SENT and (is_duplicate or _is_already_reimbursed(row, attempt)):
        duplicate_payment.record_duplicate_refund(session, row, reported, attempt=attempt, now=now)
        return str(row["status"])
    if reported.status == _STATUS_FAILED and is_duplicate:
        duplicate_payment.reverse_duplicate_refund(session, row, attempt=attempt, now=now)
        return str(row["status"])
    trigger = _choose_trigger(session, row, reported, attempt, now=now)
    if trigger is None or not states.REFUND.allows(row["status"], trigger):
        return str(row["status"])
    status = states.REFUND.target(row["status"], trigger)
    was_returned = row["status"] == states.PROCESSED
    _UPDATE_REFUND_STATUS.run(
        session,
        refund_id=refund_id,
        status=status,
        gateway_refund_id=reported.id or None,
        attempt=attempt,
        settled_at=now if status == states.PROCESSED else None,
        returned=int(was_returned),
        now=now,
    )
    if status == states.PROCESSED:
        _post_sent_or_returned(session, row, "refund_sent", "Refund sent by the gateway", now=now)
        notifications.notify_refund_sent(session, row, now=now)
        alerts.resolve_refund_alerts(session, refund_id=refund_id, status=status, now=now)
    elif was_returned:
        # Its buyer hears of it when finance has decided what becomes of it.
        _post_sent_or_returned(
            session, row, "refund_returned", "Refund that came back to the gateway", now=now
        )
        alerts.raise_returned_refund_alert(session, row, now=now)
    elif status in (states.FAILED, states.NEEDS_ATTENTION):
        # That its amount differs is an alert of its own.
        if reported.amount_minor == row["amount_minor"]:
            refusal_status = reported.refusal_status if isinstance(reported, RefusedRefund) else None
            alerts.raise_failed_refund_alert(
                session, row, status=status, refusal_status=refusal_status, now=now
            )
        notifications.notify_refund_delayed(session, row, now=now)
    return status


def _post_sent_or_returned(
    session: Session, row: dict[str, Any], kind: str, description: str, *, now: datetime
) -> None:
    """Book that a refund has left the gateway, or that it came back there; either may happen more than once."""
    is_sent = kind == "refund_sent"
    occurrence = row["times_returned"] + 1
    post_transaction(
        session,
        kind=kind,
        source=f"refund:{row['id']}" if occurrence == 1 else f"refund:{row['id']}:{occurrence}",
        description=description,
        postings=[
            Posting(
                account,
                "debit" if debited_when_sent == is_sent else "credit",
                row["amount_minor"],
                row["order_id"],
            )
            for account, debited_when_sent in (
                (accounts.REFUNDS_IN_TRANSIT, True),
                (accounts.GATEWAY_CLEARING, False),
            )
        ],
        now=now,
    )


def resolve_attempt(row: dict[str, Any], reported: GatewayRefund) -> int:
    """Tell which try at a refund the gateway speaks of.

    :param row: the refund's
    :param reported: the gateway's word
    :return: the present one, unless its note names another
    """
    named = parse_refund_reference(reported.merchant_note)
    attempt: int = row["attempt"] if named is None else named[1]
    return attempt


def is_amount_mismatch(row: dict[str, Any], reported: GatewayRefund) -> bool:
    """Tell whether the gateway says that it sent a refund of ours, with another amount.

    :param row: the refund's
    :param reported: the gateway's word
    """
    is_another = resolve_attempt(row, reported) == row["attempt"] and _is_second_gateway_refund(row, reported)
    return reported.status == _STATUS_SENT and reported.amount_minor != row["amount_minor"] and not is_another


def _is_second_gateway_refund(row: dict[str, Any], reported: GatewayRefund) -> bool:
    """Tell whether the gateway has a second refund with our note of the present try."""
    return bool(reported.id) and row["gateway_refund_id"] not in (None, reported.id)


def _is_already_reimbursed(row: dict[str, Any], attempt: int) -> bool:
    """Tell whether the buyer has the money of a refund, or is to get it, otherwise than by this try of the gateway's.

    A try that had failed, and was sent after all, is the refund itself as long as the present one was not asked
    for, or did not succeed either.
    """
    if row["status"] == states.CREDITED:
        return True
    if attempt == row["attempt"]:
        return False
    never_asked = row["status"] == states.PENDING and row["asked_at"] is None
    return not never_asked and row["status"] not in (states.FAILED, states.NEEDS_ATTENTION)


def _choose_trigger(
    session: Session, row: dict[str, Any], reported: GatewayRefund, attempt: int, *, now: datetime
) -> str | None:
    """Tell what the gateway's word means for a locked refund: a trigger of its table, or nothing."""
    trigger = _TRIGGER_BY_GATEWAY_STATUS.get(reported.status)
    if attempt != row["attempt"] and reported.status != _STATUS_SENT:
        _log.info("word of an earlier try at a refund", refundId=str(row["id"]), status=reported.status)
        return None
    if attempt == row["attempt"] and _is_second_gateway_refund(row, reported):
        alerts.raise_refund_id_mismatch_alert(session, row, reported=reported, now=now)
        return None
    if reported.amount_minor != row["amount_minor"]:
        alerts.raise_refund_amount_mismatch_alert(session, row, reported=reported, now=now)
        return "need-attention"
    return trigger
