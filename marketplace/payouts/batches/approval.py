"""The approval of a batch by two different officers, before anything is sent.

An approval is for what the batch pays now. Staging a batch approves what was staged. After a change, because a payee
has another bank account or a payment was excluded, the batch needs two officers again.
"""

from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act
from marketplace.infra.db import Statement
from marketplace.kernel.errors import ConflictError, ForbiddenError
from marketplace.payouts import states
from marketplace.payouts.batches.batch import (
    audit_batch_action,
    compute_fingerprint,
    ensure_has_pending_payments,
    ensure_officer_is_not_payee,
    lock_batch,
    set_approval,
)
from marketplace.payouts.models import PayoutApproval

REQUIRED_APPROVALS = 2


class DuplicateApprovalError(ForbiddenError):
    """The officer has already approved the batch, by staging it or by an approval."""

    reason = "duplicate-approval"


class BatchChangedError(ConflictError):
    """The batch has changed since the officer read it."""

    reason = "batch-changed"


# Payouts go to the accounts at the time of the approval.
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
    """Record an officer's approval of what a batch pays. The second officer's approval approves the batch.

    An approved batch that has changed since is staged again, with the officer as the first.

    :param comment: for the audit log and other officers
    :param expected_fingerprint: the fingerprint that the officer read
    :return: the batch's status: ``approved``, or ``staged`` while another officer is needed
    :raises NotFoundError: the batch does not exist
    :raises ConflictOfInterestError: the batch pays the officer
    :raises DuplicateApprovalError: the officer has already approved the batch
    :raises ConflictError: the batch is not staged, pays nobody, or differs from the expected fingerprint
    """
    batch = lock_batch(session, batch_id=batch_id)
    ensure_officer_is_not_payee(session, batch_id, act.person_id)
    fingerprint = compute_fingerprint(session, batch_id=batch_id)
    status = status_before = batch.status
    if status == states.APPROVED and fingerprint != batch.approved_hash:
        status = states.BATCH.target(status, "reopen")
    approved = states.BATCH.target(status, "approve")
    if expected_fingerprint is not None and expected_fingerprint != fingerprint:
        raise BatchChangedError(
            "The batch changed since you read it. Look at it again before you approve it."
        )
    ensure_has_pending_payments(session, batch_id)
    officers = find_approvers(session, batch_id=batch_id, fingerprint=fingerprint)
    if act.person_id in officers:
        raise DuplicateApprovalError("You have approved this batch already: another officer has to.")
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
    after = {
        "status": batch.status,
        "contentHash": fingerprint,
        "comment": comment,
        "approvals": approvals,
    }
    audit_batch_action(session, act, "approve", batch_id, status_before=status_before, after=after)
    return batch.status


# The approval of an officer who was suspended since, or has lost the role, does not count. Staging is an approval.
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
    """Find the officers who have approved a fingerprint of a batch and may still approve."""
    return set(_SELECT_APPROVERS.scalars(session, batch_id=batch_id, fingerprint=fingerprint))
