"""Whether payouts stand still: they do from a drift of the books on, until two officers resume them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import structlog
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.infra import outbox
from marketplace.infra.cache import drop_cached
from marketplace.infra.db import Json, Statement
from marketplace.kernel.clock import iso
from marketplace.kernel.errors import ConflictError
from marketplace.kernel.paging import Page, PageRequest, page_of
from marketplace.platform import cache_tags

_log = structlog.get_logger(__name__)

# What officers resumed in spite of does not halt them again; what is found beside it does.
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
_SELECT_OPEN_HALT = Statement(
    text(
        """
        SELECT id, reason, cardinality(findings) AS findings, halted_at AS "haltedAt"
        FROM payout_halts WHERE resumed_at IS NULL
        """
    )
)
# Changes with whatever is found: jsonb is written one way only.
_FINDINGS_DIGEST = "encode(sha256(convert_to(CAST(found AS text), 'UTF8')), 'hex')"
_SELECT_HALT_DETAILS = Statement(
    text(
        f"""
        SELECT id, reason, cardinality(findings) AS findings, found, {_FINDINGS_DIGEST} AS mark, halted_at AS "haltedAt"
        FROM payout_halts WHERE resumed_at IS NULL
        """
    )
)
_LOCK_OPEN_HALT = Statement(text("SELECT id FROM payout_halts WHERE resumed_at IS NULL FOR NO KEY UPDATE"))
_CLOSE_HALT = Statement(
    text(
        f"""
        UPDATE payout_halts SET resumed_at = :now, proposal_id = :proposal_id
        WHERE id = :halt_id AND resumed_at IS NULL AND {_FINDINGS_DIGEST} = :mark
        RETURNING id, reason, halted_at
        """
    )
)

_SELECT_HALTS = Statement(
    text(
        """
        SELECT id, CASE WHEN resumed_at IS NULL THEN 'halted' ELSE 'resumed' END AS state, reason,
            cardinality(findings) AS findings, halted_at AS "haltedAt", resumed_at AS "resumedAt",
            proposal_id AS "proposalId"
        FROM payout_halts
        WHERE (CAST(:last_at AS timestamptz) IS NULL
            OR (halted_at, id) < (CAST(:last_at AS timestamptz), CAST(:last_id AS uuid)))
        ORDER BY halted_at DESC, id DESC LIMIT :limit
        """
    )
)


class PayoutsHaltedError(ConflictError):
    """All payouts are halted."""

    reason = "payouts-halted"


class PayoutsNotHaltedError(ConflictError):
    """Payouts are not halted, so they cannot be resumed."""

    reason = "payouts-not-halted"


def halt_payouts(
    session: Session,
    reason: str,
    now: datetime,
    *,
    finding: str | None = None,
    facts: Mapping[str, Any] | None = None,
) -> bool:
    """Halt payouts: none is staged by the schedule, dispatched or sent from the commit on.

    :param reason: for officers, such as ``ESCROW_DRIFT: <rule>``; no personal data
    :param now: when
    :param finding: names just what was found, so that officers who resumed in spite of it are not overruled by its
        being found again; none where it halts whatever they knew: then each time is another finding
    :param facts: ids, counts and amounts that officers see before they resume, made of what JSON can say; of each
        reason the latest are kept
    :return: whether they went until now
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
    """Tell whether payouts stand still."""
    return fetch_current_halt(session) is not None


def fetch_current_halt(session: Session) -> dict[str, Any] | None:
    """Give why payouts stand still, and since when; none while they go."""
    return _SELECT_OPEN_HALT.first(session)


def fetch_halt_details(session: Session) -> dict[str, Any] | None:
    """Give the open halt as officers decide on it; none while payouts go.

    :return: as ``fetch_current_halt``, besides what was ``found``, the earliest first: of each reason the latest facts
        and since when they are so; and ``mark``, which is another once anything else is found
    """
    row = _SELECT_HALT_DETAILS.first(session)
    if row is not None:
        row["found"] = sorted(
            (
                {"reason": reason, "facts": latest["facts"], "foundAt": latest["foundAt"]}
                for reason, latest in row["found"].items()
            ),
            key=lambda item: (item["foundAt"], item["reason"]),
        )
    return row


def lock_halt(session: Session) -> None:
    """Keep anything from being added to the open halt until the transaction ends."""
    _LOCK_OPEN_HALT.first(session)


def list_halts(session: Session, *, page: PageRequest) -> Page:
    """List halts of payouts, the latest first: why, since when, and which proposal resumed them.

    :param page: which page; its position is the last row's time and id
    """
    last_at, last_id = page.after("time", "id")
    rows = _SELECT_HALTS.all(session, last_at=last_at, last_id=last_id, limit=page.limit + 1)
    return page_of(rows, request=page, position_of=lambda row: [iso(row["haltedAt"]), str(row["id"])])


def ensure_not_halted(session: Session) -> None:
    """Refuse what pays out while payouts stand still.

    :raises PayoutsHaltedError: they do
    """
    halt = fetch_current_halt(session)
    if halt is not None:
        raise PayoutsHaltedError(
            f"Payouts are halted since {iso(halt['haltedAt'])} ({halt['reason']}). They go on once two officers"
            " have carried a proposal payout_resume."
        )


def resume_payouts(
    session: Session, *, halt_id: UUID, mark: str, proposal_id: UUID, now: datetime
) -> dict[str, Any]:
    """Let payouts go on, for a proposal that two officers carried and nothing else.

    :param halt_id: the halt that the officers decided on: a later one is another matter
    :param mark: of the halt as it was shown to them: what was found since is another matter, too
    :param proposal_id: the proposal; the database holds that it resumes once
    :param now: when
    :return: the halt that is over
    :raises PayoutsNotHaltedError: they do not stand still, or for another reason
    """
    row = _CLOSE_HALT.first(session, halt_id=halt_id, mark=mark, proposal_id=proposal_id, now=now)
    if row is None:
        raise PayoutsNotHaltedError("This halt of payouts is over, or more was found since.")
    drop_cached(session, cache_tags.STATUS)
    outbox.after_commit(session, lambda: _log.warning("payouts resumed", haltId=str(row["id"])))
    return row
