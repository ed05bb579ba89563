"""Vendor debts: the list for finance and the vendor's own balance."""

from typing import Any
from uuid import uuid4

import pytest

from tests.support.finance import claw_back, make_officer
from tests.support.payouts import Payee, make_account, stage
from tests.support.probes import assert_problem, faults
from tests.support.purchases import Shop, make_shop, release, shipped_order
from tests.support.shop_client import ShopClient

PATH = "/api/payouts/receivables"


@pytest.fixture
def finance(shop_client: ShopClient) -> dict[str, str]:
    return shop_client.officer("finance")


def list_debts(shop_client: ShopClient, headers: dict[str, str], **query: Any) -> Any:
    answer = shop_client.get(PATH, headers, **query)
    assert answer.status_code == 200, answer.json
    return answer.json


def make_indebted_shop(shop_client: ShopClient, amount_minor: int) -> Shop:
    """Create a shop that owes the amount after a refund of a delivered order."""
    with shop_client.database.transaction() as session:
        shop = make_shop(session)
        order_id = shipped_order(session, shop)
        release(session, shop, order_id)
        claw_back(session, order_id, make_officer(session), amount_minor=amount_minor)
    return shop


def test_finance_sees_vendor_debts_sorted_and_summed(
    shop_client: ShopClient, finance: dict[str, str]
) -> None:
    less, more = make_indebted_shop(shop_client, 1_000), make_indebted_shop(shop_client, 2_000)

    found = list_debts(shop_client, finance, limit=100)
    ids = [row["vendorId"] for row in found["data"]]
    assert ids.index(str(more.store_id)) < ids.index(str(less.store_id))
    assert found["meta"]["owedMinor"] == sum(row["owedMinor"] for row in found["data"]) >= 3_000
    amounts = [row["owedMinor"] for row in list_debts(shop_client, finance, limit=100, order="asc")["data"]]
    assert amounts == sorted(amounts)

    one = list_debts(shop_client, finance, vendorId=str(more.store_id))
    [row] = one["data"]
    assert (row["owedMinor"], row["claimedMinor"], row["collectedMinor"]) == (2_000, 2_000, 0)
    assert (one["meta"]["total"], one["meta"]["owedMinor"]) == (1, 2_000)


def test_debt_is_collected_from_the_next_payout(shop_client: ShopClient, finance: dict[str, str]) -> None:
    shop = make_indebted_shop(shop_client, 2_000)
    before = shop_client.get("/api/payouts/balance", shop_client.bearer(shop.vendor.id)).json["data"]
    assert before["owedMinor"] == 2_000
    with shop_client.database.transaction() as session:
        payee = Payee(shop.vendor, shop.store_id, make_account(session, shop.vendor.id))
        staged = stage(session, [payee])
    assert staged.collected_minor == 2_000
    assert staged.amount_minor == before["payableMinor"] - 2_000

    assert list_debts(shop_client, finance, vendorId=str(shop.store_id))["data"] == []
    entries = shop_client.get("/api/transactions", shop_client.bearer(shop.vendor.id)).json["data"]
    debts = [row for row in entries if row["account"].startswith("vendor_receivable:")]
    assert [(row["kind"], row["direction"], row["balanceAfterMinor"]) for row in debts] == [
        ("clawback_collected", "credit", 0),
        ("refund", "debit", 2_000),
    ]


def test_unknown_vendor_has_no_debts_and_invalid_query_is_refused(
    shop_client: ShopClient, finance: dict[str, str]
) -> None:
    assert list_debts(shop_client, finance, vendorId=str(uuid4()))["data"] == []
    assert faults(shop_client.get(PATH, finance, vendorId="x")) == ["vendorId"]
    assert faults(shop_client.get(PATH, finance, sort="name")) == ["sort"]


def test_vendor_debts_require_finance(shop_client: ShopClient) -> None:
    for headers in (shop_client.buyer, shop_client.vendor, shop_client.officer("orders")):
        assert_problem(shop_client.get(PATH, headers), 403, "AUTH_FORBIDDEN")
    assert_problem(shop_client.get(PATH, {}), 401, "AUTH_UNAUTHORIZED")
