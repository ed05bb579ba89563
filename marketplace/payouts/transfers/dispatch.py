"""The beginning of a dispatch: what two officers have approved is sent as they approved it, or not at all."""

from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act
from marketplace.infra.db import Statement
from marketplace.kernel.clock import iso
from marketplace.kernel.errors import ConflictError
from marketplace.payouts import states
from marketplace.payouts.batches.batch import (
    audit_batch_action,
    compute_fingerprint,
    ensure_has_pending_payments,
    ensure_officer_is_not_payee,
    lock_batch,
    update_batch_status,
)
from marketplace.payouts.payees.holds import find_payout_holds
from marketplace.payouts.transfers import submit
from marketplace.platform.halts import ensure_not_halted

_MARK_BATCH_DISPATCHING = Statement(
    text(
        """
        UPDATE payout_batches SET status = :status, dispatched_by = :officer_id, dispatched_at = :now,
            revision = revision + 1, updated_at = :now
        WHERE id = :batch_id
        """
    )
)

_SELECT_PENDING_PAYEES = Statement(
    text(
        """
        SELECT id, user_id, vendor_id FROM payout_transfer_intents
        WHERE batch_id = :batch_id AND status = 'pending'
        """
    )
)


# Each payment's reference is there before anything is sent, and is never another.
_INSERT_TRANSFERS = Statement(
    text(
        """
        WITH referred AS (
            INSERT INTO payout_transfers (intent_id, status, created_at, updated_at)
            SELECT id, :status, :now, :now FROM payout_transfer_intents
            WHERE batch_id = :batch_id AND status = 'pending' ORDER BY id
            RETURNING intent_id
        )
        SELECT coalesce(sum(i.amount_minor), 0)::bigint AS amount_minor
        FROM referred r JOIN payout_transfer_intents i ON i.id = r.intent_id
        """
    )
)


class ChangedSinceApprovalError(ConflictError):
    """The batch has changed since its approval. The batch is staged again and needs two new approvals."""

    reason = "batch-changed-since-approval"

    keeps_changes: ClassVar[bool] = True


class PayeesOnHoldError(ConflictError):
    """A payee of the batch may not be paid at the moment."""

    reason = "payees-on-hold"


def dispatch_batch(session: Session, *, batch_id: UUID, act: Act) -> dict[str, Any]:
    """Let a batch go: each payment gets its reference, and a worker sends them.

    :return: the batch's id and status, how many payments there are to send, and kobo in all
    :raises ConflictError: as ``begin_dispatch``
    """
    payments = begin_dispatch(session, batch_id=batch_id, act=act)
    total = _INSERT_TRANSFERS.one(session, batch_id=batch_id, status=states.PAYOUT.initial, now=act.now)[
        "amount_minor"
    ]
    submit.enqueue_submission(session, batch_id=batch_id, due_at=act.now)
    return {"batchId": batch_id, "status": states.DISPATCHING, "payments": payments, "amountMinor": total}


def begin_dispatch(session: Session, *, batch_id: UUID, act: Act) -> int:
    """Begin to send a batch: it pays what two officers have approved, or nothing.

    The caller hands the sending on in the same transaction. A batch that changed since it was approved is staged
    again by the refusal.

    :return: how many payments there are to send
    :raises NotFoundError: there is no such batch
    :raises ConflictOfInterestError: the officer is a payee
    :raises PayoutsHaltedError: payouts stand still
    :raises IllegalTransitionError: it is not approved, or is being sent already
    :raises ChangedSinceApprovalError: it changed since; the refusal has changes to keep
    :raises PayeesOnHoldError: nothing may be paid to one of the payees now
    :raises EmptyBatchError: it pays nobody
    """
    batch = lock_batch(session, batch_id=batch_id)
    ensure_officer_is_not_payee(session, batch_id, act.person_id)
    ensure_not_halted(session)
    status = states.BATCH.target(batch["status"], "dispatch")
    fingerprint = compute_fingerprint(session, batch_id=batch_id)
    if fingerprint != batch["approved_hash"]:
        reopened = states.BATCH.target(batch["status"], "reopen")
        update_batch_status(session, batch_id, reopened, approved_hash=None, now=act.now)
        audit_batch_action(session, act, "reopen", batch, {"status": reopened, "contentHash": fingerprint})
        raise ChangedSinceApprovalError(
            "The batch changed since it was approved: it is staged again. Two officers approve it as it is now, or"
            " take out what they do not want to pay."
        )
    payments = ensure_has_pending_payments(session, batch_id)
    _ensure_no_payee_on_hold(session, batch_id, now=act.now)
    _MARK_BATCH_DISPATCHING.run(
        session, batch_id=batch_id, status=status, officer_id=act.person_id, now=act.now
    )
    audit_batch_action(session, act, "dispatch", batch, {"status": status, "payments": payments})
    return payments


def _ensure_no_payee_on_hold(session: Session, batch_id: UUID, *, now: datetime) -> None:
    holds_by_payout = find_payout_holds(
        session, payouts=_SELECT_PENDING_PAYEES.all(session, batch_id=batch_id), now=now
    )
    holds_of_held = [holds for holds in holds_by_payout.values() if holds]
    if not holds_of_held:
        return
    ends = [hold.until for holds in holds_of_held for hold in holds]
    latest = max((end for end in ends if end is not None), default=None)
    until = f" until {iso(latest)}" if latest is not None and None not in ends else ""
    raise PayeesOnHoldError(
        f"Payees on hold{until}: {len(holds_of_held)}. The batch says who and why. Send it when that is over, or"
        " take those payments out and have two officers approve the rest."
    )
