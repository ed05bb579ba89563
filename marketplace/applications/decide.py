"""Decisions of staff about vendor applications: start the review, ask, approve and reject."""

from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from marketplace.applications import states, texts
from marketplace.applications.models import VendorApplication
from marketplace.applications.slugs import SLUG_CONSTRAINTS, SlugUnavailableError, lock_slug
from marketplace.applications.submit import DOCUMENT_RETENTION
from marketplace.audit.operations import Act, record_audit_entry
from marketplace.identity.models import Profile
from marketplace.infra.db import violated_constraint
from marketplace.kernel.errors import ConflictError, ConflictOfInterestError, found
from marketplace.media.documents import document_link, release_document
from marketplace.notifications.operations import notify
from marketplace.payouts.payees.bank_accounts import PayoutRecipient, replace_payout_account
from marketplace.payouts.payees.name_matching import is_plausible_account_name
from marketplace.providers.storage import ObjectStorage
from marketplace.vendors.models import VendorProfile

# The student ID of an open store is kept for disputes about the person, then deleted.
APPROVED_DOCUMENT_RETENTION = timedelta(days=180)
_BADGES = ("verified_student", "verified_vendor")


class ApplicantNotVerifiedError(ConflictError):
    """The applicant's phone number, bank account or account status does not allow the approval."""

    reason = "applicant-not-verified"


def start_review(session: Session, *, application_id: UUID, act: Act) -> None:
    """Start the review of a submitted application.

    :raises NotFoundError: the application does not exist
    :raises ConflictOfInterestError: the officer is the applicant
    :raises IllegalTransitionError: the application is not submitted
    """
    application = _lock_application(session, application_id=application_id, act=act)
    _move(session, application, states.START_REVIEW, act=act)


def request_info(session: Session, *, application_id: UUID, question: str, act: Act) -> None:
    """Ask the applicant a question, and notify the applicant.

    Errors are the same as for ``start_review``.
    """
    application = _lock_application(session, application_id=application_id, act=act)
    application.question, application.comment = question, None
    _move(session, application, states.REQUEST_INFO, act=act, reason=question)
    _notify(
        session,
        application,
        "application_needs_info",
        texts.INFO_REQUESTED_TITLE,
        texts.INFO_REQUESTED_BODY.format(question=question),
        now=act.now,
    )


def approve_application(session: Session, *, application_id: UUID, act: Act) -> None:
    """Approve an application: open the store and register the payee, in the transaction of the caller.

    The person gets the role vendor and the badges. Payouts to the bank account are on hold for a day. A second approval
    changes nothing.

    :raises NotFoundError: the application does not exist
    :raises ConflictOfInterestError: the officer is the applicant
    :raises IllegalTransitionError: the application is not under review
    :raises ApplicantNotVerifiedError: phone number, bank account or account status do not allow the approval
    :raises SlugUnavailableError: a store has taken the slug in the meantime
    """
    slug = found(session.get(VendorApplication, application_id), texts.APPLICATION_NOT_FOUND).slug
    lock_slug(session, slug=slug)
    application = _lock_application(session, application_id=application_id, act=act)
    if application.status == states.APPROVED:
        return
    states.APPLICATION.target(application.status, states.APPROVE)
    profile = session.get_one(
        Profile, application.user_id, with_for_update={"key_share": True}, populate_existing=True
    )
    _ensure_verified(application, profile)
    store = VendorProfile(
        user_id=profile.id,
        campus_id=application.campus_id,
        display_name=application.store_name,
        slug=application.slug,
        description=application.description,
        verified=True,
        created_at=act.now,
        updated_at=act.now,
    )
    try:
        session.add(store)
        session.flush()
    except IntegrityError as error:
        if violated_constraint(error) in SLUG_CONSTRAINTS:
            raise SlugUnavailableError(texts.SLUG_TAKEN) from error
        raise
    profile.role = "vendor"
    profile.badges = sorted({*profile.badges, *_BADGES})
    profile.revision += 1
    profile.updated_at = act.now
    application.vendor_id = store.id
    application.decided_by, application.decided_at = act.person_id, act.now
    _move(session, application, states.APPROVE, act=act)
    replace_payout_account(
        session,
        user_id=profile.id,
        account=PayoutRecipient(
            bank_code=application.bank_code,
            bank_name=application.bank_name,
            account_number=application.account_number,
            account_name=application.account_name,
            recipient_code=application.recipient_code,
        ),
        act=act,
    )
    release_document(
        session, document_id=application.document_id, keep_until=act.now + APPROVED_DOCUMENT_RETENTION
    )
    _notify(
        session,
        application,
        "application_approved",
        texts.APPROVED_TITLE,
        texts.APPROVED_BODY.format(store_name=application.store_name),
        now=act.now,
    )


def reject_application(session: Session, *, application_id: UUID, reason: str, act: Act) -> None:
    """Reject an application, and notify the applicant. The slug is free again.

    Errors are the same as for ``start_review``.

    :param reason: shown to the applicant
    """
    application = _lock_application(session, application_id=application_id, act=act)
    states.APPLICATION.target(application.status, states.REJECT)
    application.decided_by, application.decided_at = act.person_id, act.now
    application.decision_reason = reason
    _move(session, application, states.REJECT, act=act, reason=reason)
    release_document(session, document_id=application.document_id, keep_until=act.now + DOCUMENT_RETENTION)
    _notify(
        session,
        application,
        "application_rejected",
        texts.REJECTED_TITLE,
        texts.REJECTED_BODY.format(reason=reason),
        now=act.now,
    )


def open_document(
    session: Session, storage: ObjectStorage, *, bucket: str, application_id: UUID, act: Act
) -> str:
    """Return a link to the student ID of an application, and record the access.

    :raises NotFoundError: the application does not exist, or the document was deleted
    :raises ConflictOfInterestError: the officer is the applicant
    """
    application = _lock_application(session, application_id=application_id, act=act)
    link = document_link(session, storage, bucket=bucket, document_id=application.document_id)
    record_audit_entry(
        session,
        act=act,
        action="application.document",
        target_type="vendor_application",
        target_id=str(application.id),
    )
    return link


def _ensure_verified(application: VendorApplication, profile: Profile) -> None:
    if profile.account_status != "active":
        raise ApplicantNotVerifiedError(texts.ACCOUNT_NOT_ACTIVE.format(status=profile.account_status))
    if profile.phone_verified_at is None:
        raise ApplicantNotVerifiedError(texts.PHONE_NO_LONGER_VERIFIED)
    if not is_plausible_account_name(application.account_name, profile.name):
        raise ApplicantNotVerifiedError(
            texts.ACCOUNT_NAME_DIFFERS.format(account_name=application.account_name)
        )


def _lock_application(session: Session, *, application_id: UUID, act: Act) -> VendorApplication:
    application = found(
        session.get(
            VendorApplication, application_id, with_for_update={"key_share": True}, populate_existing=True
        ),
        texts.APPLICATION_NOT_FOUND,
    )
    if application.user_id == act.person_id:
        raise ConflictOfInterestError(texts.OWN_APPLICATION)
    return application


def _move(
    session: Session, application: VendorApplication, trigger: str, *, act: Act, reason: str | None = None
) -> None:
    before = application.status
    application.status = states.APPLICATION.target(before, trigger)
    application.revision += 1
    application.updated_at = act.now
    session.flush()
    record_audit_entry(
        session,
        act=act,
        action=f"application.{trigger}",
        target_type="vendor_application",
        target_id=str(application.id),
        before={"status": before},
        after={"status": application.status, "reason": reason},
    )


def _notify(
    session: Session, application: VendorApplication, kind: str, title: str, body: str, *, now: datetime
) -> None:
    notify(
        session,
        user_id=application.user_id,
        type=kind,
        title=title,
        body=body,
        link="/vendor/application",
        cause=f"application:{application.id}:{application.revision}",
        now=now,
    )
