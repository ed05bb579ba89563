"""Whose orders they are: who may not decide on them."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.kernel.errors import ConflictOfInterestError

_SELECT_VENDOR_USERS = Statement(text("SELECT user_id FROM vendor_profiles WHERE id = ANY(:vendor_ids)"))


def ensure_no_conflict_of_interest(
    session: Session, *, officer_id: UUID, buyer_id: UUID, vendor_ids: Sequence[UUID]
) -> None:
    """Refuse an officer who would decide on money of their own.

    :param officer_id: who decides
    :param buyer_id: whose money it is
    :param vendor_ids: whose goods it was paid for
    :raises ConflictOfInterestError: the officer bought it, or sells it
    """
    sellers = {row["user_id"] for row in _SELECT_VENDOR_USERS.all(session, vendor_ids=list(vendor_ids))}
    if officer_id in sellers | {buyer_id}:
        raise ConflictOfInterestError("You are a party to this: another officer has to decide.")
