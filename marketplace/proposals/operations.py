"""File, approve and reject proposals, and apply approved proposals when due."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.infra.batches import process_each
from marketplace.infra.db import Database
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.clock import iso
from marketplace.kernel.errors import (
    ConflictError,
    SecondApproverRequiredError,
    ValidationError,
    found,
)
from marketplace.proposals import notifications, policy, states, texts
from marketplace.proposals.kinds import CHANGES
from marketplace.proposals.models import PlatformProposal

EXPIRES_AFTER = timedelta(days=7)
# Officers cannot judge the effect of a change that is further ahead.
LATEST_START = timedelta(days=90)
_BATCH_SIZE = 200
_TARGET_TYPE = "platform_proposal"


class ProposalExpiredError(ConflictError):
    """The proposal expired before its approval. The expiry is saved although the request is refused."""

    reason = "proposal-expired"
    keeps_changes = True


class StaleProposalError(ConflictError):
    """The target has changed since the proposal was filed, so the proposed effect is no longer accurate."""

    reason = "stale-proposal"


@dataclass(frozen=True)
class DueProposalsResult:
    """Counts of proposals that took effect, were rejected as stale, and expired."""

    activated: int
    rejected: int
    expired: int


def propose(
    session: Session,
    *,
    act: Act,
    kind: str,
    payload: Mapping[str, Any],
    reason: str,
    effective_at: datetime | None = None,
) -> UUID:
    """File a proposal, and notify the officers with the permission to decide.

    :param kind: a key of ``CHANGES``
    :param payload: the parsed fields of the kind
    :param reason: shown to the deciding officer
    :param effective_at: the time when the change takes effect; on approval by default
    :return: the proposal's id
    :raises ValidationError: a value or ``effective_at`` is out of range, or the payload names a missing record
    :raises ConflictOfInterestError: the change concerns the officer
    :raises ConflictError: the target does not allow the change now
    """
    change = CHANGES[kind]
    if effective_at is not None and not act.now <= effective_at <= act.now + LATEST_START:
        raise ValidationError.of(
            "effectiveAt", f"Must be in the future and at most {LATEST_START.days} days ahead."
        )
    if effective_at is not None and not change.schedulable:
        raise ValidationError.of("effectiveAt", f"Is not allowed for the kind {kind}.")
    change.lock_target(session)
    stored = change.validate_payload(session, payload, now=effective_at or act.now)
    policy.ensure_not_concerned(kind=kind, payload=stored, officer_id=act.person_id)
    before = change.current_state(session, stored, now=act.now)
    after = change.proposed_state(session, stored)
    proposal = PlatformProposal(
        kind=kind,
        target=change.target(stored),
        payload=stored,
        reason=reason,
        status=states.PROPOSAL.initial,
        before=before,
        after=after,
        effect=change.effect(session, stored),
        proposed_by=act.person_id,
        effective_at=effective_at,
        expires_at=act.now + EXPIRES_AFTER,
        created_at=act.now,
        updated_at=act.now,
    )
    session.add(proposal)
    session.flush()
    record_audit_entry(
        session,
        act=act,
        action="proposal.file",
        target_type=_TARGET_TYPE,
        target_id=str(proposal.id),
        before=before,
        after={"status": states.PENDING, "kind": kind, "reason": reason, "change": after}
        | ({"effectiveAt": iso(effective_at)} if effective_at else {}),
    )
    notifications.notify_proposal_filed(session, proposal, now=act.now)
    return proposal.id


def approve_proposal(session: Session, *, proposal_id: UUID, kinds: Collection[str], act: Act) -> None:
    """Approve a proposal as the second officer. The change takes effect now or at the effective time.

    :param kinds: the kinds of proposals that the officer may see
    :raises NotFoundError: the proposal does not exist, or is of another kind
    :raises ConflictOfInterestError: the change concerns the officer
    :raises SecondApproverRequiredError: the officer filed the proposal
    :raises IllegalTransitionError: the proposal is not pending
    :raises ProposalExpiredError: the proposal was pending for more than seven days
    :raises StaleProposalError: the target has changed since the filing
    """
    proposal = _lock_proposal(session, proposal_id, kinds=kinds)
    policy.ensure_not_concerned(kind=proposal.kind, payload=proposal.payload, officer_id=act.person_id)
    if proposal.proposed_by == act.person_id:
        raise SecondApproverRequiredError("You filed this proposal, so another officer must approve it.")
    states.PROPOSAL.target(proposal.status, states.APPROVE)
    if proposal.expires_at <= act.now:
        _expire(session, proposal, now=act.now)
        raise ProposalExpiredError(texts.PROPOSAL_EXPIRED.format(expires_at=iso(proposal.expires_at)))
    if not _is_target_unchanged(session, proposal, now=act.now):
        raise StaleProposalError(texts.PROPOSAL_STALE)
    _transition(session, proposal, states.APPROVE, act, approved_by=act.person_id, approved_at=act.now)
    if proposal.effective_at is None or proposal.effective_at <= act.now:
        _activate(session, proposal, act)
    else:
        notifications.notify_proposal_progress(
            session, proposal, states.APPROVED, effective_at=iso(proposal.effective_at), now=act.now
        )


def reject_proposal(
    session: Session, *, proposal_id: UUID, kinds: Collection[str], act: Act, reason: str
) -> None:
    """Reject a proposal that has not taken effect. The proposer may withdraw a proposal in the same way.

    :param kinds: the kinds of proposals that the officer may see
    :raises NotFoundError: the proposal does not exist, or is of another kind
    :raises IllegalTransitionError: the proposal has taken effect or has another final status
    """
    _reject(session, _lock_proposal(session, proposal_id, kinds=kinds), act=act, reason=reason)


def apply_due_proposals(database: Database, *, now: datetime) -> DueProposalsResult:
    """Apply approved proposals that are due, and expire pending proposals after the deadline.

    Each proposal has a separate transaction: a failure does not delay the others, and the next run retries. A stale
    proposal is rejected, and both officers are notified.

    :return: the counts; at most 200 due and 200 expired proposals in a run
    """
    with database.reading() as session:
        due = session.scalars(
            select(PlatformProposal.id)
            .where(PlatformProposal.status == states.APPROVED, PlatformProposal.effective_at <= now)
            .order_by(PlatformProposal.effective_at, PlatformProposal.id)
            .limit(_BATCH_SIZE)
        ).all()
        overdue = session.scalars(
            select(PlatformProposal.id)
            .where(PlatformProposal.status == states.PENDING, PlatformProposal.expires_at <= now)
            .order_by(PlatformProposal.expires_at, PlatformProposal.id)
            .limit(_BATCH_SIZE)
        ).all()
    applied = process_each(
        due,
        lambda proposal_id: database.in_transaction(_apply_due_proposal, proposal_id=proposal_id, now=now),
        failure="proposal not applied",
    )
    expired = process_each(
        overdue,
        lambda proposal_id: database.in_transaction(
            _expire_overdue_proposal, proposal_id=proposal_id, now=now
        ),
        failure="proposal not expired",
    )
    return DueProposalsResult(applied.count(states.ACTIVE), applied.count(states.REJECTED), sum(expired))


def _lock_proposal(session: Session, proposal_id: UUID, *, kinds: Collection[str]) -> PlatformProposal:
    chosen = select(PlatformProposal).where(
        PlatformProposal.id == proposal_id, PlatformProposal.kind.in_(kinds)
    )
    return found(
        session.scalar(chosen.with_for_update(key_share=True), execution_options={"populate_existing": True}),
        texts.PROPOSAL_NOT_FOUND,
    )


# Comparisons and changes of targets run serially, across all proposals.
_ACQUIRE_CHANGE_LOCK = Statement(text("SELECT pg_advisory_xact_lock(hashtext('platform_proposals'))"))


def _is_target_unchanged(session: Session, proposal: PlatformProposal, *, now: datetime) -> bool:
    """Lock a proposal's target, and return whether the target is unchanged since the filing."""
    change = CHANGES[proposal.kind]
    _ACQUIRE_CHANGE_LOCK.first(session)
    change.lock_target(session)
    return (
        change.ignores_prior_state
        or change.current_state(session, proposal.payload, now=now) == proposal.before
    )


def _lock_if_allowed(session: Session, proposal_id: UUID, step: str) -> PlatformProposal | None:
    """Lock a proposal that allows a step, unless another process holds the lock."""
    lock = {"key_share": True, "skip_locked": True}
    proposal = session.get(PlatformProposal, proposal_id, with_for_update=lock, populate_existing=True)
    return proposal if proposal and states.PROPOSAL.allows(proposal.status, step) else None


def _apply_due_proposal(session: Session, *, proposal_id: UUID, now: datetime) -> str | None:
    """Apply a due proposal, unless another process is applying or has applied the proposal."""
    proposal = _lock_if_allowed(session, proposal_id, states.ACTIVATE)
    if proposal is None:
        return None
    if not _is_target_unchanged(session, proposal, now=now):
        _reject(session, proposal, act=Act("system", now), reason=texts.PROPOSAL_STALE_REASON)
        return states.REJECTED
    _activate(session, proposal, Act("system", now))
    return states.ACTIVE


def _expire_overdue_proposal(session: Session, *, proposal_id: UUID, now: datetime) -> bool:
    proposal = _lock_if_allowed(session, proposal_id, states.EXPIRE)
    if proposal is None:
        return False
    _expire(session, proposal, now=now)
    return True


def _activate(session: Session, proposal: PlatformProposal, act: Act) -> None:
    change, payload = CHANGES[proposal.kind], proposal.payload
    before = change.current_state(session, payload, now=act.now)
    change.apply(session, payload, proposal_id=proposal.id, now=act.now)
    after = change.current_state(session, payload, now=act.now)
    _transition(
        session,
        proposal,
        states.ACTIVATE,
        act,
        audited=({"change": before}, {"change": after}),
        activated_at=act.now,
    )
    notifications.notify_proposal_progress(session, proposal, states.ACTIVE, now=act.now)


def _reject(session: Session, proposal: PlatformProposal, *, act: Act, reason: str) -> None:
    _transition(
        session,
        proposal,
        states.REJECT,
        act,
        audited=({}, {"reason": reason}),
        rejected_by=act.user_id,
        rejected_at=act.now,
        rejection_reason=reason,
    )
    notifications.notify_proposal_progress(session, proposal, states.REJECTED, reason=reason, now=act.now)


def _expire(session: Session, proposal: PlatformProposal, *, now: datetime) -> None:
    _transition(session, proposal, states.EXPIRE, Act("system", now), expired_at=now)
    notifications.notify_proposal_progress(session, proposal, states.EXPIRED, now=now)


def _transition(
    session: Session,
    proposal: PlatformProposal,
    trigger: str,
    act: Act,
    *,
    audited: tuple[dict[str, Any], dict[str, Any]] = ({}, {}),
    **columns: Any,
) -> None:
    """Move a proposal to the next status, write columns, and record an audit entry.

    :param audited: values before and after, for the audit entry beside the status
    """
    previous, status = proposal.status, states.PROPOSAL.target(proposal.status, trigger)
    for name, value in {**columns, "status": status, "updated_at": act.now}.items():
        setattr(proposal, name, value)
    record_audit_entry(
        session,
        act=act,
        action=f"proposal.{trigger}",
        target_type=_TARGET_TYPE,
        target_id=str(proposal.id),
        before={"status": previous} | audited[0],
        after={"status": status} | audited[1],
    )
