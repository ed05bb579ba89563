"""Officers' decisions about payout batches: approve, reject, and exclude payments.

Two officers must approve a batch before the dispatch. An approval covers the payments at that time, and staging is the
stager's approval of the staged payments. A payee's new bank account or an excluded payment invalidates earlier
approvals.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.errors import (
    ConflictError,
    ConflictOfInterestError,
    ForbiddenError,
    ValidationError,
    found,
)
from marketplace.kernel.money import format_naira
from marketplace.notifications.operations import NewNotification, notify_all
from marketplace.payouts import states, texts
from marketplace.payouts.accounting import Reservation, cancel_reservations
from marketplace.payouts.models import PayoutApproval, PayoutBatch, PayoutTransferIntent

REQUIRED_APPROVALS = 2


class EmptyBatchError(ConflictError):
    """The batch has no payouts."""

    reason = "batch-empty"


class DuplicateApprovalError(ForbiddenError):
    """The officer has already approved or staged the batch."""

    reason = "duplicate-approval"


class BatchChangedError(ConflictError):
    """The batch has changed since the officer read it."""

    reason = "batch-changed"


def lock_batch(session: Session, *, batch_id: UUID, officer_id: UUID) -> PayoutBatch:
    """Lock a batch for an officer's decision. Lock order: the batch, then payouts, then balances.

    :raises NotFoundError: the batch does not exist
    :raises ConflictOfInterestError: the batch pays the officer
    """
    batch = found(
        session.get(PayoutBatch, batch_id, with_for_update={"key_share": True}, populate_existing=True),
        texts.BATCH_NOT_FOUND,
    )
    own_payments = select(PayoutTransferIntent.id).where(
        PayoutTransferIntent.batch_id == batch_id,
        PayoutTransferIntent.user_id == officer_id,
        PayoutTransferIntent.status != states.CANCELLED,
    )
    if session.scalar(own_payments.limit(1)) is not None:
        raise ConflictOfInterestError("This batch pays you, so other officers must decide on it.")
    return batch


def ensure_has_pending_payments(session: Session, batch_id: UUID) -> int:
    """Count a batch's pending payments.

    :raises EmptyBatchError: the batch has no pending payments
    """
    payments = session.scalar(
        select(func.count(PayoutTransferIntent.id)).where(
            PayoutTransferIntent.batch_id == batch_id, PayoutTransferIntent.status == states.PENDING
        )
    )
    if not payments:
        raise EmptyBatchError(texts.BATCH_EMPTY)
    return payments


# The payee's current bank account counts, so a replacement after the staging changes the fingerprint.
_SELECT_FINGERPRINT_ROWS = Statement(
    text(
        """
        SELECT i.id::text, i.user_id::text, i.vendor_id::text, i.amount_minor, a.id::text, a.bank_code,
            encode(a.account_number_index, 'hex'), a.recipient_code
        FROM payout_transfer_intents i
            LEFT JOIN payout_accounts a ON a.user_id = i.user_id AND a.replaced_at IS NULL
        WHERE i.batch_id = :batch_id AND i.status <> 'cancelled'
        ORDER BY i.id
        """
    )
)


def compute_fingerprint(session: Session, *, batch_id: UUID) -> str:
    """Compute the SHA-256 fingerprint of a batch's payments, with payees, amounts and bank accounts.

    The hash covers the batch's id and a JSON array for each payment, in the order of ids. An array holds the payment's
    id, user, vendor and kobo, and the current account's id, bank, number and recipient code. The blind index replaces
    the account number, so the hash does not reveal the number.

    :param batch_id: locked by the caller if the batch must not change meanwhile
    :return: 64 lowercase hexadecimal digits
    """
    digest = hashlib.sha256(orjson.dumps(str(batch_id)))
    for row in _SELECT_FINGERPRINT_ROWS.tuples(session, batch_id=batch_id):
        digest.update(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
    return digest.hexdigest()


def change_status(batch: PayoutBatch, status: str, *, now: datetime) -> None:
    """Write the new status of a batch. The caller must hold the batch's row lock."""
    batch.status, batch.updated_at, batch.revision = status, now, batch.revision + 1


def set_approval(batch: PayoutBatch, status: str, *, approved_hash: str | None, now: datetime) -> None:
    """Approve a locked batch, or withdraw the approval.

    :param approved_hash: the fingerprint approved by two officers; none withdraws the approval
    """
    batch.approved_hash, batch.approved_at = approved_hash, now if approved_hash else None
    change_status(batch, status, now=now)


def audit_batch_action(
    session: Session, act: Act, action: str, batch_id: UUID, *, status_before: str, after: dict[str, Any]
) -> None:
    """Record an action on a batch in the audit log, such as ``approve``."""
    record_audit_entry(
        session,
        act=act,
        action=f"payout_batch.{action}",
        target_type="payout_batch",
        target_id=str(batch_id),
        before={"status": status_before},
        after=after,
    )


# Payouts go to the bank accounts that were current at the approval.
_UPDATE_TO_CURRENT_ACCOUNTS = Statement(
    text(
        """
        UPDATE payout_transfer_intents i SET account_id = a.id, updated_at = :now
        FROM payout_accounts a
        WHERE i.batch_id = :batch_id AND i.status = 'pending' AND a.user_id = i.user_id AND a.replaced_at IS NULL
            AND a.id <> i.account_id
        """
    )
)


def approve_batch(
    session: Session,
    *,
    batch_id: UUID,
    act: Act,
    comment: str | None = None,
    expected_fingerprint: str | None = None,
) -> str:
    """Record an officer's approval of a batch's payments. The second officer's approval approves the batch.

    An approved batch that has changed since is staged again, with this approval as the first.

    :param comment: for the audit log and other officers
    :param expected_fingerprint: the fingerprint of the batch as shown to the officer
    :return: the batch's status: ``approved``, or ``staged`` while another officer is needed
    :raises NotFoundError: the batch does not exist
    :raises ConflictOfInterestError: the batch pays the officer
    :raises DuplicateApprovalError: the officer has already approved or staged these payments
    :raises ConflictError: the batch is not staged, has no payments, or differs from the expected fingerprint
    """
    batch = lock_batch(session, batch_id=batch_id, officer_id=act.person_id)
    fingerprint = compute_fingerprint(session, batch_id=batch_id)
    status = status_before = batch.status
    if status == states.APPROVED and fingerprint != batch.approved_hash:
        status = states.BATCH.target(status, "reopen")
    approved = states.BATCH.target(status, "approve")
    if expected_fingerprint is not None and expected_fingerprint != fingerprint:
        raise BatchChangedError(texts.BATCH_CHANGED)
    ensure_has_pending_payments(session, batch_id)
    officers = find_approvers(session, batch_id=batch_id, fingerprint=fingerprint)
    if act.person_id in officers:
        raise DuplicateApprovalError(texts.BATCH_ALREADY_APPROVED)
    session.add(
        PayoutApproval(
            batch_id=batch_id,
            officer_id=act.person_id,
            content_hash=fingerprint,
            comment=comment,
            created_at=act.now,
        )
    )
    approvals = len(officers) + 1
    if approvals >= REQUIRED_APPROVALS:
        _UPDATE_TO_CURRENT_ACCOUNTS.run(session, batch_id=batch_id, now=act.now)
        set_approval(batch, approved, approved_hash=fingerprint, now=act.now)
    else:
        set_approval(batch, status, approved_hash=None, now=act.now)
    audit_batch_action(
        session,
        act,
        "approve",
        batch_id,
        status_before=status_before,
        after={
            "status": batch.status,
            "contentHash": fingerprint,
            "comment": comment,
            "approvals": approvals,
        },
    )
    return batch.status


# Approvals of officers who lost the permission, or whose account is not active, do not count. Staging is an approval.
_SELECT_APPROVERS = Statement(
    text(
        """
        SELECT p.id FROM profiles p JOIN admin_roles r ON r.role = p.staff_role
        WHERE p.id IN (
                SELECT officer_id FROM payout_approvals WHERE batch_id = :batch_id AND content_hash = :fingerprint
                UNION SELECT staged_by FROM payout_batches WHERE id = :batch_id AND content_hash = :fingerprint)
            AND p.role = 'staff' AND p.account_status = 'active' AND 'canManageFinances' = ANY(r.permissions)
        """
    )
)


def find_approvers(session: Session, *, batch_id: UUID, fingerprint: str) -> set[UUID]:
    """Find the officers with a valid approval of a batch's fingerprint."""
    return set(_SELECT_APPROVERS.scalars(session, batch_id=batch_id, fingerprint=fingerprint))


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
    """Reject a batch and return the amounts to the payees' balances.

    :param reason: shown to officers, not to payees
    :raises NotFoundError: the batch does not exist
    :raises ConflictOfInterestError: the officer is a payee
    :raises IllegalTransitionError: the batch is being sent or has a final status
    """
    batch = lock_batch(session, batch_id=batch_id, officer_id=act.person_id)
    status_before, status = batch.status, states.BATCH.target(batch.status, "reject")
    cancelled = _cancel(session, _LOCK_PAYOUTS.all(session, batch_id=batch_id, ids=None), now=act.now)
    batch.rejected_by, batch.rejected_at, batch.rejection_reason = act.person_id, act.now, reason
    change_status(batch, status, now=act.now)
    audit_batch_action(
        session,
        act,
        "reject",
        batch_id,
        status_before=status_before,
        after={
            "status": status,
            "reason": reason,
            "payments": len(cancelled),
            "amountMinor": sum(payout.amount_minor for payout in cancelled),
        },
    )


def exclude_payments(
    session: Session, *, batch_id: UUID, payout_ids: Sequence[UUID], act: Act, reason: str
) -> str:
    """Exclude payments from a batch and return the amounts. The rest needs two approvals again.

    :param reason: shown to officers, not to payees
    :return: the batch's status: ``staged``
    :raises NotFoundError: the batch does not exist
    :raises ConflictOfInterestError: the officer is a payee
    :raises ValidationError: a payment is not in this batch, or was excluded before
    :raises ConflictError: the batch is being sent, has a final status, or would be empty
    """
    batch = lock_batch(session, batch_id=batch_id, officer_id=act.person_id)
    status_before = batch.status
    # Payments may be excluded as long as the batch may be rejected.
    states.BATCH.target(status_before, "reject")
    payouts = _LOCK_PAYOUTS.all(session, batch_id=batch_id, ids=list(payout_ids))
    pending_ids = {payout.id for payout in payouts if payout.status == states.PENDING}
    for index, payout_id in enumerate(payout_ids):
        if payout_id not in pending_ids:
            raise ValidationError.of(f"intentIds[{index}]", "Must be a pending payment of this batch.")
    cancelled = _cancel(session, payouts, now=act.now)
    ensure_has_pending_payments(session, batch_id)
    status = (
        states.BATCH.target(status_before, "reopen") if status_before == states.APPROVED else status_before
    )
    set_approval(batch, status, approved_hash=None, now=act.now)
    audit_batch_action(
        session,
        act,
        "exclude",
        batch_id,
        status_before=status_before,
        after={
            "status": status,
            "reason": reason,
            "intentIds": [str(payout.id) for payout in cancelled],
            "amountMinor": sum(payout.amount_minor for payout in cancelled),
        },
    )
    return status


def _cancel(session: Session, payouts: Sequence[_BatchPayout], *, now: datetime) -> list[Reservation]:
    """Cancel payouts, and notify payees of requested payouts. Other payees never saw the payouts."""
    cancelled = cancel_reservations(session, payouts=payouts, now=now)
    requested_ids = {payout.id for payout in payouts if payout.asked_for}
    notify_all(
        session,
        notifications=[
            NewNotification(
                payout.user_id,
                "payout_called_off",
                texts.PAYOUT_CANCELLED_TITLE,
                (
                    texts.PAYOUT_CANCELLED_BODY_STORE
                    if payout.vendor_id
                    else texts.PAYOUT_CANCELLED_BODY_WALLET
                ).format(amount=format_naira(payout.amount_minor)),
                "/payouts" if payout.vendor_id else "/wallet",
                f"payout_called_off:{payout.id}",
            )
            for payout in cancelled
            if payout.id in requested_ids
        ],
        now=now,
    )
    return cancelled
