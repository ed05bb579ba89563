"""The money trail of an order, at each step, for buyer, vendor and staff."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from marketplace.cart.operations import RequestedItem
from marketplace.identity.models import Profile
from marketplace.orders.placing.place_order import WalletUse
from marketplace.payments.charges import quarantine
from marketplace.payments.charges.charge_context import QuarantineAction
from marketplace.payments.intents.expiry import sweep_abandoned_checkouts
from marketplace.payments.refunds import order_cancellation
from marketplace.platform.models import Campus
from marketplace.services import Services
from tests.support.finance import act_of, make_officer, report_refund_status
from tests.support.probes import assert_problem
from tests.support.purchases import (
    NOW,
    apply as settle,
    check_out,
    fill_wallet,
    later,
    make_charge,
    make_intent,
    make_person,
    make_product,
    neighbours,
    pay,
    place,
    release,
    row_of,
)
from tests.support.shop_client import ShopClient


def fetch_money_trail(
    shop_client: ShopClient, order_id: UUID, headers: dict[str, str] | None = None
) -> dict[str, Any]:
    answer = shop_client.get(f"/api/orders/{order_id}/money", headers or shop_client.buyer)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json["data"]
    assert_entries_match_ledger(shop_client, found)
    return found


def assert_entries_match_ledger(shop_client: ShopClient, found: dict[str, Any]) -> None:
    with shop_client.database.reading() as session:
        for entry in found["entries"]:
            if entry["transactionId"] is None:  # of another currency
                assert (entry["amountMinor"], "USD" in entry["what"] or "by hand" in entry["what"]) == (
                    0,
                    True,
                )
                continue
            posting = row_of(session, "ledger_transactions", id=entry["transactionId"])
            assert entry["kind"] in (posting["kind"], "payment")
            assert entry["what"]
    # Each holder received the amount by an entry, except for amounts never paid.
    transaction_ids = {entry["transactionId"] for entry in found["entries"]}
    for holder in found["holders"]:
        unpaid = holder["holder"] == "buyer" and "pays" in holder["next"]
        unpaid |= not holder["amountMinor"]
        assert (
            (holder["transactionId"] is None) if unpaid else (holder["transactionId"] in transaction_ids)
        ), holder


def amounts_by_holder(found: dict[str, Any]) -> dict[str, int]:
    return {holder["holder"]: holder["amountMinor"] for holder in found["holders"]}


def moves(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(entry["kind"], entry["from"], entry["to"]) for entry in found["entries"]]


def total_of(found: dict[str, Any]) -> int:
    total: int = found["total_amount"]
    return total


def test_unpaid_order_shows_due_amount_with_buyer(shop_client: ShopClient) -> None:
    found = fetch_money_trail(shop_client, shop_client.unpaid())

    [holder] = found["holders"]
    assert (holder["holder"], holder["isYou"], holder["amountMinor"]) == ("buyer", True, total_of(found))
    assert holder["by"] == (NOW + timedelta(minutes=30)).isoformat().replace("+00:00", "Z")
    assert found["entries"] == []


def test_money_is_in_escrow_from_payment_to_release(shop_client: ShopClient) -> None:
    order_id = shop_client.paid()
    path = f"/api/orders/{order_id}"

    paid = fetch_money_trail(shop_client, order_id)
    [escrowed] = paid["holders"]
    assert (escrowed["holder"], escrowed["isYou"], escrowed["amountMinor"]) == (
        "escrow",
        False,
        total_of(paid),
    )
    assert "accept" in escrowed["why"]
    assert escrowed["by"] == (NOW + timedelta(hours=24)).isoformat().replace("+00:00", "Z")
    assert moves(paid) == [("payment", "gateway", "escrow")]

    assert shop_client.post(f"{path}/accept", shop_client.vendor).status_code == 200
    [prepared] = fetch_money_trail(shop_client, order_id)["holders"]
    assert (prepared["holder"], prepared["by"]) == ("escrow", None)
    assert shop_client.post(f"{path}/status", shop_client.vendor, {"status": "shipped"}).status_code == 200
    [shipped] = fetch_money_trail(shop_client, order_id)["holders"]
    assert "PIN" in shipped["why"]
    assert shipped["by"] == (NOW + timedelta(days=14)).isoformat().replace("+00:00", "Z")

    with shop_client.database.transaction() as session:
        release(session, shop_client.shop, order_id)
    buyer_view, vendor_view, staff_view = (
        fetch_money_trail(shop_client, order_id, headers)
        for headers in (shop_client.buyer, shop_client.vendor, shop_client.officer())
    )
    assert amounts_by_holder(buyer_view) == {"vendor": total_of(buyer_view)}
    assert amounts_by_holder(vendor_view) == amounts_by_holder(staff_view)
    assert vendor_view["holders"][0]["isYou"] is True
    assert sum(amounts_by_holder(vendor_view).values()) == total_of(buyer_view)
    assert amounts_by_holder(vendor_view)["platform"] > 0
    assert moves(buyer_view)[-1] == ("release", "escrow", "vendor")


def test_refund_in_transit_is_shown_until_processed(shop_client: ShopClient) -> None:
    order_id = shop_client.paid()
    with shop_client.database.transaction() as session:
        order_cancellation.cancel_order(
            session, order_id=order_id, caller=shop_client.shop.buyer, reason=None, now=NOW
        )

    buyer_view, vendor_view = (
        fetch_money_trail(shop_client, order_id),
        fetch_money_trail(shop_client, order_id, shop_client.vendor),
    )

    assert amounts_by_holder(buyer_view) == {"on_the_way_back": total_of(buyer_view)}
    assert moves(buyer_view) == [("payment", "gateway", "escrow"), ("refund", "escrow", "on_the_way_back")]
    assert amounts_by_holder(vendor_view) == {"buyer": total_of(vendor_view)}
    assert moves(vendor_view)[-1] == ("refund", "escrow", "buyer")
    with shop_client.database.reading() as session:
        refund_id = row_of(session, "refunds", order_id=order_id)["id"]
    for status, hint in (("pending", "sending"), ("needs-attention", "details"), ("failed", "could not")):
        shop_client.database.in_transaction(report_refund_status, refund_id, status)
        [holder] = fetch_money_trail(shop_client, order_id)["holders"]
        assert (holder["holder"], hint in holder["why"]) == ("on_the_way_back", True)
    shop_client.database.in_transaction(report_refund_status, refund_id, "processed")
    assert amounts_by_holder(fetch_money_trail(shop_client, order_id)) == {"buyer": total_of(buyer_view)}


def test_underpayment_is_shown_as_quarantined(shop_client: ShopClient) -> None:
    order_id = shop_client.unpaid()
    with shop_client.database.transaction() as session:
        settle(session, make_charge(make_intent(session, shop_client.shop, order_id), amount_minor=1_000))

    found = fetch_money_trail(shop_client, order_id)

    assert amounts_by_holder(found) == {"held_back": 1_000}
    assert "finance team accepts" in found["holders"][0]["next"]
    assert moves(found) == [("quarantine", "gateway", "held_back")]


def test_wallet_share_is_hidden_from_vendor(shop_client: ShopClient) -> None:
    with shop_client.database.transaction() as session:
        fill_wallet(session, shop_client.shop.buyer.id, 5_000)
        order_id = place(
            session, shop_client.shop, make_product(session, shop_client.shop), wallet=WalletUse(5_000)
        )
    waiting = fetch_money_trail(shop_client, order_id)
    assert amounts_by_holder(waiting) == {"buyer": total_of(waiting) - 5_000, "escrow": 5_000}
    assert_problem(
        shop_client.get(f"/api/orders/{order_id}/money", shop_client.vendor), 404, "RESOURCE_NOT_FOUND"
    )

    with shop_client.database.transaction() as session:
        pay(session, shop_client.shop, order_id)
    buyer_view, vendor_view = (
        fetch_money_trail(shop_client, order_id),
        fetch_money_trail(shop_client, order_id, shop_client.vendor),
    )

    assert moves(buyer_view) == [("wallet_payment", "buyer", "escrow"), ("payment", "gateway", "escrow")]
    assert {entry["kind"] for entry in vendor_view["entries"]} == {"payment"}
    assert "wallet" not in str(vendor_view).lower()
    with shop_client.database.transaction() as session:
        order_cancellation.cancel_order(
            session, order_id=order_id, caller=shop_client.shop.buyer, reason=None, now=NOW
        )
    assert "wallet" not in str(fetch_money_trail(shop_client, order_id, shop_client.vendor)).lower()
    assert amounts_by_holder(fetch_money_trail(shop_client, order_id)) == {
        "on_the_way_back": total_of(buyer_view) - 5_000,
        "buyer": 5_000,
    }


def test_duplicate_payment_is_hidden_from_vendor(shop_client: ShopClient) -> None:
    order_id = shop_client.unpaid()
    with shop_client.database.transaction() as session:
        intent = make_intent(session, shop_client.shop, order_id)
        settle(session, make_charge(intent))
        settle(session, make_charge(intent))

    buyer_view, vendor_view = (
        fetch_money_trail(shop_client, order_id),
        fetch_money_trail(shop_client, order_id, shop_client.vendor),
    )

    assert amounts_by_holder(buyer_view) == {
        "escrow": total_of(buyer_view),
        "on_the_way_back": total_of(buyer_view),
    }
    assert moves(buyer_view)[-1] == ("refund", "gateway", "on_the_way_back")
    assert amounts_by_holder(vendor_view) == {"escrow": total_of(vendor_view)}
    assert moves(vendor_view) == [("payment", "gateway", "escrow")]


def resolve_quarantined(shop_client: ShopClient, action: QuarantineAction) -> None:
    """Resolve the open quarantined charge of the shop's buyer as an officer."""
    find = text(
        "SELECT q.id FROM quarantined_charges q JOIN payment_intents i ON i.id = q.intent_id"
        " WHERE q.status = 'open' AND i.buyer_id = :buyer_id"
    )
    with shop_client.database.transaction() as session:
        quarantined_charge_id = session.execute(find, {"buyer_id": shop_client.shop.buyer.id}).scalar_one()
        officer = make_officer(session)
        quarantine.resolve_quarantined_charge(
            session,
            quarantined_charge_id=quarantined_charge_id,
            action=action,
            note="The buyer was asked.",
            act=act_of(officer, now=NOW),
        )


@pytest.mark.parametrize(
    ("action", "expected_holders", "expected_move"),
    [
        ("refund", {"on_the_way_back": 1_000}, ("refund", "held_back", "on_the_way_back")),
        ("wallet", {"buyer": 1_000}, ("refund", "held_back", "buyer")),
        ("accept_rest", {"escrow": 1_000}, ("held_payment", "held_back", "escrow")),
    ],
)
def test_resolution_of_quarantined_charge_is_shown_to_buyer_and_staff(
    shop_client: ShopClient,
    action: QuarantineAction,
    expected_holders: dict[str, int],
    expected_move: tuple[str, str, str],
) -> None:
    order_id = shop_client.unpaid()
    with shop_client.database.transaction() as session:
        settle(session, make_charge(make_intent(session, shop_client.shop, order_id), amount_minor=1_000))
    resolve_quarantined(shop_client, action)

    for headers in (shop_client.buyer, shop_client.officer()):
        found = fetch_money_trail(shop_client, order_id, headers)
        unpaid, *others = found["holders"]
        assert unpaid["amountMinor"] == total_of(found) - expected_holders.get("escrow", 0)
        assert {holder["holder"]: holder["amountMinor"] for holder in others} == expected_holders
        assert moves(found) == [("quarantine", "gateway", "held_back"), expected_move]
    assert_problem(
        shop_client.get(f"/api/orders/{order_id}/money", shop_client.vendor), 404, "RESOURCE_NOT_FOUND"
    )


def test_accepted_quarantined_charge_appears_to_vendor_as_payment(shop_client: ShopClient) -> None:
    order_id = shop_client.unpaid()
    with shop_client.database.transaction() as session:
        settle(session, make_charge(make_intent(session, shop_client.shop, order_id), amount_minor=1_000))
    resolve_quarantined(shop_client, "accept_rest")
    with shop_client.database.transaction() as session:
        pay(session, shop_client.shop, order_id)

    buyer_view, vendor_view = (
        fetch_money_trail(shop_client, order_id),
        fetch_money_trail(shop_client, order_id, shop_client.vendor),
    )

    assert amounts_by_holder(buyer_view) == amounts_by_holder(vendor_view) == {"escrow": total_of(buyer_view)}
    assert [kind for kind, *_ in moves(buyer_view)] == ["quarantine", "held_payment", "payment"]
    assert [kind for kind, *_ in moves(vendor_view)] == ["payment", "payment"]
    assert "held" not in str(vendor_view["entries"]) + str(vendor_view["holders"])


def short_checkout(shop_client: ShopClient, missing_minor: int) -> list[tuple[UUID, int]]:
    """Check out two orders, underpay both and return order ids with totals."""
    with shop_client.database.transaction() as session:
        shops = neighbours(session, shop_client.shop, 2)
        requested_items = [
            RequestedItem(make_product(session, shop, price_minor=price), 1)
            for shop, price in zip(shops, (20_001, 333_333), strict=True)
        ]
        made = check_out(session, shop_client.shop, requested_items)
        assert made.payment is not None
        settle(session, make_charge(made.payment, amount_minor=made.payment.amount_minor - missing_minor))
        return [
            (order_id, row_of(session, "orders", id=order_id)["total_minor"]) for order_id in made.order_ids
        ]


def cancel_order(shop_client: ShopClient, order_id: UUID) -> None:
    with shop_client.database.transaction() as session:
        order_cancellation.cancel_order(
            session, order_id=order_id, caller=shop_client.shop.buyer, reason=None, now=NOW
        )


def order_of(shop_client: ShopClient, order_id: UUID) -> dict[str, Any]:
    found: dict[str, Any] = shop_client.get(f"/api/orders/{order_id}", shop_client.buyer).json["data"]
    return found


def share_of(order: tuple[UUID, int], all_orders: list[tuple[UUID, int]], minor: int) -> float:
    return minor * order[1] / sum(total for _, total in all_orders)


@pytest.mark.parametrize("orders_cancelled", [False, True])
@pytest.mark.parametrize(
    ("action", "holder", "status"),
    [("refund", "on_the_way_back", "refund_pending"), ("wallet", "buyer", "refunded")],
)
def test_resolved_quarantined_charge_of_checkout_is_shared_by_orders(
    shop_client: ShopClient, action: QuarantineAction, holder: str, status: str, orders_cancelled: bool
) -> None:
    all_orders = short_checkout(shop_client, 100_001)
    held_minor = sum(total for _, total in all_orders) - 100_001
    for order in all_orders:
        assert amounts_by_holder(fetch_money_trail(shop_client, order[0]))["held_back"] == pytest.approx(
            share_of(order, all_orders, held_minor), abs=1
        )
    assert (
        sum(
            amounts_by_holder(fetch_money_trail(shop_client, order_id))["held_back"]
            for order_id, _ in all_orders
        )
        == held_minor
    )
    for order_id, _ in all_orders if orders_cancelled else ():
        cancel_order(shop_client, order_id)
    resolve_quarantined(shop_client, action)

    returned_minor = 0
    for order in all_orders:
        found, shown = fetch_money_trail(shop_client, order[0]), order_of(shop_client, order[0])
        last = found["holders"][-1]
        assert last["holder"] == holder
        assert last["amountMinor"] == pytest.approx(share_of(order, all_orders, held_minor), abs=1)
        assert len(found["holders"]) == (1 if orders_cancelled else 2)
        assert moves(found) == [("quarantine", "gateway", "held_back"), ("refund", "held_back", holder)]
        assert {entry["amountMinor"] for entry in found["entries"]} == {last["amountMinor"]}
        assert [refund["amountMinor"] for refund in shown["refunds"]] == [last["amountMinor"]]
        assert (shown["payment"] and shown["payment"]["status"]) == (status if orders_cancelled else None)
        returned_minor += last["amountMinor"]
    assert returned_minor == held_minor


def test_excess_of_accepted_charge_is_shown_on_cancelled_order(
    shop_client: ShopClient,
) -> None:
    all_orders = short_checkout(shop_client, 1)
    [(first, cost_of_first), (second, cost_of_second)] = all_orders
    cancel_order(shop_client, first)
    resolve_quarantined(shop_client, "accept_rest")

    cancelled, paid = fetch_money_trail(shop_client, first), fetch_money_trail(shop_client, second)

    assert amounts_by_holder(cancelled) == {"buyer": cost_of_first - 1}
    assert moves(cancelled) == [("quarantine", "gateway", "held_back"), ("refund", "held_back", "buyer")]
    assert [refund["destination"] for refund in order_of(shop_client, first)["refunds"]] == ["wallet"]
    assert amounts_by_holder(paid) == {"escrow": cost_of_second}
    assert moves(paid) == [("quarantine", "gateway", "held_back"), ("payment", "held_back", "escrow")]


def test_charge_in_foreign_currency_is_shown_without_ledger_posting(shop_client: ShopClient) -> None:
    order_id = shop_client.unpaid()
    with shop_client.database.transaction() as session:
        settle(
            session,
            make_charge(
                make_intent(session, shop_client.shop, order_id), currency="USD", amount_minor=12_345
            ),
        )

    [holder] = fetch_money_trail(shop_client, order_id)["holders"]
    assert (holder["holder"], holder["amountMinor"]) == ("held_back", 0)
    assert "USD 123.45" in holder["why"]
    [entry] = fetch_money_trail(shop_client, order_id)["entries"]
    assert ("USD 123.45" in entry["what"], entry["to"]) == (True, "held_back")

    resolve_quarantined(shop_client, "refund")

    found = fetch_money_trail(shop_client, order_id)
    assert moves(found) == [("quarantine", "gateway", "held_back"), ("quarantine", "held_back", "buyer")]
    assert amounts_by_holder(found) == {"buyer": total_of(found)}


def test_disputed_order_shows_frozen_escrow_to_all_parties(shop_client: ShopClient) -> None:
    order_id = shop_client.shipped()
    with shop_client.database.transaction() as session:
        row = {"id": order_id, "now": NOW}
        session.execute(text("UPDATE orders SET status = 'disputed', disputed_at = :now WHERE id = :id"), row)
        session.execute(text("UPDATE escrows SET status = 'frozen' WHERE order_id = :id"), row)

    for headers in (shop_client.buyer, shop_client.vendor, shop_client.officer()):
        found = fetch_money_trail(shop_client, order_id, headers)
        [holder] = found["holders"]
        assert (found["status"], found["escrowStatus"]) == ("disputed", "frozen")
        assert (holder["holder"], holder["amountMinor"]) == ("escrow", total_of(found))
        assert ("dispute" in holder["why"], "decide" in holder["next"]) == (True, True)
        assert holder["by"] is None


def test_expired_order_returns_wallet_share_and_late_charge(
    shop_client: ShopClient, paying_services: Services
) -> None:
    with shop_client.database.transaction() as session:
        fill_wallet(session, shop_client.shop.buyer.id, 5_000)
        order_id = place(
            session, shop_client.shop, make_product(session, shop_client.shop), wallet=WalletUse(5_000)
        )
        intent = make_intent(session, shop_client.shop, order_id)
    sweep_abandoned_checkouts(
        shop_client.database, paying_services.gateway, fee_bearer="platform", now=later(minutes=61)
    )

    expired = fetch_money_trail(shop_client, order_id)
    assert expired["status"] == "expired"
    assert amounts_by_holder(expired) == {"buyer": 5_000}
    assert moves(expired) == [("wallet_payment", "buyer", "escrow"), ("wallet_return", "escrow", "buyer")]

    with shop_client.database.transaction() as session:
        settle(session, make_charge(intent), now=later(minutes=62))
    late = fetch_money_trail(shop_client, order_id)
    assert amounts_by_holder(late) == {"on_the_way_back": total_of(late) - 5_000, "buyer": 5_000}
    assert moves(late)[-1] == ("refund", "gateway", "on_the_way_back")
    assert amounts_by_holder(
        fetch_money_trail(shop_client, order_id, shop_client.officer())
    ) == amounts_by_holder(late)
    assert_problem(
        shop_client.get(f"/api/orders/{order_id}/money", shop_client.vendor), 404, "RESOURCE_NOT_FOUND"
    )


@pytest.mark.parametrize("wallet", [0, 5_000])
def test_unpaid_order_cancelled_by_vendor_shows_vendor_no_money(shop_client: ShopClient, wallet: int) -> None:
    with shop_client.database.transaction() as session:
        fill_wallet(session, shop_client.shop.buyer.id, 5_000)
        order_id = place(
            session, shop_client.shop, make_product(session, shop_client.shop), wallet=WalletUse(wallet)
        )
        order_cancellation.cancel_order(
            session, order_id=order_id, caller=shop_client.shop.vendor, reason=None, now=NOW
        )

    vendor_view = fetch_money_trail(shop_client, order_id, shop_client.vendor)

    assert (vendor_view["holders"], vendor_view["entries"]) == ([], [])
    assert amounts_by_holder(fetch_money_trail(shop_client, order_id)) == (
        {"buyer": wallet} if wallet else {}
    )


def test_money_trail_is_visible_only_to_parties_and_staff(shop_client: ShopClient) -> None:
    order_id = shop_client.paid()
    path = f"/api/orders/{order_id}/money"
    assert_problem(shop_client.get(path, shop_client.stranger), 404, "RESOURCE_NOT_FOUND")
    assert_problem(
        shop_client.get(f"/api/orders/{uuid4()}/money", shop_client.buyer), 404, "RESOURCE_NOT_FOUND"
    )
    assert_problem(shop_client.client.get(path), 401, "AUTH_UNAUTHORIZED")

    def representative(campus_id: UUID) -> dict[str, str]:
        with shop_client.database.transaction() as session:
            made = make_person(session, role="staff", staff_role="campus_rep")
            session.get_one(Profile, made.id).campus_id = campus_id
        return shop_client.bearer(made.id)

    with shop_client.database.transaction() as session:
        elsewhere = Campus(name="Another campus", slug=f"campus-{uuid4().hex[:12]}")
        session.add(elsewhere)
        session.flush()
        elsewhere_id = elsewhere.id
    assert fetch_money_trail(shop_client, order_id, representative(shop_client.shop.campus_id))["holders"]
    assert_problem(shop_client.get(path, representative(elsewhere_id)), 404, "RESOURCE_NOT_FOUND")
