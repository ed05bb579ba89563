"""Product deletion over HTTP: single and bulk, with the effect on carts and orders."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID, uuid4

import pytest
from flask import Flask
from flask.testing import FlaskClient

from blueprints.catalog.moderation.schemas import BulkDeleted
from blueprints.http.fields import Deleted
from marketplace.catalog.models import Product
from marketplace.catalog.moderation.staff_actions import BULK_DELETION_REASON
from marketplace.infra.db import Database
from tests.support.audit_and_notifications import audit_of, find_first_broken_link, notifications_of
from tests.support.market import Bearer, Market, Store
from tests.support.product_api import faults_of, ids_of, list_products
from tests.support.purchases import apply, make_charge, make_intent, make_product, make_shop, place, status_of

REASON = "Counterfeit goods."


def delete(client: FlaskClient, product_id: Any, headers: dict[str, str] | None) -> Any:
    return client.delete(f"/api/products/{product_id}", headers=headers)


def delete_all(client: FlaskClient, headers: dict[str, str] | None, *ids: Any, **body: Any) -> Any:
    given = {"ids": [str(product_id) for product_id in ids], "reason": REASON} | body
    return client.delete("/api/products/bulk/delete", json=given, headers=headers)


class TestSingleDeletion:
    @pytest.mark.parametrize("status", ["draft", "in_review", "published", "rejected", "paused", "removed"])
    def test_vendor_deletes_own_product_in_any_state(
        self,
        client: FlaskClient,
        market: Market,
        store: Store,
        database: Database,
        bearer: Bearer,
        status: str,
    ) -> None:
        product_id = market.product(store, status=status, held=status == "in_review")
        owner = bearer(store.user_id)

        response = delete(client, product_id, owner)

        assert response.status_code == 200
        assert not Deleted().validate(response.json["data"])
        assert response.json["data"] == {"deleted": True, "id": str(product_id)}
        row = market.row(Product, product_id)
        assert (row.status, row.held) == ("deleted", False)
        assert row.deleted_at is not None
        assert delete(client, product_id, owner).status_code == 404
        assert client.get(f"/api/products/{product_id}", headers=owner).status_code == 404
        assert (
            client.put(f"/api/products/{product_id}", json={"quantity": 1}, headers=owner).status_code == 404
        )
        # Only deletions by staff are audited and notified.
        assert audit_of(database, product_id) == []
        assert notifications_of(database, store.user_id) == []

    def test_deleted_product_leaves_listings_at_once(
        self, client: FlaskClient, market: Market, store: Store, bearer: Bearer
    ) -> None:
        product_id = market.product(store)
        assert ids_of(list_products(client, vendor=store.id)) == [product_id]

        delete(client, product_id, bearer(store.user_id))

        assert ids_of(list_products(client, vendor=store.id)) == []
        assert client.get(f"/api/products/{product_id}").status_code == 404

    def test_staff_deletion_is_audited_and_vendor_is_notified(
        self, client: FlaskClient, market: Market, store: Store, database: Database, bearer: Bearer
    ) -> None:
        product_id = market.product(store, title="Reading lamp")
        officer = bearer(market.staff("moderator"))

        assert delete(client, product_id, officer).status_code == 200
        assert delete(client, product_id, officer).status_code == 404

        [row] = audit_of(database, product_id)
        assert (row["action"], row["actor"]) == ("product.delete", "moderator")
        assert (row["before"]["status"], row["after"]["status"]) == ("published", "deleted")
        assert row["before"]["title"] == "Reading lamp"
        [notification] = notifications_of(database, store.user_id)
        assert notification["type"] == "product_deleted"

    def test_deletion_by_others_is_refused(
        self, client: FlaskClient, market: Market, store: Store, bearer: Bearer
    ) -> None:
        product_id = market.product(store)

        assert delete(client, product_id, None).status_code == 401
        for user_id, status in (
            (market.person(), 403),
            (market.store().user_id, 404),
            (market.person(role="vendor"), 404),
            (market.staff("support"), 403),
            (market.staff("campus_rep"), 403),
        ):
            assert delete(client, product_id, bearer(user_id)).status_code == status
        assert market.row(Product, product_id).status == "published"
        suspended = market.store(status="suspended")
        assert delete(client, market.product(suspended), bearer(suspended.user_id)).status_code == 403
        officer = market.staff("moderator")
        own = market.product(market.store(user_id=officer))
        assert delete(client, own, bearer(officer)).status_code == 403

    def test_missing_product_is_not_found(
        self, client: FlaskClient, market: Market, store: Store, bearer: Bearer
    ) -> None:
        for headers in (bearer(store.user_id), bearer(market.staff("admin"))):
            assert delete(client, uuid4(), headers).status_code == 404
            assert delete(client, "lamp", headers).status_code == 404

    def test_stale_revision_is_refused(
        self, client: FlaskClient, market: Market, store: Store, bearer: Bearer
    ) -> None:
        product_id = market.product(store, revision=2)
        owner = bearer(store.user_id)

        assert delete(client, product_id, owner | {"If-Match": '"1"'}).status_code == 409
        assert delete(client, product_id, owner | {"If-Match": "one"}).status_code == 422
        assert delete(client, product_id, owner | {"If-Match": '"2"'}).status_code == 200

    def test_concurrent_deletions_delete_once(
        self, app: Flask, market: Market, store: Store, database: Database, bearer: Bearer
    ) -> None:
        product_id = market.product(store)
        officer = bearer(market.staff("moderator"))

        with ThreadPoolExecutor(max_workers=4) as pool:
            answers = pool.map(lambda _: delete(app.test_client(), product_id, officer), range(4))

        assert sorted(answer.status_code for answer in answers) == [200, 404, 404, 404]
        assert len(audit_of(database, product_id)) == 1
        assert len(notifications_of(database, store.user_id)) == 1


class TestCartsAndOrders:
    def test_deleted_product_is_unavailable_in_carts_and_cannot_be_ordered(
        self, client: FlaskClient, market: Market, store: Store, bearer: Bearer
    ) -> None:
        product_id, kept = market.product(store), market.product(store)
        buyer = bearer(market.person())
        items = [{"productId": str(one), "quantity": 1} for one in (product_id, kept)]
        assert client.post("/api/cart", json={"items": items}, headers=buyer).status_code == 200

        delete(client, product_id, bearer(store.user_id))

        cart = client.get("/api/cart", headers=buyer).json["data"]
        problems = {item["productId"]: item["problem"] for item in cart["items"]}
        assert problems == {str(product_id): "not_available", str(kept): None}
        assert not cart["valid"]
        order = {"items": items[:1], "shippingAddress": {"hostel": "Moremi Hall"}}
        refused = client.post("/api/orders", json=order, headers=buyer)
        assert refused.status_code in (409, 422)
        assert str(product_id) in refused.text or "items[0]" in str(faults_of(refused))

    def test_open_order_of_deleted_product_continues(
        self, client: FlaskClient, database: Database, market: Market, bearer: Bearer
    ) -> None:
        with database.transaction() as session:
            shop = make_shop(session)
            product_id = make_product(session, shop)
            order_id = place(session, shop, product_id, quantity=2)
            intent = make_intent(session, shop, order_id)

        assert delete(client, product_id, bearer(shop.vendor.id)).status_code == 200

        with database.transaction() as session:
            apply(session, make_charge(intent))
            assert status_of(session, order_id) == "paid_escrow"
        seen = client.get(f"/api/orders/{order_id}", headers=bearer(shop.buyer.id)).json["data"]
        assert seen["items"][0]["productId"] == str(product_id)
        assert market.row(Product, product_id).reserved == 0


class TestBulkDeletion:
    def test_bulk_deletion_reports_deleted_already_deleted_and_missing(
        self, client: FlaskClient, market: Market, store: Store, database: Database, bearer: Bearer
    ) -> None:
        other = market.store()
        first, second = market.product(store), market.product(other, status="in_review")
        gone, unknown = market.product(store, status="deleted"), uuid4()
        assert ids_of(list_products(client, vendor=store.id)) == [first]

        response = delete_all(client, bearer(market.staff("admin")), second, unknown, first, gone)

        assert response.status_code == 200
        assert not BulkDeleted().validate(response.json["data"])
        assert response.json["data"] == {
            "deleted": [str(second), str(first)],
            "alreadyDeleted": [str(gone)],
            "missing": [str(unknown)],
        }
        assert ids_of(list_products(client, vendor=store.id)) == []
        for product_id, owner, status in ((first, store, "published"), (second, other, "in_review")):
            [row] = audit_of(database, product_id)
            assert (row["before"]["status"], row["after"]["status"]) == (status, "deleted")
            assert row["after"]["statusReason"] == REASON
            [notification] = notifications_of(database, owner.user_id)
            assert (notification["type"], REASON in notification["body"]) == ("product_deleted", True)
        assert audit_of(database, gone) == []

        again = delete_all(client, bearer(market.staff("admin")), first, second)
        assert again.json["data"]["alreadyDeleted"] == [str(first), str(second)]
        assert len(audit_of(database, first)) == len(notifications_of(database, store.user_id)) == 1
        with database.reading() as session:
            assert find_first_broken_link(session) is None

    @pytest.mark.parametrize(
        ("body", "fault"),
        [
            ({"ids": []}, "ids"),
            ({"ids": None}, "ids"),
            ({"ids": ["lamp"]}, "ids[0]"),
            ({"ids": [f"00000000-0000-4000-8000-{number:012}" for number in range(101)]}, "ids"),
            ({"ids": ["00000000-0000-4000-8000-000000000000"] * 2}, "ids[1]"),
            ({"reason": ""}, "reason"),
            ({"force": True}, "force"),
        ],
        ids=lambda given: str(given)[:40],
    )
    def test_invalid_body_is_refused(
        self, client: FlaskClient, market: Market, bearer: Bearer, body: dict[str, Any], fault: str
    ) -> None:
        response = delete_all(client, bearer(market.staff("moderator")), uuid4(), **body)

        assert (response.status_code, faults_of(response)) == (422, [fault])

    def test_default_reason_is_used_when_omitted(
        self, client: FlaskClient, market: Market, store: Store, database: Database, bearer: Bearer
    ) -> None:
        product_id = market.product(store)
        headers = bearer(market.staff("moderator"))

        answer = client.delete("/api/products/bulk/delete", json={"ids": [str(product_id)]}, headers=headers)

        assert answer.json["data"]["deleted"] == [str(product_id)]
        assert audit_of(database, product_id)[0]["after"]["statusReason"] == BULK_DELETION_REASON
        assert BULK_DELETION_REASON in notifications_of(database, store.user_id)[0]["body"]

    def test_missing_or_malformed_body_is_refused(
        self, client: FlaskClient, market: Market, bearer: Bearer
    ) -> None:
        headers = bearer(market.staff("moderator"))

        assert client.delete("/api/products/bulk/delete", headers=headers).status_code == 422
        broken = client.delete(
            "/api/products/bulk/delete", data="{", content_type="application/json", headers=headers
        )
        assert broken.status_code == 400

    def test_bulk_deletion_requires_product_permission(
        self, client: FlaskClient, market: Market, store: Store, bearer: Bearer
    ) -> None:
        product_id = market.product(store)

        assert delete_all(client, None, product_id).status_code == 401
        for user_id in (store.user_id, market.person(), market.staff("orders"), market.staff("campus_rep")):
            assert delete_all(client, bearer(user_id), product_id).status_code == 403
        assert market.row(Product, product_id).status == "published"

    def test_batch_with_product_of_own_store_is_refused(
        self, client: FlaskClient, market: Market, store: Store, database: Database, bearer: Bearer
    ) -> None:
        officer = market.staff("moderator")
        own, other = market.product(market.store(user_id=officer)), market.product(store)

        assert delete_all(client, bearer(officer), other, own).status_code == 403

        assert market.row(Product, other).status == "published"
        assert audit_of(database, other) == []

    def test_overlapping_batches_do_not_deadlock(
        self, app: Flask, market: Market, store: Store, database: Database, bearer: Bearer
    ) -> None:
        ids: list[UUID] = [market.product(store) for _ in range(12)]
        officers = [bearer(market.staff("moderator")) for _ in range(4)]
        orders = [ids, ids[::-1], ids[6:] + ids[:6], ids[::2] + ids[1::2]]

        with ThreadPoolExecutor(max_workers=4) as pool:
            answers = list(
                pool.map(
                    lambda one: delete_all(app.test_client(), one[0], *one[1]),
                    zip(officers, orders, strict=True),
                )
            )

        assert [answer.status_code for answer in answers] == [200] * 4
        deleted = [one for answer in answers for one in answer.json["data"]["deleted"]]
        assert sorted(deleted) == sorted(str(product_id) for product_id in ids)
        assert all(len(audit_of(database, product_id)) == 1 for product_id in ids)
        assert len(notifications_of(database, store.user_id)) == len(ids)
