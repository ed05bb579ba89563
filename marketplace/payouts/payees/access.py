"""Whose store it is that payouts are asked about: a vendor's own, or any that finance names."""

from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.identity.permissions import MANAGE_FINANCES
from marketplace.identity.queries import Caller
from marketplace.kernel.errors import NotFoundError, PermissionRequiredError, ValidationError
from marketplace.vendors.queries import Store, find_store, find_store_of_user


def ensure_finance_permission(caller: Caller) -> None:
    """Refuse staff who have nothing to do with finances.

    :raises PermissionRequiredError: the caller lacks the permission
    """
    if not caller.has_permission(MANAGE_FINANCES):
        raise PermissionRequiredError(f"This takes the permission {MANAGE_FINANCES}.")


def resolve_store_for_caller(session: Session, *, caller: Caller, vendor_id: UUID | None) -> Store:
    """Give the store that somebody asks about.

    :param caller: a vendor, or staff
    :param vendor_id: the store's; staff name one, a vendor needs none
    :raises PermissionRequiredError: staff without the permission
    :raises ValidationError: staff named no store
    :raises NotFoundError: there is no such store, or it is not the vendor's
    """
    if caller.is_staff:
        ensure_finance_permission(caller)
        if vendor_id is None:
            raise ValidationError.of("vendorId", "Is needed: staff name the vendor.")
        store = find_store(session, vendor_id=vendor_id)
    else:
        store = find_store_of_user(session, user_id=caller.id)
        if store is not None and vendor_id not in (None, store.id):
            store = None
    if store is None:
        raise NotFoundError("There is no such store.")
    return store
