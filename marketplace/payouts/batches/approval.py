"""The approval of a batch: two different officers, before anything is sent.

What counts is what the batch pays as of now. Whoever staged it has approved what was staged; when that changed since,
because a payee has another bank account or a payment was taken out, it takes two officers anew.
"""

from typing import Any
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
    update_batch_status,
)

REQUIRED_APPROVALS = 2

_SELECT_APPROVERS = Statement(
    text(
        """
        SELECT officer_id FROM payout_approvals WHERE batch_id = :batch_id AND content_hash = :content_hash
        """
    )
)
# An officer who was suspended since, or has another role, is none whose word counts.
_SELECT_ACTIVE_FINANCE_OFFICERS = Statement(
    text(
        """
        SELECT p.id FROM profiles p JOIN admin_roles r ON r.role = p.staff_role
        WHERE p.id = ANY(:ids) AND p.role = 'staff' AND p.account_status = 'active'
            AND 'canManageFinances' = ANY(r.permissions)
        """
    )
)
_INSERT_APPROVAL = Statement(
    text(
        """
        INSERT INTO payout_approvals (batch_id, officer_id, content_hash, comment, created_at)
        VALUES (:batch_id, :officer_id, :content_hash, :comment, :now)
        """
    )
)
# What is approved is sent to the accounts of that moment.
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


class DuplicateApprovalError(ForbiddenError):
    """The officer has already approved the batch, by staging it or by an approval."""

    reason = "duplicate-approval"


class BatchChangedError(ConflictError):
    """The batch has changed since the officer read it."""

    reason = "batch-changed"


def approve_batch(
    session: Session,
    *,
    batch_id: UUID,
    act: Act,
    comment: str | None = None,
    expected_fingerprint: str | None = None,
) -> str:
    """Note that an officer approves what a batch pays; the second officer's word approves it.

    One that is approved and has changed since is staged again by this, with the officer as the first.

    :param comment: for those who look at it later
    :param expected_fingerprint: what the officer read, if they say so
    :return: the batch's status: ``approved``, or ``staged`` as long as it takes another officer
    :raises NotFoundError: there is no such batch
    :raises ConflictOfInterestError: the batch pays the officer
    :raises DuplicateApprovalError: the officer has approved it already
    :raises ConflictError: the batch is not staged, pays nobody, or is not what the officer read
    """
    batch = lock_batch(session, batch_id=batch_id)
    ensure_officer_is_not_payee(session, batch_id, act.person_id)
    fingerprint = compute_fingerprint(session, batch_id=batch_id)
    status = batch["status"]
    if status == states.APPROVED and fingerprint != batch["approved_hash"]:
        status = states.BATCH.target(status, "reopen")
    approved = states.BATCH.target(status, "approve")
    if expected_fingerprint is not None and expected_fingerprint != fingerprint:
        raise BatchChangedError(
            "The batch changed since you read it. Look at it again before you approve it."
        )
    ensure_has_pending_payments(session, batch_id)
    officers = find_approvers(session, batch, fingerprint=fingerprint)
    if act.person_id in officers:
        raise DuplicateApprovalError("You have approved this batch already: another officer has to.")
    _INSERT_APPROVAL.run(
        session,
        batch_id=batch_id,
        officer_id=act.person_id,
        content_hash=fingerprint,
        comment=comment,
        now=act.now,
    )
    is_complete = len(officers) + 1 >= REQUIRED_APPROVALS
    if is_complete:
        _UPDATE_TO_CURRENT_ACCOUNTS.run(session, batch_id=batch_id, now=act.now)
    new_status = approved if is_complete else status
    update_batch_status(
        session, batch_id, new_status, approved_hash=fingerprint if is_complete else None, now=act.now
    )
    audit_batch_action(
        session,
        act,
        "approve",
        batch,
        {
            "status": new_status,
            "contentHash": fingerprint,
            "comment": comment,
            "approvals": len(officers) + 1,
        },
    )
    return new_status


def find_approvers(session: Session, batch: dict[str, Any], *, fingerprint: str) -> set[UUID]:
    """Tell which officers have approved what a batch pays as of now.

    :param batch: its row
    :param fingerprint: the hash of that
    :return: their ids; whoever staged just that is among them. Who may not approve any more is not
    """
    officers = {
        row["officer_id"]
        for row in _SELECT_APPROVERS.all(session, batch_id=batch["id"], content_hash=fingerprint)
    }
    if batch["staged_by"] is not None and batch["content_hash"] == fingerprint:
        officers.add(batch["staged_by"])
    return (
        {row["id"] for row in _SELECT_ACTIVE_FINANCE_OFFICERS.all(session, ids=list(officers))}
        if officers
        else officers
    )
