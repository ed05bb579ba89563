"""Announce price drops and restocks of favourites, in batches.

Each favourite keeps the price and the restock that the person knows. Announcements follow from these columns and the
product's current state. A repeated, late or lost event therefore announces nothing twice and nothing that has passed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, and_, or_, select, update
from sqlalchemy.orm import Session

from marketplace.catalog import texts
from marketplace.catalog.favorites.changes import enqueue_check
from marketplace.catalog.models import Favorite, Product
from marketplace.kernel.money import format_naira
from marketplace.notifications.operations import NewNotification, notify_all
from marketplace.notifications.phrases import say
from marketplace.vendors.models import VendorProfile
from marketplace.vendors.queries import STORE_IS_OPEN

BATCH_SIZE = 500
# Stock that unpaid orders reserve and release sells out and returns many times a day.
RESTOCK_PERIOD = timedelta(hours=24)


@dataclass(frozen=True)
class _ChangedProduct:
    """A visible product in stock."""

    id: UUID
    title: str
    price_minor: int
    restocked_at: datetime | None
    owner_id: UUID

    @property
    def link(self) -> str:
        return f"/products/{self.id}"


def announce_change(
    session: Session, *, payload: dict[str, Any], now: datetime, batch_size: int = BATCH_SIZE
) -> None:
    """Notify a batch of people with a changed product among their favourites, and enqueue the next batch.

    Sold-out and hidden products are not announced. The product's owner gets no announcement.

    - A price drop: the price is below the price at the time of the favourite, and below the last announced price.
    - A restock: sold-out stock returned, at the earliest ``RESTOCK_PERIOD`` after the last announced restock.

    :param payload: ``productId``, and ``after``: the user id of the last checked favourite
    """
    product = _find_available_product(session, product_id=UUID(payload["productId"]), now=now)
    if product is None:
        return
    is_cheaper, is_restocked = _is_cheaper(product), _is_restocked(product)
    due = select(Favorite).where(
        Favorite.product_id == product.id,
        Favorite.user_id != product.owner_id,
        is_cheaper if is_restocked is None else or_(is_cheaper, is_restocked),
    )
    if payload.get("after"):
        due = due.where(Favorite.user_id > UUID(payload["after"]))
    # A batch of the same product in another worker waits here, then finds the columns changed.
    favorites = session.scalars(
        due.order_by(Favorite.user_id).limit(batch_size).with_for_update(key_share=True),
        execution_options={"populate_existing": True},
    ).all()
    if not favorites:
        return
    ids = [favorite.id for favorite in favorites]
    _notify_of_price(session, product, ids, is_cheaper, now=now)
    if is_restocked is not None:
        _notify_of_restock(session, product, ids, is_restocked, now=now)
    if len(favorites) == batch_size:
        enqueue_check(
            session,
            payload={"productId": str(product.id), "after": str(favorites[-1].user_id)},
            now=now,
        )


def _find_available_product(session: Session, *, product_id: UUID, now: datetime) -> _ChangedProduct | None:
    row = session.execute(
        select(Product.id, Product.title, Product.price_minor, Product.restocked_at, VendorProfile.user_id)
        .join(VendorProfile, VendorProfile.id == Product.vendor_id)
        .where(Product.id == product_id, Product.status == "published", Product.available > 0, STORE_IS_OPEN),
        {"now": now},
    ).one_or_none()
    return None if row is None else _ChangedProduct(*row)


def _is_cheaper(product: _ChangedProduct) -> ColumnElement[bool]:
    return Favorite.known_price_minor > product.price_minor


def _is_restocked(product: _ChangedProduct) -> ColumnElement[bool] | None:
    restocked_at = product.restocked_at
    if restocked_at is None:
        return None
    return and_(
        Favorite.created_at < restocked_at,
        or_(
            Favorite.announced_restock_at.is_(None),
            Favorite.announced_restock_at <= restocked_at - RESTOCK_PERIOD,
        ),
    )


def _notify_of_price(
    session: Session,
    product: _ChangedProduct,
    ids: Sequence[UUID],
    is_cheaper: ColumnElement[bool],
    *,
    now: datetime,
) -> None:
    price = format_naira(product.price_minor)
    changed = session.execute(
        update(Favorite)
        .where(Favorite.id.in_(ids), is_cheaper)
        .values(known_price_minor=product.price_minor)
        .returning(Favorite.id, Favorite.user_id),
        execution_options={"synchronize_session": False},
    ).all()
    _notify(
        session,
        [
            NewNotification(
                user_id=user_id,
                type="favorite_price_dropped",
                title=say(texts.FAVORITE_PRICE_DROPPED_TITLE),
                body=say(texts.FAVORITE_PRICE_DROPPED_BODY, listing=product.title, price=price),
                link=product.link,
                cause=f"favorite:{favorite_id}:price:{product.price_minor}",
            )
            for favorite_id, user_id in changed
        ],
        now=now,
    )


def _notify_of_restock(
    session: Session,
    product: _ChangedProduct,
    ids: Sequence[UUID],
    is_restocked: ColumnElement[bool],
    *,
    now: datetime,
) -> None:
    price = format_naira(product.price_minor)
    changed = session.execute(
        update(Favorite)
        .where(Favorite.id.in_(ids), is_restocked)
        .values(announced_restock_at=product.restocked_at)
        .returning(Favorite.id, Favorite.user_id),
        execution_options={"synchronize_session": False},
    ).all()
    _notify(
        session,
        [
            NewNotification(
                user_id=user_id,
                type="favorite_restocked",
                title=say(texts.FAVORITE_RESTOCKED_TITLE),
                body=say(texts.FAVORITE_RESTOCKED_BODY, listing=product.title, price=price),
                link=product.link,
                cause=f"favorite:{favorite_id}:restock:{product.restocked_at}",
            )
            for favorite_id, user_id in changed
        ],
        now=now,
    )


def _notify(session: Session, notifications: Sequence[NewNotification], *, now: datetime) -> None:
    if notifications:
        notify_all(session, notifications=notifications, now=now)
