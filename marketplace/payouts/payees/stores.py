"""Payees' stores: access checks, and profiles with the bank account and holds for the owner."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.audit.operations import Act
from marketplace.catalog import cache_tags
from marketplace.identity.permissions import MANAGE_FINANCES
from marketplace.identity.queries import Caller
from marketplace.infra.cache import drop_cached
from marketplace.kernel.errors import PermissionRequiredError, ValidationError, found
from marketplace.payouts.payees import bank_accounts, holds
from marketplace.payouts.payees.bank_accounts import OwnAccount, PayoutRecipient
from marketplace.payouts.payees.holds import Hold
from marketplace.vendors import operations, queries
from marketplace.vendors.operations import StoreProfileChanges
from marketplace.vendors.queries import StoreProfile


@dataclass(frozen=True)
class OwnStoreProfile(StoreProfile):
    """A store's profile as shown to the owner."""

    bank_account: OwnAccount | None
    payout_holds: tuple[Hold, ...]


def ensure_finance_permission(caller: Caller) -> None:
    """Refuse staff without the finance permission.

    :raises PermissionRequiredError: the caller lacks the permission
    """
    if not caller.has_permission(MANAGE_FINANCES):
        raise PermissionRequiredError(f"You need the permission {MANAGE_FINANCES}.")


def resolve_store_for_caller(session: Session, *, caller: Caller, vendor_id: UUID | None) -> queries.Store:
    """Find the store that a request is about.

    :param caller: a vendor, or staff with the finance permission
    :param vendor_id: the store's id; required for staff, optional for vendors
    :raises PermissionRequiredError: the caller is staff without the permission
    :raises ValidationError: the caller is staff and named no store
    :raises NotFoundError: the store does not exist or belongs to another vendor
    """
    if caller.is_staff:
        ensure_finance_permission(caller)
        if vendor_id is None:
            raise ValidationError.of("vendorId", "Is required for staff.")
        store = queries.find_store(session, vendor_id=vendor_id)
    else:
        store = queries.find_store_of_user(session, user_id=caller.id)
        if store is not None and vendor_id not in (None, store.id):
            store = None
    return found(store, "Store not found.")


def update_store_profile(
    session: Session,
    *,
    vendor_id: UUID,
    user_id: UUID,
    changes: StoreProfileChanges,
    account: PayoutRecipient | None,
    revision: int | None,
    act: Act,
) -> StoreProfile:
    """Change a store's profile and bank account, in a single transaction.

    :param user_id: the owner
    :param account: the new bank account for payouts; none for no change
    :return: the profile as shown to the owner
    :raises ValidationError: see ``vendors.operations.update_profile``
    :raises NotFoundError: the store does not exist or belongs to another person
    :raises StaleRevisionError: the revision is outdated
    """
    if operations.update_profile(
        session, vendor_id=vendor_id, user_id=user_id, changes=changes, revision=revision, now=act.now
    ):
        drop_cached(session, cache_tags.PRODUCTS, cache_tags.CATEGORIES)
    if account is not None and bank_accounts.replace_payout_account(
        session, user_id=user_id, account=account, act=act
    ):
        operations.bump_store_revision(session, vendor_id=vendor_id, now=act.now)
    return show_store_profile(session, vendor_id=vendor_id, viewer_id=user_id, now=act.now)


def show_store_profile(
    session: Session, *, vendor_id: UUID, viewer_id: UUID | None, now: datetime
) -> StoreProfile:
    """Show a store's profile; the owner gets an ``OwnStoreProfile``.

    :raises NotFoundError: the store does not exist or is not public
    """
    profile = queries.fetch_store_profile(session, vendor_id=vendor_id, viewer_id=viewer_id, now=now)
    if viewer_id is None or not queries.is_store_owner(session, vendor_id=vendor_id, user_id=viewer_id):
        return profile
    return OwnStoreProfile(
        **vars(profile),
        bank_account=bank_accounts.show_current_account(session, user_id=viewer_id, now=now),
        payout_holds=holds.find_vendor_holds(session, vendor_ids=[vendor_id], now=now).get(vendor_id, ()),
    )
