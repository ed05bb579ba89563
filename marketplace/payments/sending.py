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
from marketplace.kernel.errors import ConflictError, ProviderUnavailableError
from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, post
from marketplace.payments import debts, refund_news, refunds, states
from marketplace.providers.client import ProviderRefusedError
from marketplace.providers.gateway import GatewayRefund, PaymentGateway

_log = structlog.get_logger(__name__)

# Longer than the gateway may take to answer: a claim that ran out was left by somebody who died.
ASKING_FOR = timedelta(minutes=2)
# Our key was refused, not the refund: a matter of configuration, worth another try.
_KEY_REFUSED = (401, 403)
_NOTE = "marketplace refund {id}"
_NOTED = re.compile(r"marketplace refund ([0-9a-f-]{36})(?: try (\d{1,6}))?")

# Of two workers the second waits for the row, and then finds the claim of the first.
_CLAIM = Statement(
    text(
        """
        WITH found AS (
            SELECT id, asked_at FROM refunds
            WHERE id = :refund_id AND status = 'pending' AND (asking_until IS NULL OR asking_until <= :now)
            FOR NO KEY UPDATE
        )
        UPDATE refunds r SET asked_at = coalesce(r.asked_at, :now), asking_until = :until
        FROM found, gateway_charges c, payment_intents i
        WHERE r.id = found.id AND c.id = r.charge_id AND i.id = c.intent_id
        RETURNING r.id, r.amount_minor, r.attempt, found.asked_at IS NOT NULL AS was_asked, i.reference
        """
    )
)
_STATUS = Statement(text("SELECT status FROM refunds WHERE id = :refund_id"))
_LOCK_CHARGE = Statement(
    text(
        """
        SELECT id FROM gateway_charges WHERE id = (SELECT charge_id FROM refunds WHERE id = :refund_id)
        FOR NO KEY UPDATE
        """
    )
)
_LOCK = Statement(
    text(
        """
        SELECT id, order_id, charge_id, buyer_id, amount_minor, status, attempt, asked_at FROM refunds
        WHERE id = :refund_id FOR NO KEY UPDATE
        """
    )
)
_FIND = Statement(
    text(
        """
        SELECT id FROM refunds WHERE gateway_refund_id = :gateway_refund_id
        UNION ALL
        SELECT id FROM refunds WHERE id = :noted_id
        LIMIT 1
        """
    )
)
# An event may name neither: of those of its charge that are as large the first is meant, rather one that is not over.
_FIND_BY_AMOUNT = Statement(
    text(
        """
        SELECT r.id FROM refunds r JOIN gateway_charges c ON c.id = r.charge_id
            JOIN payment_intents i ON i.id = c.intent_id
        WHERE i.reference = :reference AND r.amount_minor = :amount_minor AND r.asked_at IS NOT NULL
            AND r.status IN ('pending', 'submitted', 'needs_attention', 'failed', 'credited')
        ORDER BY r.status IN ('failed', 'credited'), r.id LIMIT 1
        """
    )
)
_MOVE = Statement(
    text(
        """
        UPDATE refunds SET status = :status, gateway_refund_id = coalesce(:gateway_refund_id, gateway_refund_id),
            attempt = :attempt, settled_at = :settled_at, asking_until = NULL, updated_at = :now
        WHERE id = :refund_id
        """
    )
)
_NOTE_PAID_TWICE = Statement(
    text(
        """
        UPDATE refunds SET paid_twice_minor = paid_twice_minor + :amount_minor, updated_at = :now
        WHERE id = :refund_id
        """
    )
)
_IS_BOOKED = Statement(text("SELECT id FROM ledger_transactions WHERE kind = :kind AND source = :source"))
_SENT = "processed"
_TRIGGERS = {
    _SENT: "process",
    "failed": "fail",
    "needs-attention": "need-attention",
    "pending": "submit",
    "processing": "submit",
}


class BeingSentError(ConflictError):
    """Somebody else is asking the gateway to send the refund."""


@dataclass(frozen=True)
class ToSend:
    """A refund that is ours to send; ``was_asked`` says that the gateway may know it already."""

    id: UUID
    amount_minor: int
    attempt: int
    was_asked: bool
    reference: str

    @property
    def note(self) -> str:
        """This function will give what the gateway is told to keep with the refund, and gives back."""
        return note_of(self.id, self.attempt)


def note_of(refund_id: UUID, attempt: int) -> str:
    """This function will name a try at a refund, for the gateway."""
    name = _NOTE.format(id=refund_id)
    return name if attempt == 1 else f"{name} try {attempt}"


def _noted(note: str) -> tuple[UUID, int] | None:
    """Read a note of ours: which refund, and which try at it."""
    found = _NOTED.fullmatch(note)
    try:
        return (UUID(found[1]), int(found[2] or 1)) if found else None
    except ValueError:
        return None


def claim(session: Session, *, refund_id: UUID, now: datetime) -> ToSend | None:
    """This function will claim the sending of a refund for a while, noting that the gateway is asked.

    :param session: in autocommit: the note must stand before the call is made
    :param refund_id: ours
    :param now: the time
    :return: none if it was sent, or settled, already
    :raises BeingSentError: somebody else is at it
    """
    row = _CLAIM.first(session, refund_id=refund_id, now=now, until=now + ASKING_FOR)
    if row is not None:
        return ToSend(**row)
    if status_of(session, refund_id=refund_id) == states.REFUND.initial:
        raise BeingSentError("The refund is being sent.")
    return None


def status_of(session: Session, *, refund_id: UUID) -> str:
    """This function will give a refund's status."""
    status: str = _STATUS.one(session, refund_id=refund_id)["status"]
    return status


def send(gateway: PaymentGateway, found: ToSend | None) -> GatewayRefund | None:
    """This function will have the gateway send a refund, unless it knows of it already.

    :param found: claimed, and the claim committed
    :return: what the gateway says of it; none if there is nothing to send
    :raises ProviderUnavailableError: no usable answer: it is asked again later, by the note first
    """
    if found is None:
        return None
    if found.was_asked:
        known = find_known(gateway, reference=found.reference, note=found.note)
        if known is not None:
            return known
    try:
        return gateway.refund(reference=found.reference, amount_minor=found.amount_minor, note=found.note)
    except ProviderRefusedError as error:
        if error.status in _KEY_REFUSED:
            raise ProviderUnavailableError("The payment gateway refused our key.") from error
        _log.error("refund refused", severity="SEV-2", refundId=str(found.id), status=error.status)
        return GatewayRefund("", "failed", found.amount_minor, found.note, found.reference)


def find_known(gateway: PaymentGateway, *, reference: str, note: str) -> GatewayRefund | None:
    """This function will ask whether the gateway knows a refund by our note.

    :param reference: the charge's
    :param note: as ``note_of`` names it
    :raises ProviderUnavailableError: no usable answer
    """
    return next((known for known in gateway.refunds_of(reference) if known.note == note), None)


def tries_known(
    gateway: PaymentGateway, *, reference: str, refund_id: UUID, gateway_refund_id: str | None
) -> list[GatewayRefund]:
    """This function will ask for all that the gateway knows of a refund: each try at it.

    :param reference: the charge's
    :param refund_id: ours, which our notes name
    :param gateway_refund_id: the gateway's own, if it told us one
    :raises ProviderUnavailableError: no usable answer
    """
    found = []
    for known in gateway.refunds_of(reference):
        noted = _noted(known.note)
        if (noted[0] == refund_id) if noted else bool(known.id) and known.id == gateway_refund_id:
            found.append(known)
    return found


def find_by_event(session: Session, told: GatewayRefund) -> UUID | None:
    """This function will find the refund that an event of the gateway is about.

    By the gateway's id of it, by our note, or, where the event carries neither, by charge and amount.

    :return: its id; none if it is none of ours, such as one that was made by hand at the gateway
    """
    noted = _noted(told.note)
    row = _FIND.first(session, gateway_refund_id=told.id or None, noted_id=noted[0] if noted else None)
    if row is None and not told.note:
        row = _FIND_BY_AMOUNT.first(session, reference=told.reference, amount_minor=told.amount_minor)
    if row is None:
        _log.warning(
            "refund of the gateway is none of ours", gatewayRefundId=told.id, reference=told.reference
        )
        return None
    found: UUID = row["id"]
    return found


def settle(session: Session, *, refund_id: UUID, told: GatewayRefund, now: datetime) -> str:
    """This function will note what the gateway says of a refund, and book it when the money has left.

    It may come any number of times and in any order: what is over stays as it is, and what was told of an
    earlier try says nothing of the present one, unless that it was sent. What was sent although the buyer had the
    money is booked as such, and asked back of them.

    :param refund_id: ours
    :param told: the gateway's word
    :param now: when
    :return: the refund's status
    """
    # The charge before the refund, as whoever refunds of it does.
    _LOCK_CHARGE.run(session, refund_id=refund_id)
    row = _LOCK.one(session, refund_id=refund_id)
    attempt = _attempt_of(row, told)
    if told.status == _SENT and (_has_it(row, attempt) or _is_booked(session, row, attempt)):
        _book_paid_twice(session, row, told, attempt=attempt, now=now)
        return str(row["status"])
    trigger = _trigger_of(row, told, attempt)
    if trigger is None or not states.REFUND.allows(row["status"], trigger):
        return str(row["status"])
    status = states.REFUND.target(row["status"], trigger)
    _MOVE.run(
        session,
        refund_id=refund_id,
        status=status,
        gateway_refund_id=told.id or None,
        attempt=attempt,
        settled_at=now if status == states.PROCESSED else None,
        now=now,
    )
    if status == states.PROCESSED:
        post(
            session,
            kind="refund_sent",
            source=f"refund:{refund_id}",
            description="Refund sent by the gateway",
            postings=[
                Posting(accounts.REFUNDS_IN_TRANSIT, "debit", row["amount_minor"], row["order_id"]),
                Posting(accounts.GATEWAY_CLEARING, "credit", row["amount_minor"], row["order_id"]),
            ],
            now=now,
        )
        refund_news.sent(session, row, now=now)
    elif status in (states.FAILED, states.NEEDS_ATTENTION):
        _log.error("refund needs finance", severity="SEV-3", refundId=str(refund_id), status=status)
        refund_news.delayed(session, row, now=now)
    return status


def _attempt_of(row: dict[str, Any], told: GatewayRefund) -> int:
    """Tell which try at a refund the gateway speaks of: the present one, unless its note names another."""
    noted = _noted(told.note)
    attempt: int = row["attempt"] if noted is None else noted[1]
    return attempt


def _has_it(row: dict[str, Any], attempt: int) -> bool:
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


def _source_of(row: dict[str, Any], attempt: int) -> str:
    """Name a try at a refund that its buyer had the money of, for the books."""
    return f"refund:{row['id']}:{attempt}"


def _is_booked(session: Session, row: dict[str, Any], attempt: int) -> bool:
    """Tell whether a try was booked as paid twice, whatever became of the refund since."""
    found = _IS_BOOKED.first(session, kind=debts.PAID_TWICE, source=_source_of(row, attempt))
    return found is not None


def _trigger_of(row: dict[str, Any], told: GatewayRefund, attempt: int) -> str | None:
    """Tell what the gateway's word means for a locked refund: a trigger of its table, or nothing."""
    trigger = _TRIGGERS.get(told.status)
    if attempt != row["attempt"] and told.status != _SENT:
        _log.info("word of an earlier try at a refund", refundId=str(row["id"]), status=told.status)
        return None
    if trigger == "fail" and row["status"] == states.PROCESSED:
        _log.error("refund failed after it was sent", severity="SEV-1", refundId=str(row["id"]))
    if told.amount_minor != row["amount_minor"]:
        _log.error(
            "refund of another amount", severity="SEV-2", refundId=str(row["id"]), told=told.amount_minor
        )
        return "need-attention"
    return trigger


def _book_paid_twice(
    session: Session, row: dict[str, Any], told: GatewayRefund, *, attempt: int, now: datetime
) -> None:
    """Book what the gateway paid of a refund whose buyer has the money already, and ask it back of them."""
    if _is_booked(session, row, attempt):
        return
    source = _source_of(row, attempt)
    _log.error(
        "refund was paid twice", severity="SEV-2", refundId=str(row["id"]), amountMinor=told.amount_minor
    )
    _NOTE_PAID_TWICE.run(session, refund_id=row["id"], amount_minor=told.amount_minor, now=now)
    refunds.recount(session, charge_id=row["charge_id"])
    claim = debts.claim(
        session,
        buyer_id=row["buyer_id"],
        order_id=row["order_id"],
        amount_minor=told.amount_minor,
        source=source,
        description="Refund that reached its buyer twice",
        now=now,
    )
    refund_news.paid_twice(session, row, claim, amount_minor=told.amount_minor, source=source, now=now)
