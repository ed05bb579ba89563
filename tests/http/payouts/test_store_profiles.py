"""Store profiles over HTTP: public view, owner's view and changes by the owner."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

from tests.support.gateway import MovableClock, TestGateway
from tests.support.payouts import make_account
from tests.support.probes import assert_problem, faults
from tests.support.purchases import NOW, later, make_shop
from tests.support.shop_client import ShopClient
from tests.support.store_profiles import GTB, accounts_of, changed, path_of, put, set_columns, shown, wire

pytestmark = pytest.mark.usefixtures("forgotten_banks")


class TestProfileView:
    def test_public_profile_has_no_bank_account_and_no_holds(self, desk: ShopClient) -> None:
        set_columns(desk, description="All lamps.", rating_sum=9, rating_count=2, completed_orders=3)

        data = shown(desk)
        assert data == shown(desk, desk.buyer)
        assert (data["displayName"], data["description"]) == ("Ngozi's Lamps", "All lamps.")
        assert (data["rating"], data["ratingCount"], data["completedOrders"]) == (4.5, 2, 3)
        assert data["policies"] == {"returns": None, "delivery": None, "warranty": None}
        assert data["vacationMode"] is None
        assert not {"bankAccount", "payoutHolds"} & set(data)

    def test_owner_sees_masked_account_and_payout_holds(self, desk: ShopClient) -> None:
        data = shown(desk, desk.vendor)
        assert data["bankAccount"] is None
        assert [hold["reason"] for hold in data["payoutHolds"]] == ["no_bank_account"]

        with desk.database.transaction() as session:
            make_account(session, desk.shop.vendor.id, account_number="1234567890")
        data = shown(desk, desk.vendor)
        assert data["bankAccount"]["accountNumber"] == "******7890"
        assert data["bankAccount"]["heldUntil"] is None
        assert data["payoutHolds"] == []

    @pytest.mark.parametrize("status", ["suspended", "closed"])
    def test_suspended_or_closed_store_is_visible_to_the_owner_only(
        self, desk: ShopClient, status: str
    ) -> None:
        set_columns(desk, status=status)

        assert shown(desk, desk.vendor)["status"] == status
        for headers in ({}, desk.buyer):
            assert_problem(desk.client.get(path_of(desk), headers=headers), 404, "RESOURCE_NOT_FOUND")

    def test_unknown_store_is_not_found(self, desk: ShopClient) -> None:
        assert_problem(desk.client.get(path_of(desk, uuid4())), 404, "RESOURCE_NOT_FOUND")


class TestProfileChange:
    def test_changed_fields_leave_other_fields_unchanged(self, desk: ShopClient) -> None:
        first = changed(
            desk, {"displayName": "Ngozi's  Light", "policies": {"returns": "7 days", "delivery": "On foot"}}
        )
        assert (first["displayName"], first["revision"]) == ("Ngozi's Light", 2)
        assert first["policies"] == {"returns": "7 days", "delivery": "On foot", "warranty": None}

        second = changed(
            desk, {"description": "New lamps.", "policies": {"delivery": None, "warranty": "A year"}}
        )
        assert second["policies"] == {"returns": "7 days", "delivery": None, "warranty": "A year"}
        assert (second["displayName"], second["description"]) == ("Ngozi's Light", "New lamps.")
        assert second["revision"] == 3

        assert changed(desk, {"description": "New lamps."})["revision"] == 3
        assert changed(desk, {"description": ""})["description"] == ""
        assert shown(desk, desk.vendor)["revision"] == 4

    def test_vacation_is_ended_by_date_or_by_the_owner(self, desk: ShopClient, clock: MovableClock) -> None:
        until = later(days=3)
        data = changed(desk, {"vacationMode": {"until": wire(until), "note": "Exams"}})
        assert data["vacationMode"] == {"until": wire(until), "note": "Exams"}

        clock.now = until
        assert shown(desk)["vacationMode"] is None
        assert changed(desk, {"vacationMode": {}})["vacationMode"] == {"until": None, "note": None}
        assert changed(desk, {"description": "x"})["vacationMode"] == {"until": None, "note": None}
        assert changed(desk, {"vacationMode": None})["vacationMode"] is None

    def test_listings_show_changes_of_the_store_at_once(self, desk: ShopClient) -> None:
        product = desk.product()
        path = f"/api/products?vendor={desk.shop.store_id}"
        [card] = desk.client.get(path).json["data"]
        assert (card["id"], card["vendor"]["displayName"]) == (str(product), "Ngozi's Lamps")

        changed(desk, {"displayName": "Lights"})
        assert desk.client.get(path).json["data"][0]["vendor"]["displayName"] == "Lights"
        changed(desk, {"vacationMode": {}})
        assert desk.client.get(path).json["data"] == []

    @pytest.mark.parametrize(
        ("body", "named"),
        [
            ({"displayName": "x"}, ["displayName"]),
            ({"displayName": "x" * 81}, ["displayName"]),
            ({"description": "x" * 5001}, ["description"]),
            ({"policies": {"refunds": "x"}}, ["policies.refunds"]),
            ({"policies": {"returns": "x" * 2001}}, ["policies.returns"]),
            ({"vacationMode": {"until": wire(NOW)}}, ["vacationMode.until"]),
            ({"vacationMode": {"until": "tomorrow"}}, ["vacationMode.until"]),
            ({"vacationMode": True}, ["vacationMode"]),
            ({"bankAccount": {"bankCode": "058"}}, ["bankAccount.accountNumber"]),
            ({"bankAccount": {"bankCode": "058", "accountNumber": "22345678901"}}, ["bankAccount.accountNumber"]),
            ({"bankAccount": None}, ["bankAccount"]),
            ({"verified": True}, ["verified"]),
            ({"slug": "new-slug"}, ["slug"]),
            # Contact details would move trades outside escrow.
            (
                {"displayName": "Call 08031234567", "description": "Mail me: a@b.com"},
                ["description", "displayName"],
            ),
            (
                {"policies": {"returns": "Chat on 0803 123 4567"}, "vacationMode": {"note": "@lamps_ng"}},
                ["policies.returns", "vacationMode.note"],
            ),
        ],
        ids=repr,
    )  # fmt: skip
    def test_invalid_fields_are_named_and_change_nothing(
        self, desk: ShopClient, body: dict[str, Any], named: list[str]
    ) -> None:
        before = shown(desk, desk.vendor)
        assert sorted(faults(put(desk, body))) == named
        assert shown(desk, desk.vendor) == before

    def test_stale_revision_is_refused_without_a_call_to_the_gateway(
        self, desk: ShopClient, gateway: TestGateway
    ) -> None:
        assert changed(desk, {"description": "One", "revision": 1})["revision"] == 2
        for how in ({"body": {"revision": 1}}, {"headers": {"If-Match": '"1"'}}):
            body = {"description": "Two", "bankAccount": GTB} | how.get("body", {})
            answer = put(desk, body, headers=how.get("headers"))
            assert_problem(answer, 409, "CONCURRENCY_CONFLICT")
        assert changed(desk, {"description": "Two"}, headers={"If-Match": '"2"'})["revision"] == 3
        assert gateway.line.calls == []

    def test_only_the_owner_can_change_a_store(self, desk: ShopClient, gateway: TestGateway) -> None:
        body = {"description": "Mine", "bankAccount": GTB}
        other = desk.bearer(desk.database.in_transaction(make_shop).vendor.id)
        assert_problem(put(desk, body, by=other), 404, "RESOURCE_NOT_FOUND")
        assert_problem(put(desk, {"description": "Mine"}, by=other), 404, "RESOURCE_NOT_FOUND")
        assert_problem(put(desk, body, by=desk.buyer), 403, "AUTH_FORBIDDEN")
        assert_problem(put(desk, body, by=desk.officer("admin")), 403, "AUTH_FORBIDDEN")
        assert_problem(desk.client.put(path_of(desk), json=body), 401, "AUTH_UNAUTHORIZED")
        assert gateway.line.calls == []
        assert accounts_of(desk, desk.shop.vendor.id) == []

    def test_concurrent_change_with_same_revision_is_refused(self, desk: ShopClient) -> None:
        headers = desk.vendor
        client = desk.client.application.test_client

        def send(word: str) -> int:
            status: int = (
                client()
                .put(path_of(desk), json={"description": word, "revision": 1}, headers=headers)
                .status_code
            )
            return status

        with ThreadPoolExecutor(2) as pool:
            assert sorted(pool.map(send, ("One", "Two"))) == [200, 409]
        assert shown(desk, headers)["revision"] == 2
