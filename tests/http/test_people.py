"""The administration of people over HTTP: search, the view of a person, and staff roles."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from blueprints.people.schemas import PersonSummary, PersonView
from marketplace.identity.models import Profile
from marketplace.infra.db import Database
from marketplace.people.queries import LATEST_ORDERS
from tests.support.market import Bearer
from tests.support.probes import assert_problem, faults
from tests.support.purchases import (
    fill_wallet,
    make_person,
    make_product,
    place,
    row_of,
    shipped_order,
)
from tests.support.shop_client import ShopClient

PATH = "/api/admin/users"
REASON = "Joins the support team in March."


@pytest.fixture
def admin(database: Database, bearer: Bearer) -> dict[str, str]:
    """The headers of an administrator with two factors."""
    return bearer(database.in_transaction(make_person, role="staff", staff_role="admin").id, aal="aal2")


def make_profile(database: Database, **columns: Any) -> UUID:
    """Create a profile with columns."""
    with database.transaction() as session:
        profile = Profile(id=uuid4(), **columns)
        session.add(profile)
        session.flush()
        return profile.id


class TestSearch:
    def find(self, shop_client: ShopClient, headers: dict[str, str], **query: Any) -> list[UUID]:
        answer = shop_client.get(PATH, headers, **query)
        assert answer.status_code == 200, answer.json
        assert not PersonSummary(many=True).validate(answer.json["data"])
        return [UUID(person["id"]) for person in answer.json["data"]]

    @pytest.mark.parametrize("query", ["zainab", "Ọláyínká", "OLAYINKA zain", "zb@north", "yink"])
    def test_person_is_found_by_parts_of_name_and_email(
        self, shop_client: ShopClient, database: Database, admin: dict[str, str], query: str
    ) -> None:
        mark = uuid4().hex[:8]
        name = f"Zainab Ọláyínká {mark}"
        user_id = make_profile(database, name=name, email=f"zb@north-{mark}.example")

        assert self.find(shop_client, admin, q=f"{query} {mark}") == [user_id]
        assert self.find(shop_client, admin, q=f"{query} {mark}x") == []

    def test_wildcards_of_the_query_have_no_effect(
        self, shop_client: ShopClient, database: Database, admin: dict[str, str]
    ) -> None:
        make_profile(database, name="Percy Percent")
        assert self.find(shop_client, admin, q="Per%ent") == []
        assert self.find(shop_client, admin, q="Percy_Percent") == []

    def test_person_is_found_by_phone_number_and_id(
        self, shop_client: ShopClient, database: Database, admin: dict[str, str]
    ) -> None:
        user_id = make_profile(database, name="Phone", phone="+2348039990001")
        assert self.find(shop_client, admin, q="0803 999 0001") == [user_id]
        assert self.find(shop_client, admin, q=str(user_id)) == [user_id]

    def test_order_number_finds_buyer_and_vendor(
        self, shop_client: ShopClient, database: Database, admin: dict[str, str]
    ) -> None:
        order_id = shop_client.unpaid()
        with database.reading() as session:
            number = row_of(session, "orders", id=order_id)["number"]
        parties = {shop_client.shop.buyer.id, shop_client.shop.vendor.id}
        assert set(self.find(shop_client, admin, q=number.lower())) == parties
        assert self.find(shop_client, admin, q="CM-999999999999999999") == []

    def test_filters_and_sort_orders_are_applied(
        self, shop_client: ShopClient, database: Database, admin: dict[str, str]
    ) -> None:
        mark = uuid4().hex[:10]
        first = make_profile(database, name=f"Ada {mark}")
        second = make_profile(database, name=f"bola {mark}", account_status="restricted")
        officer = make_profile(database, name=f"Cyn {mark}", role="staff", staff_role="support")

        assert self.find(shop_client, admin, q=mark, sort="name", order="asc") == [first, second, officer]
        assert self.find(shop_client, admin, q=mark, accountStatus="restricted") == [second]
        assert self.find(shop_client, admin, q=mark, staffRole="support") == [officer]
        assert self.find(shop_client, admin, q=mark, role="buyer", sort="name") == [second, first]
        page = shop_client.get(PATH, admin, q=mark, sort="name", order="asc", limit=2, page=2).json
        assert [person["id"] for person in page["data"]] == [str(officer)]
        assert (page["meta"]["total"], page["meta"]["total_pages"]) == (3, 2)

    @pytest.mark.parametrize(
        ("query", "name"),
        [
            ({"q": "a"}, "q"),
            ({"q": "a" * 101}, "q"),
            ({"role": "king"}, "role"),
            ({"staffRole": "king"}, "staffRole"),
            ({"accountStatus": "gone"}, "accountStatus"),
            ({"campusId": "north"}, "campusId"),
            ({"sort": "phone"}, "sort"),
        ],
    )
    def test_invalid_filter_is_refused(
        self, shop_client: ShopClient, admin: dict[str, str], query: dict[str, str], name: str
    ) -> None:
        assert list(faults(shop_client.get(PATH, admin, **query))) == [name]


class TestPersonView:
    def test_view_shows_store_wallet_and_latest_orders(
        self, shop_client: ShopClient, database: Database, admin: dict[str, str]
    ) -> None:
        shop = shop_client.shop
        with database.transaction() as session:
            sold = shipped_order(session, shop)
            fill_wallet(session, shop.vendor.id, 4_500)

        answer = shop_client.get(f"{PATH}/{shop.vendor.id}", admin)

        person = answer.json["data"]
        assert not PersonView().validate(person)
        assert (person["walletMinor"], person["debtMinor"]) == (4_500, 0)
        assert person["store"]["id"] == str(shop.store_id)
        assert (person["ordersBought"], person["ordersSold"]) == (0, 1)
        assert [(order["id"], order["asRole"]) for order in person["latestOrders"]] == [(str(sold), "vendor")]
        bought = shop_client.get(f"{PATH}/{shop.buyer.id}", admin).json["data"]
        assert (bought["store"], bought["ordersBought"]) == (None, 1)
        assert [order["asRole"] for order in bought["latestOrders"]] == ["buyer"]

    def test_view_shows_a_limited_number_of_orders_latest_first(
        self, shop_client: ShopClient, database: Database, admin: dict[str, str]
    ) -> None:
        with database.transaction() as session:
            product = make_product(session, shop_client.shop, quantity=100)
            orders = []
            for _ in range(LATEST_ORDERS + 2):
                orders.append(place(session, shop_client.shop, product))
                # A buyer may have few unpaid orders at a time.
                session.execute(
                    text("UPDATE orders SET status = 'cancelled' WHERE id = :id"), {"id": orders[-1]}
                )

        person = shop_client.get(f"{PATH}/{shop_client.shop.buyer.id}", admin).json["data"]

        assert person["ordersBought"] == LATEST_ORDERS + 2
        assert [order["id"] for order in person["latestOrders"]] == [
            str(order) for order in sorted(orders, reverse=True)[:LATEST_ORDERS]
        ]

    def test_unknown_person_is_not_found(self, shop_client: ShopClient, admin: dict[str, str]) -> None:
        for person in (uuid4(), "me"):
            assert_problem(shop_client.get(f"{PATH}/{person}", admin), 404, "RESOURCE_NOT_FOUND")


class TestAccess:
    def test_only_officers_who_manage_people_are_admitted(
        self, shop_client: ShopClient, database: Database, bearer: Bearer
    ) -> None:
        user_id = shop_client.shop.buyer.id
        for headers in (
            shop_client.buyer,
            shop_client.vendor,
            *(shop_client.officer(role) for role in ("finance", "support", "moderator", "compliance")),
        ):
            for answer in (
                shop_client.get(PATH, headers),
                shop_client.get(f"{PATH}/{user_id}", headers),
                grant(shop_client, headers, user_id, "admin"),
                shop_client.post(f"{PATH}/{user_id}/staff-role/revoke", headers, {"reason": REASON}),
            ):
                assert_problem(answer, 403, "AUTH_FORBIDDEN")
        assert_problem(shop_client.get(PATH, {}), 401, "AUTH_UNAUTHORIZED")
        weak = bearer(database.in_transaction(make_person, role="staff", staff_role="admin").id)
        assert_problem(grant(shop_client, weak, user_id, "support"), 403, "AUTH_AAL2_REQUIRED")


class TestStaffRoles:
    def test_granted_role_applies_at_once_and_ends_with_its_revocation(
        self, shop_client: ShopClient, admin: dict[str, str]
    ) -> None:
        user_id, headers = shop_client.shop.vendor.id, shop_client.vendor
        granted = grant(shop_client, admin, user_id, "orders").json["data"]
        assert (granted["role"], granted["staffRole"]) == ("staff", "orders")
        assert shop_client.get("/api/orders/admin", headers).status_code == 200

        revoked = shop_client.post(f"{PATH}/{user_id}/staff-role/revoke", admin, {"reason": REASON})
        assert (revoked.json["data"]["role"], revoked.json["data"]["staffRole"]) == ("vendor", None)
        assert_problem(shop_client.get("/api/orders/admin", headers), 403, "AUTH_FORBIDDEN")
        assert shop_client.get("/api/orders/vendor/counts", headers).status_code == 200

    @pytest.mark.parametrize(
        ("body", "names"),
        [
            ({}, ["reason", "staffRole"]),
            ({"staffRole": "king", "reason": REASON}, ["staffRole"]),
            ({"staffRole": "support", "reason": "short"}, ["reason"]),
            ({"staffRole": "support", "reason": "r" * 501}, ["reason"]),
            (
                {"staffRole": "support", "reason": REASON, "permissions": ["canManageFinances"]},
                ["permissions"],
            ),
        ],
    )
    def test_invalid_grant_is_refused(
        self, shop_client: ShopClient, admin: dict[str, str], body: dict[str, Any], names: list[str]
    ) -> None:
        answer = shop_client.put(f"{PATH}/{shop_client.shop.buyer.id}/staff-role", admin, body)
        assert sorted(faults(answer)) == names


def grant(shop_client: ShopClient, headers: dict[str, str], user_id: UUID, staff_role: str) -> Any:
    body = {"staffRole": staff_role, "reason": REASON}
    return shop_client.put(f"{PATH}/{user_id}/staff-role", headers, body)
