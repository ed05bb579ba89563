"""Dispatch approved batches. A batch is sent exactly as two officers approved the payments, or not at all."""

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar
from uuid import UUID

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.clock import iso
from marketplace.kernel.errors import ConflictError
from marketplace.payouts import states, texts
from marketplace.payouts.accounting import PayeePayout
from marketplace.payouts.batches.decisions import (
    audit_batch_action,
    change_status,
    compute_fingerprint,
    ensure_has_pending_payments,
    lock_batch,
    set_approval,
)
from marketplace.payouts.models import PayoutTransferIntent
from marketplace.payouts.payees.holds import find_payout_holds
from marketplace.payouts.transfers import submit
from marketplace.platform.halts import ensure_not_halted


class ChangedSinceApprovalError(ConflictError):
    """The batch has changed since its approval. The batch is staged again and needs two new approvals."""

    reason = "batch-changed-since-approval"

    keeps_changes: ClassVar[bool] = True


class PayeesOnHoldError(ConflictError):
    """A payee of the batch may not be paid at the moment."""

    reason = "payees-on-hold"


@dataclass(frozen=True)
class DispatchedPayouts:
    """A dispatched batch or a vendor's requested payout, with the number and the sum of payments in kobo."""

    payments: int
    amount_minor: int
    status: str
    batch_id: UUID | None = None
    payout_id: UUID | None = None


# Each payment gets a reference before the first call. The reference never changes.
_INSERT_TRANSFERS = Statement(
    text(
        """
        WITH referred AS (
            INSERT INTO payout_transfers (intent_id, status, created_at, updated_at)
            SELECT id, :status, :now, :now FROM payout_transfer_intents
            WHERE batch_id = :batch_id AND status = 'pending' ORDER BY id
            RETURNING intent_id
        )
        SELECT coalesce(sum(i.amount_minor), 0)::bigint
        FROM referred r JOIN payout_transfer_intents i ON i.id = r.intent_id
        """
    )
)


def dispatch_batch(session: Session, *, batch_id: UUID, act: Act) -> DispatchedPayouts:
    """Dispatch a batch: create a transfer with a reference for each payment, and enqueue the submission.

    A batch that changed after the approval is refused and staged again.

    :raises NotFoundError: the batch does not exist
    :raises ConflictOfInterestError: the officer is a payee
    :raises PayoutsHaltedError: payouts are halted
    :raises IllegalTransitionError: the batch is not approved, or was dispatched before
    :raises ChangedSinceApprovalError: the batch changed; the new status is saved despite the refusal
    :raises PayeesOnHoldError: a payee is on hold
    :raises EmptyBatchError: the batch has no payments
    """
    batch = lock_batch(session, batch_id=batch_id, officer_id=act.person_id)
    ensure_not_halted(session)
    status_before, status = batch.status, states.BATCH.target(batch.status, "dispatch")
    fingerprint = compute_fingerprint(session, batch_id=batch_id)
    if fingerprint != batch.approved_hash:
        reopened = states.BATCH.target(status_before, "reopen")
        set_approval(batch, reopened, approved_hash=None, now=act.now)
        audit_batch_action(
            session,
            act,
            "reopen",
            batch_id,
            status_before=status_before,
            after={"status": reopened, "contentHash": fingerprint},
        )
        raise ChangedSinceApprovalError(texts.BATCH_CHANGED_SINCE_APPROVAL)
    payments = ensure_has_pending_payments(session, batch_id)
    _ensure_no_payee_on_hold(session, batch_id, now=act.now)
    batch.dispatched_by, batch.dispatched_at = act.person_id, act.now
    change_status(batch, status, now=act.now)
    audit_batch_action(
        session,
        act,
        "dispatch",
        batch_id,
        status_before=status_before,
        after={"status": status, "payments": payments},
    )
    amount_minor = _INSERT_TRANSFERS.scalar(
        session, batch_id=batch_id, status=states.PAYOUT.initial, now=act.now
    )
    submit.enqueue_submission(session, batch_id=batch_id, due_at=act.now)
    return DispatchedPayouts(payments, amount_minor, status, batch_id=batch_id)


def _ensure_no_payee_on_hold(session: Session, batch_id: UUID, *, now: datetime) -> None:
    rows = session.execute(
        select(PayoutTransferIntent.id, PayoutTransferIntent.user_id, PayoutTransferIntent.vendor_id).where(
            PayoutTransferIntent.batch_id == batch_id, PayoutTransferIntent.status == states.PENDING
        )
    )
    holds_by_payout = find_payout_holds(session, payouts=[PayeePayout(*row) for row in rows], now=now)
    holds_of_held = [holds for holds in holds_by_payout.values() if holds]
    if not holds_of_held:
        return
    ends = [hold.until for holds in holds_of_held for hold in holds]
    latest = max((end for end in ends if end is not None), default=None)
    if latest is None or None in ends:
        raise PayeesOnHoldError(texts.PAYEES_ON_HOLD.format(count=len(holds_of_held)))
    raise PayeesOnHoldError(texts.PAYEES_ON_HOLD_UNTIL.format(count=len(holds_of_held), until=iso(latest)))
