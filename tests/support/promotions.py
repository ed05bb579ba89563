"""Promotions for tests: acts of officers, a movable clock, and the public view."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any
from uuid import UUID

from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import select
from werkzeug.test import TestResponse

from marketplace.audit.models import AuditLog
from marketplace.catalog.promotions.common import BOUNDARY_TOPIC
from marketplace.infra import outbox
from marketplace.infra.outbox import OutboxEvent
from tasks.dispatcher import HANDLERS
from tests.support.gateway import MovableClock
from tests.support.market import Bearer, Market, Store


@dataclass
class Stage:
    """A market with a clock. Officers act through the API."""

    market: Market
    app: Flask
    clock: MovableClock
    bearer: Bearer
    store: Store = field(init=False)

    def __post_init__(self) -> None:
        self.store = self.market.store()

    @cached_property
    def client(self) -> FlaskClient:
        """A client of the application."""
        return self.app.test_client()

    @cached_property
    def officer_id(self) -> UUID:
        """A moderator with the permission to manage products."""
        return self.market.staff("moderator")

    @property
    def officer(self) -> dict[str, str]:
        """The officer's header."""
        return self.bearer(self.officer_id)

    def product(self, **columns: Any) -> UUID:
        """Create a published product of the store, by default at 10,000 kobo."""
        return self.market.product(self.store, **{"price_minor": 10_000, "quantity": 50} | columns)

    def later(self, **span: Any) -> str:
        """Return the time after a span, as in requests."""
        return (self.clock.now + timedelta(**span)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def post(self, path: str, **body: Any) -> TestResponse:
        """Send a POST request as the officer."""
        return self.client.post(path, json=body, headers=self.officer)

    def put(self, path: str, **body: Any) -> TestResponse:
        """Send a PUT request as the officer."""
        return self.client.put(path, json=body, headers=self.officer)

    def create(self, path: str, **body: Any) -> dict[str, Any]:
        """Create an object as the officer, expect success, and return the object."""
        response = self.post(path, **body)
        assert response.status_code == 201, response.json
        data: dict[str, Any] = response.json["data"]  # type: ignore[index]
        return data

    def sale(self, product_id: UUID, **body: Any) -> dict[str, Any]:
        """Create a flash sale as the officer, by default a quarter off for an hour from now."""
        given = {"productId": str(product_id), "endsAt": self.later(hours=1)} | body
        if "salePriceMinor" not in given:
            given = {"percentOff": 25} | given
        return self.create("/api/flash-sales", **given)

    def shown(self, path: str, **query: Any) -> list[Any]:
        """Return the publicly shown promotions."""
        response = self.client.get(path, query_string=query)
        assert response.status_code == 200, response.json
        data: list[Any] = response.json["data"]  # type: ignore[index]
        return data

    def shown_on_campus(self, path: str, **query: Any) -> list[Any]:
        """Return the promotions shown to the campus of this test."""
        return self.shown(path, campus=str(self.market.campus_id), **query)

    def card(self, product_id: UUID) -> dict[str, Any]:
        """Return a product's card in the listing."""
        listed = self.shown_on_campus("/api/products", limit=100)
        [found] = [card for card in listed if card["id"] == str(product_id)]
        return dict(found)

    def detail(self, product_id: UUID) -> dict[str, Any]:
        """Return a product's public detail."""
        response = self.client.get(f"/api/products/{product_id}")
        assert response.status_code == 200
        return dict(response.json["data"])  # type: ignore[index]

    def advance_clock(self, **span: Any) -> None:
        """Move the clock forward. No task runs."""
        self.clock.now += timedelta(**span)

    def run_due_boundaries(self) -> int:
        """Run the due starts and ends of promotions as the worker does, and return the number."""
        database = self.market.database
        with database.reading() as session:
            due = session.scalars(
                select(OutboxEvent.id).where(
                    OutboxEvent.topic == BOUNDARY_TOPIC,
                    OutboxEvent.due_at <= self.clock.now,
                    OutboxEvent.done_at.is_(None),
                )
            ).all()
        for event_id in due:
            database.in_transaction(
                outbox.run_event, event_id=event_id, handlers=HANDLERS, now=self.clock.now
            )
        return len(due)

    def sale_boundaries_of(self, product_id: UUID) -> list[datetime]:
        """List the times when a product's sales are due to start or end."""
        with self.market.database.reading() as session:
            found = session.scalars(
                select(OutboxEvent.due_at)
                .where(
                    OutboxEvent.topic == BOUNDARY_TOPIC,
                    OutboxEvent.payload["productId"].astext == str(product_id),
                )
                .order_by(OutboxEvent.due_at)
            ).all()
        return list(found)

    def audited(self, target_id: str) -> list[Any]:
        """List the audit entries of a target in order."""
        with self.market.database.reading() as session:
            return list(
                session.scalars(
                    select(AuditLog).where(AuditLog.target_id == target_id).order_by(AuditLog.id)
                ).all()
            )

    def buyer(self) -> dict[str, str]:
        """Create a buyer and return the authorization header."""
        return self.bearer(self.market.person())

    def order(
        self, product_id: UUID, *, quantity: int = 1, buyer: dict[str, str] | None = None, **body: Any
    ) -> TestResponse:
        """Order a product."""
        items = [{"productId": str(product_id), "quantity": quantity}]
        given = {"items": items, "shippingAddress": {"hostel": "Moremi"}} | body
        return self.client.post("/api/orders", json=given, headers=buyer or self.buyer())
