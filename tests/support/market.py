"""A market for tests: campuses, categories, people, stores and listings per test.

All names are random, so that tests do not affect each other.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from marketplace.catalog.models import Category, Product, ProductImage
from marketplace.identity.models import Profile
from marketplace.identity.queries import Caller, find_caller
from marketplace.infra.db import Base, Database
from marketplace.media.models import Image
from marketplace.platform.models import Campus
from marketplace.vendors.models import VendorProfile

Bearer = Callable[..., dict[str, str]]
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Store:
    """A vendor profile and the owner's user id."""

    id: UUID
    user_id: UUID
    campus_id: UUID


class Market:
    """A factory of rows. Each row is committed at once."""

    def __init__(self, database: Database, *, now: datetime | None = None) -> None:
        self.database = database
        self.now = now or datetime.now(UTC)
        self.campus_id = self.campus()
        self.category_id = self.category()

    def campus(self) -> UUID:
        return self._save(Campus(name="Campus", slug=f"campus-{uuid4().hex[:12]}"))

    def category(self, *, below: UUID | None = None, name: str = "Category") -> UUID:
        category_id = uuid4()
        lineage = [category_id]
        if below is not None:
            lineage = [*self.row(Category, below).lineage, category_id]
        slug = f"category-{category_id.hex[:12]}"
        return self._save(Category(id=category_id, parent_id=below, name=name, slug=slug, lineage=lineage))

    def person(self, **columns: Any) -> UUID:
        return self._save(Profile(**{"id": uuid4(), "campus_id": self.campus_id} | columns))

    def staff(self, staff_role: str) -> UUID:
        return self.person(role="staff", staff_role=staff_role)

    def store(self, **columns: Any) -> Store:
        campus_id = columns.pop("campus_id", self.campus_id)
        user_id = columns.pop("user_id", None) or self.person(role="vendor", campus_id=campus_id)
        slug = f"store-{uuid4().hex[:12]}"
        given = {"display_name": "Store", "slug": slug} | columns
        store_id = self._save(VendorProfile(user_id=user_id, campus_id=campus_id, **given))
        return Store(store_id, user_id, campus_id)

    def image(self, owner_id: UUID | None) -> UUID:
        return self._save(Image(owner_id=owner_id, key=f"products/{uuid4().hex}.webp"))

    def product(self, store: Store, *, images: tuple[UUID, ...] = (), **columns: Any) -> UUID:
        number = next(_numbers)
        status = columns.get("status", "published")
        defaults = {
            "vendor_id": store.id,
            "campus_id": store.campus_id,
            "category_id": self.category_id,
            "title": f"Listing {number}",
            "description": "Hardly used.",
            "price_minor": 10_000 + number,
            "condition": "good",
            "quantity": 5,
            "status": status,
            "screened_at": self.now if status == "published" else None,
            "published_at": self.now - timedelta(seconds=number) if status == "published" else None,
        }
        product_id = self._save(Product(**defaults | columns))
        for position, image_id in enumerate(images):
            self._save(ProductImage(product_id=product_id, position=position, image_id=image_id))
        return product_id

    def caller(self, user_id: UUID) -> Caller:
        with self.database.reading() as session:
            found = find_caller(session, user_id=user_id, aal="aal1", now=datetime.now(UTC))
        assert found is not None
        return found

    def row(self, model: type[Any], row_id: Any) -> Any:
        with self.database.transaction() as session:
            found = session.get(model, row_id)
        assert found is not None
        return found

    def change(self, model: type[Any], row_id: Any, **columns: Any) -> None:
        with self.database.transaction() as session:
            found = session.get(model, row_id)
            assert found is not None
            for name, value in columns.items():
                setattr(found, name, value)

    def _save(self, row: Base) -> Any:
        with self.database.transaction() as session:
            session.add(row)
            session.flush()
            return getattr(row, "id", None)
