"""Calling payouts off before they are sent: a whole batch, or some of its payments."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act
from marketplace.infra.db import Statement
from marketplace.kernel.errors import ValidationError
from marketplace.kernel.money import format_naira
from marketplace.notifications.operations import NewNotification, notify_all
from marketplace.payouts import states
from marketplace.payouts.accounting import reservations
from marketplace.payouts.accounting.reservations import Reservation
from marketplace.payouts.batches.batch import (
    audit_batch_action,
    ensure_has_pending_payments,
    ensure_officer_is_not_payee,
    lock_batch,
    update_batch_status,
)

_REJECT_BATCH = Statement(
    text(
        """
        UPDATE payout_batches SET status = :status, rejected_by = :officer_id, rejected_at = :now,
            rejection_reason = :reason, revision = revision + 1, updated_at = :now
        WHERE id = :batch_id
        """
    )
)

_LOCK_PAYOUTS = Statement(
    text(
        """
        SELECT id, user_id, vendor_id, amount_minor, status, asked_for FROM payout_transfer_intents
        WHERE batch_id = :batch_id AND (CAST(:ids AS uuid[]) IS NULL OR id = ANY(:ids))
        ORDER BY id FOR NO KEY UPDATE
        """
    )
)


def reject_batch(session: Session, *, batch_id: UUID, act: Act, reason: str) -> None:
    """Call a batch off: all its money goes back to the balances that it was taken from.

    :param reason: for the other officers; payees are not told it
    :raises NotFoundError: there is no such batch
    :raises ConflictOfInterestError: the officer is a payee
    :raises IllegalTransitionError: it is being sent, or is over
    """
    batch = lock_batch(session, batch_id=batch_id)
    ensure_officer_is_not_payee(session, batch_id, act.person_id)
    status = states.BATCH.target(batch["status"], "reject")
    payouts = _LOCK_PAYOUTS.all(session, batch_id=batch_id, ids=None)
    cancelled = reservations.cancel_reservations(session, payouts=payouts, now=act.now)
    _REJECT_BATCH.run(
        session, batch_id=batch_id, status=status, officer_id=act.person_id, reason=reason, now=act.now
    )
    _notify_requesters(session, payouts, cancelled, now=act.now)
    after = {
        "status": status,
        "reason": reason,
        "payments": len(cancelled),
        "amountMinor": sum(reservation.amount_minor for reservation in cancelled),
    }
    audit_batch_action(session, act, "reject", batch, after)


def exclude_payments(
    session: Session,
    *,
    batch_id: UUID,
    payout_ids: Sequence[UUID],
    act: Act,
    reason: str,
) -> str:
    """Take payments out of a batch: their money goes back, and the rest takes two approvals anew.

    :param payout_ids: the payments
    :param reason: for the other officers; payees are not told it
    :return: the batch's status: ``staged``
    :raises NotFoundError: there is no such batch
    :raises ConflictOfInterestError: the officer is a payee
    :raises ValidationError: a payment is not of this batch, or was taken out already
    :raises ConflictError: the batch is being sent or is over, or would pay nobody any more
    """
    batch = lock_batch(session, batch_id=batch_id)
    ensure_officer_is_not_payee(session, batch_id, act.person_id)
    status = batch["status"]
    # Whoever may still be approved may also be left out.
    states.BATCH.target(status, "reject")
    payouts = _LOCK_PAYOUTS.all(session, batch_id=batch_id, ids=list(payout_ids))
    pending_ids = {row["id"] for row in payouts if row["status"] == states.PENDING}
    for index, payout_id in enumerate(payout_ids):
        if payout_id not in pending_ids:
            raise ValidationError.of(f"intentIds[{index}]", "Is not a payment of this batch.")
    cancelled = reservations.cancel_reservations(session, payouts=payouts, now=act.now)
    ensure_has_pending_payments(session, batch_id)
    status = states.BATCH.target(status, "reopen") if status == states.APPROVED else status
    update_batch_status(session, batch_id, status, approved_hash=None, now=act.now)
    _notify_requesters(session, payouts, cancelled, now=act.now)
    after = {
        "status": status,
        "reason": reason,
        "intentIds": [str(reservation.payout_id) for reservation in cancelled],
        "amountMinor": sum(reservation.amount_minor for reservation in cancelled),
    }
    audit_batch_action(session, act, "exclude", batch, after)
    return status


def _notify_requesters(
    session: Session, payouts: Sequence[dict[str, Any]], cancelled: Sequence[Reservation], *, now: datetime
) -> None:
    """Tell those who had asked for a payment that it was called off; the others never knew of it."""
    requested_ids = {row["id"] for row in payouts if row["asked_for"]}
    notifications = [
        NewNotification(
            reservation.payee.user_id,
            "payout_called_off",
            "Your payout was called off",
            f"The {format_naira(reservation.amount_minor)} that you asked for are in your"
            f" {'balance' if reservation.payee.vendor_id else 'wallet'} again. Ask support if you want to know more.",
            "/payouts" if reservation.payee.vendor_id else "/wallet",
            f"payout_called_off:{reservation.payout_id}",
        )
        for reservation in cancelled
        if reservation.payout_id in requested_ids
    ]
    notify_all(session, notifications=notifications, now=now)
