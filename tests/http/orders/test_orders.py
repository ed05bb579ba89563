"""Orders over HTTP: placing, reading, vendor steps, PIN release, cancellation and access."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from werkzeug.test import TestResponse

from blueprints.areas import AREAS
from marketplace.platform.models import Hub
from tests.support.checked_client import checked_app
from tests.support.gateway import MovableClock
from tests.support.probes import assert_problem, changed, faults
from tests.support.purchases import (
    COMMISSION_BPS,
    DELIVERY_FEE_MINOR,
    NOW,
    PRICE_MINOR,
    SERVICE_FEE_MINOR,
    assert_ledger_is_consistent,
    later,
    make_person,
    make_product,
    make_shop,
    neighbours,
    pin_of,
    status_of,
    wrong_pin_of,
)
from tests.support.resource_usage import counted_statements
from tests.support.shop_client import ShopClient, new_key

ORDERS = "/api/orders"
ADDRESS = {"hostel": "Moremi Hall", "roomNumber": "B12"}


def order_body(product_id: UUID, quantity: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "items": [{"productId": str(product_id), "quantity": quantity}],
        "shippingAddress": ADDRESS,
    } | more


def status(shop_client: ShopClient, order_id: UUID) -> str:
    with shop_client.database.reading() as session:
        return status_of(session, order_id)


def submit_pin(
    shop_client: ShopClient, order_id: UUID, pin: str, *, route: str = "verify-code", key: str | None = None
) -> TestResponse:
    if route == "verify-delivery":
        key = key or new_key()
    return shop_client.post(f"{ORDERS}/{order_id}/{route}", shop_client.vendor, {"pin": pin}, key=key)


class TestPlacing:
    def test_placed_order_matches_request(self, shop_client: ShopClient) -> None:
        product_id = shop_client.product()

        answer = shop_client.post(ORDERS, shop_client.buyer, order_body(product_id, 2, note="  Ring twice "))

        assert answer.status_code == 201
        total = 2 * PRICE_MINOR + DELIVERY_FEE_MINOR + SERVICE_FEE_MINOR
        order = answer.json["data"]
        expected = {
            "status": "pending_payment",
            "escrowStatus": "pending",
            "deliveryStatus": "not_started",
            "deliveryMethod": "delivery",
            "subtotalMinor": 2 * PRICE_MINOR,
            "total_amount": total,
            "currency": "NGN",
            "shippingAddress": ADDRESS,
            "note": "Ring twice",
            "payment": None,
            "deliveryPin": None,
            "nextActions": ["pay", "cancel"],
            "revision": 1,
            "createdAt": "2026-11-20T09:30:00Z",
            "expiresAt": "2026-11-20T10:00:00Z",
        }
        given = {name: order[name] for name in expected}
        for name in ("createdAt", "expiresAt"):
            given[name] = given[name].replace(".000000", "")
        assert given == expected
        assert b'"total":5601,' in answer.data
        assert order["number"].startswith("CM-")
        [item] = order["items"]
        assert item["commissionBps"] == COMMISSION_BPS
        assert (item["productId"], item["quantity"]) == (str(product_id), 2)
        assert item["lineTotalMinor"] == 2 * PRICE_MINOR

    @pytest.mark.parametrize(
        ("price", "total"), [(12_305, b"723.05"), (12_310, b"723.1"), (10_000_000_000, b"100000600")]
    )
    def test_total_in_naira_is_exact(self, shop_client: ShopClient, price: int, total: bytes) -> None:
        answer = shop_client.post(
            ORDERS, shop_client.buyer, order_body(shop_client.product(price_minor=price))
        )

        assert b'"total":' + total + b"," in answer.data

    def test_hub_without_address_makes_order_a_pickup(self, shop_client: ShopClient) -> None:
        with shop_client.database.transaction() as session:
            hub = Hub(
                campus_id=shop_client.shop.campus_id, name="Gate", address="Gate 1", opening_hours="8-18"
            )
            session.add(hub)
            session.flush()
        body = {"items": order_body(shop_client.product())["items"], "hubId": str(hub.id)}

        order = shop_client.post(ORDERS, shop_client.buyer, body).json["data"]

        assert (order["deliveryMethod"], order["deliveryFeeMinor"]) == ("pickup", 0)

    @pytest.mark.parametrize(
        ("change", "named"),
        [
            ({"items": []}, ["items"]),
            ({"items": [{"productId": "x", "quantity": 1}]}, ["items[0].productId"]),
            ({"items": [{"productId": str(UUID(int=5)), "quantity": 0}]}, ["items[0].quantity"]),
            ({"items": [{"productId": str(UUID(int=5)), "quantity": 1001}]}, ["items[0].quantity"]),
            ({"items": [{"productId": str(UUID(int=5)), "quantity": 1.0}]}, ["items[0].quantity"]),
            ({"items": [{"productId": str(UUID(int=5)), "quantity": "1"}]}, ["items[0].quantity"]),
            ({"items": [{"productId": str(UUID(int=5)), "quantity": True}]}, ["items[0].quantity"]),
            ({"items": [{"productId": str(UUID(int=5)), "quantity": 1}] * 2}, ["items[1].productId"]),
            ({"items": [{"productId": str(UUID(int=n)), "quantity": 1} for n in range(51)]}, ["items"]),
            ({"items": {}}, ["items"]),
            ({"items": [None]}, ["items[0]"]),
            ({"price": 1}, ["price"]),
            ({"note": "x" * 501}, ["note"]),
            ({"note": "bell\x07"}, ["note"]),
            ({"expectedTotalMinor": -1}, ["expectedTotalMinor"]),
            ({"expectedTotalMinor": 10.5}, ["expectedTotalMinor"]),
            ({"deliveryMethod": "drone"}, ["deliveryMethod"]),
            ({"deliveryMethod": "pickup"}, ["hubId"]),
            ({"hubId": str(UUID(int=5))}, ["addressId"]),
            ({"addressId": str(UUID(int=5))}, ["addressId"]),
            ({"shippingAddress": {}}, ["shippingAddress.hostel"]),
            ({"shippingAddress": {"hostel": "X", "planet": "Mars"}}, ["shippingAddress.planet"]),
            ({"shippingAddress": {"hostel": "X", "latitude": 91}}, ["shippingAddress.latitude"]),
        ],
        ids=lambda value: repr(value)[:60],
    )
    def test_invalid_order_fields_are_named(
        self, shop_client: ShopClient, change: dict[str, Any], named: list[str]
    ) -> None:
        assert (
            faults(shop_client.post(ORDERS, shop_client.buyer, order_body(shop_client.product()) | change))
            == named
        )

    def test_order_refusals_name_item_and_reason(self, shop_client: ShopClient) -> None:
        product_id = shop_client.product(quantity=2)
        with shop_client.database.transaction() as session:
            closed = make_product(session, make_shop(session, status="closed"))
            elsewhere = make_product(session, make_shop(session))
            neighbour = make_product(session, neighbours(session, shop_client.shop, 2)[1])
        far, mixed = (
            order_body(other, items=[*order_body(product_id)["items"], *order_body(other)["items"]])
            for other in (elsewhere, neighbour)
        )

        for headers, body, named, reason in (
            (shop_client.buyer, order_body(uuid4()), "items[0].productId", "product-unavailable"),
            (shop_client.vendor, order_body(product_id), "items[0].productId", "own-store-order"),
            (shop_client.buyer, order_body(closed), "items[0].productId", "store-closed"),
            (shop_client.buyer, far, "items[1].productId", "other-campus"),
            (shop_client.buyer, mixed, "items", "several-vendors"),
            (shop_client.buyer, {"shippingAddress": ADDRESS}, "items", "cart-empty"),
        ):
            answer = shop_client.post(ORDERS, headers, body)
            assert (faults(answer), answer.json["reason"]) == ([named], reason)
        short = assert_problem(
            shop_client.post(ORDERS, shop_client.buyer, order_body(product_id, 3)),
            409,
            "CONCURRENCY_CONFLICT",
        )
        assert short["invalid_params"] == [
            {"name": "items[0].quantity", "reason": "Exceeds the available stock (2)."}
        ]
        dearer = assert_problem(
            shop_client.post(ORDERS, shop_client.buyer, order_body(product_id, expectedTotalMinor=1)),
            409,
            "CONCURRENCY_CONFLICT",
        )
        assert [fault["name"] for fault in dearer["invalid_params"]] == ["expectedTotalMinor"]

    def test_body_that_is_not_json_is_bad_request(self, shop_client: ShopClient) -> None:
        answer = shop_client.client.post(
            ORDERS, data=b"{", headers=shop_client.buyer, content_type="application/json"
        )
        assert_problem(answer, 400, "VALIDATION_FAILED")
        assert faults(shop_client.client.post(ORDERS, json=[], headers=shop_client.buyer)) == ["body"]

    def test_order_with_same_key_is_replayed(self, shop_client: ShopClient) -> None:
        product_id, key = shop_client.product(), new_key()

        first = shop_client.post(ORDERS, shop_client.buyer, order_body(product_id), key=key)
        again = shop_client.post(
            f"/api/v1{ORDERS.removeprefix('/api')}", shop_client.buyer, order_body(product_id), key=key
        )

        assert (first.status_code, again.status_code) == (201, 201)
        assert again.data == first.data
        assert again.headers["X-Cache-Lookup"] == "HIT"
        assert faults(shop_client.post(ORDERS, shop_client.buyer, order_body(product_id, 2), key=key)) == [
            "Idempotency-Key"
        ]
        assert len(shop_client.get(ORDERS, shop_client.buyer).json["data"]) == 1

    def test_key_can_be_reused_after_out_of_stock_refusal(self, shop_client: ShopClient) -> None:
        product_id, key = shop_client.product(quantity=1), new_key()
        order_id = shop_client.post(ORDERS, shop_client.stranger, order_body(product_id)).json["data"]["id"]
        assert shop_client.post(ORDERS, shop_client.buyer, order_body(product_id), key=key).status_code == 409
        with shop_client.database.transaction() as session:
            session.connection().exec_driver_sql(
                "UPDATE products SET quantity = 2 WHERE id = %(id)s", {"id": str(product_id)}
            )

        answer = shop_client.post(ORDERS, shop_client.buyer, order_body(product_id), key=key)

        assert answer.status_code == 201
        assert answer.json["data"]["id"] != order_id


class TestReading:
    def test_list_contains_only_own_orders_and_is_paged(self, shop_client: ShopClient) -> None:
        placed = [shop_client.paid() for _ in range(3)]

        first = shop_client.get(ORDERS, shop_client.buyer, limit=2)
        assert [order["id"] for order in first.json["data"]] == [str(placed[2]), str(placed[1])]
        cursor = first.json["meta"]["next_cursor"]
        second = shop_client.get(ORDERS, shop_client.buyer, limit=2, cursor=cursor)
        assert [order["id"] for order in second.json["data"]] == [str(placed[0])]
        assert not second.json["meta"]["has_more"]
        assert shop_client.get(ORDERS, shop_client.stranger).json["data"] == []

    @pytest.mark.parametrize("path", ["", "/vendor"])
    def test_list_takes_constant_number_of_queries(self, shop_client: ShopClient, path: str) -> None:
        headers = shop_client.vendor if path else shop_client.buyer
        served = shop_client.client.application.extensions["marketplace"].database
        counts = []
        for _ in range(2):
            for _ in range(3):
                shop_client.paid()
            shop_client.get(f"{ORDERS}{path}", headers)
            with counted_statements(served) as statements:
                listed = shop_client.get(f"{ORDERS}{path}", headers).json["data"]
            counts.append((len(listed), len(statements)))

        assert [length for length, _ in counts] == [3, 6]
        assert counts[0][1] == counts[1][1] <= 5

    def test_cursor_of_other_listing_filter_or_caller_is_refused(self, shop_client: ShopClient) -> None:
        for _ in range(2):
            shop_client.paid()
        cursor = shop_client.get(ORDERS, shop_client.buyer, limit=1).json["meta"]["next_cursor"]

        altered = ("B" if cursor[0] == "A" else "A") + cursor[1:]
        assert faults(shop_client.get(ORDERS, shop_client.buyer, cursor=altered)) == ["cursor"]
        assert faults(shop_client.get(ORDERS, shop_client.buyer, cursor=cursor, status="shipped")) == [
            "cursor"
        ]
        assert faults(shop_client.get(ORDERS, shop_client.stranger, cursor=cursor)) == ["cursor"]
        assert faults(shop_client.get(f"{ORDERS}/vendor", shop_client.vendor, cursor=cursor)) == ["cursor"]

    @pytest.mark.parametrize(
        ("query", "named"),
        [
            ({"status": "lost"}, ["status"]),
            ({"limit": 0}, ["limit"]),
            ({"limit": 101}, ["limit"]),
            ({"limit": "x"}, ["limit"]),
            ({"page": 1}, ["page"]),
        ],
    )
    def test_invalid_parameters_are_named(
        self, shop_client: ShopClient, query: dict[str, Any], named: list[str]
    ) -> None:
        assert faults(shop_client.get(ORDERS, shop_client.buyer, **query)) == named

    def test_vendor_sees_only_paid_orders(self, shop_client: ShopClient) -> None:
        unpaid, paid = shop_client.unpaid(), shop_client.paid()

        listed = shop_client.get(f"{ORDERS}/vendor", shop_client.vendor).json["data"]

        assert [order["id"] for order in listed] == [str(paid)]
        assert listed[0]["nextActions"] == ["cancel", "accept"]
        assert shop_client.get(f"{ORDERS}/vendor", shop_client.vendor, status="shipped").json["data"] == []
        for path in ("", "/items", "/events"):
            assert shop_client.get(f"{ORDERS}/{paid}{path}", shop_client.vendor).status_code == 200
            assert_problem(
                shop_client.get(f"{ORDERS}/{unpaid}{path}", shop_client.vendor), 404, "RESOURCE_NOT_FOUND"
            )

    def test_vendor_without_store_is_refused(self, shop_client: ShopClient) -> None:
        vendor = shop_client.database.in_transaction(make_person, role="vendor")
        assert_problem(
            shop_client.get(f"{ORDERS}/vendor", shop_client.bearer(vendor.id)), 403, "AUTH_FORBIDDEN"
        )

    def test_pin_is_shown_only_to_buyer_of_paid_order(self, shop_client: ShopClient) -> None:
        unpaid, paid = shop_client.unpaid(), shop_client.paid()

        def shown(order_id: UUID, headers: dict[str, str]) -> Any:
            return shop_client.get(f"{ORDERS}/{order_id}", headers).json["data"]["deliveryPin"]

        assert shown(unpaid, shop_client.buyer) is None
        assert shown(paid, shop_client.buyer) == pin_of(paid)
        assert shown(paid, shop_client.vendor) is None
        assert shown(paid, shop_client.officer()) is None
        pins = {
            order["id"]: order["deliveryPin"]
            for order in shop_client.get(ORDERS, shop_client.buyer).json["data"]
        }
        assert pins == {str(unpaid): None, str(paid): pin_of(paid)}
        for headers in (shop_client.vendor, shop_client.officer()):
            for path in ("", "/items", "/events"):
                assert pin_of(paid) not in shop_client.get(f"{ORDERS}/{paid}{path}", headers).text

    def test_events_list_each_transition(self, shop_client: ShopClient) -> None:
        order_id = shop_client.shipped()

        events = shop_client.get(f"{ORDERS}/{order_id}/events", shop_client.buyer).json["data"]

        assert [(event["from"], event["to"], event["trigger"], event["actor"]) for event in events] == [
            (None, "pending_payment", "place", "buyer"),
            ("pending_payment", "paid_escrow", "pay", "gateway"),
            ("paid_escrow", "processing", "accept", "vendor"),
            ("processing", "shipped", "ship", "vendor"),
        ]
        items = shop_client.get(f"{ORDERS}/{order_id}/items", shop_client.buyer).json["data"]
        assert [item["title"] for item in items] == ["Reading lamp"]


class TestVendorSteps:
    def test_vendor_accepts_and_ships_order(self, shop_client: ShopClient, clock: MovableClock) -> None:
        order_id = shop_client.paid()
        clock.now = later(minutes=5)

        accepted = shop_client.post(f"{ORDERS}/{order_id}/accept", shop_client.vendor).json["data"]
        shipped = shop_client.post(
            f"{ORDERS}/{order_id}/status",
            shop_client.vendor,
            {"status": "shipped", "trackingNote": "With Tunde, blue bicycle"},
        ).json["data"]

        assert (accepted["status"], accepted["deliveryStatus"]) == ("processing", "preparing")
        assert accepted["nextActions"] == ["cancel", "ship"]
        assert (shipped["status"], shipped["deliveryStatus"]) == ("shipped", "in_transit")
        assert shipped["nextActions"] == ["verify-code"]
        assert shipped["trackingNote"] == "With Tunde, blue bicycle"
        assert shipped["acceptedAt"] == shipped["shippedAt"]
        assert shipped["acceptedAt"].startswith("2026-11-20T09:35:00")

    def test_step_out_of_sequence_is_refused_with_current_state(self, shop_client: ShopClient) -> None:
        order_id = shop_client.paid()

        problem = assert_problem(
            shop_client.post(f"{ORDERS}/{order_id}/status", shop_client.vendor, {"status": "shipped"}),
            409,
            "CONCURRENCY_CONFLICT",
        )
        assert problem["detail"] == "The order is paid_escrow, but ship requires processing."
        assert_problem(submit_pin(shop_client, order_id, pin_of(order_id)), 409, "CONCURRENCY_CONFLICT")

    @pytest.mark.parametrize(
        ("body", "named"),
        [
            ({}, ["status"]),
            ({"status": "delivered"}, ["status"]),
            ({"status": None}, ["status"]),
            ({"status": "shipped", "trackingNote": ""}, ["trackingNote"]),
            ({"status": "shipped", "by": "air"}, ["by"]),
        ],
        ids=repr,
    )
    def test_invalid_status_body_is_named(
        self, shop_client: ShopClient, body: dict[str, Any], named: list[str]
    ) -> None:
        assert (
            faults(shop_client.post(f"{ORDERS}/{shop_client.paid()}/status", shop_client.vendor, body))
            == named
        )


class TestPin:
    @pytest.mark.parametrize("route", ["verify-code", "verify-delivery"])
    def test_correct_pin_releases_escrow(self, shop_client: ShopClient, route: str) -> None:
        order_id = shop_client.shipped()

        order = submit_pin(shop_client, order_id, pin_of(order_id), route=route).json["data"]

        assert (order["status"], order["escrowStatus"]) == ("delivered", "released")
        assert (order["deliveryStatus"], order["nextActions"]) == ("delivered", [])
        with shop_client.database.reading() as session:
            assert_ledger_is_consistent(session)

    def test_clock_running_backwards_does_not_block_release(
        self, shop_client: ShopClient, clock: MovableClock
    ) -> None:
        order_id = shop_client.paid()
        for number, (step, body) in enumerate((("accept", None), ("status", {"status": "shipped"})), 1):
            clock.now = later(seconds=-number)
            assert (
                shop_client.post(f"{ORDERS}/{order_id}/{step}", shop_client.vendor, body).status_code == 200
            )

        clock.now = later(seconds=-3)
        order = submit_pin(shop_client, order_id, pin_of(order_id)).json["data"]

        assert (order["status"], order["escrowStatus"]) == ("delivered", "released")
        with shop_client.database.reading() as session:
            assert_ledger_is_consistent(session)

    def test_wrong_pins_are_counted_and_lock_both_routes(
        self, shop_client: ShopClient, clock: MovableClock
    ) -> None:
        """Both routes share the count; the fifth wrong PIN locks the order for 15 minutes."""
        order_id = shop_client.shipped()
        for number, left in enumerate((4, 3, 2, 1, 0)):
            route = ("verify-code", "verify-delivery")[number % 2]
            answer = submit_pin(shop_client, order_id, wrong_pin_of(order_id), route=route)
            problem = assert_problem(answer, 400, "DELIVERY_PIN_INVALID")
            assert problem["attemptsLeft"] == left
            assert "Retry-After" not in answer.headers

        for route in ("verify-code", "verify-delivery"):
            locked = submit_pin(shop_client, order_id, pin_of(order_id), route=route)
            assert_problem(locked, 429, "RATE_LIMIT_EXCEEDED")
            assert 895 <= int(locked.headers["Retry-After"]) <= 901
        assert status(shop_client, order_id) == "shipped"

        clock.now = later(minutes=15)
        assert submit_pin(shop_client, order_id, pin_of(order_id)).status_code == 200

    def test_wrong_pin_frees_idempotency_key(self, shop_client: ShopClient) -> None:
        order_id, key = shop_client.shipped(), new_key()

        wrong = submit_pin(shop_client, order_id, wrong_pin_of(order_id), route="verify-delivery", key=key)
        right = submit_pin(shop_client, order_id, pin_of(order_id), route="verify-delivery", key=key)
        again = submit_pin(shop_client, order_id, pin_of(order_id), route="verify-delivery", key=key)

        assert (wrong.status_code, right.status_code, again.status_code) == (400, 200, 200)
        assert again.data == right.data
        assert again.headers["X-Cache-Lookup"] == "HIT"

    def test_second_release_is_refused(self, shop_client: ShopClient) -> None:
        order_id = shop_client.shipped()
        submit_pin(shop_client, order_id, pin_of(order_id))

        problem = assert_problem(
            submit_pin(shop_client, order_id, pin_of(order_id)), 409, "CONCURRENCY_CONFLICT"
        )
        assert problem["detail"].startswith("The order is delivered, but")

    def test_verify_delivery_requires_idempotency_key(self, shop_client: ShopClient) -> None:
        path = f"{ORDERS}/{shop_client.shipped()}/verify-delivery"

        assert faults(shop_client.post(path, shop_client.vendor, {"pin": "123456"})) == ["Idempotency-Key"]
        for wrong in ("x", str(uuid4()).upper()[:-1], "00000000-0000-1000-8000-000000000000"):
            assert faults(shop_client.post(path, shop_client.vendor, {"pin": "123456"}, key=wrong)) == [
                "Idempotency-Key"
            ]

    @pytest.mark.parametrize(
        "body",
        [
            {},
            {"pin": 123456},
            {"pin": "12345"},
            {"pin": "1234567"},
            {"pin": "12345a"},
            {"pin": "١٢٣٤٥٦"},
            {"pin": None},
        ],
        ids=repr,
    )
    def test_malformed_pin_does_not_use_an_attempt(
        self, shop_client: ShopClient, body: dict[str, Any]
    ) -> None:
        order_id = shop_client.shipped()

        assert faults(shop_client.post(f"{ORDERS}/{order_id}/verify-code", shop_client.vendor, body)) == [
            "pin"
        ]
        wrong = submit_pin(shop_client, order_id, wrong_pin_of(order_id))
        assert wrong.json["attemptsLeft"] == 4

    def test_pin_routes_share_rate_limit(self, shop_client: ShopClient) -> None:
        """The limit is ten requests a minute over all orders and both routes."""
        app = shop_client.client.application

        strict = checked_app(changed(app.extensions["marketplace"], rate_limit_scale=1), AREAS).test_client()
        limited = ShopClient(shop_client.shop, shop_client.database, strict, shop_client.bearer)
        order_id = uuid4()

        answers = [
            submit_pin(limited, order_id, "123456", route=("verify-code", "verify-delivery")[number % 2])
            for number in range(11)
        ]

        assert [answer.status_code for answer in answers] == [404] * 10 + [429]
        assert answers[0].headers["RateLimit-Limit"] == "10"
        assert [int(answer.headers["RateLimit-Remaining"]) for answer in answers] == [*range(9, -1, -1), 0]


class TestCancelling:
    def test_buyer_cancels_unpaid_order(self, shop_client: ShopClient) -> None:
        order_id = shop_client.unpaid()

        order = shop_client.post(
            f"{ORDERS}/{order_id}/cancel", shop_client.buyer, {"reason": "Too dear"}
        ).json["data"]

        assert order["status"] == "cancelled"
        at = order["cancellation"].pop("at")
        assert at == order["cancelledAt"]
        assert order["cancellation"] == {"by": "buyer", "reason": "Too dear"}
        again = shop_client.post(f"{ORDERS}/{order_id}/cancel", shop_client.buyer)
        assert assert_problem(again, 409, "CONCURRENCY_CONFLICT")["detail"].startswith(
            "The order is cancelled"
        )

    def test_cancellation_with_same_key_is_replayed(self, shop_client: ShopClient) -> None:
        order_id, key = shop_client.unpaid(), new_key()

        first = shop_client.post(f"{ORDERS}/{order_id}/cancel", shop_client.buyer, key=key)
        again = shop_client.post(f"{ORDERS}/{order_id}/cancel", shop_client.buyer, key=key)

        assert (first.status_code, again.data) == (200, first.data)

    def test_invalid_cancellation_reason_is_named(self, shop_client: ShopClient) -> None:
        path = f"{ORDERS}/{shop_client.unpaid()}/cancel"

        assert faults(shop_client.post(path, shop_client.buyer, {"reason": "x" * 501})) == ["reason"]
        assert faults(shop_client.post(path, shop_client.buyer, {"why": "x"})) == ["why"]

    def test_shipped_order_cannot_be_cancelled(self, shop_client: ShopClient) -> None:
        order_id = shop_client.shipped()

        for headers in (shop_client.buyer, shop_client.vendor):
            assert_problem(
                shop_client.post(f"{ORDERS}/{order_id}/cancel", headers), 409, "CONCURRENCY_CONFLICT"
            )


VENDOR_ROUTES = [
    ("accept", None, None),
    ("status", {"status": "shipped"}, None),
    ("verify-code", {"pin": "123456"}, None),
    ("verify-delivery", {"pin": "123456"}, "a key"),
]


class TestAccess:
    @pytest.mark.parametrize(
        ("method", "path"),
        [
            ("POST", ""),
            ("GET", ""),
            ("GET", "/vendor"),
            ("GET", "/{id}"),
            ("GET", "/{id}/items"),
            ("GET", "/{id}/events"),
            ("POST", "/{id}/cancel"),
            *(("POST", f"/{{id}}/{route}") for route, _, _ in VENDOR_ROUTES),
        ],
    )
    def test_request_without_token_is_unauthorized(
        self, shop_client: ShopClient, method: str, path: str
    ) -> None:
        answer = shop_client.client.open(ORDERS + path.format(id=uuid4()), method=method)
        assert_problem(answer, 401, "AUTH_UNAUTHORIZED")

    @pytest.mark.parametrize(("route", "body", "key"), VENDOR_ROUTES)
    def test_vendor_routes_require_vendor_of_order_store(
        self, shop_client: ShopClient, route: str, body: Any, key: str | None
    ) -> None:
        path = f"{ORDERS}/{shop_client.shipped()}/{route}"
        key = key and new_key()
        other = shop_client.database.in_transaction(make_shop).vendor.id

        for headers in (shop_client.buyer, shop_client.officer()):
            assert_problem(shop_client.post(path, headers, body, key=key), 403, "AUTH_FORBIDDEN")
        assert_problem(
            shop_client.post(path, shop_client.bearer(other), body, key=key), 404, "RESOURCE_NOT_FOUND"
        )
        unknown = f"{ORDERS}/{uuid4()}/{route}"
        assert_problem(
            shop_client.post(unknown, shop_client.vendor, body, key=key), 404, "RESOURCE_NOT_FOUND"
        )
        malformed = f"{ORDERS}/17/{route}"
        assert_problem(
            shop_client.post(malformed, shop_client.vendor, body, key=key), 404, "RESOURCE_NOT_FOUND"
        )

    def test_buyer_is_refused_vendor_orders(self, shop_client: ShopClient) -> None:
        assert_problem(shop_client.get(f"{ORDERS}/vendor", shop_client.buyer), 403, "AUTH_FORBIDDEN")

    @pytest.mark.parametrize("path", ["", "/items", "/events"])
    def test_order_is_hidden_from_other_buyers_and_visible_to_staff(
        self, shop_client: ShopClient, path: str
    ) -> None:
        order_id = shop_client.paid()

        assert_problem(
            shop_client.get(f"{ORDERS}/{order_id}{path}", shop_client.stranger), 404, "RESOURCE_NOT_FOUND"
        )
        assert shop_client.get(f"{ORDERS}/{order_id}{path}", shop_client.officer()).status_code == 200
        elsewhere = shop_client.get(f"{ORDERS}/{order_id}{path}", shop_client.officer("campus_rep"))
        assert_problem(elsewhere, 404, "RESOURCE_NOT_FOUND")

    def test_other_buyer_or_staff_cannot_cancel_order(self, shop_client: ShopClient) -> None:
        order_id = shop_client.unpaid()

        for headers in (shop_client.stranger, shop_client.officer()):
            answer = shop_client.post(f"{ORDERS}/{order_id}/cancel", headers)
            assert_problem(answer, 404, "RESOURCE_NOT_FOUND")
        assert status(shop_client, order_id) == "pending_payment"

    @pytest.mark.parametrize("account_status", ["restricted", "suspended"])
    def test_inactive_account_cannot_place_order(self, shop_client: ShopClient, account_status: str) -> None:
        with shop_client.database.transaction() as session:
            session.connection().exec_driver_sql(
                "UPDATE profiles SET account_status = %(status)s WHERE id = %(id)s",
                {"status": account_status, "id": str(shop_client.shop.buyer.id)},
            )

        answer = shop_client.post(ORDERS, shop_client.buyer, order_body(shop_client.product()))
        assert account_status in assert_problem(answer, 403, "AUTH_FORBIDDEN")["detail"]


def test_response_time_follows_test_clock(shop_client: ShopClient) -> None:
    assert (
        shop_client.post(ORDERS, shop_client.buyer, order_body(shop_client.product()))
        .json["meta"]["timestamp"]
        .startswith(NOW.strftime("%Y-%m-%dT%H:%M:%S"))
    )
