"""Tools of the assistant: small results under the person's rights, and proposals that the person sends."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from marketplace.assistant.tools.toolbox import tool_schemas
from marketplace.catalog.favorites.toggle import toggle_favorite
from marketplace.kernel.clock import iso
from marketplace.support.tickets import open_ticket
from tests.support.assistant import Desk, data_of, text_of
from tests.support.gateway import MovableClock
from tests.support.purchases import (
    NOW,
    PRICE_MINOR,
    Shop,
    cart_of,
    make_product,
    make_shop,
    paid_order,
    place,
    put_into_cart,
    shipped_order,
    status_of,
)


@pytest.fixture
def shop(desk: Desk) -> Shop:
    return desk.database.in_transaction(make_shop)


@pytest.fixture
def product_id(desk: Desk, shop: Shop) -> str:
    return str(desk.database.in_transaction(make_product, shop, description="Bright and quiet."))


class TestReadingTools:
    def test_search_finds_products_within_the_price(self, desk: Desk, shop: Shop, product_id: str) -> None:
        buyer = shop.buyer.id
        found = desk.use_tool(buyer, "search_products", query="reading lamp", maxPriceMinor=PRICE_MINOR)
        assert product_id in [item["id"] for item in found["items"]]
        assert {item["title"] for item in found["items"]} == {"Reading lamp"}
        assert len(found["items"]) <= 8
        dear = desk.use_tool(buyer, "search_products", query="reading lamp", maxPriceMinor=1)
        assert dear["items"] == []

    def test_product_and_store_are_described(self, desk: Desk, shop: Shop, product_id: str) -> None:
        [product] = desk.use_tool(shop.buyer.id, "get_product", productId=product_id)["items"]
        assert (product["title"], product["description"]) == ("Reading lamp", "Bright and quiet.")
        assert product["price"].startswith("NGN ")
        [store] = desk.use_tool(shop.buyer.id, "get_store", vendorId=product["store"]["id"])["items"]
        assert store["name"] == product["store"]["name"]

    def test_products_are_compared(self, desk: Desk, shop: Shop, product_id: str) -> None:
        other, missing = str(desk.database.in_transaction(make_product, shop)), str(uuid4())
        result = desk.use_tool(shop.buyer.id, "compare_products", productIds=[product_id, other, missing])
        assert [item["id"] for item in result["items"]] == [product_id, other]
        assert result["notFound"] == [missing]

    def test_own_favorites_orders_and_tickets_are_listed(
        self, desk: Desk, shop: Shop, product_id: str
    ) -> None:
        buyer = shop.buyer.id
        with desk.database.transaction() as session:
            toggle_favorite(session, user_id=buyer, product_id=UUID(product_id), now=NOW)
            order_id = paid_order(session, shop)
            open_ticket(
                session,
                creator_id=buyer,
                subject="A question",
                message="Where is it?",
                category="order",
                order_id=None,
                now=NOW,
            )
        assert [item["id"] for item in desk.use_tool(buyer, "list_favorites")["items"]] == [product_id]
        [order] = desk.use_tool(buyer, "list_my_orders")["items"]
        assert (order["id"], order["items"]) == (str(order_id), ["1 x Reading lamp"])
        assert [item["subject"] for item in desk.use_tool(buyer, "list_my_tickets")["items"]] == [
            "A question"
        ]
        stranger = desk.person()
        for tool in ("list_favorites", "list_my_orders", "list_my_tickets"):
            assert desk.use_tool(stranger, tool)["items"] == []

    def test_money_of_an_own_order_is_shown(self, desk: Desk, shop: Shop) -> None:
        order_id = str(desk.database.in_transaction(paid_order, shop))
        result = desk.use_tool(shop.buyer.id, "get_order_money", orderId=order_id)
        assert result["order"]["status"] == "paid_escrow"
        assert any("escrow" in item["name"] for item in result["items"])

    @pytest.mark.parametrize("role", ["stranger", "officer"])
    def test_rights_of_strangers_and_staff_do_not_reach_other_orders(
        self, desk: Desk, shop: Shop, role: str
    ) -> None:
        order_id = str(desk.database.in_transaction(paid_order, shop))
        caller = desk.person() if role == "stranger" else desk.person(role="staff", staff_role="admin")
        result = desk.use_tool(caller, "get_order_money", orderId=order_id)
        assert result == {"error": "Order not found."}

    def test_drafts_stay_hidden_from_officers_too(self, desk: Desk, shop: Shop) -> None:
        draft = str(desk.database.in_transaction(make_product, shop, status="draft"))
        officer = desk.person(role="staff", staff_role="admin")
        assert desk.use_tool(officer, "get_product", productId=draft) == {"error": "Product not found."}

    def test_policies_answer_a_topic(self, desk: Desk) -> None:
        [policy, *_] = desk.use_tool(desk.person(), "read_policy", topic="Can I get a refund?")["items"]
        assert policy["topic"] == "Cancellations and refunds"

    def test_hubs_need_a_campus(self, desk: Desk) -> None:
        result = desk.use_tool(desk.person(), "list_hubs")
        assert result["items"] == []


class TestCalls:
    def test_calls_of_a_round_run_at_once_in_order(self, desk: Desk, shop: Shop, product_id: str) -> None:
        calls = [
            ("get_product", {"productId": product_id}),
            ("list_my_orders", {}),
            ("list_favorites", {}),
        ] * 2
        events = desk.use_tools(shop.buyer.id, *calls)
        assert [data["name"] for data in data_of(events, "tool_result")] == [name for name, _ in calls]
        [_, prompt] = desk.prompts()
        sent = [message for message in prompt["messages"] if message["role"] == "tool"]
        called = next(message for message in prompt["messages"] if message.get("tool_calls"))
        assert [message["tool_call_id"] for message in sent] == [call["id"] for call in called["tool_calls"]]

    @pytest.mark.parametrize(
        ("name", "arguments", "named"),
        [
            ("get_product", {}, "productId"),
            ("get_product", {"productId": "17"}, "productId"),
            ("get_product", {"productId": str(uuid4()), "userId": "x"}, "userId"),
            ("search_products", {"query": ""}, "query"),
            ("search_products", {"query": "lamp", "maxPriceMinor": "cheap"}, "maxPriceMinor"),
            ("compare_products", {"productIds": [str(uuid4())]}, "productIds"),
            ("propose_add_to_cart", {"productId": str(uuid4()), "quantity": 0}, "quantity"),
            ("run_sql", {"sql": "DELETE FROM orders"}, "no such tool"),
        ],
    )
    def test_invalid_call_is_explained_to_the_model(
        self, desk: Desk, name: str, arguments: dict[str, Any], named: str
    ) -> None:
        events = desk.use_tools(desk.person(), (name, arguments))
        [result] = data_of(events, "tool_result")
        assert not result["ok"]
        assert named in result["result"]["error"]
        assert events[-1][0] == "done"

    def test_model_answers_without_tools_after_six_rounds(self, desk: Desk) -> None:
        call = {"calls": [{"name": "list_favorites", "arguments": {}}]}
        desk.plan(replies=[call] * 20)
        events = desk.ask(desk.person())
        assert len(data_of(events, "tool_result")) == 6
        assert events[-1][0] == "done"
        assert [bool(prompt.get("tools")) for prompt in desk.prompts()] == [True] * 6 + [False]

    def test_long_results_are_shortened(self, desk: Desk, shop: Shop) -> None:
        with desk.database.transaction() as session:
            product = make_product(session, shop, description="word " * 2_000)
        [item] = desk.use_tool(shop.buyer.id, "get_product", productId=str(product))["items"]
        assert len(item["description"]) <= 600

    def test_schemas_of_tools_are_closed(self) -> None:
        for tool in tool_schemas():
            assert tool["function"]["parameters"]["additionalProperties"] is False
            assert tool["function"]["description"]


class TestProposals:
    def propose(self, desk: Desk, user_id: UUID, name: str, **arguments: Any) -> dict[str, Any]:
        [proposal] = data_of(desk.use_tools(user_id, (name, arguments)), "proposal")
        return proposal

    def send(self, desk: Desk, user_id: UUID, proposal: dict[str, Any]) -> Any:
        request = proposal["request"]
        assert request["method"] == "POST"
        return desk.post(request["path"], user_id, request["body"], **request["headers"])

    def test_cart_keeps_lines_and_changes_after_the_confirmation(
        self, desk: Desk, shop: Shop, product_id: str, clock: MovableClock
    ) -> None:
        buyer = shop.buyer.id
        with desk.database.transaction() as session:
            other = make_product(session, shop)
            put_into_cart(session, buyer, (other, 2), (UUID(product_id), 1))
        proposal = self.propose(desk, buyer, "propose_add_to_cart", productId=product_id, quantity=2)
        assert proposal["summary"] == "Add 2 x Reading lamp to your cart"
        assert proposal["expiresAt"] == iso(clock.now + timedelta(minutes=10))
        with desk.database.reading() as session:
            assert cart_of(session, buyer) == {other: 2, UUID(product_id): 1}
        assert self.send(desk, buyer, proposal).status_code == 200
        with desk.database.reading() as session:
            assert cart_of(session, buyer) == {other: 2, UUID(product_id): 3}

    def test_checkout_orders_the_cart_once(self, desk: Desk, shop: Shop, product_id: str) -> None:
        buyer = shop.buyer.id
        with desk.database.transaction() as session:
            put_into_cart(session, buyer, (UUID(product_id), 1))
        address = desk.post("/api/users/me/addresses", buyer, {"hostel": "Moremi"})
        assert address.status_code == 201
        proposal = self.propose(desk, buyer, "propose_checkout")
        first, second = self.send(desk, buyer, proposal), self.send(desk, buyer, proposal)
        assert (first.status_code, second.status_code) == (201, 201)
        assert first.json["data"]["checkoutId"] == second.json["data"]["checkoutId"]

    def test_order_is_cancelled_after_the_confirmation(self, desk: Desk, shop: Shop) -> None:
        order_id = desk.database.in_transaction(paid_order, shop)
        proposal = self.propose(
            desk, shop.buyer.id, "propose_cancel_order", orderId=str(order_id), reason="Found another"
        )
        with desk.database.reading() as session:
            assert status_of(session, order_id) == "paid_escrow"
        assert self.send(desk, shop.buyer.id, proposal).status_code == 200
        with desk.database.reading() as session:
            assert status_of(session, order_id) == "cancelled"

    def test_ticket_and_dispute_are_opened_after_the_confirmation(self, desk: Desk, shop: Shop) -> None:
        buyer = shop.buyer.id
        order_id = str(desk.database.in_transaction(shipped_order, shop))
        ticket = self.propose(
            desk,
            buyer,
            "propose_ticket",
            subject="Late package",
            message="It is late.",
            category="delivery",
            orderId=order_id,
        )
        assert self.send(desk, buyer, ticket).status_code == 201
        dispute = self.propose(
            desk,
            buyer,
            "propose_dispute",
            orderId=order_id,
            reason="not_received",
            description="It never came to the hub.",
            desiredOutcome="refund",
        )
        assert self.send(desk, buyer, dispute).status_code == 201

    def test_refused_changes_are_not_proposed(self, desk: Desk, shop: Shop) -> None:
        buyer, stranger = shop.buyer.id, desk.person()
        with desk.database.transaction() as session:
            order_id = str(place(session, shop, make_product(session, shop)))
            sold_out = str(make_product(session, shop, quantity=0))
        complaint = {"description": "It never came.", "reason": "other", "desiredOutcome": "refund"}
        for caller, name, arguments in (
            (stranger, "propose_cancel_order", {"orderId": order_id}),
            (shop.vendor.id, "propose_cancel_order", {"orderId": order_id}),
            (stranger, "propose_dispute", {"orderId": order_id, **complaint}),
            (buyer, "propose_dispute", {"orderId": order_id, **complaint}),
            (buyer, "propose_add_to_cart", {"productId": sold_out, "quantity": 1}),
            (buyer, "propose_checkout", {}),
        ):
            events = desk.use_tools(caller, (name, arguments))
            assert data_of(events, "proposal") == []
            assert "error" in data_of(events, "tool_result")[0]["result"]

    def test_model_learns_of_the_confirmation(self, desk: Desk, shop: Shop, product_id: str) -> None:
        self.propose(desk, shop.buyer.id, "propose_add_to_cart", productId=product_id, quantity=1)
        [_, prompt] = desk.prompts()
        assert "must confirm" in prompt["messages"][-1]["content"]


class TestStandIn:
    """The stand-in is useful without a key: its answers come from the results of tools."""

    def test_shopper_finds_compares_and_adds_a_product(self, desk: Desk, shop: Shop, product_id: str) -> None:
        with desk.database.transaction() as session:
            session.connection().exec_driver_sql(
                "UPDATE profiles SET campus_id = %s WHERE id = %s", (shop.campus_id, shop.buyer.id)
            )
        buyer = shop.buyer.id
        assert "Reading lamp" in text_of(desk.ask(buyer, "Abeg find reading lamp no pass 100k"))
        events = desk.ask(buyer, "Add reading lamp to my cart")
        [proposal] = data_of(events, "proposal")
        assert proposal["request"]["body"]["items"] == [{"productId": product_id, "quantity": 1}]

    def test_money_of_a_numbered_order_is_found(self, desk: Desk, shop: Shop) -> None:
        with desk.database.transaction() as session:
            first = paid_order(session, shop)
            paid_order(session, shop)
        number = desk.get(f"/api/orders/{first}", shop.buyer.id).json["data"]["number"]
        events = desk.ask(shop.buyer.id, f"Where is my money for {number}?")
        calls = [(data["name"], data["arguments"]) for data in data_of(events, "tool_call")]
        assert calls == [("list_my_orders", {}), ("get_order_money", {"orderId": str(first)})]
