"""A catalog and a plain model of all products. Few distinct values produce ties."""

import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from flask.testing import FlaskClient

from marketplace.catalog.models import Category
from marketplace.platform.models import Campus
from marketplace.services import Services
from tests.support.market import Bearer, Market

PRODUCTS = 90
STATUSES = ("draft", "in_review", "rejected", "paused", "removed", "deleted")
CONDITIONS = ("new", "like_new", "good", "fair")
PRICES = (100, 250, 500, 1_000, 5_000)


@dataclass(frozen=True)
class Item:
    """A product with the properties of the store that decide visibility."""

    id: UUID
    vendor_id: UUID
    campus_id: UUID
    category_id: UUID
    title: str
    price_minor: int
    condition: str
    quantity: int
    reserved: int
    status: str
    popularity: int
    rating_sum: int
    rating_count: int
    published_at: datetime | None
    created_at: datetime
    updated_at: datetime
    exclusive: bool
    store_open: bool
    store_verified: bool

    @property
    def available(self) -> int:
        """The number of available units."""
        return self.quantity - self.reserved

    @property
    def rating(self) -> int:
        """Thousandths of a star, drawn to 3."""
        return (self.rating_sum * 1000 + 15_000) // (self.rating_count + 5)

    @property
    def public(self) -> bool:
        """Whether the product is public."""
        return self.status == "published" and self.store_open


@dataclass(frozen=True)
class CatalogModel:
    """A separate catalog with queries."""

    client: FlaskClient
    items: list[Item]
    campuses: dict[str, UUID]
    categories: dict[str, UUID]
    below: dict[UUID, frozenset[UUID]]
    stores: list[UUID]
    owner: dict[str, str]
    owned: UUID
    now: datetime


def fill_catalog(services: Services, client: FlaskClient, bearer: Bearer) -> CatalogModel:
    """Fill an empty database and return the model of the content."""
    draw = random.Random(20)  # noqa: S311 - the same in every run
    now = datetime.now(UTC)
    market = Market(services.database, now=now)
    campus_ids = [market.campus_id, market.campus()]
    root, other = market.category_id, market.category()
    child = market.category(below=root)
    grandchild, sibling = market.category(below=child), market.category(below=root)
    lineage = {
        root: {root, child, grandchild, sibling},
        other: {other},
        child: {child, grandchild},
        grandchild: {grandchild},
        sibling: {sibling},
    }
    columns: list[dict[str, Any]] = [
        {"verified": True},
        {},
        {"on_vacation": True, "vacation_until": now - timedelta(hours=1)},
        {"on_vacation": True, "vacation_until": now + timedelta(days=1)},
        {"on_vacation": True, "verified": True},
        {"status": "suspended", "verified": True},
        {"status": "closed"},
    ]
    stores = [market.store(campus_id=campus_ids[number % 2], **given) for number, given in enumerate(columns)]
    items = [
        _item(draw, market, number, stores, columns, list(lineage), now=now) for number in range(PRODUCTS)
    ]
    return CatalogModel(
        client=client,
        items=items,
        campuses={market.row(Campus, one).slug: one for one in campus_ids},
        categories={market.row(Category, one).slug: one for one in lineage},
        below={one: frozenset(below) for one, below in lineage.items()},
        stores=[store.id for store in stores],
        owner=bearer(stores[0].user_id),
        owned=stores[0].id,
        now=now,
    )


def _item(
    draw: random.Random,
    market: Market,
    number: int,
    stores: list[Any],
    columns: list[dict[str, Any]],
    categories: list[UUID],
    *,
    now: datetime,
) -> Item:
    """Create a product from a few distinct values, so that ties occur."""
    place = draw.choice((0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 4, 5, 6))
    store, given = stores[place], columns[place]
    quantity = draw.randrange(6)
    status = draw.choice(("published",) * 12 + STATUSES)
    item = Item(
        id=UUID(int=0),
        vendor_id=store.id,
        campus_id=store.campus_id,
        category_id=draw.choice(categories),
        title=draw.choice(("Reading LAMP", "Lamp shade", "Desk", "Old desk 100%")),
        price_minor=draw.choice(PRICES),
        condition=draw.choice(CONDITIONS),
        quantity=quantity,
        reserved=draw.randrange(quantity + 1),
        status=status,
        popularity=draw.randrange(4),
        rating_sum=draw.choice((0, 10, 40)),
        rating_count=draw.choice((0, 10)),
        # Times have microseconds, and some times are equal.
        published_at=now - timedelta(days=draw.choice((1, 2, 13, 15, 40)), microseconds=number // 3)
        if status == "published"
        else None,
        created_at=now - timedelta(days=draw.randrange(5)),
        updated_at=now - timedelta(hours=draw.randrange(5)),
        exclusive=draw.random() < 0.4,
        store_open=given.get("status", "active") == "active"
        and (not given.get("on_vacation") or given.get("vacation_until", now) < now),
        store_verified=given.get("verified", False),
    )
    stored = dict(vars(item))
    for name in ("id", "vendor_id", "campus_id", "store_open", "store_verified"):
        stored.pop(name)
    return replace(item, id=market.product(store, **stored))
