"""Requests about personal data with their due dates: deletions after the grace period, and exports."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.alerts.kinds import AlertIdentifier
from marketplace.alerts.operations import raise_alert, resolve_alerts_except
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.clock import iso
from marketplace.kernel.paging import Page, PageRequest, page_of
from marketplace.privacy import texts

DELETION, EXPORT = KINDS = ("deletion", "export")
# Sections 34 and 36 of the Nigeria Data Protection Act ask for an answer without undue delay. The GAID 2025 sets 30
# days for requests of data subjects.
TIME_LIMIT = timedelta(days=30)
DUE_SOON_AFTER, ALMOST_OVERDUE_AFTER = timedelta(days=20), timedelta(days=28)
_ALERTS: tuple[tuple[AlertIdentifier, str, bool], ...] = (
    ("PRIVACY_REQUESTS_DUE", texts.ALERT_REQUESTS_DUE, False),
    ("PRIVACY_REQUESTS_LATE", texts.ALERT_REQUESTS_LATE, True),
)


@dataclass(frozen=True)
class OpenRequest:
    """An open request of a person, and its clock.

    :ivar started_at: the start of the clock: the end of a deletion's grace period, or the request of an export
    """

    id: UUID
    kind: str
    user_id: UUID
    status: str
    requested_at: datetime
    started_at: datetime
    due_at: datetime
    is_overdue: bool


# A failed export is open until a later export is ready.
_OPEN = """
    SELECT id, 'deletion' AS kind, user_id, status, requested_at, grace_ends_at AS started_at
    FROM deletion_requests WHERE status = 'pending'
    UNION ALL SELECT id, 'export', user_id, status, requested_at, requested_at
    FROM privacy_exports e WHERE status IN ('requested', 'processing') OR (status = 'failed' AND NOT EXISTS (
        SELECT FROM privacy_exports later WHERE later.user_id = e.user_id AND later.id > e.id
            AND later.status IN ('ready', 'expired')))
"""
_SELECT_OPEN = Statement(
    text(
        f"""
        SELECT *, started_at + :time_limit AS due_at, started_at + :time_limit <= :now AS is_overdue
        FROM ({_OPEN}) open
        WHERE (CAST(:kind AS text) IS NULL OR kind = :kind)
            AND (CAST(:after_at AS timestamptz) IS NULL OR (started_at, id) > (:after_at, CAST(:after_id AS uuid)))
        ORDER BY started_at, id LIMIT :limit
        """
    ),
    row=OpenRequest,
)


def list_open_requests(session: Session, *, kind: str | None, page: PageRequest, now: datetime) -> Page:
    """List the open requests of all people, the earliest due date first."""
    after_at, after_id = page.after("time", "id")
    rows = _SELECT_OPEN.all(
        session,
        kind=kind,
        after_at=after_at,
        after_id=after_id,
        time_limit=TIME_LIMIT,
        now=now,
        limit=page.limit + 1,
    )
    return page_of(rows, request=page, position_of=lambda row: [iso(row.started_at), str(row.id)])


@dataclass(frozen=True)
class _LateCount:
    kind: str
    is_late: bool
    requests: int
    since: datetime


_COUNT_LATE = Statement(
    text(
        f"""
        SELECT kind, started_at <= :late_before AS is_late, count(*) AS requests, min(started_at) AS since
        FROM ({_OPEN}) open WHERE started_at <= :due_before GROUP BY 1, 2 ORDER BY 1, 2
        """
    ),
    row=_LateCount,
)


def update_alerts(session: Session, *, now: datetime) -> None:
    """Raise an alert for requests older than 20 days and another for requests older than 28 days."""
    counts = _COUNT_LATE.all(session, late_before=now - ALMOST_OVERDUE_AFTER, due_before=now - DUE_SOON_AFTER)
    for identifier, title, is_late in _ALERTS:
        matching = [count for count in counts if count.is_late is is_late]
        for count in matching:
            raise_alert(
                session,
                identifier=identifier,
                subject=_subject(count.kind),
                title=title,
                facts={
                    "kind": count.kind,
                    "requests": count.requests,
                    "firstDueAt": count.since + TIME_LIMIT,
                },
                now=now,
            )
        resolve_alerts_except(
            session,
            identifier=identifier,
            subjects=[_subject(count.kind) for count in matching],
            note=texts.ALERT_REQUESTS_ON_TIME,
            now=now,
        )


def _subject(kind: str) -> str:
    return f"privacy:{kind}"
