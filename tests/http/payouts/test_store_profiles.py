"""Store profiles over HTTP: public view, owner's view and changes by the owner."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from marketplace.identity.models import Profile
from tests.support.gateway import MovableClock, TestGateway
from tests.support.payouts import make_account
from tests.support.probes import assert_problem, faults
from tests.support.purchases import NOW, later, make_shop
from tests.support.shop_client import ShopClient
from tests.support.store_profiles import (
    GTB,
    accounts_of,
    change_profile,
    fetch_profile,
    format_time,
    profile_path,
    put_profile,
    set_store_columns,
)

pytestmark = pytest.mark.usefixtures("forgotten_banks")

_WEEKDAYS = (
    {"day": "monday", "opens": "10:00", "closes": "16:30"},
    {"day": "tuesday", "opens": "10:00", "closes": "16:30"},
)


class TestProfileView:
    def test_public_profile_has_no_bank_account_and_no_holds(self, shop_client: ShopClient) -> None:
        set_store_columns(
            shop_client,
            description="All lamps.",
            rating_sum=9,
            rating_count=2,
            rating_counts=[0, 0, 0, 1, 1],
            completed_orders=299,
            failed_orders=1,
            response_seconds_sum=150,
            response_count=2,
        )

        data = fetch_profile(shop_client)
        assert data == fetch_profile(shop_client, shop_client.buyer)
        assert (data["displayName"], data["description"]) == ("Ngozi's Lamps", "All lamps.")
        assert (data["rating"], data["ratingCount"], data["completedOrders"]) == (4.5, 2, 299)
        # Rounded down: a single failure shows.
        assert (data["completionRate"], data["responseMinutes"]) == (0.99, 2)
        assert data["verifiedStudent"] is False
        assert (data["openingHours"], data["openNow"], data["opensAt"], data["closesAt"]) == (None,) * 4
        assert data["ratingCounts"] == [0, 0, 0, 1, 1]
        assert data["policies"] == {"returns": None, "delivery": None, "warranty": None}
        assert data["vacationMode"] is None
        assert not {"bankAccount", "payoutHolds"} & set(data)

    def test_owner_sees_masked_account_and_payout_holds(self, shop_client: ShopClient) -> None:
        data = fetch_profile(shop_client, shop_client.vendor)
        assert data["bankAccount"] is None
        assert [hold["reason"] for hold in data["payoutHolds"]] == ["no_bank_account"]

        with shop_client.database.transaction() as session:
            make_account(session, shop_client.shop.vendor.id, account_number="1234567890")
        data = fetch_profile(shop_client, shop_client.vendor)
        assert data["bankAccount"]["accountNumber"] == "******7890"
        assert data["bankAccount"]["heldUntil"] is None
        assert data["payoutHolds"] == []

    @pytest.mark.parametrize("status", ["suspended", "closed"])
    def test_suspended_or_closed_store_is_visible_to_the_owner_only(
        self, shop_client: ShopClient, status: str
    ) -> None:
        set_store_columns(shop_client, status=status)

        assert fetch_profile(shop_client, shop_client.vendor)["status"] == status
        for headers in ({}, shop_client.buyer):
            assert_problem(
                shop_client.client.get(profile_path(shop_client), headers=headers), 404, "RESOURCE_NOT_FOUND"
            )

    def test_unknown_store_is_not_found(self, shop_client: ShopClient) -> None:
        assert_problem(shop_client.client.get(profile_path(shop_client, uuid4())), 404, "RESOURCE_NOT_FOUND")

    def test_badge_of_owner_marks_the_store_as_run_by_a_verified_student(
        self, shop_client: ShopClient
    ) -> None:
        with shop_client.database.transaction() as session:
            session.get_one(Profile, shop_client.shop.vendor.id).badges = ["verified_student"]

        data = fetch_profile(shop_client)
        assert data["verifiedStudent"] is True
        assert (data["completionRate"], data["responseMinutes"]) == (None, None)


class TestOpeningHours:
    HOURS = ({"day": "friday", "opens": "18:00", "closes": "24:00"}, *_WEEKDAYS)

    def test_hours_are_sorted_and_show_the_next_change(
        self, shop_client: ShopClient, clock: MovableClock
    ) -> None:
        clock.now = datetime(2026, 3, 2, 8, 59, tzinfo=UTC)  # a Monday, 09:59 in Lagos
        data = change_profile(shop_client, {"openingHours": self.HOURS})
        assert data["openingHours"] == [*_WEEKDAYS, self.HOURS[0]]
        assert (data["openNow"], data["opensAt"], data["closesAt"]) == (False, "2026-03-02T09:00:00Z", None)
        revision = data["revision"]
        assert change_profile(shop_client, {"openingHours": self.HOURS})["revision"] == revision

        clock.now += timedelta(minutes=1)
        data = fetch_profile(shop_client)
        assert (data["openNow"], data["opensAt"], data["closesAt"]) == (True, None, "2026-03-02T15:30:00Z")

        assert change_profile(shop_client, {"clear": ["openingHours"]})["openNow"] is None

    @pytest.mark.parametrize(
        "columns", [{"on_vacation": True}, {"status": "suspended"}], ids=["vacation", "suspension"]
    )
    def test_store_without_orders_is_closed_during_its_hours(
        self, shop_client: ShopClient, clock: MovableClock, columns: dict[str, Any]
    ) -> None:
        clock.now = datetime(2026, 3, 2, 10, tzinfo=UTC)
        change_profile(shop_client, {"openingHours": self.HOURS})
        set_store_columns(shop_client, **columns)

        data = fetch_profile(shop_client, shop_client.vendor)
        assert (data["openNow"], data["opensAt"], data["closesAt"]) == (False, None, None)

    @pytest.mark.parametrize(
        ("hours", "names"),
        [
            (
                [
                    {"day": "monday", "opens": "10:00", "closes": "12:00"},
                    {"day": "monday", "opens": "11:59", "closes": "13:00"},
                ],
                ["openingHours[1]"],
            ),
            ([{"day": "monday", "opens": "20:00", "closes": "02:00"}], ["openingHours[0]"]),
            ([{"day": "someday", "opens": "9:00", "closes": "24:01"}], None),
            ("always", ["openingHours"]),
        ],
    )
    def test_faulty_hours_are_refused(
        self, shop_client: ShopClient, hours: Any, names: list[str] | None
    ) -> None:
        answer = put_profile(shop_client, {"openingHours": hours})
        assert answer.status_code == 422
        found = sorted(faults(answer))
        assert found == names if names else all(name.startswith("openingHours[0].") for name in found)


class TestProfileChange:
    def test_changed_fields_leave_other_fields_unchanged(self, shop_client: ShopClient) -> None:
        first = change_profile(
            shop_client,
            {"displayName": "Ngozi's  Light", "policies": {"returns": "7 days", "delivery": "On foot"}},
        )
        assert (first["displayName"], first["revision"]) == ("Ngozi's Light", 2)
        assert first["policies"] == {"returns": "7 days", "delivery": "On foot", "warranty": None}

        second = change_profile(
            shop_client,
            {
                "description": "New lamps.",
                "policies": {"returns": None, "warranty": "A year"},
                "clear": ["policies.delivery"],
            },
        )
        assert second["policies"] == {"returns": "7 days", "delivery": None, "warranty": "A year"}
        assert (second["displayName"], second["description"]) == ("Ngozi's Light", "New lamps.")
        assert second["revision"] == 3

        assert change_profile(shop_client, {"description": "New lamps."})["revision"] == 3
        assert change_profile(shop_client, {"description": ""})["description"] == ""
        assert fetch_profile(shop_client, shop_client.vendor)["revision"] == 4

    def test_vacation_is_ended_by_date_or_by_the_owner(
        self, shop_client: ShopClient, clock: MovableClock
    ) -> None:
        until = later(days=3)
        data = change_profile(shop_client, {"vacationMode": {"until": format_time(until), "note": "Exams"}})
        assert data["vacationMode"] == {"until": format_time(until), "note": "Exams"}

        clock.now = until
        assert fetch_profile(shop_client)["vacationMode"] is None
        assert change_profile(shop_client, {"vacationMode": {}})["vacationMode"] == {
            "until": None,
            "note": None,
        }
        assert change_profile(shop_client, {"description": "x"})["vacationMode"] == {
            "until": None,
            "note": None,
        }
        assert change_profile(shop_client, {"vacationMode": None})["vacationMode"] is None

    def test_listings_show_changes_of_the_store_at_once(self, shop_client: ShopClient) -> None:
        product = shop_client.product()
        path = f"/api/products?vendor={shop_client.shop.store_id}"
        [card] = shop_client.client.get(path).json["data"]
        assert (card["id"], card["vendor"]["displayName"]) == (str(product), "Ngozi's Lamps")

        change_profile(shop_client, {"displayName": "Lights"})
        assert shop_client.client.get(path).json["data"][0]["vendor"]["displayName"] == "Lights"
        change_profile(shop_client, {"vacationMode": {}})
        assert shop_client.client.get(path).json["data"] == []

    @pytest.mark.parametrize(
        ("body", "named"),
        [
            ({"displayName": "x"}, ["displayName"]),
            ({"displayName": "x" * 81}, ["displayName"]),
            ({"description": "x" * 5001}, ["description"]),
            ({"policies": {"refunds": "x"}}, ["policies.refunds"]),
            ({"policies": {"returns": "x" * 2001}}, ["policies.returns"]),
            ({"vacationMode": {"until": format_time(NOW)}}, ["vacationMode.until"]),
            ({"vacationMode": {"until": "tomorrow"}}, ["vacationMode.until"]),
            ({"vacationMode": True}, ["vacationMode"]),
            ({"bankAccount": {"bankCode": "058"}}, ["bankAccount.accountNumber"]),
            ({"bankAccount": {"bankCode": "058", "accountNumber": "22345678901"}}, ["bankAccount.accountNumber"]),
            ({"policies": {"returns": "x"}, "clear": ["policies.returns"]}, ["clear"]),
            ({"clear": ["description"]}, ["clear[0]"]),
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
        self, shop_client: ShopClient, body: dict[str, Any], named: list[str]
    ) -> None:
        before = fetch_profile(shop_client, shop_client.vendor)
        assert sorted(faults(put_profile(shop_client, body))) == named
        assert fetch_profile(shop_client, shop_client.vendor) == before

    def test_stale_revision_is_refused_without_a_call_to_the_gateway(
        self, shop_client: ShopClient, gateway: TestGateway
    ) -> None:
        assert change_profile(shop_client, {"description": "One", "revision": 1})["revision"] == 2
        for how in ({"body": {"revision": 1}}, {"headers": {"If-Match": '"1"'}}):
            body = {"description": "Two", "bankAccount": GTB} | how.get("body", {})
            answer = put_profile(shop_client, body, headers=how.get("headers"))
            assert_problem(answer, 409, "CONCURRENCY_CONFLICT")
        assert (
            change_profile(shop_client, {"description": "Two"}, headers={"If-Match": '"2"'})["revision"] == 3
        )
        assert gateway.proxy.calls == []

    def test_only_the_owner_can_change_a_store(self, shop_client: ShopClient, gateway: TestGateway) -> None:
        body = {"description": "Mine", "bankAccount": GTB}
        other = shop_client.bearer(shop_client.database.in_transaction(make_shop).vendor.id)
        assert_problem(put_profile(shop_client, body, by=other), 404, "RESOURCE_NOT_FOUND")
        assert_problem(put_profile(shop_client, {"description": "Mine"}, by=other), 404, "RESOURCE_NOT_FOUND")
        assert_problem(put_profile(shop_client, body, by=shop_client.buyer), 403, "AUTH_FORBIDDEN")
        assert_problem(put_profile(shop_client, body, by=shop_client.officer("admin")), 403, "AUTH_FORBIDDEN")
        assert_problem(shop_client.client.put(profile_path(shop_client), json=body), 401, "AUTH_UNAUTHORIZED")
        assert gateway.proxy.calls == []
        assert accounts_of(shop_client, shop_client.shop.vendor.id) == []

    def test_concurrent_change_with_same_revision_is_refused(self, shop_client: ShopClient) -> None:
        headers = shop_client.vendor
        client = shop_client.client.application.test_client

        def send(word: str) -> int:
            status: int = (
                client()
                .put(profile_path(shop_client), json={"description": word, "revision": 1}, headers=headers)
                .status_code
            )
            return status

        with ThreadPoolExecutor(2) as pool:
            assert sorted(pool.map(send, ("One", "Two"))) == [200, 409]
        assert fetch_profile(shop_client, headers)["revision"] == 2
