"""Favourites over HTTP: toggle, list, the product page, and announcements of price drops and restocks."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from flask.testing import FlaskClient
from sqlalchemy import text

from blueprints.catalog.favorites.schemas import FavoriteState
from blueprints.catalog.products.schemas import ProductCard, ProductDetail
from marketplace.catalog.favorites import announce, changes
from marketplace.catalog.favorites.toggle import MAX_FAVORITES
from marketplace.catalog.models import Favorite, Product
from marketplace.infra.db import Database
from marketplace.vendors.models import VendorProfile
from tests.support.audit_and_notifications import notifications_of
from tests.support.market import Bearer, Market, Store
from tests.support.moderation import screen_by_rules_alone
from tests.support.probes import assert_problem
from tests.support.product_api import faults_of, ids_of
from tests.support.resource_usage import counted_statements

PATH = "/api/users/favorites"
TOGGLE = f"{PATH}/toggle"


def toggle(client: FlaskClient, headers: dict[str, str], product_id: Any) -> Any:
    return client.post(TOGGLE, json={"productId": str(product_id)}, headers=headers)


def listed(client: FlaskClient, headers: dict[str, str]) -> list[UUID]:
    answer = client.get(PATH, headers=headers)
    assert answer.status_code == 200, answer.json
    assert not ProductCard(many=True).validate(answer.json["data"])
    return ids_of(answer.json)


def change(client: FlaskClient, headers: dict[str, str], product_id: UUID, **body: Any) -> None:
    answer = client.put(f"/api/products/{product_id}", json=body, headers=headers)
    assert answer.status_code == 200, answer.json


def pending(database: Database, product_id: UUID) -> int:
    """Return the number of pending events of a product, and mark the events as done."""
    with database.transaction() as session:
        done = session.execute(
            text(
                "UPDATE outbox_events SET done_at = now() WHERE topic = :topic AND done_at IS NULL"
                " AND payload ->> 'productId' = :product_id RETURNING id"
            ),
            {"topic": changes.CHANGED_TOPIC, "product_id": str(product_id)},
        ).all()
    return len(done)


def announced(
    database: Database, product_id: UUID, user_id: UUID, *, now: datetime | None = None
) -> list[str]:
    """Announce a change if an event asks for that, and return the types of the person's notifications."""
    for _ in range(pending(database, product_id)):
        database.in_transaction(
            announce.announce_change,
            payload={"productId": str(product_id)},
            now=now or datetime.now(UTC),
        )
    return [one["type"] for one in notifications_of(database, user_id)]


def reprice(
    client: FlaskClient, database: Database, store: dict[str, str], product_id: UUID, price_minor: int
) -> None:
    """Change the price of a listing, and publish the listing again."""
    change(client, store, product_id, priceMinor=price_minor)
    assert pending(database, product_id) == 0
    state = database.in_transaction(screen_by_rules_alone, product_id=product_id, now=datetime.now(UTC))
    assert state == "published"


class TestToggle:
    """``POST /api/users/favorites/toggle``."""

    def test_toggles_add_and_remove_a_product(
        self, client: FlaskClient, market: Market, store: Store, bearer: Bearer
    ) -> None:
        product_id, buyer = market.product(store), bearer(market.person())

        for is_favorite in (True, False, True):
            answer = toggle(client, buyer, product_id)
            assert answer.status_code == 200
            assert not FavoriteState().validate(answer.json["data"])
            assert answer.json["data"] == {"productId": str(product_id), "isFavorite": is_favorite}
            assert listed(client, buyer) == [product_id] * is_favorite

    @pytest.mark.parametrize("status", ["draft", "in_review", "rejected", "paused", "removed", "deleted"])
    def test_hidden_product_can_only_be_removed(
        self, client: FlaskClient, market: Market, store: Store, bearer: Bearer, status: str
    ) -> None:
        product_id, buyer = market.product(store), bearer(market.person())
        assert toggle(client, buyer, product_id).status_code == 200
        market.change(Product, product_id, status=status)

        assert listed(client, buyer) == []
        assert toggle(client, buyer, product_id).json["data"]["isFavorite"] is False
        assert_problem(toggle(client, buyer, product_id), 404, "RESOURCE_NOT_FOUND")

    def test_product_of_inactive_store_and_unknown_product_are_not_found(
        self, client: FlaskClient, market: Market, bearer: Bearer
    ) -> None:
        buyer = bearer(market.person())
        for product_id in (market.product(market.store(status="suspended")), uuid4()):
            assert_problem(toggle(client, buyer, product_id), 404, "RESOURCE_NOT_FOUND")

    def test_favourites_are_limited(
        self, client: FlaskClient, market: Market, store: Store, database: Database, bearer: Bearer
    ) -> None:
        buyer_id, product_id = market.person(), market.product(store)
        with database.transaction() as session:
            session.execute(
                text(
                    "WITH p AS (INSERT INTO products (vendor_id, campus_id, category_id, title, price_minor,"
                    " condition, quantity, status, published_at) SELECT :store, :campus, :category, 'Lamp', 1000,"
                    " 'good', 1, 'published', now() FROM generate_series(1, :count) RETURNING id)"
                    " INSERT INTO favorites (user_id, product_id, known_price_minor) SELECT :buyer, id, 1000 FROM p"
                ),
                {
                    "store": store.id,
                    "campus": store.campus_id,
                    "category": market.category_id,
                    "count": MAX_FAVORITES,
                    "buyer": buyer_id,
                },
            )
        buyer = bearer(buyer_id)

        refused = toggle(client, buyer, product_id)

        assert assert_problem(refused, 409, "CONCURRENCY_CONFLICT")["reason"] == "limit-reached"
        first = client.get(PATH, query_string={"limit": 1}, headers=buyer).json["data"][0]["id"]
        assert toggle(client, buyer, first).json["data"]["isFavorite"] is False
        assert toggle(client, buyer, product_id).json["data"]["isFavorite"] is True

    def test_invalid_bodies_are_refused(self, client: FlaskClient, market: Market, bearer: Bearer) -> None:
        buyer = bearer(market.person())
        for body, fault in (
            ({}, "productId"),
            ({"productId": "lamp"}, "productId"),
            ({"productId": None}, "productId"),
            ({"productId": str(uuid4()), "userId": str(uuid4())}, "userId"),
        ):
            answer = client.post(TOGGLE, json=body, headers=buyer)
            assert answer.status_code == 422
            assert fault in faults_of(answer)

    def test_callers_without_token_and_restricted_people_are_refused(
        self, client: FlaskClient, market: Market, store: Store, bearer: Bearer
    ) -> None:
        product_id = market.product(store)
        assert toggle(client, {}, product_id).status_code == 401
        assert client.get(PATH).status_code == 401
        restricted = bearer(market.person(account_status="restricted"))
        assert toggle(client, restricted, product_id).status_code == 403


class TestList:
    """``GET /api/users/favorites``."""

    def test_pages_list_own_visible_favourites_latest_first(
        self, client: FlaskClient, market: Market, store: Store, database: Database, bearer: Bearer
    ) -> None:
        buyer, other = bearer(market.person()), bearer(market.person())
        products = [market.product(store) for _ in range(5)]
        for product_id in products:
            toggle(client, buyer, product_id)
        toggle(client, other, products[0])
        market.change(Product, products[3], status="paused")

        seen: list[UUID] = []
        counts: set[int] = set()
        query: dict[str, Any] = {"limit": 2}
        while True:
            # The first request of each kind prepares its statement on the connection.
            client.get(PATH, query_string=query, headers=buyer)
            with counted_statements(database) as statements:
                answer = client.get(PATH, query_string=query, headers=buyer)
            counts.add(len(statements))
            seen += ids_of(answer.json)
            if not answer.json["meta"]["has_more"]:
                break
            query["cursor"] = answer.json["meta"]["next_cursor"]

        assert counts == {2}  # the caller and the page
        assert seen == [products[4], products[2], products[1], products[0]]
        assert listed(client, other) == [products[0]]
        market.change(Product, products[3], status="published")
        assert products[3] in listed(client, buyer)

    def test_products_of_closed_stores_and_stores_on_vacation_are_left_out(
        self, client: FlaskClient, market: Market, store: Store, bearer: Bearer
    ) -> None:
        product_id, buyer = market.product(store), bearer(market.person())
        toggle(client, buyer, product_id)
        for hidden, shown in (
            ({"on_vacation": True}, {"on_vacation": False}),
            ({"status": "closed"}, {"status": "active"}),
        ):
            market.change(VendorProfile, store.id, **hidden)
            assert listed(client, buyer) == []
            market.change(VendorProfile, store.id, **shown)
            assert listed(client, buyer) == [product_id]


class TestProductPage:
    """``isFavorite`` and ``favorites`` of ``GET /api/products/:id``."""

    def test_page_shows_favourite_to_the_caller_only(
        self, client: FlaskClient, market: Market, store: Store, bearer: Bearer
    ) -> None:
        product_id, buyer = market.product(store), bearer(market.person())
        path = f"/api/products/{product_id}"
        assert client.get(path, headers=buyer).json["data"]["isFavorite"] is False
        toggle(client, buyer, product_id)

        own = client.get(path, headers=buyer)
        assert not ProductDetail().validate(own.json["data"])
        assert own.json["data"]["isFavorite"] is True
        assert own.headers["Cache-Control"] == "no-store"
        assert client.get(path, headers=bearer(market.person())).json["data"]["isFavorite"] is False
        assert not client.get(path).json["data"].keys() & {"isFavorite", "favorites"}

    def test_page_takes_no_further_statement_for_the_favourite(
        self, client: FlaskClient, market: Market, store: Store, database: Database, bearer: Bearer
    ) -> None:
        product_id = market.product(store)
        path = f"/api/products/{product_id}"
        for headers, count in (({}, 2), (bearer(market.person()), 3)):
            client.get(path, headers=headers)
            with counted_statements(database) as seen:
                client.get(path, headers=headers)
            assert len(seen) == count

    def test_owner_sees_number_of_favourites(
        self, client: FlaskClient, market: Market, store: Store, bearer: Bearer
    ) -> None:
        product_id = market.product(store)
        for _ in range(2):
            toggle(client, bearer(market.person()), product_id)
        own = client.get(f"/api/products/{product_id}", headers=bearer(store.user_id)).json["data"]
        assert (own["favorites"], own["isFavorite"]) == (2, False)


class TestAnnouncements:
    """Price drops and restocks."""

    def test_lower_price_is_announced_once_and_again_only_below_it(
        self, client: FlaskClient, market: Market, store: Store, database: Database, bearer: Bearer
    ) -> None:
        product_id, buyer_id = market.product(store, price_minor=500_000, quantity=5), market.person()
        vendor = bearer(store.user_id)
        toggle(client, bearer(buyer_id), product_id)
        expected: list[str] = []

        for price_minor, is_announced in (
            (450_000, True),
            (500_000, False),
            (450_000, False),
            (460_000, False),
            (449_900, True),
        ):
            reprice(client, database, vendor, product_id, price_minor)
            expected += ["favorite_price_dropped"] * is_announced
            assert announced(database, product_id, buyer_id) == expected

        last = notifications_of(database, buyer_id)[-1]
        assert "4,499.00" in last["body"]
        assert last["link"] == f"/products/{product_id}"

    def test_restock_is_announced_at_most_once_a_day(
        self, client: FlaskClient, market: Market, store: Store, database: Database, bearer: Bearer
    ) -> None:
        product_id, buyer_id = market.product(store, quantity=1), market.person()
        vendor = bearer(store.user_id)
        toggle(client, bearer(buyer_id), product_id)

        def sell_out_and_restock() -> list[str]:
            change(client, vendor, product_id, quantity=0)
            assert announced(database, product_id, buyer_id) == before
            change(client, vendor, product_id, quantity=3)
            return announced(database, product_id, buyer_id)

        before: list[str] = []
        assert sell_out_and_restock() == ["favorite_restocked"]
        before = ["favorite_restocked"]
        assert sell_out_and_restock() == before
        with database.transaction() as session:
            session.execute(
                text(
                    "UPDATE favorites SET announced_restock_at = announced_restock_at - :period"
                    " WHERE product_id = :product_id"
                ),
                {"period": announce.RESTOCK_PERIOD + timedelta(minutes=5), "product_id": product_id},
            )
        assert sell_out_and_restock() == ["favorite_restocked"] * 2

    def test_stock_of_cancelled_order_is_a_restock(
        self, client: FlaskClient, market: Market, store: Store, database: Database, bearer: Bearer
    ) -> None:
        product_id, fan, buyer = market.product(store, quantity=1), market.person(), bearer(market.person())
        toggle(client, bearer(fan), product_id)
        order = client.post(
            "/api/orders",
            json={
                "items": [{"productId": str(product_id), "quantity": 1}],
                "shippingAddress": {"hostel": "Moremi"},
            },
            headers=buyer,
        )
        assert order.status_code == 201, order.json
        assert announced(database, product_id, fan) == []
        order_id = order.json["data"]["id"]
        assert client.post(f"/api/orders/{order_id}/cancel", json={}, headers=buyer).status_code == 200
        assert announced(database, product_id, fan) == ["favorite_restocked"]

    def test_stock_added_in_review_is_announced_at_publication(
        self, client: FlaskClient, market: Market, store: Store, database: Database, bearer: Bearer
    ) -> None:
        product_id, buyer_id = market.product(store, quantity=0, price_minor=500_000), market.person()
        toggle(client, bearer(buyer_id), product_id)
        change(client, bearer(store.user_id), product_id, quantity=2, description="Two more came in.")
        assert announced(database, product_id, buyer_id) == []
        database.in_transaction(screen_by_rules_alone, product_id=product_id, now=datetime.now(UTC))
        assert announced(database, product_id, buyer_id) == ["favorite_restocked"]

    def test_products_without_favourites_cause_no_events(
        self, client: FlaskClient, market: Market, store: Store, database: Database, bearer: Bearer
    ) -> None:
        product_id = market.product(store, quantity=0)
        change(client, bearer(store.user_id), product_id, quantity=4)
        assert pending(database, product_id) == 0

    def test_hidden_sold_out_and_own_products_are_not_announced(
        self, client: FlaskClient, market: Market, store: Store, database: Database, bearer: Bearer
    ) -> None:
        buyer_id = market.person()
        payloads = {}
        for name, columns in (("hidden", {"status": "paused"}), ("sold out", {"quantity": 0})):
            product_id = market.product(store, price_minor=500_000)
            toggle(client, bearer(buyer_id), product_id)
            market.change(Product, product_id, price_minor=400_000, **columns)
            payloads[name] = product_id
        own = market.product(store, price_minor=500_000)
        toggle(client, bearer(store.user_id), own)
        market.change(Product, own, price_minor=400_000)
        for product_id in (*payloads.values(), own, uuid4()):
            database.in_transaction(
                announce.announce_change, payload={"productId": str(product_id)}, now=datetime.now(UTC)
            )
        for user_id in (buyer_id, store.user_id):
            types = {one["type"] for one in notifications_of(database, user_id)}
            assert not types & {"favorite_price_dropped", "favorite_restocked"}

    def test_batches_notify_each_person_once(
        self, client: FlaskClient, market: Market, store: Store, database: Database, bearer: Bearer
    ) -> None:
        product_id, people = market.product(store, price_minor=500_000), [market.person() for _ in range(5)]
        for user_id in people:
            toggle(client, bearer(user_id), product_id)
        market.change(Product, product_id, price_minor=400_000)

        payloads: list[dict[str, Any]] = [{"productId": str(product_id)}] * 2
        while payloads:
            database.in_transaction(
                announce.announce_change, payload=payloads.pop(), now=datetime.now(UTC), batch_size=2
            )
            with database.transaction() as session:
                payloads += session.scalars(
                    text(
                        "UPDATE outbox_events SET done_at = now() WHERE topic = :topic AND done_at IS NULL"
                        " AND payload ->> 'productId' = :product_id RETURNING payload"
                    ),
                    {"topic": changes.CHANGED_TOPIC, "product_id": str(product_id)},
                )

        for user_id in people:
            assert [one["type"] for one in notifications_of(database, user_id)] == ["favorite_price_dropped"]
        with database.reading() as session:
            known = session.scalars(
                text("SELECT DISTINCT known_price_minor FROM favorites WHERE product_id = :id"),
                {"id": product_id},
            ).all()
        assert known == [400_000]


def test_price_of_favourite_is_the_price_at_the_time(
    client: FlaskClient, market: Market, store: Store, database: Database, bearer: Bearer
) -> None:
    product_id, buyer_id = market.product(store, price_minor=500_000), market.person()
    toggle(client, bearer(buyer_id), product_id)
    with database.reading() as session:
        favorite = session.query(Favorite).filter_by(user_id=buyer_id).one()
    assert (favorite.product_id, favorite.known_price_minor) == (product_id, 500_000)
