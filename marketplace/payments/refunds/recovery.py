"""Recovery of refunds that the gateway could not send: retry the refund or credit the wallet."""

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
from marketplace.payments import states, texts
from marketplace.payments.guards import ensure_charge_not_charged_back, ensure_no_conflict_of_interest
from marketplace.payments.models import Refund
from marketplace.payments.refunds import alerts, buyer_accounts, create, gateway_refund, notifications
from marketplace.payments.refunds.gateway_reports import PolledRefund, find_refund
from marketplace.providers.gateway.payloads import GatewayRefund


class RefundStillInFlightError(ConflictError):
    """The gateway has sent the refund or may still send it. The reported status is recorded."""

    reason = "refund-still-in-flight"

    keeps_changes: ClassVar[bool] = True


class GatewayStatusUnknownError(ConflictError):
    """The gateway received the refund but does not report a status, and may still send the refund."""

    reason = "gateway-status-unknown"


def find_failed_refund(session: Session, *, refund_id: UUID, trigger: str, officer_id: UUID) -> PolledRefund:
    """Find a refund that an officer wants to retry or credit.

    :param trigger: ``retry`` or ``credit``
    :raises NotFoundError: the refund does not exist
    :raises ConflictOfInterestError: the officer is a party to the refund's order
    :raises IllegalTransitionError: the refund's status does not allow the trigger
    """
    refund = session.get(Refund, refund_id, populate_existing=True)
    if refund is None:
        raise NotFoundError("Refund not found.")
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

    :param attempts: the refund's attempts as fetched from the gateway
    :raises RefundStillInFlightError: the gateway has sent the refund or may still send it
    :raises ChargedBackError: the buyer's bank disputes the payment or has returned it
    :raises ConcurrentChangeError: another officer has retried the refund
    :raises IllegalTransitionError: the refund's status changed and does not allow a retry
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
        session,
        refund_id=refund.id,
        note=texts.ALERT_REFUND_RESOLVED.format(status=refund.status),
        now=act.now,
    )
    return _audit(session, refund, before, act=act, action="refund.retry")


def credit_failed_refund(
    session: Session, *, failed_refund: PolledRefund, attempts: Sequence[GatewayRefund], act: Act
) -> Refund:
    """Credit a refund that the gateway could not send to the buyer's wallet.

    The charge's refundable amount grows by the credited amount. After a chargeback, the amount that the bank took is
    deducted from the wallet at once. If the gateway sent another amount, the sent amount is deducted too, and the
    buyer owes any excess.

    The gateway keeps a refund that needs attention and may send it once someone enters other bank details at the
    gateway. A refund sent in that way is posted as a duplicate, and the buyer owes the amount.

    :param attempts: the refund's attempts as fetched from the gateway
    :raises RefundStillInFlightError: the gateway has sent the refund or may still send it
    :raises ChargedBackError: the buyer's bank disputes the payment
    :raises GatewayStatusUnknownError: the gateway accepted the refund and does not report its status
    :raises ConcurrentChangeError: another officer has retried the refund
    :raises IllegalTransitionError: the refund's status changed and does not allow a credit
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
        raise GatewayStatusUnknownError(texts.GATEWAY_STATUS_UNKNOWN)
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
    """Credit the full refund to the wallet and deduct the amounts that the gateway sent instead.

    The wallet keeps a shortfall. An excess is taken from the wallet or becomes a debt. An attempt that the gateway
    later reports as failed is reversed like a duplicate payment.

    :param refund: locked together with its charge
    :param attempts: unposted attempts that the gateway sent with another amount
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
            description="Refund sent with another amount",
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
    # The rest of the credit may cover an older debt or a chargeback.
    buyer_accounts.offset_against_wallet(session, buyer_id=buyer_id, now=now)


def _lock_same_attempt(session: Session, failed_refund: PolledRefund) -> Refund:
    """Lock the charge and the refund.

    :raises ConcurrentChangeError: another attempt started since the refund was found
    """
    refund = gateway_refund.lock_refund(session, refund_id=failed_refund.id)
    if refund.attempt != failed_refund.attempt:
        raise ConcurrentChangeError(texts.REFUND_RETRIED_MEANWHILE)
    return refund


def _filter_in_flight(
    session: Session, refund: Refund, attempts: Sequence[GatewayRefund]
) -> Sequence[GatewayRefund]:
    """List the attempts that were sent or may still be sent, except posted duplicate payments."""
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
    """Refuse to recover a refund with an attempt in flight, and record the status of that attempt.

    :raises RefundStillInFlightError: the gateway has sent the refund or may still send it
    """
    if not in_flight:
        return
    reported = in_flight[0]
    status = gateway_refund.apply_gateway_status(session, refund_id=refund.id, reported=reported, now=now)
    message = (
        texts.REFUND_IN_FLIGHT
        if reported.amount_minor == refund.amount_minor
        else texts.REFUND_IN_FLIGHT_WITH_OTHER_AMOUNT
    )
    raise RefundStillInFlightError(
        message.format(gateway_status=reported.status, status=status, reported_minor=reported.amount_minor)
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
