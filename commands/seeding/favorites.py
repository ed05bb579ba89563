"""Favourites of the buyers among the personas."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from commands.seeding.loading import load_data
from marketplace.catalog.favorites.toggle import toggle_favorite
from marketplace.catalog.models import Favorite, Product
from marketplace.kernel.demo_ids import SeededKind, seeded_id
from sandbox.personas import persona_named


@dataclass(frozen=True)
class _FavoritesOfPerson:
    """A persona, and the numbers of the persona's favourite products, the earliest first."""

    person: str
    products: tuple[int, ...]


_FAVORITES = load_data("favorites", tuple[_FavoritesOfPerson, ...])


def load_favorites(session: Session, *, now: datetime) -> int:
    """Add the missing favourites. Products that are no longer published are left out.

    :param now: present time; the favourites are some days old
    :return: number of new favourites
    """
    return sum(_load_favorites_of_person(session, given, now=now) for given in _FAVORITES)


def _load_favorites_of_person(session: Session, given: _FavoritesOfPerson, *, now: datetime) -> int:
    user_id = persona_named(given.person).user_id
    product_ids = [seeded_id(SeededKind.PRODUCT, number) for number in given.products]
    known = select(Favorite.product_id).where(Favorite.user_id == user_id)
    missing = set(
        session.scalars(
            select(Product.id).where(
                Product.id.in_(product_ids), Product.status == "published", Product.id.not_in(known)
            )
        )
    )
    for days, product_id in enumerate(reversed(product_ids), 1):
        if product_id in missing:
            toggle_favorite(session, user_id=user_id, product_id=product_id, now=now - timedelta(days=days))
    return len(missing)
