"""Stores: whose they are, and whether they sell at the moment."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import and_, any_, bindparam, func, not_, select, true
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.kernel.errors import ForbiddenError, NotFoundError
from marketplace.kernel.ratings import average_rating
from marketplace.vendors.models import VendorProfile

# What a store may state its terms of, by the names on the wire.
POLICIES = ("returns", "delivery", "warranty")

# The one meaning of an open store, for every statement that joins vendor_profiles; it takes the time as "now".
# In both spellings, as a clause and as text for statements that name the table ``v``.
STORE_IS_OPEN_SQL = (
    "(v.status = 'active' AND NOT (v.on_vacation AND coalesce(v.vacation_until > :now, true)))"
)
STORE_IS_OPEN = and_(
    VendorProfile.status == "active",
    not_(
        and_(
            VendorProfile.on_vacation,
            func.coalesce(VendorProfile.vacation_until > bindparam("now"), true()),
        )
    ),
)


class StoreRequiredError(ForbiddenError):
    """The account has no store."""

    reason = "store-required"


@dataclass(frozen=True)
class Store:
    """A store, as far as others must know it to decide what may be done with it."""

    id: UUID
    user_id: UUID
    campus_id: UUID
    status: str
    verified: bool
    on_vacation: bool
    vacation_until: datetime | None

    def is_open(self, now: datetime) -> bool:
        """Tell whether the store sells: active, and not on vacation now.

        :param now: the time of the request; a vacation ends by itself when its last day has come
        """
        away = self.on_vacation and (self.vacation_until is None or self.vacation_until > now)
        return self.status == "active" and not away


_STORE_COLUMNS = (
    VendorProfile.id,
    VendorProfile.user_id,
    VendorProfile.campus_id,
    VendorProfile.status,
    VendorProfile.verified,
    VendorProfile.on_vacation,
    VendorProfile.vacation_until,
)
_SELECT_STORE_OF_USER = Statement(
    select(*_STORE_COLUMNS).where(VendorProfile.user_id == bindparam("user_id")), row=Store
)


def find_store_of_user(session: Session, *, user_id: UUID) -> Store | None:
    """Find the store that somebody runs, or none."""
    return _SELECT_STORE_OF_USER.first(session, user_id=user_id)


def require_store_of_user(session: Session, *, user_id: UUID) -> Store:
    """Find a user's store, for requests that only a store can make.

    :raises StoreRequiredError: the user has no store
    """
    store = find_store_of_user(session, user_id=user_id)
    if store is None:
        raise StoreRequiredError("The account has no store.")
    return store


def find_store(session: Session, *, vendor_id: UUID) -> Store | None:
    """Find a store by the vendor profile's id, or none."""
    return find_stores(session, vendor_ids=[vendor_id]).get(vendor_id)


_SELECT_STORES = Statement(
    select(*_STORE_COLUMNS).where(VendorProfile.id == any_(bindparam("vendor_ids"))), row=Store
)


def find_stores(session: Session, *, vendor_ids: Collection[UUID]) -> dict[UUID, Store]:
    """Find stores by their vendor profiles' ids, those that exist."""
    return {store.id: store for store in _SELECT_STORES.all(session, vendor_ids=list(vendor_ids))}


@dataclass(frozen=True)
class Vacation:
    """The vacation of a store: until a time, or without one until the store ends it. The note is for buyers."""

    until: datetime | None = None
    note: str | None = None


@dataclass(frozen=True)
class StoreProfile:
    """A store's profile as the public sees it."""

    id: UUID
    display_name: str
    slug: str
    campus_id: UUID
    description: str
    policies: dict[str, str | None]
    vacation_mode: Vacation | None
    rating: float | None
    rating_count: int
    completed_orders: int
    verified: bool
    status: str
    revision: int
    member_since: datetime
    updated_at: datetime


def fetch_store_profile(
    session: Session, *, vendor_id: UUID, viewer_id: UUID | None, now: datetime
) -> StoreProfile:
    """Show a store's profile; the owner sees a suspended or closed store too.

    :param viewer_id: none for a client that is not signed in
    :param now: a vacation ends by itself
    :raises NotFoundError: the store does not exist, or is not open to the public
    """
    store = session.get(VendorProfile, vendor_id, populate_existing=True)
    if store is None or (store.status != "active" and store.user_id != viewer_id):
        raise NotFoundError("There is no such store.")
    until = store.vacation_until
    away = store.on_vacation and (until is None or until > now)
    return StoreProfile(
        id=store.id,
        display_name=store.display_name,
        slug=store.slug,
        campus_id=store.campus_id,
        description=store.description,
        policies={name: store.policies.get(name) for name in POLICIES},
        vacation_mode=Vacation(until, store.vacation_note) if away else None,
        rating=average_rating(store.rating_sum, store.rating_count),
        rating_count=store.rating_count,
        completed_orders=store.completed_orders,
        verified=store.verified,
        status=store.status,
        revision=store.revision,
        member_since=store.created_at,
        updated_at=store.updated_at,
    )


def is_store_owner(session: Session, *, vendor_id: UUID, user_id: UUID) -> bool:
    """Tell whether somebody runs a store."""
    store = find_store(session, vendor_id=vendor_id)
    return store is not None and store.user_id == user_id
