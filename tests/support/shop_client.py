"""A shop for API tests: buyer and vendor as clients, and orders created directly in the domain."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from marketplace.infra.db import Database
from tests.support.finance import delivered_order
from tests.support.market import Bearer
from tests.support.purchases import (
    Shop,
    make_person,
    make_product,
    paid_order,
    place,
    shipped_order,
    with_buyer,
)


@dataclass
class ShopClient:
    """A shop with clients of buyer and vendor, and the database."""

    shop: Shop
    database: Database
    client: FlaskClient
    bearer: Bearer

    @property
    def buyer(self) -> dict[str, str]:
        """The buyer's header."""
        return self.bearer(self.shop.buyer.id)

    @property
    def vendor(self) -> dict[str, str]:
        """The vendor's header."""
        return self.bearer(self.shop.vendor.id)

    @property
    def stranger(self) -> dict[str, str]:
        """The authorization header of an unrelated user."""
        return self.bearer(self.database.in_transaction(with_buyer, self.shop).buyer.id)

    def officer(self, staff_role: str = "orders") -> dict[str, str]:
        """The header of an officer."""
        made = self.database.in_transaction(make_person, role="staff", staff_role=staff_role)
        return self.bearer(made.id)

    def product(self, **columns: Any) -> UUID:
        """Create a product."""
        return self.database.in_transaction(make_product, self.shop, **columns)

    def unpaid(self, quantity: int = 1) -> UUID:
        """Place an order without the API."""
        return self.database.in_transaction(place, self.shop, self.product(), quantity=quantity)

    def paid(self) -> UUID:
        """Create a paid order."""
        return self.database.in_transaction(paid_order, self.shop)

    def shipped(self) -> UUID:
        """Create a shipped order."""
        return self.database.in_transaction(shipped_order, self.shop)

    def delivered(self) -> UUID:
        """Create a delivered order."""
        return self.database.in_transaction(delivered_order, self.shop)

    def post(
        self, path: str, headers: dict[str, str], body: Any = None, *, key: str | None = None
    ) -> TestResponse:
        """Send a POST request with a JSON body; ``key`` is an Idempotency-Key."""
        keyed = {"Idempotency-Key": key} if key else {}
        return self.client.post(path, json=body, headers={**headers, **keyed})

    def put(self, path: str, headers: dict[str, str], body: Any = None) -> TestResponse:
        """Send a PUT request with a JSON body."""
        return self.client.put(path, json=body, headers=headers)

    def get(self, path: str, headers: dict[str, str], **query: Any) -> TestResponse:
        """Send a GET request."""
        return self.client.get(path, headers=headers, query_string=query)


def new_key() -> str:
    """Create an Idempotency-Key."""
    return str(uuid4())
