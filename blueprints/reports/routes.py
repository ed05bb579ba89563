"""Routes of reports: submit a report, and the decisions of staff."""

from typing import Any
from uuid import UUID

from blueprints.http import AUTHENTICATED, REPORT_STAFF, Context, ContractBlueprint, RouteLimit, SharedLimit
from blueprints.reports.schemas import (
    CaseQuery,
    DecideReports,
    ReportCaseDetail,
    ReportCaseView,
    ReportView,
    SubmitReport,
)
from marketplace.kernel.errors import ConflictOfInterestError, NotFoundError
from marketplace.kernel.paging import Page
from marketplace.reports import decide, queries, submit
from marketplace.reports.models import ContentReport

area = ContractBlueprint("content_reports", "/api/users", "Reports of content and people")
staff_area = ContractBlueprint("report_cases", "/api/admin/reports", "Reports of content, for staff")

# Both paths count together. A refused report gives its slot back.
_LIMIT = RouteLimit("20/hour", scope="reports.submit")
_ERRORS = (NotFoundError, submit.AlreadyReportedError, submit.OwnContentError)


@area.post(
    "/content-flags",
    auth=AUTHENTICATED,
    limit=_LIMIT,
    body=SubmitReport,
    reply=ReportView,
    status=201,
    raises=_ERRORS,
)
def report_content(ctx: Context, body: dict[str, Any]) -> ContentReport:
    """Report a product, a review, a person or a message. Staff decide, and you are notified of the decision."""
    return _submit(ctx, body)


@area.post(
    "/content-flagsu",
    auth=AUTHENTICATED,
    limit=_LIMIT,
    body=SubmitReport,
    reply=ReportView,
    status=201,
    raises=_ERRORS,
)
def report_content_by_earlier_path(ctx: Context, body: dict[str, Any]) -> ContentReport:
    """Report content like `POST /api/users/content-flags`. Clients of the first version use this path."""
    return _submit(ctx, body)


def _submit(ctx: Context, body: dict[str, Any]) -> ContentReport:
    return submit.submit_report(
        ctx.session,
        reporter_id=ctx.user.id,
        target_type=body["target_type"],
        target_id=body["target_id"],
        reason=body["reason"],
        details=body.get("details"),
        now=ctx.now,
    )


@staff_area.get(
    "", auth=REPORT_STAFF, limit=SharedLimit.CALLER_TIER, query=CaseQuery, reply=ReportCaseView(many=True)
)
def list_report_cases(ctx: Context, query: dict[str, Any]) -> Page:
    """List reported content that you may decide about, the earliest first."""
    return queries.list_cases(
        ctx.session,
        caller=ctx.user,
        target_type=query.get("target_type"),
        status=query["status"],
        page=ctx.page,
    )


@staff_area.get("/<uuid:case_id>", auth=REPORT_STAFF, limit=SharedLimit.CALLER_TIER, reply=ReportCaseDetail)
def get_report_case(ctx: Context, case_id: UUID) -> dict[str, Any]:
    """Get reported content with its reports."""
    return _detail(ctx, case_id)


@staff_area.post(
    "/<uuid:case_id>/decide",
    auth=REPORT_STAFF,
    limit="30/minute",
    body=DecideReports,
    reply=ReportCaseDetail,
    raises=(ConflictOfInterestError, decide.CaseDecidedError),
)
def decide_reports(ctx: Context, case_id: UUID, body: dict[str, Any]) -> dict[str, Any]:
    """Uphold or dismiss all reports of the content. Upholding removes a product or message, or hides a review."""
    decide.decide_case(
        ctx.session,
        case_id=case_id,
        caller=ctx.user,
        outcome=body["outcome"],
        reason=body["reason"],
        act=ctx.act,
    )
    return _detail(ctx, case_id)


def _detail(ctx: Context, case_id: UUID) -> dict[str, Any]:
    shown = queries.fetch_case(ctx.session, caller=ctx.user, case_id=case_id)
    columns = {column.key: getattr(shown.case, column.key) for column in shown.case.__table__.columns}
    return columns | {
        "latest_reports": shown.latest_reports,
        "reports_by_reason": shown.reports_by_reason,
        "messages": shown.messages,
    }
