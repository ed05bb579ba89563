"""Routes of vendor applications: applicants, slugs, and decisions of staff."""

from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from blueprints.applications.schemas import (
    AnswerQuestion,
    ApplicationQuery,
    DocumentLink,
    OwnApplication,
    RejectApplication,
    RequestInfo,
    SlugAvailability,
    StaffApplication,
    StudentId,
    SubmitApplication,
)
from blueprints.http import (
    AUTHENTICATED,
    PUBLIC,
    VENDOR_STAFF,
    Context,
    ContractBlueprint,
    FinalPhase,
    ProcessGroup,
    SharedLimit,
    Upload,
    UploadedFile,
)
from marketplace.applications import decide, queries, slugs, submit
from marketplace.applications.models import VendorApplication
from marketplace.infra.imaging.formats import FORMATS
from marketplace.kernel.errors import ConflictOfInterestError, LimitReachedError, NotFoundError
from marketplace.kernel.paging import Page
from marketplace.kernel.states import IllegalTransitionError
from marketplace.media import documents
from marketplace.payments.intents.banks import UnknownBankAccountError
from marketplace.payouts.payees import bank_accounts

area = ContractBlueprint("applications", "/api/vendors", "Open your store")
staff_area = ContractBlueprint(
    "vendor_applications", "/api/vendor-applications", "Vendor applications, for staff"
)

_DECISION_ERRORS = (ConflictOfInterestError, IllegalTransitionError)


@area.get("/slug/<string:slug>/available", auth=PUBLIC, limit="60/minute", reply=SlugAvailability)
def check_slug(ctx: Context, slug: str) -> dict[str, Any]:
    """Check whether a store can have a slug. Slugs that look like another store's slug are taken."""
    fault = slugs.find_slug_fault(ctx.session, slug=slug)
    return {
        "slug": slug[: slugs.MAX_LENGTH],
        "available": fault is None,
        "reason": fault,
        "detail": None if fault is None else slugs.SLUG_TEXTS[fault],
    }


@area.post(
    "/applications/student-id",
    auth=AUTHENTICATED,
    limit=SharedLimit.CALLER_TIER,
    group=ProcessGroup.WAITING,
    upload=Upload(
        "file",
        max_bytes=documents.MAX_BYTES,
        accepts=(documents.PDF, *(one.content_type for one in FORMATS.values())),
    ),
    reply=StudentId,
    status=201,
    phased=True,
    raises=(LimitReachedError,),
)
def upload_student_id(ctx: Context, file: UploadedFile) -> FinalPhase:
    """Upload your student ID as a picture or PDF document. Only staff can read the document."""
    document_id = documents.upload_document(
        ctx.services.database,
        ctx.services.storage,
        bucket=ctx.services.settings.s3_private_bucket,
        owner_id=ctx.user.id,
        file=file.content,
        now=ctx.now,
    )

    def complete(session: Session) -> dict[str, str]:
        return {"path": documents.complete_upload(session, document_id=document_id)}

    return FinalPhase(complete)


@area.post(
    "/applications",
    auth=AUTHENTICATED,
    limit="5/hour",
    group=ProcessGroup.WAITING,
    body=SubmitApplication,
    reply=OwnApplication,
    status=201,
    phased=True,
    raises=(
        slugs.SlugUnavailableError,
        submit.AlreadyAppliedError,
        submit.CannotApplyError,
        UnknownBankAccountError,
    ),
)
def submit_application(ctx: Context, body: dict[str, Any]) -> FinalPhase:
    """Apply to open a store. Your phone number must be verified, and the bank must know the account."""
    bank_account = body.pop("bank_account")
    given = submit.ApplicationFields(**body)
    with ctx.transaction() as session:
        submit.ensure_may_apply(session, user_id=ctx.user.id)
        submit.check_fields(session, user_id=ctx.user.id, given=given)
    account = bank_accounts.resolve_payout_account(
        ctx.services.cache,
        ctx.services.gateway,
        ctx.services.transfers,
        account_number=bank_account["account_number"],
        bank_code=bank_account["bank_code"],
        field_prefix="bankAccount.",
    )
    return FinalPhase(
        partial(submit.submit_application, user_id=ctx.user.id, given=given, account=account, now=ctx.now)
    )


@area.get(
    "/applications/me",
    auth=AUTHENTICATED,
    limit=SharedLimit.CALLER_TIER,
    reply=OwnApplication,
    raises=(NotFoundError,),
)
def get_own_application(ctx: Context) -> VendorApplication:
    """Get your latest application with its status."""
    return submit.find_latest_application(ctx.session, user_id=ctx.user.id)


@area.post(
    "/applications/me/answer",
    auth=AUTHENTICATED,
    limit="20/minute",
    body=AnswerQuestion,
    reply=OwnApplication,
    raises=(IllegalTransitionError, NotFoundError),
)
def answer_question(ctx: Context, body: dict[str, Any]) -> VendorApplication:
    """Answer the question of staff about your application, if necessary with another student ID."""
    return submit.answer_question(
        ctx.session,
        user_id=ctx.user.id,
        answer=body["answer"],
        student_id_path=body.get("student_id_path"),
        now=ctx.now,
    )


@area.post(
    "/applications/me/withdraw",
    auth=AUTHENTICATED,
    limit="20/minute",
    reply=OwnApplication,
    raises=(NotFoundError,),
)
def withdraw_application(ctx: Context) -> VendorApplication:
    """Withdraw your open application. The slug is free again."""
    return submit.withdraw_application(ctx.session, user_id=ctx.user.id, now=ctx.now)


@staff_area.get(
    "",
    auth=VENDOR_STAFF,
    limit=SharedLimit.CALLER_TIER,
    query=ApplicationQuery,
    reply=StaffApplication(many=True),
)
def list_applications(ctx: Context, query: dict[str, Any]) -> Page:
    """List vendor applications with a status, the earliest first."""
    return queries.list_applications(
        ctx.session, status=query["status"], campus_id=query.get("campus_id"), page=ctx.page
    )


@staff_area.get(
    "/<uuid:application_id>", auth=VENDOR_STAFF, limit=SharedLimit.CALLER_TIER, reply=StaffApplication
)
def get_application(ctx: Context, application_id: UUID) -> queries.ApplicationForStaff:
    """Get a vendor application with the applicant and the checks."""
    return queries.show_application(ctx.session, application_id=application_id)


@staff_area.post(
    "/<uuid:application_id>/document",
    auth=VENDOR_STAFF,
    limit="30/minute",
    reply=DocumentLink,
    raises=(ConflictOfInterestError,),
)
def open_student_id(ctx: Context, application_id: UUID) -> dict[str, Any]:
    """Get a link to the student ID that is valid for a minute. The audit trail records the access."""
    url = decide.open_document(
        ctx.session,
        ctx.services.storage,
        bucket=ctx.services.settings.s3_private_bucket,
        application_id=application_id,
        act=ctx.act,
    )
    return {"url": url, "expires_at": ctx.now + timedelta(seconds=documents.LINK_SECONDS)}


@staff_area.post(
    "/<uuid:application_id>/start-review",
    auth=VENDOR_STAFF,
    limit="30/minute",
    reply=StaffApplication,
    raises=_DECISION_ERRORS,
)
def start_review(ctx: Context, application_id: UUID) -> queries.ApplicationForStaff:
    """Start the review of a submitted application."""
    decide.start_review(ctx.session, application_id=application_id, act=ctx.act)
    return queries.show_application(ctx.session, application_id=application_id)


@staff_area.post(
    "/<uuid:application_id>/request-info",
    auth=VENDOR_STAFF,
    limit="30/minute",
    body=RequestInfo,
    reply=StaffApplication,
    raises=_DECISION_ERRORS,
)
def request_info(ctx: Context, application_id: UUID, body: dict[str, Any]) -> queries.ApplicationForStaff:
    """Ask the applicant a question. The application waits for the answer."""
    decide.request_info(ctx.session, application_id=application_id, question=body["question"], act=ctx.act)
    return queries.show_application(ctx.session, application_id=application_id)


@staff_area.post(
    "/<uuid:application_id>/approve",
    auth=VENDOR_STAFF,
    limit="30/minute",
    reply=StaffApplication,
    raises=(*_DECISION_ERRORS, decide.ApplicantNotVerifiedError, slugs.SlugUnavailableError),
)
def approve_application(ctx: Context, application_id: UUID) -> queries.ApplicationForStaff:
    """Approve an application: open the store, and register the bank account for payouts."""
    decide.approve_application(ctx.session, application_id=application_id, act=ctx.act)
    return queries.show_application(ctx.session, application_id=application_id)


@staff_area.post(
    "/<uuid:application_id>/reject",
    auth=VENDOR_STAFF,
    limit="30/minute",
    body=RejectApplication,
    reply=StaffApplication,
    raises=_DECISION_ERRORS,
)
def reject_application(
    ctx: Context, application_id: UUID, body: dict[str, Any]
) -> queries.ApplicationForStaff:
    """Reject an application. The applicant sees the reason and can apply again."""
    decide.reject_application(ctx.session, application_id=application_id, reason=body["reason"], act=ctx.act)
    return queries.show_application(ctx.session, application_id=application_id)
