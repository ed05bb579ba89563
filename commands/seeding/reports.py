"""Reports of products and a review by students: open, upheld and dismissed."""

from contextlib import suppress
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from commands.seeding.loading import fixed_ids
from commands.seeding.people import STORES, student_id
from marketplace.audit.operations import Act
from marketplace.identity.queries import find_caller
from marketplace.kernel import demo_ids
from marketplace.kernel.demo_ids import SeededKind, seeded_id
from marketplace.kernel.errors import NotFoundError
from marketplace.reports import decide, submit
from marketplace.reports.models import ContentReport, ReportCase

# Target, reason, number of reporters, and the decision. A removed product could miss in the demo's orders.
_CASES = (
    ("product", seeded_id(SeededKind.PRODUCT, 25), "counterfeit", 2, None),
    ("product", seeded_id(SeededKind.PRODUCT, 26), "spam", 1, decide.DISMISSED),
    ("review", demo_ids.REVIEW, "offensive", 1, None),
    ("user", STORES[2].user_id, "scam", 3, decide.UPHELD),
)
_REASON = "Checked against the pictures and the store's receipts."


def load_reports(session: Session, *, now: datetime) -> int:
    """Add the reports of the demo. Products that are no longer published are left out.

    :param now: present time; the reports are some days old
    :return: number of new reports
    """
    if session.scalar(select(ReportCase.id).limit(1)) is not None:
        return 0
    reports = 0
    with fixed_ids(session, {ReportCase: SeededKind.REPORT_CASE, ContentReport: SeededKind.REPORT}):
        for target_type, target_id, reason, reporters, _ in _CASES:
            with suppress(NotFoundError):
                for number in range(1, reporters + 1):
                    submit.submit_report(
                        session,
                        reporter_id=student_id(number),
                        target_type=target_type,
                        target_id=target_id,
                        reason=reason,
                        details=None,
                        now=now - timedelta(days=3, hours=number),
                    )
                    reports += 1
    for _, target_id, _, _, outcome in _CASES:
        if outcome is not None:
            _decide(session, target_id, outcome, now - timedelta(days=1))
    return reports


def _decide(session: Session, target_id: UUID, outcome: str, at: datetime) -> None:
    case_id = session.scalar(select(ReportCase.id).where(ReportCase.target_id == target_id))
    officer = find_caller(session, user_id=demo_ids.ADMIN, aal="aal2", now=at)
    if case_id is not None and officer is not None:
        act = Act("admin", at, user_id=officer.id)
        decide.decide_case(session, case_id=case_id, caller=officer, outcome=outcome, reason=_REASON, act=act)
