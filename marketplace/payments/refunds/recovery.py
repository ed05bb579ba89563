"""Recover refunds that the gateway could not send: retry them, or credit the wallet."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.kernel.errors import ConcurrentChangeError, ConflictError, NotFoundError
from marketplace.ledger import accounts
from marketplace.ledger.operations import lock_balances
from marketplace.orders.models import Order
from marketplace.payments import states
from marketplace.payments.guards import ensure_charge_not_charged_back, ensure_no_conflict_of_interest
from marketplace.payments.models import Refund
from marketplace.payments.refunds import alerts, buyer_accounts, create, gateway_refund, notifications
from marketplace.payments.refunds.gateway_reports import PolledRefund, find_refund
from marketplace.providers.gateway.payloads import GatewayRefund


class RefundStillInFlightError(ConflictError):
    """The gateway may still send the refund, or has sent it. The reported status is kept."""

    reason = "refund-still-in-flight"

    keeps_changes: ClassVar[bool] = True


class GatewayStatusUnknownError(ConflictError):
    """The gateway received the refund but does not report its status.

    The gateway may still send the refund.
    """

    reason = "gateway-status-unknown"


def find_failed_refund(session: Session, *, refund_id: UUID, trigger: str, officer_id: UUID) -> PolledRefund:
    """Find a refund for an officer to recover.

    :param trigger: ``retry`` or ``credit``
    :raises NotFoundError: there is no such refund
    :raises ConflictOfInterestError: the officer is a party to it
    :raises IllegalTransitionError: it did not fail
    """
    refund = session.get(Refund, refund_id, populate_existing=True)
    if refund is None:
        raise NotFoundError("There is no such refund.")
    vendor_ids = session.scalars(select(Order.vendor_id).where(Order.id == refund.order_id)).all()
    ensure_no_conflict_of_interest(
        session, officer_id=officer_id, buyer_id=refund.buyer_id, vendor_ids=vendor_ids
    )
    states.REFUND.target(refund.status, trigger)
    return find_refund(session, refund_id=refund_id)


def retry_failed_refund(
    session: Session, *, failed_refund: PolledRefund, attempts: Sequence[GatewayRefund], act: Act
) -> Refund:
    """Retry a failed refund through the gateway.

    :param attempts: as fetched from the gateway
    :raises RefundStillInFlightError: the gateway may still send it, or has
    :raises ChargedBackError: the buyer's bank gives the money back, or did
    :raises IllegalTransitionError: somebody else saw to it
    """
    refund = _lock_same_attempt(session, failed_refund)
    _ensure_not_in_flight(session, refund, _filter_in_flight(session, refund, attempts), now=act.now)
    ensure_charge_not_charged_back(session, charge_id=refund.charge_id, to_wallet=False)
    before = {"status": refund.status, "attempt": refund.attempt}
    refund.status = states.REFUND.target(refund.status, states.RETRY)
    refund.tries += 1
    refund.attempt = refund.tries
    refund.asked_at = refund.asking_until = refund.gateway_refund_id = None
    refund.updated_at = act.now
    create.enqueue_task(session, refund_id=refund.id, now=act.now)
    alerts.resolve_refund_alerts(
        session, refund_id=refund.id, note=f"The refund is {refund.status}.", now=act.now
    )
    return _audit(session, refund, before, act=act, action="refund.retry")


def credit_failed_refund(
    session: Session, *, failed_refund: PolledRefund, attempts: Sequence[GatewayRefund], act: Act
) -> Refund:
    """Give a buyer's wallet what the gateway could not send back.

    The charge has that much more left to refund by the gateway then, should there be reason to. A refund that
    needs attention is one that the gateway keeps, and sends only when somebody gives it other bank details there;
    should that happen, it is booked as paid twice, and the buyer owes it. What the buyer's bank took of its charge
    comes off the wallet at once. So does what the gateway sent of it, if that is another amount: the wallet has the
    difference then, or the buyer owes it.

    :param attempts: as fetched from the gateway
    :raises RefundStillInFlightError: the gateway may still send it, or has
    :raises ChargedBackError: the buyer's bank may yet give the money back
    :raises GatewayStatusUnknownError: the gateway had it, and does not tell of it
    :raises IllegalTransitionError: somebody else saw to it
    """
    refund = _lock_same_attempt(session, failed_refund)
    in_flight = _filter_in_flight(session, refund, attempts)
    mismatched = [attempt for attempt in in_flight if gateway_refund.is_amount_mismatch(refund, attempt)]
    _ensure_not_in_flight(
        session, refund, [attempt for attempt in in_flight if attempt not in mismatched], now=act.now
    )
    chargeback_state = ensure_charge_not_charged_back(session, charge_id=refund.charge_id, to_wallet=True)
    states.REFUND.target(refund.status, states.CREDIT)
    if refund.status == states.NEEDS_ATTENTION and not any(
        gateway_refund.resolve_attempt(refund, attempt) == refund.attempt for attempt in attempts
    ):
        raise GatewayStatusUnknownError(
            "The gateway had this refund, and does not tell now how far it is: it may still send it. Look it up at"
            " the gateway, and try again."
        )
    before = {"status": refund.status, "attempt": refund.attempt}
    if mismatched:
        _correct_amount_mismatch(session, refund, mismatched, now=act.now)
    elif chargeback_state == "lost":
        buyer_accounts.credit_and_offset_debt(session, refund, trigger=states.CREDIT, now=act.now)
    else:
        buyer_accounts.credit_unsent_refund(session, refund, trigger=states.CREDIT, now=act.now)
        notifications.notify_refund_credited(session, refund, now=act.now)
    return _audit(session, refund, before, act=act, action="refund.credit")


def _correct_amount_mismatch(
    session: Session, refund: Refund, attempts: Sequence[GatewayRefund], *, now: datetime
) -> None:
    """Give the wallet a whole refund, and take what was sent of it back from there.

    So the wallet has what is missing; what is too much comes off it, or is owed. Should a try come back, it is undone
    as one that was paid twice.

    :param refund: locked, and its charge too
    :param attempts: the tries that the gateway sent with another amount, none of them booked
    """
    buyer_id = refund.buyer_id
    lock_balances(session, accounts=[accounts.wallet(buyer_id), accounts.buyer_receivable(buyer_id)])
    buyer_accounts.credit_unsent_refund(session, refund, trigger=states.CREDIT, now=now)
    outstanding_minor = sum(
        buyer_accounts.debit_buyer_for_attempt(
            session,
            refund,
            reported,
            attempt=gateway_refund.resolve_attempt(refund, reported),
            description="Refund that was sent with another amount",
            now=now,
        )
        for reported in attempts
    )
    notifications.notify_refund_amount_mismatch(
        session,
        refund,
        sent_minor=sum(reported.amount_minor for reported in attempts),
        outstanding_minor=outstanding_minor,
        now=now,
    )
    # What they owed before, or what their bank took, may be set off against what is left.
    buyer_accounts.offset_against_wallet(session, buyer_id=buyer_id, now=now)


def _lock_same_attempt(session: Session, failed_refund: PolledRefund) -> Refund:
    """Lock the charge and the refund, unless another attempt started since the refund was found."""
    refund = gateway_refund.lock_refund(session, refund_id=failed_refund.id)
    if refund.attempt != failed_refund.attempt:
        raise ConcurrentChangeError("Somebody else had it tried again meanwhile.")
    return refund


def _filter_in_flight(
    session: Session, refund: Refund, attempts: Sequence[GatewayRefund]
) -> Sequence[GatewayRefund]:
    """List the attempts that were sent or may still be, except those posted as duplicate payments."""
    return [
        attempt
        for attempt in attempts
        if attempt.status in ("pending", "processing", "processed")
        and not buyer_accounts.is_duplicate_attempt(
            session, refund, attempt=gateway_refund.resolve_attempt(refund, attempt)
        )
    ]


def _ensure_not_in_flight(
    session: Session, refund: Refund, in_flight: Sequence[GatewayRefund], *, now: datetime
) -> None:
    """Refuse to give what the gateway has sent, or may; what it says is kept."""
    if not in_flight:
        return
    reported = in_flight[0]
    status = gateway_refund.apply_gateway_status(session, refund_id=refund.id, reported=reported, now=now)
    amount = f", with {reported.amount_minor} kobo" if reported.amount_minor != refund.amount_minor else ""
    raise RefundStillInFlightError(
        f"The gateway has sent the refund, or may still send it: it says {reported.status} of it{amount}. The refund is"
        f" {status} here now."
    )


def _audit(session: Session, refund: Refund, before: dict[str, Any], *, act: Act, action: str) -> Refund:
    record_audit_entry(
        session,
        act=act,
        action=action,
        target_type="refund",
        target_id=str(refund.id),
        before=before,
        after={"status": refund.status, "attempt": refund.attempt, "amountMinor": refund.amount_minor},
    )
    return refund
