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
from marketplace.notifications.operations import notify
from marketplace.payments import alarms, states
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
_LOCK = Statement(
    text(
        """
        SELECT id, order_id, charge_id, buyer_id, amount_minor, status, attempt, gateway_refund_id FROM refunds
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
# An event may name neither: of those of its charge that are not settled the first that is as large is meant.
_FIND_BY_AMOUNT = Statement(
    text(
        """
        SELECT r.id FROM refunds r JOIN gateway_charges c ON c.id = r.charge_id
            JOIN payment_intents i ON i.id = c.intent_id
        WHERE i.reference = :reference AND r.amount_minor = :amount_minor AND r.asked_at IS NOT NULL
            AND r.status IN ('pending', 'submitted', 'needs_attention')
        ORDER BY r.id LIMIT 1
        """
    )
)
_MOVE = Statement(
    text(
        """
        UPDATE refunds SET status = :status, gateway_refund_id = coalesce(:gateway_refund_id, gateway_refund_id),
            settled_at = :settled_at, asking_until = NULL, updated_at = :now
        WHERE id = :refund_id
        """
    )
)
_TRIGGERS = {
    "processed": "process",
    "failed": "fail",
    "needs-attention": "need-attention",
    "pending": "submit",
    "processing": "submit",
}


class BeingSentError(ConflictError):
    """Somebody else is asking the gateway to send the refund."""


class KeyRefusedError(ProviderUnavailableError):
    """The gateway refuses our key: it would refuse any refund, and asking later may help."""

    def __init__(self, status: int) -> None:
        super().__init__("The payment gateway refused our key.")
        self.refused_with = status


@dataclass(frozen=True)
class RefusedRefund(GatewayRefund):
    """That the gateway refused to send a refund, as if it had told us that it failed."""

    refused_with: int = 0


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
    :raises KeyRefusedError: the gateway refuses our key
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
            raise KeyRefusedError(error.status) from error
        return RefusedRefund("", "failed", found.amount_minor, found.note, found.reference, error.status)


def find_known(gateway: PaymentGateway, *, reference: str, note: str) -> GatewayRefund | None:
    """This function will ask whether the gateway knows a refund by our note.

    :param reference: the charge's
    :param note: as ``note_of`` names it
    :raises ProviderUnavailableError: no usable answer
    """
    return next((known for known in gateway.refunds_of(reference) if known.note == note), None)


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
    earlier try says nothing of the present one.

    :param refund_id: ours
    :param told: the gateway's word
    :param now: when
    :return: the refund's status
    """
    row = _LOCK.one(session, refund_id=refund_id)
    trigger = _trigger_of(session, row, told, now=now)
    if trigger is None or not states.REFUND.allows(row["status"], trigger):
        return str(row["status"])
    status = states.REFUND.target(row["status"], trigger)
    _MOVE.run(
        session,
        refund_id=refund_id,
        status=status,
        gateway_refund_id=told.id or None,
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
        _tell(session, row, now=now)
        alarms.refund_moved_on(session, refund_id=refund_id, status=status, now=now)
    elif status in (states.FAILED, states.NEEDS_ATTENTION) and told.amount_minor == row["amount_minor"]:
        refused_with = told.refused_with if isinstance(told, RefusedRefund) else None
        alarms.refund_needs_finance(session, row, status=status, refused_with=refused_with, now=now)
    return status


def _trigger_of(session: Session, row: dict[str, Any], told: GatewayRefund, *, now: datetime) -> str | None:
    """Tell what the gateway's word means for a locked refund: a trigger of its table, or nothing."""
    trigger = _TRIGGERS.get(told.status)
    noted = _noted(told.note)
    sent = trigger == "process"
    if noted is not None and noted[1] != row["attempt"]:
        _log.info("word of an earlier try at a refund", refundId=str(row["id"]), status=told.status)
        if sent:
            # It had told us that this try failed, or we would not have tried again.
            alarms.refund_sent_twice(session, row, sent_at_try=noted[1], now=now)
        return None
    if sent and row["status"] == states.CREDITED:
        alarms.refund_sent_twice(session, row, sent_at_try=row["attempt"], now=now)
    if trigger == "fail" and row["status"] == states.PROCESSED:
        alarms.refund_came_back(session, row, now=now)
    if told.amount_minor != row["amount_minor"]:
        alarms.refund_amount_differs(session, row, told=told, now=now)
        return "need-attention"
    return trigger


def _tell(session: Session, row: dict[str, Any], *, now: datetime) -> None:
    """Tell the buyer that their money has left; a refund that fails is finance's to mend first."""
    notify(
        session,
        user_id=row["buyer_id"],
        type="refund_processed",
        title="Your refund was sent",
        body="The money is on its way to where you paid from. Your bank may take a few days to show it.",
        link=f"/orders/{row['order_id']}" if row["order_id"] else None,
        cause=f"refund:{row['id']}:processed",
        now=now,
    )
