"""Stores are changed by who runs them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.kernel.contact_detection import detect_contacts
from marketplace.kernel.errors import InvalidParam, NotFoundError, StaleRevisionError, ValidationError
from marketplace.vendors.models import VendorProfile
from marketplace.vendors.queries import Vacation

_SHOWN_ON_LISTINGS = frozenset({"display_name", "on_vacation", "vacation_until"})


@dataclass(frozen=True, kw_only=True)
class StoreProfileChanges:
    """Changes to a store; none leaves a field as it is.

    ``policies`` are any of returns, delivery and warranty; the others stay, and one that is none goes.
    ``end_vacation`` opens the store again.
    """

    display_name: str | None = None
    description: str | None = None
    policies: dict[str, str | None] | None = None
    vacation: Vacation | None = None
    end_vacation: bool = False

    def public_texts(self) -> dict[str, str]:
        """Give what of it the public reads, by the field's name on the wire."""
        texts = {
            "displayName": self.display_name,
            "description": self.description,
            "vacationMode.note": self.vacation.note if self.vacation else None,
            **{f"policies.{name}": value for name, value in (self.policies or {}).items()},
        }
        return {name: value for name, value in texts.items() if value}


def ensure_owner_and_revision(
    session: Session, *, vendor_id: UUID, user_id: UUID, revision: int | None
) -> None:
    """Make sure that somebody may change a store, and knows it as it is.

    :param revision: the one that the client read, or none not to compare
    :raises NotFoundError: there is no such store, or it is somebody else's
    :raises StaleRevisionError: the revision is not the current one
    """
    _ensure_current(session.get(VendorProfile, vendor_id), user_id=user_id, revision=revision)


def update_profile(
    session: Session,
    *,
    vendor_id: UUID,
    user_id: UUID,
    changes: StoreProfileChanges,
    revision: int | None,
    now: datetime,
) -> bool:
    """Change a store's profile.

    :param vendor_id: the store's
    :param user_id: who changes it
    :param changes: what is to be otherwise
    :param revision: the one that the client read, or none not to compare
    :param now: the time of the request
    :return: whether listings show something else by it
    :raises ValidationError: a text holds contact details, or a vacation is over before it begins
    :raises NotFoundError: there is no such store, or it is somebody else's
    :raises StaleRevisionError: the revision is not the current one
    """
    _ensure_no_contact_details(changes)
    if changes.vacation and changes.vacation.until and changes.vacation.until <= now:
        raise ValidationError.of("vacationMode.until", "Is over already.")
    locked = session.get(
        VendorProfile, vendor_id, with_for_update={"key_share": True}, populate_existing=True
    )
    store = _ensure_current(locked, user_id=user_id, revision=revision)
    columns = _changed_columns(store, changes)
    changed = {name for name, value in columns.items() if getattr(store, name) != value}
    if not changed:
        return False
    for name in changed:
        setattr(store, name, columns[name])
    store.revision += 1
    store.updated_at = now
    session.flush()
    return bool(changed & _SHOWN_ON_LISTINGS)


def bump_store_revision(session: Session, *, vendor_id: UUID, now: datetime) -> None:
    """Count a change to what belongs to a store but is kept elsewhere, such as its bank account."""
    store = session.get_one(
        VendorProfile, vendor_id, with_for_update={"key_share": True}, populate_existing=True
    )
    store.revision += 1
    store.updated_at = now
    session.flush()


def _changed_columns(store: VendorProfile, changes: StoreProfileChanges) -> dict[str, Any]:
    """Give the columns that changes name, as they are to be."""
    texts = {"display_name": changes.display_name, "description": changes.description}
    columns: dict[str, Any] = {name: value for name, value in texts.items() if value is not None}
    if changes.policies is not None:
        policies = store.policies | changes.policies
        columns["policies"] = {name: value for name, value in policies.items() if value}
    if changes.end_vacation:
        columns |= {"on_vacation": False, "vacation_until": None, "vacation_note": None}
    if changes.vacation is not None:
        columns |= {
            "on_vacation": True,
            "vacation_until": changes.vacation.until,
            "vacation_note": changes.vacation.note,
        }
    return columns


def _ensure_current(store: VendorProfile | None, *, user_id: UUID, revision: int | None) -> VendorProfile:
    if store is None or store.user_id != user_id:
        raise NotFoundError("There is no such store.")
    StaleRevisionError.check(store.revision, revision, subject="The store is")
    return store


def _ensure_no_contact_details(changes: StoreProfileChanges) -> None:
    """Refuse contact details: whoever deals beside the platform deals without its escrow."""
    faults = [
        InvalidParam(name, f"Holds {' and '.join(sorted(kind.value for kind in kinds))}: buyers write to you here.")
        for name, text in changes.public_texts().items()
        if (kinds := detect_contacts(text))
    ]  # fmt: skip
    if faults:
        raise ValidationError("Contact details do not stand in a store's profile.", invalid_params=faults)
