"""Where an order's money is, at each step, to each of those whom it concerns."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from marketplace.identity.models import Profile
from marketplace.orders.wallet import WalletUse
from marketplace.payments import cancelling
from tests.support.desk import Desk
from tests.support.finance import say
from tests.support.probes import assert_problem
from tests.support.purchases import (
    NOW,
    fill_wallet,
    make_charge,
    make_intent,
    make_person,
    make_product,
    pay,
    place,
    release,
    row_of,
)
from tests.support.purchases import apply as settle


def money(desk: Desk, order_id: UUID, headers: dict[str, str] | None = None) -> dict[str, Any]:
    answer = desk.get(f"/api/orders/{order_id}/money", headers or desk.buyer)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json["data"]
    assert_entries_are_in_the_books(desk, found)
    return found


def assert_entries_are_in_the_books(desk: Desk, found: dict[str, Any]) -> None:
    with desk.database.reading() as session:
        for entry in found["entries"]:
            booked = row_of(session, "ledger_transactions", id=entry["transactionId"])
            assert entry["kind"] in (booked["kind"], "payment")
            assert entry["what"]


def held(found: dict[str, Any]) -> dict[str, int]:
    return {holder["holder"]: holder["amountMinor"] for holder in found["holders"]}


def moves(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(entry["kind"], entry["from"], entry["to"]) for entry in found["entries"]]


def total_of(found: dict[str, Any]) -> int:
    total: int = found["total_amount"]
    return total


def test_an_unpaid_order_is_its_buyers_to_pay(desk: Desk) -> None:
    found = money(desk, desk.unpaid())

    [holder] = found["holders"]
    assert (holder["holder"], holder["isYou"], holder["amountMinor"]) == ("buyer", True, total_of(found))
    assert holder["by"] == (NOW + timedelta(minutes=30)).isoformat().replace("+00:00", "Z")
    assert found["entries"] == []


def test_from_payment_to_release_it_is_in_escrow(desk: Desk) -> None:
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


def test_what_goes_back_is_told_until_it_is_there(desk: Desk) -> None:
    order_id = desk.paid()
    with desk.database.transaction() as session:
        cancelling.cancel(session, order_id=order_id, caller=desk.shop.buyer, reason=None, now=NOW)

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


def test_money_that_does_not_fit_is_held_back(desk: Desk) -> None:
    order_id = desk.unpaid()
    with desk.database.transaction() as session:
        settle(session, make_charge(make_intent(session, desk.shop, order_id), amount_minor=1_000))

    found = money(desk, order_id)

    assert held(found) == {"held_back": 1_000}
    assert "officers decide" in found["holders"][0]["next"]
    assert moves(found) == [("quarantine", "gateway", "held_back")]


def test_the_wallet_is_its_buyers_to_know(desk: Desk) -> None:
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
        cancelling.cancel(session, order_id=order_id, caller=desk.shop.buyer, reason=None, now=NOW)
    assert "wallet" not in str(money(desk, order_id, desk.vendor)).lower()
    assert held(money(desk, order_id)) == {"on_the_way_back": total_of(bought) - 5_000, "buyer": 5_000}


def test_a_second_payment_is_between_its_buyer_and_us(desk: Desk) -> None:
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


@pytest.mark.parametrize("wallet", [0, 5_000])
def test_an_order_that_its_vendor_called_off_unpaid_tells_the_vendor_nothing(desk: Desk, wallet: int) -> None:
    with desk.database.transaction() as session:
        fill_wallet(session, desk.shop.buyer.id, 5_000)
        order_id = place(session, desk.shop, make_product(session, desk.shop), wallet=WalletUse(wallet))
        cancelling.cancel(session, order_id=order_id, caller=desk.shop.vendor, reason=None, now=NOW)

    sold = money(desk, order_id, desk.vendor)

    assert (sold["holders"], sold["entries"]) == ([], [])
    assert held(money(desk, order_id)) == ({"buyer": wallet} if wallet else {})


def test_it_is_for_the_parties_and_staff(desk: Desk) -> None:
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

    with desk.database.reading() as session:
        elsewhere = session.execute(
            text("SELECT id FROM campuses WHERE id <> :id LIMIT 1"), {"id": desk.shop.campus_id}
        ).scalar_one()
    assert money(desk, order_id, representative(desk.shop.campus_id))["holders"]
    assert_problem(desk.get(path, representative(elsewhere)), 404, "RESOURCE_NOT_FOUND")
