"""Proposals: filed by an officer, carried or rejected by another, put into force when they are due."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.infra.batches import process_each
from marketplace.infra.db import Database, Json, Statement
from marketplace.kernel.clock import iso
from marketplace.kernel.errors import (
    ConflictError,
    NotFoundError,
    SecondApproverRequiredError,
    ValidationError,
)
from marketplace.proposals import notifications, states
from marketplace.proposals.kinds import CHANGES

EXPIRES_AFTER = timedelta(days=7)
# A change that lies further ahead would be approved by people who can't know what it meets.
LATEST_START = timedelta(days=90)
_BATCH_SIZE = 200
_TARGET_TYPE = "platform_proposal"
_STALE_PROPOSAL = "What it changes is no longer what it was when it was proposed."

_INSERT_PROPOSAL = Statement(
    text(
        """
        INSERT INTO platform_proposals (kind, target, payload, reason, status, before, after, effect, proposed_by,
            effective_at, expires_at, created_at, updated_at)
        VALUES (:kind, :target, :payload, :reason, :status, :before, :after, :effect, :proposed_by,
            :effective_at, :expires_at, :now, :now)
        RETURNING id
        """
    )
)
_SELECT_PROPOSAL = """
    SELECT id, kind, target, payload, status, before, after, proposed_by, approved_by, effective_at, expires_at
    FROM platform_proposals WHERE id = :proposal_id
"""
_LOCK_PROPOSAL = Statement(text(f"{_SELECT_PROPOSAL} FOR NO KEY UPDATE"))
_LOCK_PROPOSAL_IF_FREE = Statement(text(f"{_SELECT_PROPOSAL} FOR NO KEY UPDATE SKIP LOCKED"))
# What is changed is compared and changed by one at a time, whichever proposals it is of.
_ACQUIRE_CHANGE_LOCK = Statement(text("SELECT pg_advisory_xact_lock(hashtext('platform_proposals'))"))
_SELECT_DUE_PROPOSALS = Statement(
    text(
        """
        SELECT id FROM platform_proposals WHERE status = 'approved' AND effective_at <= :now
        ORDER BY effective_at, id LIMIT :limit
        """
    )
)
_SELECT_OVERDUE_PROPOSALS = Statement(
    text(
        """
        SELECT id FROM platform_proposals WHERE status = 'pending' AND expires_at <= :now
        ORDER BY expires_at, id LIMIT :limit
        """
    )
)
_APPROVE_PROPOSAL = Statement(
    text(
        """
        UPDATE platform_proposals SET status = :status, approved_by = :officer_id, approved_at = :now,
            updated_at = :now
        WHERE id = :proposal_id
        """
    )
)
_ACTIVATE_PROPOSAL = Statement(
    text(
        "UPDATE platform_proposals SET status = :status, activated_at = :now, updated_at = :now"
        " WHERE id = :proposal_id"
    )
)
_REJECT_PROPOSAL = Statement(
    text(
        """
        UPDATE platform_proposals SET status = :status, rejected_by = :officer_id, rejected_at = :now,
            rejection_reason = :reason, updated_at = :now
        WHERE id = :proposal_id
        """
    )
)
_EXPIRE_PROPOSAL = Statement(
    text(
        "UPDATE platform_proposals SET status = :status, expired_at = :now, updated_at = :now"
        " WHERE id = :proposal_id"
    )
)


class ProposalExpiredError(ConflictError):
    """The proposal expired before its approval. The expiry is kept although the request is refused."""

    reason = "proposal-expired"
    keeps_changes = True


class StaleProposalError(ConflictError):
    """The target has changed since the proposal was filed, so the proposed effect is no longer accurate."""

    reason = "stale-proposal"


@dataclass(frozen=True)
class ProposalDraft:
    """What an officer proposes.

    :param kind: of ``CHANGES``
    :param payload: as the kind takes it
    :param reason: for the officer who decides
    :param effective_at: when it takes effect; none for as soon as it is approved
    """

    kind: str
    payload: Mapping[str, Any]
    reason: str
    effective_at: datetime | None = None


@dataclass(frozen=True)
class DueProposalsResult:
    """How many proposals took effect, no longer fitted, and expired."""

    activated: int
    rejected: int
    expired: int


def propose(session: Session, *, act: Act, draft: ProposalDraft) -> UUID:
    """File a proposal, and tell the officers who may decide on it.

    :param draft: what
    :return: the proposal's id
    :raises ValidationError: it is out of range, names something that there is none of, or begins in the past
    :raises ConflictError: there is nothing to do it to
    """
    change = CHANGES[draft.kind]
    starts = draft.effective_at
    if starts is not None and not act.now <= starts <= act.now + LATEST_START:
        raise ValidationError.of(
            "effectiveAt", f"Must be in the future, and at most {LATEST_START.days} days away."
        )
    change.lock_target(session)
    payload = change.validate_payload(session, draft.payload, now=starts or act.now)
    before, after = (
        change.current_state(session, payload, now=act.now),
        change.proposed_state(session, payload),
    )
    proposal_id: UUID = _INSERT_PROPOSAL.one(
        session,
        kind=draft.kind,
        target=change.target(payload),
        payload=Json(payload),
        reason=draft.reason,
        status=states.PROPOSAL.initial,
        before=Json(before),
        after=Json(after),
        effect=Json(change.effect(session, payload)),
        proposed_by=act.person_id,
        effective_at=starts,
        expires_at=act.now + EXPIRES_AFTER,
        now=act.now,
    )["id"]
    _audit(
        session,
        act,
        "file",
        proposal_id,
        before=before,
        after={"status": states.PENDING, "kind": draft.kind, "reason": draft.reason, "change": after}
        | ({"effectiveAt": iso(starts)} if starts else {}),
    )
    notifications.notify_proposal_filed(
        session,
        proposal_id=proposal_id,
        kind=draft.kind,
        reason=draft.reason,
        officer_id=act.person_id,
        now=act.now,
    )
    return proposal_id


def approve_proposal(session: Session, *, proposal_id: UUID, act: Act) -> None:
    """Approve a proposal for a second officer; it takes effect at once, or when it is due.

    :raises NotFoundError: there is no such proposal
    :raises SecondApproverRequiredError: the officer proposed it
    :raises IllegalTransitionError: it is decided on
    :raises ProposalExpiredError: it waited for more than seven days
    :raises StaleProposalError: what it changes was changed since
    """
    row = _lock_proposal(session, proposal_id)
    if row["proposed_by"] == act.person_id:
        raise SecondApproverRequiredError("You proposed it: another officer has to approve it.")
    status = states.PROPOSAL.target(row["status"], states.APPROVE)
    if row["expires_at"] <= act.now:
        _expire(session, row, now=act.now)
        raise ProposalExpiredError(
            f"The proposal expired at {iso(row['expires_at'])}: nobody had approved it. File it anew."
        )
    if not _is_target_unchanged(session, row, now=act.now):
        raise StaleProposalError(f"{_STALE_PROPOSAL} File it anew.")
    _APPROVE_PROPOSAL.run(
        session, proposal_id=proposal_id, status=status, officer_id=act.person_id, now=act.now
    )
    row |= {"status": status, "approved_by": act.person_id}
    _audit(
        session,
        act,
        "approve",
        proposal_id,
        before={"status": states.PENDING},
        after={"status": status},
    )
    if row["effective_at"] is None or row["effective_at"] <= act.now:
        _activate(session, row, act)
    else:
        notifications.notify_proposal_progress(
            session, row, "approved", f"It takes effect at {iso(row['effective_at'])}.", now=act.now
        )


def reject_proposal(session: Session, *, proposal_id: UUID, act: Act, reason: str) -> None:
    """Reject a proposal that did not take effect yet; its proposer may take it back so, too.

    :param reason: why
    :raises NotFoundError: there is no such proposal
    :raises IllegalTransitionError: it took effect, or is over
    """
    row = _lock_proposal(session, proposal_id)
    _reject(session, row, officer_id=act.person_id, act=act, reason=reason)


def apply_due_proposals(database: Database, *, now: datetime) -> DueProposalsResult:
    """Put approved proposals into force that are due, and end those that nobody approved.

    Each is a transaction of its own: one that fails keeps no other waiting, and is due again. One that no longer fits
    is rejected, and both officers are told.

    :param now: when
    :return: how many; at most 200 of each in one run
    """
    with database.reading() as session:
        due = _SELECT_DUE_PROPOSALS.all(session, now=now, limit=_BATCH_SIZE)
        overdue = _SELECT_OVERDUE_PROPOSALS.all(session, now=now, limit=_BATCH_SIZE)
    applied = process_each(
        [row["id"] for row in due],
        lambda proposal_id: database.in_transaction(_apply_due_proposal, proposal_id=proposal_id, now=now),
        failure="proposal not applied",
    )
    expired = process_each(
        [row["id"] for row in overdue],
        lambda proposal_id: database.in_transaction(
            _expire_overdue_proposal, proposal_id=proposal_id, now=now
        ),
        failure="proposal not expired",
    )
    return DueProposalsResult(applied.count(states.ACTIVE), applied.count(states.REJECTED), sum(expired))


def _lock_proposal(session: Session, proposal_id: UUID) -> dict[str, Any]:
    row = _LOCK_PROPOSAL.first(session, proposal_id=proposal_id)
    if row is None:
        raise NotFoundError("There is no such proposal.")
    return row


def _is_target_unchanged(session: Session, row: Mapping[str, Any], *, now: datetime) -> bool:
    """Tell whether what a proposal changes is still as it was shown to those who decide."""
    change = CHANGES[row["kind"]]
    _ACQUIRE_CHANGE_LOCK.first(session)
    change.lock_target(session)
    return (
        change.ignores_prior_state or change.current_state(session, row["payload"], now=now) == row["before"]
    )


def _apply_due_proposal(session: Session, *, proposal_id: UUID, now: datetime) -> str | None:
    """Put one into force, unless somebody else is at it, or was."""
    row = _LOCK_PROPOSAL_IF_FREE.first(session, proposal_id=proposal_id)
    if row is None or not states.PROPOSAL.allows(row["status"], states.ACTIVATE):
        return None
    if not _is_target_unchanged(session, row, now=now):
        _reject(session, row, officer_id=None, act=Act("system", now), reason=_STALE_PROPOSAL)
        return states.REJECTED
    _activate(session, row, Act("system", now))
    return states.ACTIVE


def _expire_overdue_proposal(session: Session, *, proposal_id: UUID, now: datetime) -> bool:
    row = _LOCK_PROPOSAL_IF_FREE.first(session, proposal_id=proposal_id)
    if row is None or not states.PROPOSAL.allows(row["status"], states.EXPIRE):
        return False
    _expire(session, row, now=now)
    return True


def _activate(session: Session, row: dict[str, Any], act: Act) -> None:
    status = states.PROPOSAL.target(row["status"], states.ACTIVATE)
    change = CHANGES[row["kind"]]
    before = change.current_state(session, row["payload"], now=act.now)
    _ACTIVATE_PROPOSAL.run(session, proposal_id=row["id"], status=status, now=act.now)
    change.apply(session, row["payload"], proposal_id=row["id"], now=act.now)
    _audit(
        session,
        act,
        "activate",
        row["id"],
        before={"status": row["status"], "change": before},
        after={"status": status, "change": change.current_state(session, row["payload"], now=act.now)},
    )
    notifications.notify_proposal_progress(session, row, "active", "It is in force.", now=act.now)


def _reject(
    session: Session,
    row: dict[str, Any],
    *,
    officer_id: UUID | None,
    act: Act,
    reason: str,
) -> None:
    status = states.PROPOSAL.target(row["status"], states.REJECT)
    _REJECT_PROPOSAL.run(
        session, proposal_id=row["id"], status=status, officer_id=officer_id, reason=reason, now=act.now
    )
    _audit(
        session,
        act,
        "reject",
        row["id"],
        before={"status": row["status"]},
        after={"status": status, "reason": reason},
    )
    notifications.notify_proposal_progress(session, row, "rejected", reason, now=act.now)


def _expire(session: Session, row: dict[str, Any], *, now: datetime) -> None:
    status = states.PROPOSAL.target(row["status"], states.EXPIRE)
    _EXPIRE_PROPOSAL.run(session, proposal_id=row["id"], status=status, now=now)
    _audit(
        session,
        Act("system", now),
        "expire",
        row["id"],
        before={"status": row["status"]},
        after={"status": status},
    )
    notifications.notify_proposal_progress(session, row, "expired", "Nobody approved it in time.", now=now)


def _audit(
    session: Session,
    act: Act,
    step: str,
    proposal_id: UUID,
    *,
    before: dict[str, Any],
    after: dict[str, Any],
) -> None:
    record_audit_entry(
        session,
        act=act,
        action=f"proposal.{step}",
        target_type=_TARGET_TYPE,
        target_id=str(proposal_id),
        before=before,
        after=after,
    )
