"""Halt and resume payouts. Payouts resume only by a proposal that a second officer approves."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import structlog
from sqlalchemy import select, text, tuple_, update
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.infra import outbox
from marketplace.infra.cache import drop_cached
from marketplace.infra.sql.statements import Json, Statement
from marketplace.kernel.clock import iso
from marketplace.kernel.errors import ConflictError
from marketplace.kernel.paging import Page, PageRequest, page_of
from marketplace.platform import cache_tags, texts
from marketplace.platform.models import PayoutHalt

_log = structlog.get_logger(__name__)


class PayoutsHaltedError(ConflictError):
    """All payouts are halted."""

    reason = "payouts-halted"


class PayoutsNotHaltedError(ConflictError):
    """Payouts are not halted, so they cannot be resumed."""

    reason = "payouts-not-halted"


# A finding known to officers at the resumption does not halt payouts again. A new finding does.
_UPSERT_HALT = Statement(
    text(
        """
        INSERT INTO payout_halts (reason, findings, found, halted_at)
        SELECT :reason, ARRAY[CAST(:finding AS text)], CAST(:found AS jsonb), :now WHERE NOT EXISTS (
            SELECT FROM payout_halts h WHERE h.resumed_at IS NOT NULL AND :finding = ANY(h.findings))
        ON CONFLICT (resumed_at) WHERE resumed_at IS NULL DO UPDATE
            SET found = payout_halts.found || excluded.found,
                findings = CASE WHEN excluded.findings <@ payout_halts.findings THEN payout_halts.findings
                    ELSE payout_halts.findings || excluded.findings END
            WHERE payout_halts.found #>> ARRAY[:reason, 'finding'] IS DISTINCT FROM :finding
        RETURNING new.id, old.id IS NULL AS halted
        """
    )
)


def halt_payouts(
    session: Session,
    reason: str,
    now: datetime,
    *,
    finding: str | None = None,
    facts: Mapping[str, Any] | None = None,
) -> bool:
    """Halt payouts: from the commit on, no payout is staged by the schedule, dispatched or sent.

    :param reason: for officers, such as ``ESCROW_DRIFT: <rule>``; no personal data
    :param finding: key of the finding. A finding known to officers at the resumption does not halt payouts again.
        Without a key, the finding always halts payouts.
    :param facts: ids, counts and amounts for officers, JSON-compatible; the latest of each reason are stored
    :return: whether payouts were running until now
    """
    finding_name = finding or str(uuid4())
    findings = {reason: {"finding": finding_name, "facts": dict(facts or {}), "foundAt": iso(now)}}
    row = _UPSERT_HALT.first(session, reason=reason, finding=finding_name, found=Json(findings), now=now)
    if row is None or not row["halted"]:
        return False
    record_audit_entry(
        session,
        act=Act("system", now),
        action="payouts.halt",
        target_type="payout_halt",
        target_id=str(row["id"]),
        before={"payouts": "running"},
        after={"payouts": "halted", "reason": reason},
    )
    drop_cached(session, cache_tags.STATUS)
    outbox.after_commit(session, lambda: _log.error("payouts halted", haltId=str(row["id"]), reason=reason))
    return True


def are_payouts_halted(session: Session) -> bool:
    """Return whether payouts are halted."""
    return fetch_current_halt(session) is not None


def fetch_current_halt(session: Session) -> PayoutHalt | None:
    """Fetch the open halt of payouts; none while payouts run."""
    return session.scalar(
        select(PayoutHalt).where(PayoutHalt.resumed_at.is_(None)),
        execution_options={"populate_existing": True},
    )


def list_findings(halt: PayoutHalt) -> list[dict[str, Any]]:
    """List the latest finding of each reason of a halt, the earliest first."""
    findings = [
        {"reason": reason, "facts": latest["facts"], "foundAt": latest["foundAt"]}
        for reason, latest in halt.found.items()
    ]
    return sorted(findings, key=lambda item: (item["foundAt"], item["reason"]))


def lock_halt(session: Session) -> None:
    """Lock the open halt, so that no finding is added until the transaction ends."""
    open_halt = select(PayoutHalt.id).where(PayoutHalt.resumed_at.is_(None))
    session.execute(open_halt.with_for_update(key_share=True))


def list_halts(session: Session, *, page: PageRequest) -> Page:
    """List halts of payouts, the latest first.

    :param page: a position holds the last row's time and id
    """
    last_at, last_id = page.after("time", "id")
    clause = select(PayoutHalt).order_by(PayoutHalt.halted_at.desc(), PayoutHalt.id.desc())
    if last_at is not None:
        position = tuple_(PayoutHalt.halted_at, PayoutHalt.id)
        clause = clause.where(position < (datetime.fromisoformat(last_at), UUID(last_id)))
    return page_of(
        list(session.scalars(clause.limit(page.limit + 1))),
        request=page,
        position_of=lambda halt: [iso(halt.halted_at), str(halt.id)],
    )


def ensure_not_halted(session: Session) -> None:
    """Refuse a payout while payouts are halted.

    :raises PayoutsHaltedError: payouts are halted
    """
    halt = fetch_current_halt(session)
    if halt is not None:
        raise PayoutsHaltedError(
            texts.PAYOUTS_HALTED.format(halted_at=iso(halt.halted_at), reason=halt.reason)
        )


def resume_payouts(session: Session, *, halt_id: UUID, mark: str, proposal_id: UUID, now: datetime) -> None:
    """Resume payouts for an approved proposal.

    :param halt_id: the halt that the officers decided on, not a later halt
    :param mark: the mark of the halt that the officers saw; a later finding changes the mark
    :param proposal_id: the approved proposal; a constraint ensures that a proposal resumes payouts once
    :raises PayoutsNotHaltedError: payouts are not halted, or the halt or its findings changed
    """
    closed = (
        update(PayoutHalt)
        .where(PayoutHalt.id == halt_id, PayoutHalt.resumed_at.is_(None), PayoutHalt.mark == mark)
        .values(resumed_at=now, proposal_id=proposal_id)
        .returning(PayoutHalt.id)
    )
    if session.scalar(closed) is None:
        raise PayoutsNotHaltedError(texts.HALT_CHANGED)
    drop_cached(session, cache_tags.STATUS)
    outbox.after_commit(session, lambda: _log.warning("payouts resumed", haltId=str(halt_id)))
