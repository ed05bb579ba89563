"""Queries of vendor applications for staff."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.applications import texts
from marketplace.applications.models import VendorApplication
from marketplace.identity.models import Profile
from marketplace.kernel.errors import found
from marketplace.kernel.paging import Page, PageRequest, page_of
from marketplace.payouts.models import mask_account_number
from marketplace.payouts.payees.name_matching import is_plausible_account_name


@dataclass(frozen=True)
class ApplicationForStaff:
    """An application with the applicant, for staff.

    :ivar checks: whether phone number and bank account allow the approval
    """

    application: VendorApplication
    applicant: Profile

    @property
    def phone_verified(self) -> bool:
        """Whether the applicant has proved to have the phone number."""
        return self.applicant.phone_verified_at is not None

    @property
    def account_name_matches(self) -> bool:
        """Whether the name of the bank account resembles the name of the applicant."""
        return is_plausible_account_name(self.application.account_name, self.applicant.name)

    @property
    def masked_account_number(self) -> str:
        """The account number with only the last four digits."""
        return mask_account_number(self.application.account_number)


def list_applications(session: Session, *, status: str, campus_id: UUID | None, page: PageRequest) -> Page:
    """List the applications with a status, the earliest first.

    :param campus_id: none for all campuses
    """
    query = _select().where(VendorApplication.status == status)
    if campus_id is not None:
        query = query.where(VendorApplication.campus_id == campus_id)
    [after] = page.after("id")
    if after is not None:
        query = query.where(VendorApplication.id > after)
    rows = session.execute(query.order_by(VendorApplication.id).limit(page.limit + 1))
    items = [ApplicationForStaff(application, applicant) for application, applicant in rows]
    return page_of(items, request=page, position_of=lambda row: [str(row.application.id)])


def show_application(session: Session, *, application_id: UUID) -> ApplicationForStaff:
    """Show an application with the applicant.

    :raises NotFoundError: the application does not exist
    """
    row = session.execute(_select().where(VendorApplication.id == application_id)).first()
    application, applicant = found(row, texts.APPLICATION_NOT_FOUND)
    return ApplicationForStaff(application, applicant)


def _select() -> Any:
    return select(VendorApplication, Profile).join(Profile, Profile.id == VendorApplication.user_id)
