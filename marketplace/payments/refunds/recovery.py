"""What finance does about refunds that the gateway could not send: try again, or give the wallet the money."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.operations import AuditActor, record
from marketplace.identity.queries import Caller
from marketplace.infra.db import Statement
from marketplace.kernel.errors import ConflictError, NotFoundError
from marketplace.payments import states
from marketplace.payments.chargeback_guard import refuse_disputed_charge
from marketplace.payments.conflict_of_interest import refuse_party
from marketplace.payments.refunds import (
    alerts,
    amount_mismatch,
    create,
    duplicate_payment,
    gateway_refund,
    notifications,
    wallet_fallback,
)
from marketplace.providers.gateway.payments import GatewayRefund, PaymentGateway

# What the gateway may still send, or has sent.
_ON_ITS_WAY = frozenset({"pending", "processing", "processed"})

_FIND = Statement(
    text(
        """
        SELECT r.id, r.status, r.attempt, r.charge_id, r.buyer_id, r.gateway_refund_id, i.reference, o.vendor_id
        FROM refunds r
            LEFT JOIN gateway_charges c ON c.id = r.charge_id
            LEFT JOIN payment_intents i ON i.id = c.intent_id
            LEFT JOIN orders o ON o.id = r.order_id
        WHERE r.id = :refund_id
        """
    )
)
_RETRY = Statement(
    text(
        """
        UPDATE refunds SET status = :status, attempt = tries + 1, tries = tries + 1, asked_at = NULL,
            asking_until = NULL, gateway_refund_id = NULL, updated_at = :now
        WHERE id = :refund_id
        """
    )
)


class NotFailedError(ConflictError):
    """The gateway may still send the refund, or has sent it; what it told is kept."""

    keeps_changes: ClassVar[bool] = True


class UnclearError(ConflictError):
    """The gateway had the refund, and does not tell of it now: it may still send it."""


@dataclass(frozen=True)
class Stuck:
    """A refund that finance decides on, and how the gateway knows it."""

    id: UUID
    attempt: int
    reference: str
    gateway_refund_id: str | None


def find_stuck(session: Session, *, refund_id: UUID, trigger: str, officer: Caller) -> Stuck:
    """Find a refund that something is to be done about.

    :param trigger: ``retry`` or ``credit``
    :param officer: who does it
    :raises NotFoundError: there is no such refund
    :raises ForbiddenError: the officer is a party to it
    :raises IllegalTransitionError: it did not fail
    """
    row = _FIND.first(session, refund_id=refund_id)
    if row is None:
        raise NotFoundError("There is no such refund.")
    vendor_ids = [row["vendor_id"]] if row["vendor_id"] else []
    refuse_party(session, officer=officer, buyer_id=row["buyer_id"], vendor_ids=vendor_ids)
    states.REFUND.target(row["status"], trigger)
    return Stuck(row["id"], row["attempt"], row["reference"], row["gateway_refund_id"])


def ask(gateway: PaymentGateway, stuck: Stuck) -> list[GatewayRefund]:
    """Ask the gateway what it knows of a refund, so that no money is given twice.

    :return: each try at it that the gateway knows
    :raises ProviderUnavailableError: no usable answer: nothing can be decided then
    """
    return gateway_refund.tries_known(
        gateway,
        reference=stuck.reference,
        refund_id=stuck.id,
        gateway_refund_id=stuck.gateway_refund_id,
    )


def retry(
    session: Session, *, stuck: Stuck, known: Sequence[GatewayRefund], actor: AuditActor, now: datetime
) -> dict[str, Any]:
    """Have the gateway try a failed refund again.

    :param stuck: as it was found
    :param known: what the gateway answered about it
    :param actor: the officer as the audit names one
    :param now: when
    :return: the refund
    :raises NotFailedError: the gateway may still send it, or has
    :raises DisputedAtBankError: the buyer's bank gives the money back, or did
    :raises IllegalTransitionError: somebody else saw to it
    """
    row = _locked(session, stuck)
    _refuse_on_its_way(session, row, _underway(session, row, known), now=now)
    refuse_disputed_charge(session, charge_id=row["charge_id"], into_wallet=False)
    status = states.REFUND.target(row["status"], states.RETRY)
    _RETRY.run(session, refund_id=stuck.id, status=status, now=now)
    create.enqueue_sending(session, refund_id=stuck.id, now=now)
    alerts.refund_moved_on(session, refund_id=stuck.id, status=status, now=now)
    return _recorded(session, row, status, actor=actor, action="refund.retry", now=now)


def credit(
    session: Session, *, stuck: Stuck, known: Sequence[GatewayRefund], actor: AuditActor, now: datetime
) -> dict[str, Any]:
    """Give a buyer's wallet what the gateway could not send back.

    The charge has that much more left to refund by the gateway then, should there be reason to. A refund that
    needs attention is one that the gateway keeps, and sends only when somebody gives it other bank details there;
    should that happen, it is booked as paid twice, and the buyer owes it. What the buyer's bank took of its charge
    comes off the wallet at once. So does what the gateway sent of it, if that is another amount: the wallet has the
    difference then, or the buyer owes it.

    :param stuck: as it was found
    :param known: what the gateway answered about it
    :param actor: the officer as the audit names one
    :param now: when
    :return: the refund
    :raises NotFailedError: the gateway may still send it, or has
    :raises DisputedAtBankError: the buyer's bank may yet give the money back
    :raises UnclearError: the gateway had it, and does not tell of it
    :raises IllegalTransitionError: somebody else saw to it
    """
    row = _locked(session, stuck)
    underway = _underway(session, row, known)
    otherwise = [told for told in underway if gateway_refund.is_sent_otherwise(row, told)]
    _refuse_on_its_way(session, row, [told for told in underway if told not in otherwise], now=now)
    standing = refuse_disputed_charge(session, charge_id=row["charge_id"], into_wallet=True)
    states.REFUND.target(row["status"], states.CREDIT)
    is_told = any(gateway_refund.attempt_of(row, told) == row["attempt"] for told in known)
    if row["status"] == states.NEEDS_ATTENTION and not is_told:
        raise UnclearError(
            "The gateway had this refund, and does not tell now how far it is: it may still send it. Look it up at"
            " the gateway, and try again."
        )
    if otherwise:
        status = amount_mismatch.credit_and_book(session, row, otherwise, now=now)
    elif standing == "lost":
        status = wallet_fallback.credit_and_collect(session, row, trigger=states.CREDIT, now=now)
    else:
        status = wallet_fallback.credit(session, row, trigger=states.CREDIT, now=now)
        notifications.credited(session, row, now=now)
    return _recorded(session, row, status, actor=actor, action="refund.credit", now=now)


def _locked(session: Session, stuck: Stuck) -> dict[str, Any]:
    """Lock the charge and the refund, unless another try began since it was found."""
    row = gateway_refund.lock(session, refund_id=stuck.id)
    if row["attempt"] != stuck.attempt:
        raise ConflictError("Somebody else had it tried again meanwhile.")
    return row


def _underway(
    session: Session, row: dict[str, Any], known: Sequence[GatewayRefund]
) -> Sequence[GatewayRefund]:
    """Give the tries that were sent, or may still be; what was is owed already, if it was booked as paid twice."""
    return [
        told
        for told in known
        if told.status in _ON_ITS_WAY
        and not duplicate_payment.is_booked(session, row, attempt=gateway_refund.attempt_of(row, told))
    ]


def _refuse_on_its_way(
    session: Session, row: dict[str, Any], underway: Sequence[GatewayRefund], *, now: datetime
) -> None:
    """Refuse to give what the gateway has sent, or may; what it says is kept."""
    if not underway:
        return
    told = underway[0]
    status = gateway_refund.settle(session, refund_id=row["id"], told=told, now=now)
    amount = f", with {told.amount_minor} kobo" if told.amount_minor != row["amount_minor"] else ""
    raise NotFailedError(
        f"The gateway has sent the refund, or may still send it: it says {told.status} of it{amount}. The refund is"
        f" {status} here now."
    )


def _recorded(
    session: Session, row: dict[str, Any], status: str, *, actor: AuditActor, action: str, now: datetime
) -> dict[str, Any]:
    after = gateway_refund.lock(session, refund_id=row["id"])
    record(
        session,
        actor=actor,
        action=action,
        target_type="refund",
        target_id=str(row["id"]),
        before={"status": row["status"], "attempt": row["attempt"]},
        after={"status": status, "attempt": after["attempt"], "amountMinor": row["amount_minor"]},
        now=now,
    )
    return {
        "id": row["id"],
        "status": status,
        "attempt": after["attempt"],
        "amountMinor": row["amount_minor"],
    }
