"""A store's profile with what its owner alone sees: the bank account, and what holds payouts back."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.audit.operations import Act
from marketplace.catalog import cache_tags
from marketplace.infra.cache import drop_cached
from marketplace.payouts.payees import bank_accounts, holds
from marketplace.payouts.payees.bank_accounts import PayoutRecipient
from marketplace.vendors import operations, queries
from marketplace.vendors.operations import StoreProfileChanges


@dataclass(frozen=True, kw_only=True)
class ProfileUpdate:
    """What an owner changes: the profile, and (none: as it is) the bank account of the payouts."""

    changes: StoreProfileChanges
    account: PayoutRecipient | None
    revision: int | None


def update_store_profile(
    session: Session,
    *,
    vendor_id: UUID,
    user_id: UUID,
    profile_update: ProfileUpdate,
    act: Act,
) -> dict[str, Any]:
    """Change a store's profile and where its payouts go, all of it or nothing.

    :param vendor_id: the store's
    :param user_id: who changes it
    :param profile_update: what is to be otherwise
    :return: the profile as its owner sees it
    :raises ValidationError: see ``vendors.operations.update_profile``
    :raises NotFoundError: there is no such store, or it is somebody else's
    :raises StaleRevisionError: the revision is not the current one
    """
    listing_changed = operations.update_profile(
        session,
        vendor_id=vendor_id,
        user_id=user_id,
        changes=profile_update.changes,
        revision=profile_update.revision,
        now=act.now,
    )
    if listing_changed:
        drop_cached(session, cache_tags.PRODUCTS, cache_tags.CATEGORIES)
    if profile_update.account is not None and bank_accounts.replace_payout_account(
        session, user_id=user_id, account=profile_update.account, act=act
    ):
        operations.bump_store_revision(session, vendor_id=vendor_id, now=act.now)
    return show_store_profile(session, vendor_id=vendor_id, viewer_id=user_id, now=act.now)


def show_store_profile(
    session: Session, *, vendor_id: UUID, viewer_id: UUID | None, now: datetime
) -> dict[str, Any]:
    """Show a store's profile: to whoever runs it with the bank account and the holds.

    :raises NotFoundError: there is no such store, or it is not open to the public
    """
    profile = queries.fetch_store_profile(session, vendor_id=vendor_id, viewer_id=viewer_id, now=now)
    if viewer_id is None or not queries.is_store_owner(session, vendor_id=vendor_id, user_id=viewer_id):
        return profile
    return profile | {
        "bank_account": bank_accounts.show_current_account(session, user_id=viewer_id, now=now),
        "payout_holds": holds.find_vendor_holds(session, vendor_ids=[vendor_id], now=now).get(vendor_id, ()),
    }
