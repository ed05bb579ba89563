"""Proposals: filed by an officer, carried or rejected by another, put into force when they are due."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.operations import AuditActor, record
from marketplace.identity.queries import Caller
from marketplace.infra.batches import each
from marketplace.infra.db import Database, Json, Statement
from marketplace.kernel.clock import iso
from marketplace.kernel.errors import ConflictError, ForbiddenError, NotFoundError, ValidationError
from marketplace.platform.halts import SYSTEM
from marketplace.proposals import notifications, states
from marketplace.proposals.kinds import CHANGES

EXPIRES_AFTER = timedelta(days=7)
# A change that lies further ahead would be approved by people who can't know what it meets.
LATEST_START = timedelta(days=90)
_BATCH = 200
_TARGET_TYPE = "platform_proposal"
_NO_LONGER_FITS = "What it changes is no longer what it was when it was proposed."

_INSERT = Statement(
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
_COLUMNS = """
    SELECT id, kind, target, payload, status, before, after, proposed_by, approved_by, effective_at, expires_at
    FROM platform_proposals WHERE id = :proposal_id
"""
_LOCK = Statement(text(f"{_COLUMNS} FOR NO KEY UPDATE"))
_LOCK_FREE = Statement(text(f"{_COLUMNS} FOR NO KEY UPDATE SKIP LOCKED"))
# What is changed is compared and changed by one at a time, whichever proposals it is of.
_TAKE_TURN = Statement(text("SELECT pg_advisory_xact_lock(hashtext('platform_proposals'))"))
_DUE = Statement(
    text(
        """
        SELECT id FROM platform_proposals WHERE status = 'approved' AND effective_at <= :now
        ORDER BY effective_at, id LIMIT :most
        """
    )
)
_OVERDUE = Statement(
    text(
        """
        SELECT id FROM platform_proposals WHERE status = 'pending' AND expires_at <= :now
        ORDER BY expires_at, id LIMIT :most
        """
    )
)
_APPROVE = Statement(
    text(
        """
        UPDATE platform_proposals SET status = :status, approved_by = :officer_id, approved_at = :now,
            updated_at = :now
        WHERE id = :proposal_id
        """
    )
)
_ACTIVATE = Statement(
    text(
        "UPDATE platform_proposals SET status = :status, activated_at = :now, updated_at = :now"
        " WHERE id = :proposal_id"
    )
)
_REJECT = Statement(
    text(
        """
        UPDATE platform_proposals SET status = :status, rejected_by = :officer_id, rejected_at = :now,
            rejection_reason = :reason, updated_at = :now
        WHERE id = :proposal_id
        """
    )
)
_EXPIRE = Statement(
    text(
        "UPDATE platform_proposals SET status = :status, expired_at = :now, updated_at = :now"
        " WHERE id = :proposal_id"
    )
)


class ProposalExpiredError(ConflictError):
    """Nobody approved it in time; that it expired is kept although the request is refused."""

    keeps_changes = True


class NoLongerFitsError(ConflictError):
    """What it changes is another than it was when it was proposed: its before and its effect are not true any more."""


@dataclass(frozen=True)
class Wanted:
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
class Applied:
    """How many proposals took effect, no longer fitted, and expired."""

    activated: int
    rejected: int
    expired: int


def propose(session: Session, *, officer: Caller, actor: AuditActor, wanted: Wanted, now: datetime) -> UUID:
    """File a proposal, and tell the officers who may decide on it.

    :param officer: who proposes
    :param actor: the officer as the audit names one
    :param wanted: what
    :param now: when
    :return: the proposal's id
    :raises ValidationError: it is out of range, names something that there is none of, or begins in the past
    :raises ConflictError: there is nothing to do it to
    """
    change = CHANGES[wanted.kind]
    starts = wanted.effective_at
    if starts is not None and not now <= starts <= now + LATEST_START:
        raise ValidationError.of(
            "effectiveAt", f"Must be in the future, and at most {LATEST_START.days} days away."
        )
    change.hold(session)
    payload = change.payload(session, wanted.payload, now=starts or now)
    before, after = change.state(session, payload, now=now), change.after(session, payload)
    proposal_id: UUID = _INSERT.one(
        session,
        kind=wanted.kind,
        target=change.target(payload),
        payload=Json(payload),
        reason=wanted.reason,
        status=states.PROPOSAL.initial,
        before=Json(before),
        after=Json(after),
        effect=Json(change.effect(session, payload)),
        proposed_by=officer.id,
        effective_at=starts,
        expires_at=now + EXPIRES_AFTER,
        now=now,
    )["id"]
    _audit(
        session,
        actor,
        "file",
        proposal_id,
        before=before,
        after={"status": states.PENDING, "kind": wanted.kind, "reason": wanted.reason, "change": after}
        | ({"effectiveAt": iso(starts)} if starts else {}),
        now=now,
    )
    notifications.filed(
        session, proposal_id=proposal_id, kind=wanted.kind, reason=wanted.reason, officer=officer, now=now
    )
    return proposal_id


def approve(
    session: Session, *, proposal_id: UUID, officer: Caller, actor: AuditActor, now: datetime
) -> None:
    """Approve a proposal for a second officer; it takes effect at once, or when it is due.

    :param officer: who approves
    :param actor: the officer as the audit names one
    :param now: when
    :raises NotFoundError: there is no such proposal
    :raises ForbiddenError: the officer proposed it
    :raises IllegalTransitionError: it is decided on
    :raises ProposalExpiredError: it waited for more than seven days
    :raises NoLongerFitsError: what it changes was changed since
    """
    row = _lock(session, proposal_id)
    if row["proposed_by"] == officer.id:
        raise ForbiddenError("You proposed it: another officer has to approve it.")
    status = states.PROPOSAL.target(row["status"], states.APPROVE)
    if row["expires_at"] <= now:
        _expire(session, row, now=now)
        raise ProposalExpiredError(
            f"The proposal expired at {iso(row['expires_at'])}: nobody had approved it. File it anew."
        )
    if not _fits(session, row, now=now):
        raise NoLongerFitsError(f"{_NO_LONGER_FITS} File it anew.")
    _APPROVE.run(session, proposal_id=proposal_id, status=status, officer_id=officer.id, now=now)
    row |= {"status": status, "approved_by": officer.id}
    _audit(
        session,
        actor,
        "approve",
        proposal_id,
        before={"status": states.PENDING},
        after={"status": status},
        now=now,
    )
    if row["effective_at"] is None or row["effective_at"] <= now:
        _activate(session, row, actor, now=now)
    else:
        notifications.went_on(
            session, row, "approved", f"It takes effect at {iso(row['effective_at'])}.", now=now
        )


def reject(
    session: Session, *, proposal_id: UUID, officer: Caller, actor: AuditActor, reason: str, now: datetime
) -> None:
    """Reject a proposal that did not take effect yet; its proposer may take it back so, too.

    :param officer: who rejects
    :param actor: the officer as the audit names one
    :param reason: why
    :param now: when
    :raises NotFoundError: there is no such proposal
    :raises IllegalTransitionError: it took effect, or is over
    """
    row = _lock(session, proposal_id)
    _reject(session, row, officer_id=officer.id, actor=actor, reason=reason, now=now)


def apply_due(database: Database, *, now: datetime) -> Applied:
    """Put approved proposals into force that are due, and end those that nobody approved.

    Each is a transaction of its own: one that fails keeps no other waiting, and is due again. One that no longer fits
    is rejected, and both officers are told.

    :param now: when
    :return: how many; at most 200 of each in one run
    """
    with database.reading() as session:
        due = _DUE.all(session, now=now, most=_BATCH)
        overdue = _OVERDUE.all(session, now=now, most=_BATCH)
    done = each(
        [row["id"] for row in due],
        lambda proposal_id: database.in_transaction(_apply_one, proposal_id=proposal_id, now=now),
        failure="proposal not applied",
    )
    expired = each(
        [row["id"] for row in overdue],
        lambda proposal_id: database.in_transaction(_expire_one, proposal_id=proposal_id, now=now),
        failure="proposal not expired",
    )
    return Applied(done.count(states.ACTIVE), done.count(states.REJECTED), sum(expired))


def _lock(session: Session, proposal_id: UUID) -> dict[str, Any]:
    row = _LOCK.first(session, proposal_id=proposal_id)
    if row is None:
        raise NotFoundError("There is no such proposal.")
    return row


def _fits(session: Session, row: Mapping[str, Any], *, now: datetime) -> bool:
    """Tell whether what a proposal changes is still as it was shown to those who decide."""
    change = CHANGES[row["kind"]]
    _TAKE_TURN.first(session)
    change.hold(session)
    return change.absolute or change.state(session, row["payload"], now=now) == row["before"]


def _apply_one(session: Session, *, proposal_id: UUID, now: datetime) -> str | None:
    """Put one into force, unless somebody else is at it, or was."""
    row = _LOCK_FREE.first(session, proposal_id=proposal_id)
    if row is None or not states.PROPOSAL.allows(row["status"], states.ACTIVATE):
        return None
    if not _fits(session, row, now=now):
        _reject(session, row, officer_id=None, actor=SYSTEM, reason=_NO_LONGER_FITS, now=now)
        return states.REJECTED
    _activate(session, row, SYSTEM, now=now)
    return states.ACTIVE


def _expire_one(session: Session, *, proposal_id: UUID, now: datetime) -> bool:
    row = _LOCK_FREE.first(session, proposal_id=proposal_id)
    if row is None or not states.PROPOSAL.allows(row["status"], states.EXPIRE):
        return False
    _expire(session, row, now=now)
    return True


def _activate(session: Session, row: dict[str, Any], actor: AuditActor, *, now: datetime) -> None:
    status = states.PROPOSAL.target(row["status"], states.ACTIVATE)
    change = CHANGES[row["kind"]]
    before = change.state(session, row["payload"], now=now)
    _ACTIVATE.run(session, proposal_id=row["id"], status=status, now=now)
    change.apply(session, row["payload"], proposal_id=row["id"], now=now)
    _audit(
        session,
        actor,
        "activate",
        row["id"],
        before={"status": row["status"], "change": before},
        after={"status": status, "change": change.state(session, row["payload"], now=now)},
        now=now,
    )
    notifications.went_on(session, row, "active", "It is in force.", now=now)


def _reject(
    session: Session,
    row: dict[str, Any],
    *,
    officer_id: UUID | None,
    actor: AuditActor,
    reason: str,
    now: datetime,
) -> None:
    status = states.PROPOSAL.target(row["status"], states.REJECT)
    _REJECT.run(session, proposal_id=row["id"], status=status, officer_id=officer_id, reason=reason, now=now)
    _audit(
        session,
        actor,
        "reject",
        row["id"],
        before={"status": row["status"]},
        after={"status": status, "reason": reason},
        now=now,
    )
    notifications.went_on(session, row, "rejected", reason, now=now)


def _expire(session: Session, row: dict[str, Any], *, now: datetime) -> None:
    status = states.PROPOSAL.target(row["status"], states.EXPIRE)
    _EXPIRE.run(session, proposal_id=row["id"], status=status, now=now)
    _audit(
        session,
        SYSTEM,
        "expire",
        row["id"],
        before={"status": row["status"]},
        after={"status": status},
        now=now,
    )
    notifications.went_on(session, row, "expired", "Nobody approved it in time.", now=now)


def _audit(
    session: Session,
    actor: AuditActor,
    step: str,
    proposal_id: UUID,
    *,
    before: dict[str, Any],
    after: dict[str, Any],
    now: datetime,
) -> None:
    record(
        session,
        actor=actor,
        action=f"proposal.{step}",
        target_type=_TARGET_TYPE,
        target_id=str(proposal_id),
        before=before,
        after=after,
        now=now,
    )
