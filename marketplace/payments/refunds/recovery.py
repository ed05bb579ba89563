"""What finance does about refunds that the gateway could not send: try again, or give the wallet the money."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.infra.db import Statement
from marketplace.kernel.errors import ConcurrentChangeError, ConflictError, NotFoundError
from marketplace.payments import states
from marketplace.payments.chargeback_guard import ensure_charge_not_charged_back
from marketplace.payments.conflict_of_interest import ensure_no_conflict_of_interest
from marketplace.payments.refunds import (
    alerts,
    amount_mismatch,
    create,
    duplicate_payment,
    gateway_refund,
    notifications,
    wallet_fallback,
)
from marketplace.providers.gateway.payloads import GatewayRefund
from marketplace.providers.gateway.payments import PaymentGateway

# What the gateway may still send, or has sent.
_IN_FLIGHT_STATUSES = frozenset({"pending", "processing", "processed"})

_SELECT_FAILED_REFUND = Statement(
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
_START_NEW_ATTEMPT = Statement(
    text(
        """
        UPDATE refunds SET status = :status, attempt = tries + 1, tries = tries + 1, asked_at = NULL,
            asking_until = NULL, gateway_refund_id = NULL, updated_at = :now
        WHERE id = :refund_id
        """
    )
)


class RefundStillInFlightError(ConflictError):
    """The gateway may still send the refund, or has sent it. The reported status is kept."""

    reason = "refund-still-in-flight"

    keeps_changes: ClassVar[bool] = True


class GatewayStatusUnknownError(ConflictError):
    """The gateway received the refund but does not report its status.

    The gateway may still send the refund.
    """

    reason = "gateway-status-unknown"


@dataclass(frozen=True)
class FailedRefund:
    """A refund that finance decides on, and how the gateway knows it."""

    id: UUID
    attempt: int
    reference: str
    gateway_refund_id: str | None


def find_failed_refund(session: Session, *, refund_id: UUID, trigger: str, officer_id: UUID) -> FailedRefund:
    """Find a refund that something is to be done about.

    :param trigger: ``retry`` or ``credit``
    :param officer_id: who does it
    :raises NotFoundError: there is no such refund
    :raises ConflictOfInterestError: the officer is a party to it
    :raises IllegalTransitionError: it did not fail
    """
    row = _SELECT_FAILED_REFUND.first(session, refund_id=refund_id)
    if row is None:
        raise NotFoundError("There is no such refund.")
    vendor_ids = [row["vendor_id"]] if row["vendor_id"] else []
    ensure_no_conflict_of_interest(
        session, officer_id=officer_id, buyer_id=row["buyer_id"], vendor_ids=vendor_ids
    )
    states.REFUND.target(row["status"], trigger)
    return FailedRefund(row["id"], row["attempt"], row["reference"], row["gateway_refund_id"])


def fetch_status(gateway: PaymentGateway, failed_refund: FailedRefund) -> list[GatewayRefund]:
    """Ask the gateway what it knows of a refund, so that no money is given twice.

    :return: each try at it that the gateway knows
    :raises ProviderUnavailableError: no usable answer: nothing can be decided then
    """
    return gateway_refund.list_gateway_attempts(
        gateway,
        reference=failed_refund.reference,
        refund_id=failed_refund.id,
        gateway_refund_id=failed_refund.gateway_refund_id,
    )


def retry_failed_refund(
    session: Session, *, failed_refund: FailedRefund, attempts: Sequence[GatewayRefund], act: Act
) -> dict[str, Any]:
    """Have the gateway try a failed refund again.

    :param failed_refund: as it was found
    :param attempts: what the gateway answered about it
    :return: the refund
    :raises RefundStillInFlightError: the gateway may still send it, or has
    :raises ChargedBackError: the buyer's bank gives the money back, or did
    :raises IllegalTransitionError: somebody else saw to it
    """
    row = _lock_same_attempt(session, failed_refund)
    _ensure_not_in_flight(session, row, _filter_in_flight(session, row, attempts), now=act.now)
    ensure_charge_not_charged_back(session, charge_id=row["charge_id"], to_wallet=False)
    status = states.REFUND.target(row["status"], states.RETRY)
    _START_NEW_ATTEMPT.run(session, refund_id=failed_refund.id, status=status, now=act.now)
    create.enqueue_sending(session, refund_id=failed_refund.id, now=act.now)
    alerts.resolve_refund_alerts(session, refund_id=failed_refund.id, status=status, now=act.now)
    return _audit_and_describe(session, row, status, act=act, action="refund.retry")


def credit_failed_refund(
    session: Session, *, failed_refund: FailedRefund, attempts: Sequence[GatewayRefund], act: Act
) -> dict[str, Any]:
    """Give a buyer's wallet what the gateway could not send back.

    The charge has that much more left to refund by the gateway then, should there be reason to. A refund that
    needs attention is one that the gateway keeps, and sends only when somebody gives it other bank details there;
    should that happen, it is booked as paid twice, and the buyer owes it. What the buyer's bank took of its charge
    comes off the wallet at once. So does what the gateway sent of it, if that is another amount: the wallet has the
    difference then, or the buyer owes it.

    :param failed_refund: as it was found
    :param attempts: what the gateway answered about it
    :return: the refund
    :raises RefundStillInFlightError: the gateway may still send it, or has
    :raises ChargedBackError: the buyer's bank may yet give the money back
    :raises GatewayStatusUnknownError: the gateway had it, and does not tell of it
    :raises IllegalTransitionError: somebody else saw to it
    """
    row = _lock_same_attempt(session, failed_refund)
    in_flight = _filter_in_flight(session, row, attempts)
    mismatched = [attempt for attempt in in_flight if gateway_refund.is_amount_mismatch(row, attempt)]
    _ensure_not_in_flight(
        session, row, [attempt for attempt in in_flight if attempt not in mismatched], now=act.now
    )
    chargeback_state = ensure_charge_not_charged_back(session, charge_id=row["charge_id"], to_wallet=True)
    states.REFUND.target(row["status"], states.CREDIT)
    is_reported = any(gateway_refund.resolve_attempt(row, attempt) == row["attempt"] for attempt in attempts)
    if row["status"] == states.NEEDS_ATTENTION and not is_reported:
        raise GatewayStatusUnknownError(
            "The gateway had this refund, and does not tell now how far it is: it may still send it. Look it up at"
            " the gateway, and try again."
        )
    if mismatched:
        status = amount_mismatch.correct_amount_mismatch(session, row, mismatched, now=act.now)
    elif chargeback_state == "lost":
        status = wallet_fallback.credit_and_offset_debt(session, row, trigger=states.CREDIT, now=act.now)
    else:
        status = wallet_fallback.credit_unsent_refund(session, row, trigger=states.CREDIT, now=act.now)
        notifications.notify_refund_credited(session, row, now=act.now)
    return _audit_and_describe(session, row, status, act=act, action="refund.credit")


def _lock_same_attempt(session: Session, failed_refund: FailedRefund) -> dict[str, Any]:
    """Lock the charge and the refund, unless another try began since it was found."""
    row = gateway_refund.lock_refund(session, refund_id=failed_refund.id)
    if row["attempt"] != failed_refund.attempt:
        raise ConcurrentChangeError("Somebody else had it tried again meanwhile.")
    return row


def _filter_in_flight(
    session: Session, row: dict[str, Any], attempts: Sequence[GatewayRefund]
) -> Sequence[GatewayRefund]:
    """Give the tries that were sent, or may still be; what was is owed already, if it was booked as paid twice."""
    return [
        attempt
        for attempt in attempts
        if attempt.status in _IN_FLIGHT_STATUSES
        and not duplicate_payment.is_duplicate_attempt(
            session, row, attempt=gateway_refund.resolve_attempt(row, attempt)
        )
    ]


def _ensure_not_in_flight(
    session: Session, row: dict[str, Any], in_flight: Sequence[GatewayRefund], *, now: datetime
) -> None:
    """Refuse to give what the gateway has sent, or may; what it says is kept."""
    if not in_flight:
        return
    reported = in_flight[0]
    status = gateway_refund.apply_gateway_status(session, refund_id=row["id"], reported=reported, now=now)
    amount = f", with {reported.amount_minor} kobo" if reported.amount_minor != row["amount_minor"] else ""
    raise RefundStillInFlightError(
        f"The gateway has sent the refund, or may still send it: it says {reported.status} of it{amount}. The refund is"
        f" {status} here now."
    )


def _audit_and_describe(
    session: Session, row: dict[str, Any], status: str, *, act: Act, action: str
) -> dict[str, Any]:
    updated_row = gateway_refund.lock_refund(session, refund_id=row["id"])
    record_audit_entry(
        session,
        act=act,
        action=action,
        target_type="refund",
        target_id=str(row["id"]),
        before={"status": row["status"], "attempt": row["attempt"]},
        after={"status": status, "attempt": updated_row["attempt"], "amountMinor": row["amount_minor"]},
    )
    return {
        "id": row["id"],
        "status": status,
        "attempt": updated_row["attempt"],
        "amountMinor": row["amount_minor"],
    }
