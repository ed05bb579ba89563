"""Applications by students: submit, answer a question, and withdraw."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from marketplace.applications import states, texts
from marketplace.applications.models import VendorApplication
from marketplace.applications.slugs import (
    SLUG_CONSTRAINTS,
    SLUG_TEXTS,
    SlugUnavailableError,
    find_slug_fault,
    lock_slug,
)
from marketplace.catalog.models import Category
from marketplace.identity.models import Profile
from marketplace.infra.db import violated_constraint
from marketplace.kernel.contact_detection import detect_contacts
from marketplace.kernel.errors import ConflictError, InvalidParam, ValidationError, found
from marketplace.media.documents import claim_document, release_document
from marketplace.payouts.payees.bank_accounts import PayoutRecipient
from marketplace.platform.models import Campus
from marketplace.vendors.queries import find_store_of_user

MAX_CATEGORIES = 5
# The student ID of a rejected or withdrawn application is kept for questions, then deleted.
DOCUMENT_RETENTION = timedelta(days=30)


class AlreadyAppliedError(ConflictError):
    """The person has an open application."""

    reason = "already-applied"


class CannotApplyError(ConflictError):
    """The account has a store or a staff role."""

    reason = "cannot-apply"


@dataclass(frozen=True)
class ApplicationFields:
    """The content of an application.

    :ivar phone: in E.164, must be the applicant's verified number
    :ivar student_id_path: path of an uploaded document
    """

    store_name: str
    slug: str
    campus_id: UUID
    category_ids: Sequence[UUID]
    description: str
    phone: str
    student_id_path: str

    def public_texts(self) -> dict[str, str]:
        """Return the public texts by API field name."""
        return {"storeName": self.store_name, "description": self.description}


def ensure_may_apply(session: Session, *, user_id: UUID) -> None:
    """Refuse applications of staff, of store owners, and second applications.

    :raises CannotApplyError: the account has a store or a staff role
    :raises AlreadyAppliedError: the person has an open application
    """
    profile = session.get_one(Profile, user_id)
    if profile.role == "staff":
        raise CannotApplyError(texts.STAFF_CANNOT_APPLY)
    if find_store_of_user(session, user_id=user_id) is not None:
        raise CannotApplyError(texts.ALREADY_STORE)
    if find_open_application(session, user_id=user_id) is not None:
        raise AlreadyAppliedError(texts.ALREADY_APPLIED)


def find_open_application(session: Session, *, user_id: UUID) -> VendorApplication | None:
    """Find a person's open application, or none."""
    return session.scalar(
        select(VendorApplication).where(
            VendorApplication.user_id == user_id, VendorApplication.status.in_(states.OPEN)
        ),
        execution_options={"populate_existing": True},
    )


def check_fields(session: Session, *, user_id: UUID, given: ApplicationFields) -> None:
    """Check an application before the bank is asked about the account.

    :raises ValidationError: a field is faulty; the error names all faults
    """
    profile = session.get_one(Profile, user_id, populate_existing=True)
    faults = []
    if profile.name is None:
        faults.append(InvalidParam("storeName", texts.NAME_MISSING))
    if profile.phone != given.phone or profile.phone_verified_at is None:
        faults.append(InvalidParam("phone", texts.PHONE_NOT_VERIFIED))
    if (fault := find_slug_fault(session, slug=given.slug)) is not None:
        faults.append(InvalidParam("slug", SLUG_TEXTS[fault]))
    campus = session.get(Campus, given.campus_id)
    if campus is None or not campus.active:
        faults.append(InvalidParam("campusId", texts.CAMPUS_NOT_FOUND))
    known = set(session.scalars(select(Category.id).where(Category.id.in_(given.category_ids))))
    faults += [
        InvalidParam(f"categoryIds[{index}]", texts.CATEGORY_NOT_FOUND)
        for index, category_id in enumerate(given.category_ids)
        if category_id not in known
    ]
    for name, value in given.public_texts().items():
        if kinds := detect_contacts(value):
            shown = " and ".join(sorted(kind.value for kind in kinds))
            faults.append(InvalidParam(name, texts.CONTACT_DETAILS_FIELD.format(kinds=shown)))
    if faults:
        raise ValidationError(texts.APPLICATION_FAULTS, invalid_params=faults)


def submit_application(
    session: Session, *, user_id: UUID, given: ApplicationFields, account: PayoutRecipient, now: datetime
) -> VendorApplication:
    """Submit an application. The slug is reserved until the decision.

    :param account: the bank account for payouts, as reported by the bank
    :raises ValidationError: a field is faulty
    :raises CannotApplyError: see ``ensure_may_apply``
    :raises AlreadyAppliedError: the person has an open application
    :raises SlugUnavailableError: another person has taken the slug in the meantime
    """
    lock_slug(session, slug=given.slug)
    ensure_may_apply(session, user_id=user_id)
    check_fields(session, user_id=user_id, given=given)
    document = claim_document(
        session, path=given.student_id_path, owner_id=user_id, parameter="studentIdPath", now=now
    )
    application = VendorApplication(
        user_id=user_id,
        store_name=given.store_name,
        slug=given.slug,
        campus_id=given.campus_id,
        category_ids=list(given.category_ids),
        description=given.description,
        document_id=document.id,
        bank_code=account.bank_code,
        bank_name=account.bank_name,
        account_number=account.account_number,
        account_name=account.account_name,
        recipient_code=account.recipient_code,
        created_at=now,
        updated_at=now,
    )
    try:
        session.add(application)
        session.flush()
    except IntegrityError as error:
        constraint = violated_constraint(error)
        if constraint in SLUG_CONSTRAINTS:
            raise SlugUnavailableError(texts.SLUG_TAKEN) from error
        if constraint == "uq_vendor_applications_open":
            raise AlreadyAppliedError(texts.ALREADY_APPLIED) from error
        raise
    session.refresh(application)
    return application


def answer_question(
    session: Session, *, user_id: UUID, answer: str, student_id_path: str | None, now: datetime
) -> VendorApplication:
    """Answer the question of staff, if necessary with another student ID.

    :raises NotFoundError: the person has no open application
    :raises IllegalTransitionError: staff asked no question
    :raises ValidationError: the person has no such unused document
    """
    application = _lock_open_application(session, user_id=user_id)
    application.status = states.APPLICATION.target(application.status, states.ANSWER)
    if student_id_path is not None:
        document = claim_document(
            session, path=student_id_path, owner_id=user_id, parameter="studentIdPath", now=now
        )
        release_document(session, document_id=application.document_id, keep_until=now + DOCUMENT_RETENTION)
        application.document_id = document.id
    application.comment = answer
    application.revision += 1
    application.updated_at = now
    session.flush()
    return application


def withdraw_application(session: Session, *, user_id: UUID, now: datetime) -> VendorApplication:
    """Withdraw the open application. The slug is free again.

    :raises NotFoundError: the person has no open application
    """
    application = _lock_open_application(session, user_id=user_id)
    application.status = states.APPLICATION.target(application.status, states.WITHDRAW)
    application.revision += 1
    application.updated_at = now
    session.flush()
    release_document(session, document_id=application.document_id, keep_until=now + DOCUMENT_RETENTION)
    return application


def find_latest_application(session: Session, *, user_id: UUID) -> VendorApplication:
    """Find a person's latest application in any state.

    :raises NotFoundError: the person never applied
    """
    application = session.scalar(
        select(VendorApplication)
        .where(VendorApplication.user_id == user_id)
        .order_by(VendorApplication.id.desc())
        .limit(1)
    )
    return found(application, texts.APPLICATION_NOT_FOUND)


def _lock_open_application(session: Session, *, user_id: UUID) -> VendorApplication:
    application = session.scalar(
        select(VendorApplication)
        .where(VendorApplication.user_id == user_id, VendorApplication.status.in_(states.OPEN))
        .with_for_update(key_share=True),
        execution_options={"populate_existing": True},
    )
    return found(application, texts.APPLICATION_NOT_FOUND)
