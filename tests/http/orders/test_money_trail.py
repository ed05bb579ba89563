"""Where an order's money is, at each step, to each of those whom it concerns."""

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
from tests.support.finance import act_of, make_officer, say
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


def money(desk: ShopClient, order_id: UUID, headers: dict[str, str] | None = None) -> dict[str, Any]:
    answer = desk.get(f"/api/orders/{order_id}/money", headers or desk.buyer)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json["data"]
    assert_entries_are_in_the_books(desk, found)
    return found


def assert_entries_are_in_the_books(desk: ShopClient, found: dict[str, Any]) -> None:
    with desk.database.reading() as session:
        for entry in found["entries"]:
            if entry["transactionId"] is None:  # of another currency
                assert (entry["amountMinor"], "USD" in entry["what"] or "by hand" in entry["what"]) == (
                    0,
                    True,
                )
                continue
            booked = row_of(session, "ledger_transactions", id=entry["transactionId"])
            assert entry["kind"] in (booked["kind"], "payment")
            assert entry["what"]
    # Whoever holds a part of it has got it by one of these, but for what was never paid.
    brought = {entry["transactionId"] for entry in found["entries"]}
    for holder in found["holders"]:
        unpaid = holder["holder"] == "buyer" and "pays" in holder["next"]
        unpaid |= not holder["amountMinor"]
        assert (holder["transactionId"] is None) if unpaid else (holder["transactionId"] in brought), holder


def held(found: dict[str, Any]) -> dict[str, int]:
    return {holder["holder"]: holder["amountMinor"] for holder in found["holders"]}


def moves(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(entry["kind"], entry["from"], entry["to"]) for entry in found["entries"]]


def total_of(found: dict[str, Any]) -> int:
    total: int = found["total_amount"]
    return total


def test_an_unpaid_order_is_its_buyers_to_pay(desk: ShopClient) -> None:
    found = money(desk, desk.unpaid())

    [holder] = found["holders"]
    assert (holder["holder"], holder["isYou"], holder["amountMinor"]) == ("buyer", True, total_of(found))
    assert holder["by"] == (NOW + timedelta(minutes=30)).isoformat().replace("+00:00", "Z")
    assert found["entries"] == []


def test_from_payment_to_release_it_is_in_escrow(desk: ShopClient) -> None:
    order_id = desk.paid()
    path = f"/api/orders/{order_id}"

    paid = money(desk, order_id)
    [waits] = paid["holders"]
    assert (waits["holder"], waits["isYou"], waits["amountMinor"]) == ("escrow", False, total_of(paid))
    assert "accept" in waits["why"]
    assert waits["by"] == (NOW + timedelta(hours=24)).isoformat().replace("+00:00", "Z")
    assert moves(paid) == [("payment", "gateway", "escrow")]

    assert desk.post(f"{path}/accept", desk.vendor).status_code == 200
    [prepared] = money(desk, order_id)["holders"]
    assert (prepared["holder"], prepared["by"]) == ("escrow", None)
    assert desk.post(f"{path}/status", desk.vendor, {"status": "shipped"}).status_code == 200
    [shipped] = money(desk, order_id)["holders"]
    assert "PIN" in shipped["why"]
    assert shipped["by"] == (NOW + timedelta(days=14)).isoformat().replace("+00:00", "Z")

    with desk.database.transaction() as session:
        release(session, desk.shop, order_id)
    bought, sold, seen = (
        money(desk, order_id, headers) for headers in (desk.buyer, desk.vendor, desk.officer())
    )
    assert held(bought) == {"vendor": total_of(bought)}
    assert held(sold) == held(seen)
    assert sold["holders"][0]["isYou"] is True
    assert sum(held(sold).values()) == total_of(bought)
    assert held(sold)["platform"] > 0
    assert moves(bought)[-1] == ("release", "escrow", "vendor")


def test_what_goes_back_is_told_until_it_is_there(desk: ShopClient) -> None:
    order_id = desk.paid()
    with desk.database.transaction() as session:
        order_cancellation.cancel_order(
            session, order_id=order_id, caller=desk.shop.buyer, reason=None, now=NOW
        )

    bought, sold = money(desk, order_id), money(desk, order_id, desk.vendor)

    assert held(bought) == {"on_the_way_back": total_of(bought)}
    assert moves(bought) == [("payment", "gateway", "escrow"), ("refund", "escrow", "on_the_way_back")]
    assert held(sold) == {"buyer": total_of(sold)}
    assert moves(sold)[-1] == ("refund", "escrow", "buyer")
    with desk.database.reading() as session:
        refund_id = row_of(session, "refunds", order_id=order_id)["id"]
    for told, word in (("pending", "sending"), ("needs-attention", "details"), ("failed", "could not")):
        desk.database.in_transaction(say, refund_id, told)
        [holder] = money(desk, order_id)["holders"]
        assert (holder["holder"], word in holder["why"]) == ("on_the_way_back", True)
    desk.database.in_transaction(say, refund_id, "processed")
    assert held(money(desk, order_id)) == {"buyer": total_of(bought)}


def test_money_that_does_not_fit_is_held_back(desk: ShopClient) -> None:
    order_id = desk.unpaid()
    with desk.database.transaction() as session:
        settle(session, make_charge(make_intent(session, desk.shop, order_id), amount_minor=1_000))

    found = money(desk, order_id)

    assert held(found) == {"held_back": 1_000}
    assert "finance team accepts" in found["holders"][0]["next"]
    assert moves(found) == [("quarantine", "gateway", "held_back")]


def test_the_wallet_is_its_buyers_to_know(desk: ShopClient) -> None:
    with desk.database.transaction() as session:
        fill_wallet(session, desk.shop.buyer.id, 5_000)
        order_id = place(session, desk.shop, make_product(session, desk.shop), wallet=WalletUse(5_000))
    waiting = money(desk, order_id)
    assert held(waiting) == {"buyer": total_of(waiting) - 5_000, "escrow": 5_000}
    assert_problem(desk.get(f"/api/orders/{order_id}/money", desk.vendor), 404, "RESOURCE_NOT_FOUND")

    with desk.database.transaction() as session:
        pay(session, desk.shop, order_id)
    bought, sold = money(desk, order_id), money(desk, order_id, desk.vendor)

    assert moves(bought) == [("wallet_payment", "buyer", "escrow"), ("payment", "gateway", "escrow")]
    assert {entry["kind"] for entry in sold["entries"]} == {"payment"}
    assert "wallet" not in str(sold).lower()
    with desk.database.transaction() as session:
        order_cancellation.cancel_order(
            session, order_id=order_id, caller=desk.shop.buyer, reason=None, now=NOW
        )
    assert "wallet" not in str(money(desk, order_id, desk.vendor)).lower()
    assert held(money(desk, order_id)) == {"on_the_way_back": total_of(bought) - 5_000, "buyer": 5_000}


def test_a_second_payment_is_between_its_buyer_and_us(desk: ShopClient) -> None:
    order_id = desk.unpaid()
    with desk.database.transaction() as session:
        intent = make_intent(session, desk.shop, order_id)
        settle(session, make_charge(intent))
        settle(session, make_charge(intent))

    bought, sold = money(desk, order_id), money(desk, order_id, desk.vendor)

    assert held(bought) == {"escrow": total_of(bought), "on_the_way_back": total_of(bought)}
    assert moves(bought)[-1] == ("refund", "gateway", "on_the_way_back")
    assert held(sold) == {"escrow": total_of(sold)}
    assert moves(sold) == [("payment", "gateway", "escrow")]


def decide(desk: ShopClient, action: QuarantineAction) -> None:
    """Have an officer decide on what is held back of this desk's buyer."""
    find = text(
        "SELECT q.id FROM quarantined_charges q JOIN payment_intents i ON i.id = q.intent_id"
        " WHERE q.status = 'open' AND i.buyer_id = :buyer_id"
    )
    with desk.database.transaction() as session:
        held_id = session.execute(find, {"buyer_id": desk.shop.buyer.id}).scalar_one()
        officer = make_officer(session)
        quarantine.resolve_quarantined_charge(
            session,
            quarantined_charge_id=held_id,
            action=action,
            note="The buyer was asked.",
            act=act_of(officer, now=NOW),
        )


@pytest.mark.parametrize(
    ("action", "holds", "moved"),
    [
        ("refund", {"on_the_way_back": 1_000}, ("refund", "held_back", "on_the_way_back")),
        ("wallet", {"buyer": 1_000}, ("refund", "held_back", "buyer")),
        ("accept_rest", {"escrow": 1_000}, ("held_payment", "held_back", "escrow")),
    ],
)
def test_what_became_of_money_that_was_held_back_is_told(
    desk: ShopClient, action: QuarantineAction, holds: dict[str, int], moved: tuple[str, str, str]
) -> None:
    order_id = desk.unpaid()
    with desk.database.transaction() as session:
        settle(session, make_charge(make_intent(session, desk.shop, order_id), amount_minor=1_000))
    decide(desk, action)

    for headers in (desk.buyer, desk.officer()):
        found = money(desk, order_id, headers)
        unpaid, *others = found["holders"]
        assert unpaid["amountMinor"] == total_of(found) - holds.get("escrow", 0)
        assert {holder["holder"]: holder["amountMinor"] for holder in others} == holds
        assert moves(found) == [("quarantine", "gateway", "held_back"), moved]
    assert_problem(desk.get(f"/api/orders/{order_id}/money", desk.vendor), 404, "RESOURCE_NOT_FOUND")


def test_what_was_held_back_and_completed_is_one_payment_to_the_vendor(desk: ShopClient) -> None:
    order_id = desk.unpaid()
    with desk.database.transaction() as session:
        settle(session, make_charge(make_intent(session, desk.shop, order_id), amount_minor=1_000))
    decide(desk, "accept_rest")
    with desk.database.transaction() as session:
        pay(session, desk.shop, order_id)

    bought, sold = money(desk, order_id), money(desk, order_id, desk.vendor)

    assert held(bought) == held(sold) == {"escrow": total_of(bought)}
    assert [kind for kind, *_ in moves(bought)] == ["quarantine", "held_payment", "payment"]
    assert [kind for kind, *_ in moves(sold)] == ["payment", "payment"]
    assert "held" not in str(sold["entries"]) + str(sold["holders"])


def short_checkout(desk: ShopClient, missing_minor: int) -> list[tuple[UUID, int]]:
    """Check two orders out, have too little paid for both, and give each with what it costs."""
    with desk.database.transaction() as session:
        shops = neighbours(session, desk.shop, 2)
        wishes = [
            RequestedItem(make_product(session, shop, price_minor=price), 1)
            for shop, price in zip(shops, (20_001, 333_333), strict=True)
        ]
        made = check_out(session, desk.shop, wishes)
        assert made.payment is not None
        settle(session, make_charge(made.payment, amount_minor=made.payment.amount_minor - missing_minor))
        return [
            (order_id, row_of(session, "orders", id=order_id)["total_minor"]) for order_id in made.order_ids
        ]


def call_off(desk: ShopClient, order_id: UUID) -> None:
    with desk.database.transaction() as session:
        order_cancellation.cancel_order(
            session, order_id=order_id, caller=desk.shop.buyer, reason=None, now=NOW
        )


def order_of(desk: ShopClient, order_id: UUID) -> dict[str, Any]:
    found: dict[str, Any] = desk.get(f"/api/orders/{order_id}", desk.buyer).json["data"]
    return found


def share_of(order: tuple[UUID, int], of_all: list[tuple[UUID, int]], minor: int) -> float:
    return minor * order[1] / sum(total for _, total in of_all)


@pytest.mark.parametrize("called_off", [False, True])
@pytest.mark.parametrize(
    ("action", "holder", "status"),
    [("refund", "on_the_way_back", "refund_pending"), ("wallet", "buyer", "refunded")],
)
def test_what_a_checkout_had_held_back_is_followed_on_each_of_its_orders(
    desk: ShopClient, action: QuarantineAction, holder: str, status: str, called_off: bool
) -> None:
    of_all = short_checkout(desk, 100_001)
    held_minor = sum(total for _, total in of_all) - 100_001
    for order in of_all:
        assert held(money(desk, order[0]))["held_back"] == pytest.approx(
            share_of(order, of_all, held_minor), abs=1
        )
    assert sum(held(money(desk, order_id))["held_back"] for order_id, _ in of_all) == held_minor
    for order_id, _ in of_all if called_off else ():
        call_off(desk, order_id)
    decide(desk, action)

    came_back = 0
    for order in of_all:
        found, shown = money(desk, order[0]), order_of(desk, order[0])
        last = found["holders"][-1]
        assert last["holder"] == holder
        assert last["amountMinor"] == pytest.approx(share_of(order, of_all, held_minor), abs=1)
        assert len(found["holders"]) == (1 if called_off else 2)
        assert moves(found) == [("quarantine", "gateway", "held_back"), ("refund", "held_back", holder)]
        assert {entry["amountMinor"] for entry in found["entries"]} == {last["amountMinor"]}
        assert [refund["amountMinor"] for refund in shown["refunds"]] == [last["amountMinor"]]
        assert (shown["payment"] and shown["payment"]["status"]) == (status if called_off else None)
        came_back += last["amountMinor"]
    assert came_back == held_minor


def test_what_was_accepted_of_a_checkout_and_was_too_much_is_told_by_the_order_that_was_called_off(
    desk: ShopClient,
) -> None:
    of_all = short_checkout(desk, 1)
    [(first, cost_of_first), (second, cost_of_second)] = of_all
    call_off(desk, first)
    decide(desk, "accept_rest")

    over, paid = money(desk, first), money(desk, second)

    assert held(over) == {"buyer": cost_of_first - 1}
    assert moves(over) == [("quarantine", "gateway", "held_back"), ("refund", "held_back", "buyer")]
    assert [refund["destination"] for refund in order_of(desk, first)["refunds"]] == ["wallet"]
    assert held(paid) == {"escrow": cost_of_second}
    assert moves(paid) == [("quarantine", "gateway", "held_back"), ("payment", "held_back", "escrow")]


def test_money_of_another_currency_is_told_of_although_it_is_in_no_book(desk: ShopClient) -> None:
    order_id = desk.unpaid()
    with desk.database.transaction() as session:
        settle(
            session,
            make_charge(make_intent(session, desk.shop, order_id), currency="USD", amount_minor=12_345),
        )

    [holder] = money(desk, order_id)["holders"]
    assert (holder["holder"], holder["amountMinor"]) == ("held_back", 0)
    assert "USD 123.45" in holder["why"]
    [entry] = money(desk, order_id)["entries"]
    assert ("USD 123.45" in entry["what"], entry["to"]) == (True, "held_back")

    decide(desk, "refund")

    found = money(desk, order_id)
    assert moves(found) == [("quarantine", "gateway", "held_back"), ("quarantine", "held_back", "buyer")]
    assert held(found) == {"buyer": total_of(found)}


def test_a_dispute_freezes_it_for_all_who_look(desk: ShopClient) -> None:
    order_id = desk.shipped()
    with desk.database.transaction() as session:
        row = {"id": order_id, "now": NOW}
        session.execute(text("UPDATE orders SET status = 'disputed', disputed_at = :now WHERE id = :id"), row)
        session.execute(text("UPDATE escrows SET status = 'frozen' WHERE order_id = :id"), row)

    for headers in (desk.buyer, desk.vendor, desk.officer()):
        found = money(desk, order_id, headers)
        [holder] = found["holders"]
        assert (found["status"], found["escrowStatus"]) == ("disputed", "frozen")
        assert (holder["holder"], holder["amountMinor"]) == ("escrow", total_of(found))
        assert ("dispute" in holder["why"], "decide" in holder["next"]) == (True, True)
        assert holder["by"] is None


def test_an_order_that_expired_gives_back_the_wallets_part_and_what_comes_late(
    desk: ShopClient, paying_services: Services
) -> None:
    with desk.database.transaction() as session:
        fill_wallet(session, desk.shop.buyer.id, 5_000)
        order_id = place(session, desk.shop, make_product(session, desk.shop), wallet=WalletUse(5_000))
        intent = make_intent(session, desk.shop, order_id)
    sweep_abandoned_checkouts(
        desk.database, paying_services.gateway, fee_bearer="platform", now=later(minutes=61)
    )

    expired = money(desk, order_id)
    assert expired["status"] == "expired"
    assert held(expired) == {"buyer": 5_000}
    assert moves(expired) == [("wallet_payment", "buyer", "escrow"), ("wallet_return", "escrow", "buyer")]

    with desk.database.transaction() as session:
        settle(session, make_charge(intent), now=later(minutes=62))
    late = money(desk, order_id)
    assert held(late) == {"on_the_way_back": total_of(late) - 5_000, "buyer": 5_000}
    assert moves(late)[-1] == ("refund", "gateway", "on_the_way_back")
    assert held(money(desk, order_id, desk.officer())) == held(late)
    assert_problem(desk.get(f"/api/orders/{order_id}/money", desk.vendor), 404, "RESOURCE_NOT_FOUND")


@pytest.mark.parametrize("wallet", [0, 5_000])
def test_an_order_that_its_vendor_called_off_unpaid_tells_the_vendor_nothing(
    desk: ShopClient, wallet: int
) -> None:
    with desk.database.transaction() as session:
        fill_wallet(session, desk.shop.buyer.id, 5_000)
        order_id = place(session, desk.shop, make_product(session, desk.shop), wallet=WalletUse(wallet))
        order_cancellation.cancel_order(
            session, order_id=order_id, caller=desk.shop.vendor, reason=None, now=NOW
        )

    sold = money(desk, order_id, desk.vendor)

    assert (sold["holders"], sold["entries"]) == ([], [])
    assert held(money(desk, order_id)) == ({"buyer": wallet} if wallet else {})


def test_it_is_for_the_parties_and_staff(desk: ShopClient) -> None:
    order_id = desk.paid()
    path = f"/api/orders/{order_id}/money"
    assert_problem(desk.get(path, desk.stranger), 404, "RESOURCE_NOT_FOUND")
    assert_problem(desk.get(f"/api/orders/{uuid4()}/money", desk.buyer), 404, "RESOURCE_NOT_FOUND")
    assert_problem(desk.client.get(path), 401, "AUTH_UNAUTHORIZED")

    def representative(campus_id: UUID) -> dict[str, str]:
        with desk.database.transaction() as session:
            made = make_person(session, role="staff", staff_role="campus_rep")
            session.get_one(Profile, made.id).campus_id = campus_id
        return desk.bearer(made.id)

    with desk.database.transaction() as session:
        elsewhere = Campus(name="Another campus", slug=f"campus-{uuid4().hex[:12]}")
        session.add(elsewhere)
        session.flush()
        elsewhere_id = elsewhere.id
    assert money(desk, order_id, representative(desk.shop.campus_id))["holders"]
    assert_problem(desk.get(path, representative(elsewhere_id)), 404, "RESOURCE_NOT_FOUND")
