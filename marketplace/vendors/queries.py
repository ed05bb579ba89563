"""Queries of stores: owner, profile, and whether a store accepts orders."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import and_, any_, bindparam, func, not_, select, true
from sqlalchemy.orm import Session

from marketplace.identity.models import Profile
from marketplace.infra.sql.statements import Prepared, Statement
from marketplace.kernel.errors import ForbiddenError, NotFoundError
from marketplace.kernel.opening_hours import OpenInterval, WeeklyHours
from marketplace.kernel.ratings import average_rating
from marketplace.vendors.figures import average_response_minutes, completion_rate
from marketplace.vendors.models import VendorProfile

# The policies of a store, by API field name.
POLICIES = ("returns", "delivery", "warranty")

# The condition of an open store, for all statements that join vendor_profiles. The parameter "now" is the time.
# The text version is for statements with the table alias ``v``.
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
    """The fields of a store that other areas need for decisions."""

    id: UUID
    user_id: UUID
    campus_id: UUID
    status: str
    verified: bool
    on_vacation: bool
    vacation_until: datetime | None

    def is_open(self, now: datetime) -> bool:
        """Return whether the store accepts orders: active and not on vacation.

        :param now: a vacation ends automatically at ``vacation_until``
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
    """Find the store of a user, or none."""
    return _SELECT_STORE_OF_USER.first(session, user_id=user_id)


def require_store_of_user(session: Session, *, user_id: UUID) -> Store:
    """Find a user's store, for requests that only a store can make.

    :raises StoreRequiredError: the user has no store
    """
    store = find_store_of_user(session, user_id=user_id)
    if store is None:
        raise StoreRequiredError("Your account has no store.")
    return store


def find_store(session: Session, *, vendor_id: UUID) -> Store | None:
    """Find a store by the vendor profile's id, or none."""
    return find_stores(session, vendor_ids=[vendor_id]).get(vendor_id)


_SELECT_STORES = Prepared(
    select(*_STORE_COLUMNS).where(VendorProfile.id == any_(bindparam("vendor_ids"))), row=Store
)


def find_stores(session: Session, *, vendor_ids: Collection[UUID]) -> dict[UUID, Store]:
    """Find stores by vendor profile ids. Unknown ids are left out."""
    return {store.id: store for store in _SELECT_STORES.all(session, vendor_ids=list(vendor_ids))}


@dataclass(frozen=True)
class Vacation:
    """The vacation of a store. Without ``until``, the vacation lasts until the store's owner ends the vacation."""

    until: datetime | None = None
    note: str | None = None


@dataclass(frozen=True)
class StoreProfile:
    """The public profile of a store.

    :ivar opening_hours: None while the hours are unknown; then ``open_now`` is None too
    :ivar open_now: whether the store answers now: within the opening hours, active and not on vacation
    :ivar completion_rate: the delivered share of ended orders, from 0 to 1; None without ended orders
    :ivar response_minutes: the average time from payment to acceptance; None without accepted orders
    """

    id: UUID
    display_name: str
    slug: str
    campus_id: UUID
    description: str
    policies: dict[str, str | None]
    vacation_mode: Vacation | None
    opening_hours: tuple[OpenInterval, ...] | None
    open_now: bool | None
    opens_at: datetime | None
    closes_at: datetime | None
    rating: float | None
    rating_count: int
    rating_counts: list[int]
    completed_orders: int
    completion_rate: float | None
    response_minutes: int | None
    verified: bool
    verified_student: bool
    status: str
    revision: int
    member_since: datetime
    updated_at: datetime


@dataclass(frozen=True)
class _ProfileRow:
    """A store with the badges of the owner."""

    id: UUID
    user_id: UUID
    display_name: str
    slug: str
    campus_id: UUID
    description: str
    policies: dict[str, str | None]
    on_vacation: bool
    vacation_until: datetime | None
    vacation_note: str | None
    weekly_hours: list[dict[str, str]] | None
    rating_sum: int
    rating_count: int
    rating_counts: list[int]
    completed_orders: int
    failed_orders: int
    response_seconds_sum: int
    response_count: int
    verified: bool
    status: str
    revision: int
    created_at: datetime
    updated_at: datetime
    badges: list[str]


_SELECT_PROFILE = Prepared(
    select(
        *(getattr(VendorProfile, name) for name in _ProfileRow.__dataclass_fields__ if name != "badges"),
        Profile.badges,
    )
    .join(Profile, Profile.id == VendorProfile.user_id)
    .where(VendorProfile.id == bindparam("vendor_id")),
    row=_ProfileRow,
)


def fetch_store_profile(
    session: Session, *, vendor_id: UUID, viewer_id: UUID | None, now: datetime
) -> StoreProfile:
    """Fetch a store's profile. The owner also sees a suspended or closed store.

    :param viewer_id: none for a client that is not signed in
    :param now: a vacation ends automatically at ``vacation_until``
    :raises NotFoundError: the store does not exist, or is not public
    """
    store = _SELECT_PROFILE.first(session, vendor_id=vendor_id)
    if store is None or (store.status != "active" and store.user_id != viewer_id):
        raise NotFoundError("Store not found.")
    until = store.vacation_until
    away = store.on_vacation and (until is None or until > now)
    hours = None if store.weekly_hours is None else WeeklyHours.from_json(store.weekly_hours)
    # A store that takes no orders has no next opening: the vacation or the status decides.
    sells = store.status == "active" and not away
    opening = hours.status(now) if hours is not None and sells else None
    return StoreProfile(
        id=store.id,
        display_name=store.display_name,
        slug=store.slug,
        campus_id=store.campus_id,
        description=store.description,
        policies={name: store.policies.get(name) for name in POLICIES},
        vacation_mode=Vacation(until, store.vacation_note) if away else None,
        opening_hours=None if hours is None else hours.intervals,
        open_now=None if hours is None else opening is not None and opening.open_now,
        opens_at=opening.opens_at if opening else None,
        closes_at=opening.closes_at if opening else None,
        rating=average_rating(store.rating_sum, store.rating_count),
        rating_count=store.rating_count,
        rating_counts=store.rating_counts,
        completed_orders=store.completed_orders,
        completion_rate=completion_rate(store.completed_orders, store.failed_orders),
        response_minutes=average_response_minutes(store.response_seconds_sum, store.response_count),
        verified=store.verified,
        verified_student="verified_student" in store.badges,
        status=store.status,
        revision=store.revision,
        member_since=store.created_at,
        updated_at=store.updated_at,
    )


def is_store_owner(session: Session, *, vendor_id: UUID, user_id: UUID) -> bool:
    """Return whether a user owns a store."""
    store = find_store(session, vendor_id=vendor_id)
    return store is not None and store.user_id == user_id
