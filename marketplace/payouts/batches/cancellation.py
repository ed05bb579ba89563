"""Cancel payouts before they are sent: a whole batch, or some of its payments."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act
from marketplace.infra.db import Statement
from marketplace.kernel.errors import ValidationError
from marketplace.kernel.money import format_naira
from marketplace.notifications.operations import NewNotification, notify_all
from marketplace.payouts import states
from marketplace.payouts.accounting.reservations import Reservation, cancel_reservations
from marketplace.payouts.batches.batch import (
    audit_batch_action,
    change_status,
    ensure_has_pending_payments,
    ensure_officer_is_not_payee,
    lock_batch,
    set_approval,
)


@dataclass(frozen=True)
class _BatchPayout(Reservation):
    asked_for: bool


_LOCK_PAYOUTS = Statement(
    text(
        """
        SELECT id, user_id, vendor_id, amount_minor, status, asked_for FROM payout_transfer_intents
        WHERE batch_id = :batch_id AND (CAST(:ids AS uuid[]) IS NULL OR id = ANY(:ids))
        ORDER BY id FOR NO KEY UPDATE
        """
    ),
    row=_BatchPayout,
)


def reject_batch(session: Session, *, batch_id: UUID, act: Act, reason: str) -> None:
    """Reject a batch and return its amounts to the payees' balances.

    :param reason: for other officers, not for payees
    :raises NotFoundError: the batch does not exist
    :raises ConflictOfInterestError: the officer is a payee
    :raises IllegalTransitionError: the batch is being sent, or its status is final
    """
    batch = lock_batch(session, batch_id=batch_id)
    ensure_officer_is_not_payee(session, batch_id, act.person_id)
    status_before, status = batch.status, states.BATCH.target(batch.status, "reject")
    cancelled = _cancel(session, _LOCK_PAYOUTS.all(session, batch_id=batch_id, ids=None), now=act.now)
    batch.rejected_by, batch.rejected_at, batch.rejection_reason = act.person_id, act.now, reason
    change_status(batch, status, now=act.now)
    after = {
        "status": status,
        "reason": reason,
        "payments": len(cancelled),
        "amountMinor": sum(payout.amount_minor for payout in cancelled),
    }
    audit_batch_action(session, act, "reject", batch_id, status_before=status_before, after=after)


def exclude_payments(
    session: Session, *, batch_id: UUID, payout_ids: Sequence[UUID], act: Act, reason: str
) -> str:
    """Exclude payments from a batch and return their amounts. The rest needs two approvals again.

    :param reason: for other officers, not for payees
    :return: the batch's status: ``staged``
    :raises NotFoundError: the batch does not exist
    :raises ConflictOfInterestError: the officer is a payee
    :raises ValidationError: a payment is not in this batch, or was excluded before
    :raises ConflictError: the batch is being sent, has a final status, or would be empty
    """
    batch = lock_batch(session, batch_id=batch_id)
    ensure_officer_is_not_payee(session, batch_id, act.person_id)
    status_before = batch.status
    # A batch that may be rejected may be shortened, too.
    states.BATCH.target(status_before, "reject")
    payouts = _LOCK_PAYOUTS.all(session, batch_id=batch_id, ids=list(payout_ids))
    pending_ids = {payout.id for payout in payouts if payout.status == states.PENDING}
    for index, payout_id in enumerate(payout_ids):
        if payout_id not in pending_ids:
            raise ValidationError.of(f"intentIds[{index}]", "Is not a payment of this batch.")
    cancelled = _cancel(session, payouts, now=act.now)
    ensure_has_pending_payments(session, batch_id)
    status = (
        states.BATCH.target(status_before, "reopen") if status_before == states.APPROVED else status_before
    )
    set_approval(batch, status, approved_hash=None, now=act.now)
    after = {
        "status": status,
        "reason": reason,
        "intentIds": [str(payout.id) for payout in cancelled],
        "amountMinor": sum(payout.amount_minor for payout in cancelled),
    }
    audit_batch_action(session, act, "exclude", batch_id, status_before=status_before, after=after)
    return status


def _cancel(session: Session, payouts: Sequence[_BatchPayout], *, now: datetime) -> list[Reservation]:
    """Cancel payouts. Payees who had requested theirs are notified; the others never knew of theirs."""
    cancelled = cancel_reservations(session, payouts=payouts, now=now)
    requested_ids = {payout.id for payout in payouts if payout.asked_for}
    notifications = [
        NewNotification(
            payout.user_id,
            "payout_called_off",
            "Your payout was called off",
            f"The {format_naira(payout.amount_minor)} that you asked for are in your"
            f" {'balance' if payout.vendor_id else 'wallet'} again. Ask support if you want to know more.",
            "/payouts" if payout.vendor_id else "/wallet",
            f"payout_called_off:{payout.id}",
        )
        for payout in cancelled
        if payout.id in requested_ids
    ]
    notify_all(session, notifications=notifications, now=now)
    return cancelled
