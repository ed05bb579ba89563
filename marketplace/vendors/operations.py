"""Changes of a store's profile by its owner."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.kernel.contact_detection import detect_contacts
from marketplace.kernel.errors import InvalidParam, NotFoundError, StaleRevisionError, ValidationError
from marketplace.kernel.opening_hours import WeeklyHours
from marketplace.vendors import texts
from marketplace.vendors.models import VendorProfile
from marketplace.vendors.queries import Vacation

_SHOWN_ON_LISTINGS = frozenset({"display_name", "on_vacation", "vacation_until"})


@dataclass(frozen=True, kw_only=True)
class StoreProfileChanges:
    """Changes to a store. None leaves a field unchanged.

    :param policies: texts by policy; None removes a policy, missing policies are unchanged
    :param end_vacation: reopen the store
    :param clear_opening_hours: remove the opening hours
    """

    display_name: str | None = None
    description: str | None = None
    policies: dict[str, str | None] | None = None
    vacation: Vacation | None = None
    end_vacation: bool = False
    opening_hours: WeeklyHours | None = None
    clear_opening_hours: bool = False

    def public_texts(self) -> dict[str, str]:
        """Return the public texts by API field name."""
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
    """Check that a user owns a store and has read its current revision.

    :param revision: the revision that the client read; none skips the comparison
    :raises NotFoundError: the store does not exist, or belongs to another user
    :raises StaleRevisionError: the store has changed since the client read it
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

    :param revision: the revision that the client read; none skips the comparison
    :return: whether a field changed that listings show
    :raises ValidationError: a text contains contact details, or the vacation ends in the past
    :raises NotFoundError: the store does not exist, or belongs to another user
    :raises StaleRevisionError: the store has changed since the client read it
    """
    _ensure_no_contact_details(changes)
    if changes.vacation and changes.vacation.until and changes.vacation.until <= now:
        raise ValidationError.of("vacationMode.until", "Must be in the future.")
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
    """Increase a store's revision after a change in another table, such as the bank account."""
    store = session.get_one(
        VendorProfile, vendor_id, with_for_update={"key_share": True}, populate_existing=True
    )
    store.revision += 1
    store.updated_at = now
    session.flush()


def _changed_columns(store: VendorProfile, changes: StoreProfileChanges) -> dict[str, Any]:
    """Return the new values of the changed columns."""
    texts = {"display_name": changes.display_name, "description": changes.description}
    columns: dict[str, Any] = {name: value for name, value in texts.items() if value is not None}
    if changes.policies is not None:
        policies = store.policies | changes.policies
        columns["policies"] = {name: value for name, value in policies.items() if value}
    if changes.clear_opening_hours:
        columns["weekly_hours"] = None
    if changes.opening_hours is not None:
        columns["weekly_hours"] = changes.opening_hours.to_json()
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
        raise NotFoundError("Store not found.")
    StaleRevisionError.check(store.revision, revision)
    return store


def _ensure_no_contact_details(changes: StoreProfileChanges) -> None:
    """Refuse contact details: a deal outside the platform has no escrow."""
    faults = [
        InvalidParam(name, texts.CONTACT_DETAILS_FIELD.format(kinds=" and ".join(sorted(kind.value for kind in kinds))))
        for name, text in changes.public_texts().items()
        if (kinds := detect_contacts(text))
    ]  # fmt: skip
    if faults:
        raise ValidationError(texts.CONTACT_DETAILS_FOUND, invalid_params=faults)
