"""Add a product to the favourites of a person, or remove the product."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from marketplace.catalog import texts
from marketplace.catalog.models import Favorite, Product
from marketplace.identity.operations import lock_profile
from marketplace.kernel.errors import LimitReachedError, NotFoundError
from marketplace.vendors.models import VendorProfile

MAX_FAVORITES = 500


def toggle_favorite(session: Session, *, user_id: UUID, product_id: UUID, now: datetime) -> bool:
    """Add a product to a person's favourites, or remove a favourite.

    The person's profile stays locked, so toggles of a person run one after the other. A hidden or deleted product can
    be removed, but not added.

    :return: whether the product is a favourite now
    :raises NotFoundError: the product is no favourite, and does not exist or is hidden
    :raises LimitReachedError: the person already has ``MAX_FAVORITES`` favourites
    """
    lock_profile(session, user_id=user_id)
    own = Favorite.user_id == user_id
    removed = session.scalar(
        delete(Favorite).where(own, Favorite.product_id == product_id).returning(Favorite.id)
    )
    if removed is not None:
        return False
    # The lock makes the price current: a change either precedes this statement, or finds the new favourite.
    price_minor = session.scalar(
        select(Product.price_minor)
        .join(VendorProfile, VendorProfile.id == Product.vendor_id)
        .where(Product.id == product_id, Product.status == "published", VendorProfile.status == "active")
        .with_for_update(read=True, of=Product)
    )
    if price_minor is None:
        raise NotFoundError("Product not found.")
    if session.scalars(select(func.count()).select_from(Favorite).where(own)).one() >= MAX_FAVORITES:
        raise LimitReachedError(texts.TOO_MANY_FAVORITES.format(limit=MAX_FAVORITES))
    session.add(
        Favorite(user_id=user_id, product_id=product_id, known_price_minor=price_minor, created_at=now)
    )
    session.flush()
    return True
