"""Submit reports. The fifth counted report of a target hides the target until staff decide."""

from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import exists, select, text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act
from marketplace.identity.models import Profile
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.errors import ConflictError, ForbiddenError, NotFoundError
from marketplace.orders.models import Order
from marketplace.reports import texts
from marketplace.reports.models import ContentReport, ReportCase, ReportClearance
from marketplace.reports.targets import TARGETS, USER

REASONS = ("scam", "counterfeit", "prohibited", "offensive", "spam", "other")
HIDING_REPORTS = 5
# An account counts after this age and with a paid order, so that new accounts cannot hide content.
MIN_ACCOUNT_AGE = timedelta(days=7)
_SYSTEM_ROLE = "system"


class OwnContentError(ForbiddenError):
    """The reported content belongs to the reporter."""

    reason = "own-content"


class AlreadyReportedError(ConflictError):
    """The person has an open report of the same target."""

    reason = "already-reported"


# Reports and decisions of a target run one after the other.
_LOCK_TARGET = Statement(
    text("SELECT pg_advisory_xact_lock(hashtextextended('report:' || :target_type || ':' || :target_id, 0))")
)


def lock_target(session: Session, *, target_type: str, target_id: UUID) -> None:
    """Lock a target for reports and decisions until the end of the transaction."""
    _LOCK_TARGET.first(session, target_type=target_type, target_id=str(target_id))


def submit_report(
    session: Session,
    *,
    reporter_id: UUID,
    target_type: str,
    target_id: UUID,
    reason: str,
    details: str | None,
    now: datetime,
) -> ContentReport:
    """Report a target. The report that makes ``HIDING_REPORTS`` counted reports hides the target.

    A report counts if the account is old enough and has paid an order, and if staff have not dismissed the reason for
    this target in the last 30 days. All reports reach staff.

    :param reason: one of ``REASONS``
    :raises NotFoundError: the target does not exist or is hidden from the reporter
    :raises OwnContentError: the reporter owns the target
    :raises AlreadyReportedError: the reporter has an open report of the target
    """
    handlers = TARGETS.get(target_type)
    owner_id = handlers.find_owner(session, target_id, reporter_id) if handlers else None
    if handlers is None or owner_id is None:
        raise NotFoundError(texts.TARGET_NOT_FOUND)
    if owner_id == reporter_id:
        raise OwnContentError(texts.OWN_CONTENT)
    lock_target(session, target_type=target_type, target_id=target_id)
    case = _find_open_case(session, target_type=target_type, target_id=target_id)
    if case is not None and session.scalar(
        select(exists().where(ContentReport.case_id == case.id, ContentReport.reporter_id == reporter_id))
    ):
        raise AlreadyReportedError(texts.ALREADY_REPORTED)
    counts = _counts(
        session,
        reporter_id=reporter_id,
        target_type=target_type,
        target_id=target_id,
        reason=reason,
        now=now,
    )
    if case is None:
        case = _open_case(target_type=target_type, target_id=target_id, owner_id=owner_id, now=now)
        session.add(case)
    case.reports += 1
    case.counted_reports += int(counts)
    case.last_reported_at = now
    session.flush()
    report = ContentReport(
        case_id=case.id,
        reporter_id=reporter_id,
        reason=reason,
        text=details,
        counted=counts,
        created_at=now,
    )
    session.add(report)
    is_due = case.counted_reports >= HIDING_REPORTS and case.hidden_at is None
    if is_due and handlers.hide is not None and handlers.hide(session, target_id, Act(_SYSTEM_ROLE, now)):
        case.hidden_at = now
    session.flush()
    return report


def report_automatically(session: Session, *, user_id: UUID, details: str, now: datetime) -> None:
    """Report a person to staff on behalf of the service. An open report by the service is not repeated.

    :param details: the reason for staff
    """
    lock_target(session, target_type=USER, target_id=user_id)
    case = _find_open_case(session, target_type=USER, target_id=user_id)
    if case is None:
        case = _open_case(target_type=USER, target_id=user_id, owner_id=user_id, now=now)
        session.add(case)
    elif session.scalar(
        select(exists().where(ContentReport.case_id == case.id, ContentReport.reporter_id.is_(None)))
    ):
        return
    case.reports += 1
    case.last_reported_at = now
    session.flush()
    session.add(
        ContentReport(
            case_id=case.id, reporter_id=None, reason="other", text=details, counted=False, created_at=now
        )
    )
    session.flush()


def _find_open_case(session: Session, *, target_type: str, target_id: UUID) -> ReportCase | None:
    return session.scalar(
        select(ReportCase)
        .where(
            ReportCase.target_type == target_type,
            ReportCase.target_id == target_id,
            ReportCase.status == "open",
        )
        .with_for_update(),
        execution_options={"populate_existing": True},
    )


def _open_case(*, target_type: str, target_id: UUID, owner_id: UUID, now: datetime) -> ReportCase:
    return ReportCase(
        target_type=target_type,
        target_id=target_id,
        owner_id=owner_id,
        reports=0,
        counted_reports=0,
        opened_at=now,
    )


def _counts(
    session: Session, *, reporter_id: UUID, target_type: str, target_id: UUID, reason: str, now: datetime
) -> bool:
    is_established = select(
        exists().where(Profile.id == reporter_id, Profile.created_at <= now - MIN_ACCOUNT_AGE)
        & exists().where(Order.buyer_id == reporter_id, Order.paid_at.is_not(None))
        & ~exists().where(
            ReportClearance.target_type == target_type,
            ReportClearance.target_id == target_id,
            ReportClearance.reason == reason,
            ReportClearance.until > now,
        )
    )
    return bool(session.scalar(is_established))
