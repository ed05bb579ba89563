"""Conflicts of interest: officers may not decide on their own orders."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.kernel.errors import ConflictOfInterestError
from marketplace.vendors.models import VendorProfile


def ensure_no_conflict_of_interest(
    session: Session, *, officer_id: UUID, buyer_id: UUID, vendor_ids: Sequence[UUID]
) -> None:
    """Refuse an officer who would decide on money of their own.

    :param vendor_ids: the stores whose goods the money paid for
    :raises ConflictOfInterestError: the officer bought it, or sells it
    """
    seller_ids = session.scalars(select(VendorProfile.user_id).where(VendorProfile.id.in_(vendor_ids)))
    if officer_id in {buyer_id, *seller_ids}:
        raise ConflictOfInterestError("You are a party to this: another officer has to decide.")
