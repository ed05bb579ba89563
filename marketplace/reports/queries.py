"""Queries of reports for staff: the queue, and a case with its reports."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from marketplace.chat.models import ChatMessage
from marketplace.chat.moderation import list_context
from marketplace.identity.queries import Caller
from marketplace.kernel.errors import found
from marketplace.kernel.paging import Page, PageRequest, page_of
from marketplace.reports import texts
from marketplace.reports.decide import decidable_types
from marketplace.reports.models import ContentReport, ReportCase
from marketplace.reports.targets import MESSAGE

MAX_SHOWN_REPORTS = 100


@dataclass(frozen=True)
class CaseWithReports:
    """A case with its latest reports, at most ``MAX_SHOWN_REPORTS``, and the number of reports by reason.

    :ivar messages: the reported message and the messages before it; empty for other targets
    """

    case: ReportCase
    latest_reports: Sequence[ContentReport]
    reports_by_reason: dict[str, int]
    messages: Sequence[ChatMessage]


def list_cases(
    session: Session, *, caller: Caller, target_type: str | None, status: str, page: PageRequest
) -> Page:
    """List the cases that an officer may decide, the earliest first.

    :param target_type: none for all types that the officer may decide
    """
    types = decidable_types(caller)
    query = select(ReportCase).where(
        ReportCase.status == status,
        ReportCase.target_type.in_([name for name in types if target_type in (None, name)]),
    )
    [after] = page.after("id")
    if after is not None:
        query = query.where(ReportCase.id > after)
    rows = session.scalars(query.order_by(ReportCase.id).limit(page.limit + 1))
    return page_of(list(rows), request=page, position_of=lambda case: [str(case.id)])


def fetch_case(session: Session, *, caller: Caller, case_id: UUID) -> CaseWithReports:
    """Fetch a case with its reports.

    :raises NotFoundError: the case does not exist, or the officer may not decide this type
    """
    case = session.get(ReportCase, case_id, populate_existing=True)
    if case is not None and case.target_type not in decidable_types(caller):
        case = None
    case = found(case, texts.CASE_NOT_FOUND)
    reports = session.scalars(
        select(ContentReport)
        .where(ContentReport.case_id == case.id)
        .order_by(ContentReport.id.desc())
        .limit(MAX_SHOWN_REPORTS)
    ).all()
    counts = session.execute(
        select(ContentReport.reason, func.count())
        .where(ContentReport.case_id == case.id)
        .group_by(ContentReport.reason)
    )
    messages = list_context(session, message_id=case.target_id) if case.target_type == MESSAGE else ()
    return CaseWithReports(case, reports, dict(iter(counts)), messages)


@dataclass(frozen=True)
class ReportCounts:
    """The numbers of open and upheld cases about a person's content, and of the person's own reports."""

    open_cases: int
    upheld_cases: int
    submitted: int
    last_reported_at: datetime | None


def count_reports_of_person(session: Session, *, user_id: UUID) -> ReportCounts:
    """Count the cases about a person and the person's content, and the reports by the person."""
    open_cases, upheld_cases, last_reported_at = session.execute(
        select(
            func.count().filter(ReportCase.status == "open"),
            func.count().filter(ReportCase.status == "upheld"),
            func.max(ReportCase.last_reported_at),
        ).where(ReportCase.owner_id == user_id)
    ).one()
    submitted = session.scalar(
        select(func.count()).select_from(ContentReport).where(ContentReport.reporter_id == user_id)
    )
    return ReportCounts(open_cases, upheld_cases, submitted or 0, last_reported_at)
