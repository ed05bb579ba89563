"""Decide reports as staff: uphold or dismiss all reports of a case."""

from datetime import timedelta
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.identity.queries import Caller
from marketplace.kernel.errors import ConflictError, ConflictOfInterestError, found
from marketplace.notifications.operations import NewNotification, notify_all
from marketplace.reports import texts
from marketplace.reports.models import ContentReport, ReportCase, ReportClearance
from marketplace.reports.submit import lock_target
from marketplace.reports.targets import TARGETS, USER

UPHELD, DISMISSED = "upheld", "dismissed"
STATUSES = ("open", UPHELD, DISMISSED)
# A dismissed reason does not count for the target during this time, so that rivals cannot hide each other's content.
CLEARED_FOR = timedelta(days=30)


class CaseDecidedError(ConflictError):
    """The reports of the case have a decision."""

    reason = "reports-decided"


def decidable_types(caller: Caller) -> tuple[str, ...]:
    """Return the types of targets whose reports an officer may decide."""
    return tuple(name for name, target in TARGETS.items() if caller.has_permission(target.permission))


def decide_case(
    session: Session, *, case_id: UUID, caller: Caller, outcome: str, reason: str, act: Act
) -> None:
    """Uphold or dismiss the reports of a case, and notify the reporters.

    Upholding removes a product or hides a review. Dismissing shows an automatically hidden target again, and clears the
    reported reasons for ``CLEARED_FOR``. Measures against a person are taken on the person's page.

    :param outcome: ``upheld`` or ``dismissed``
    :param reason: for the audit trail, and for the vendor of a removed product
    :raises NotFoundError: the case does not exist, or the officer may not decide this type
    :raises ConflictOfInterestError: the officer reported or owns the target
    :raises CaseDecidedError: the case has a decision
    """
    case = found(session.get(ReportCase, case_id), texts.CASE_NOT_FOUND)
    found(case.target_type in decidable_types(caller) or None, texts.CASE_NOT_FOUND)
    lock_target(session, target_type=case.target_type, target_id=case.target_id)
    session.refresh(case, with_for_update=True)
    reports = session.scalars(select(ContentReport).where(ContentReport.case_id == case.id)).all()
    if caller.id == case.owner_id or any(report.reporter_id == caller.id for report in reports):
        raise ConflictOfInterestError(texts.PARTY_TO_CASE)
    if case.status != "open":
        raise CaseDecidedError(texts.CASE_DECIDED.format(status=case.status))
    case.status, case.decision_reason = outcome, reason
    case.decided_by, case.decided_at = caller.id, act.now
    session.flush()
    target = TARGETS[case.target_type]
    if outcome == UPHELD and target.remove is not None:
        target.remove(session, case.target_id, reason, act)
    if outcome == DISMISSED:
        if case.hidden_at is not None and target.restore is not None:
            target.restore(session, case.target_id, act)
        _clear_reasons(session, case, {report.reason for report in reports}, act)
    record_audit_entry(
        session,
        act=act,
        action=f"reports.{outcome}",
        target_type=case.target_type,
        target_id=str(case.target_id),
        before={"status": "open", "reports": case.reports},
        after={"status": outcome, "caseId": str(case.id), "reason": reason},
    )
    _notify_reporters(session, case, [report.reporter_id for report in reports], act)


def _clear_reasons(session: Session, case: ReportCase, reasons: set[str], act: Act) -> None:
    until = act.now + CLEARED_FOR
    rows = [
        {"target_type": case.target_type, "target_id": case.target_id, "reason": reason, "until": until}
        for reason in sorted(reasons)
    ]
    session.execute(
        insert(ReportClearance)
        .values(rows)
        .on_conflict_do_update(index_elements=("target_type", "target_id", "reason"), set_={"until": until})
    )


def _notify_reporters(session: Session, case: ReportCase, reporter_ids: list[UUID | None], act: Act) -> None:
    title, body = texts.REPORT_DISMISSED_TITLE, texts.REPORT_DISMISSED_BODY
    if case.status == UPHELD:
        title = texts.REPORT_UPHELD_TITLE
        body = texts.PERSON_REPORT_UPHELD_BODY if case.target_type == USER else texts.REPORT_UPHELD_BODY
    notify_all(
        session,
        notifications=[
            NewNotification(
                user_id=reporter_id,
                type="report_decided",
                title=title,
                body=body.format(target=texts.TARGET_NAMES[case.target_type]),
                link=None,
                cause=f"report:{case.id}",
            )
            for reporter_id in reporter_ids
            if reporter_id is not None
        ],
        now=act.now,
    )
