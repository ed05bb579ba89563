"""Calling payouts off before they are sent: a whole batch, or some of its payments."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.operations import AuditActor
from marketplace.identity.queries import Caller
from marketplace.infra.db import Statement
from marketplace.kernel.errors import ValidationError
from marketplace.kernel.money import naira_text
from marketplace.notifications.operations import News, notify_all
from marketplace.payouts import states
from marketplace.payouts.accounting import reservations
from marketplace.payouts.accounting.reservations import Claim
from marketplace.payouts.batches.batch import lock_batch, move, record_act, refuse_payee, require_payments

_REJECT = Statement(
    text(
        """
        UPDATE payout_batches SET status = :status, rejected_by = :officer_id, rejected_at = :now,
            rejection_reason = :reason, revision = revision + 1, updated_at = :now
        WHERE id = :batch_id
        """
    )
)

_LOCK_INTENTS = Statement(
    text(
        """
        SELECT id, user_id, vendor_id, amount_minor, status, asked_for FROM payout_transfer_intents
        WHERE batch_id = :batch_id AND (CAST(:ids AS uuid[]) IS NULL OR id = ANY(:ids))
        ORDER BY id FOR NO KEY UPDATE
        """
    )
)


def reject(
    session: Session, *, batch_id: UUID, officer: Caller, actor: AuditActor, reason: str, now: datetime
) -> None:
    """Call a batch off: all its money goes back to the balances that it was taken from.

    :param reason: for the other officers; payees are not told it
    :raises NotFoundError: there is no such batch
    :raises ForbiddenError: the officer is a payee
    :raises IllegalTransitionError: it is being sent, or is over
    """
    batch = lock_batch(session, batch_id=batch_id)
    refuse_payee(session, batch_id, officer)
    status = states.BATCH.target(batch["status"], "reject")
    intents = _LOCK_INTENTS.all(session, batch_id=batch_id, ids=None)
    back = reservations.cancel(session, intents=intents, now=now)
    _REJECT.run(session, batch_id=batch_id, status=status, officer_id=officer.id, reason=reason, now=now)
    _tell_askers(session, intents, back, now=now)
    after = {
        "status": status,
        "reason": reason,
        "payments": len(back),
        "amountMinor": sum(one.amount_minor for one in back),
    }
    record_act(session, actor, "reject", batch, after, now=now)


def exclude(
    session: Session,
    *,
    batch_id: UUID,
    intent_ids: Sequence[UUID],
    officer: Caller,
    actor: AuditActor,
    reason: str,
    now: datetime,
) -> str:
    """Take payments out of a batch: their money goes back, and the rest takes two approvals anew.

    :param intent_ids: the payments
    :param reason: for the other officers; payees are not told it
    :return: the batch's status: ``staged``
    :raises NotFoundError: there is no such batch
    :raises ForbiddenError: the officer is a payee
    :raises ValidationError: a payment is not of this batch, or was taken out already
    :raises ConflictError: the batch is being sent or is over, or would pay nobody any more
    """
    batch = lock_batch(session, batch_id=batch_id)
    refuse_payee(session, batch_id, officer)
    status = batch["status"]
    # Whoever may still be approved may also be left out.
    states.BATCH.target(status, "reject")
    intents = _LOCK_INTENTS.all(session, batch_id=batch_id, ids=list(intent_ids))
    waiting = {row["id"] for row in intents if row["status"] == states.PENDING}
    for index, intent_id in enumerate(intent_ids):
        if intent_id not in waiting:
            raise ValidationError.of(f"intentIds[{index}]", "Is not a payment of this batch.")
    back = reservations.cancel(session, intents=intents, now=now)
    require_payments(session, batch_id)
    status = states.BATCH.target(status, "reopen") if status == states.APPROVED else status
    move(session, batch_id, status, approved_hash=None, now=now)
    _tell_askers(session, intents, back, now=now)
    after = {
        "status": status,
        "reason": reason,
        "intentIds": [str(one.intent_id) for one in back],
        "amountMinor": sum(one.amount_minor for one in back),
    }
    record_act(session, actor, "exclude", batch, after, now=now)
    return status


def _tell_askers(
    session: Session, intents: Sequence[dict[str, Any]], back: Sequence[Claim], *, now: datetime
) -> None:
    """Tell those who had asked for a payment that it was called off; the others never knew of it."""
    asked = {row["id"] for row in intents if row["asked_for"]}
    news = [
        News(
            one.payee.user_id,
            "payout_called_off",
            "Your payout was called off",
            f"The {naira_text(one.amount_minor)} that you asked for are in your"
            f" {'balance' if one.payee.vendor_id else 'wallet'} again. Ask support if you want to know more.",
            "/payouts" if one.payee.vendor_id else "/wallet",
            f"payout_called_off:{one.intent_id}",
        )
        for one in back
        if one.intent_id in asked
    ]
    notify_all(session, news=news, now=now)
