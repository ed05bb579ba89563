"""Order tables over HTTP: all orders for officers, and a campus's orders for representatives."""

import csv
import io
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from blueprints.orders import routes
from marketplace.identity.models import Profile
from marketplace.orders import admin_table
from marketplace.orders.placing.place_order import Delivery
from marketplace.platform.models import Hub
from marketplace.services import Services
from tests.support.finance import make_officer, refund, report_refund_status
from tests.support.gateway import MovableClock
from tests.support.probes import assert_problem, faults
from tests.support.purchases import (
    NOW,
    apply as settle,
    later,
    make_charge,
    make_intent,
    make_person,
    make_product,
    make_shop,
    neighbours,
    paid_order,
    pay,
    place,
    release,
    with_buyer,
)
from tests.support.resource_usage import counted_statements
from tests.support.shop_client import ShopClient

ADMIN, CAMPUS = "/api/orders/admin", "/api/campus-orders"


def table(shop_client: ShopClient, **query: Any) -> list[dict[str, Any]]:
    """Return the rows of the shop's campus."""
    answer = shop_client.get(
        ADMIN, shop_client.officer(), **{"campus": str(shop_client.shop.campus_id)} | query
    )
    assert answer.status_code == 200, answer.text
    rows: list[dict[str, Any]] = answer.json["data"]
    return rows


def ids(rows: list[dict[str, Any]]) -> list[str]:
    return [row["id"] for row in rows]


def representative(shop_client: ShopClient, campus_id: UUID | None) -> dict[str, str]:
    def make(session: Session) -> UUID:
        made = make_person(session, role="staff", staff_role="campus_rep")
        session.get_one(Profile, made.id).campus_id = campus_id
        return made.id

    return shop_client.bearer(shop_client.database.in_transaction(make))


class TestTable:
    def test_row_shows_parties_campus_and_escrow_amount(self, shop_client: ShopClient) -> None:
        unpaid, paid = shop_client.unpaid(), shop_client.paid()
        done = shop_client.shipped()
        with shop_client.database.transaction() as session:
            release(session, shop_client.shop, done)
            session.execute(
                text("UPDATE orders SET created_at = :at, paid_at = :at WHERE id = :id"),
                {"id": paid, "at": later(hours=-5, minutes=-30)},
            )

        rows = {row["id"]: row for row in table(shop_client)}

        assert rows.keys() == {str(unpaid), str(paid), str(done)}
        row = rows[str(paid)]
        assert row["buyer"] == {"id": str(shop_client.shop.buyer.id), "name": "Buyer"}
        assert row["vendor"]["id"] == str(shop_client.shop.store_id)
        assert row["campus"]["id"] == str(shop_client.shop.campus_id)
        assert (row["status"], row["escrowStatus"], row["stuck"]) == ("paid_escrow", "held", [])
        assert row["escrowMinor"] == row["total_amount"] > 0
        assert (row["ageHours"], row["statusAgeHours"]) == (5, 5)
        assert [rows[str(order_id)]["escrowMinor"] for order_id in (unpaid, done)] == [0, 0]

    def test_order_table_is_sorted_and_paged(self, shop_client: ShopClient) -> None:
        with shop_client.database.transaction() as session:
            made = [
                place(session, shop_client.shop, make_product(session, shop_client.shop, price_minor=minor))
                for minor in (3_000, 1_000, 2_000)
            ]
            for number, order_id in enumerate(made[:2]):
                pay(session, shop_client.shop, order_id, paid_at=later(minutes=number))
        dear, cheap, middle = map(str, made)

        assert ids(table(shop_client, sort="total_amount", order="asc")) == [cheap, middle, dear]
        assert ids(table(shop_client, sort="total_amount")) == [dear, middle, cheap]
        assert ids(table(shop_client, sort="paidAt")) == [cheap, dear, middle]
        assert ids(table(shop_client, sort="paidAt", order="asc")) == [middle, dear, cheap]
        assert ids(table(shop_client, sort="status"))[0] == middle
        assert ids(table(shop_client)) == [middle, cheap, dear]
        pages = [
            shop_client.get(
                ADMIN, shop_client.officer(), campus=str(shop_client.shop.campus_id), limit=2, page=page
            ).json
            for page in (1, 2, 3)
        ]
        assert [ids(page["data"]) for page in pages] == [[middle, cheap], [dear], []]
        meta = pages[1]["meta"]
        assert (meta["page"], meta["limit"], meta["total"], meta["total_pages"]) == (2, 2, 3, 2)

    def test_order_table_is_filtered(self, shop_client: ShopClient) -> None:
        unpaid, paid = shop_client.unpaid(), str(shop_client.paid())
        with shop_client.database.transaction() as session:
            other = with_buyer(session, shop_client.shop)
            other_buyers_order = str(paid_order(session, other, quantity=2))
            elsewhere = neighbours(session, shop_client.shop, 2)[1]
            sold_elsewhere = str(paid_order(session, elsewhere))
            session.execute(
                text("UPDATE orders SET created_at = :at WHERE id = :id"),
                {"id": unpaid, "at": later(hours=-10)},
            )
            slug = session.execute(
                text("SELECT slug FROM campuses WHERE id = :id"), {"id": shop_client.shop.campus_id}
            ).scalar_one()
        total = next(row["total_amount"] for row in table(shop_client) if row["id"] == other_buyers_order)

        def found(**query: Any) -> set[str]:
            return set(ids(table(shop_client, **query)))

        all_ids = {str(unpaid), paid, other_buyers_order, sold_elsewhere}
        assert found() == found(campus=slug) == all_ids
        assert found(status="pending_payment") == found(escrowStatus="pending") == {str(unpaid)}
        assert found(buyer=str(other.buyer.id)) == {other_buyers_order}
        assert found(vendor=str(elsewhere.store_id)) == {sold_elsewhere}
        assert found(minTotal=total) == {other_buyers_order}
        assert found(maxTotal=total - 1) == all_ids - {other_buyers_order}
        assert found(olderThanHours=9) == {str(unpaid)}
        assert found(olderThanHours=11) == set()
        assert found(**{"from": NOW.isoformat()}) == all_ids - {str(unpaid)}
        assert found(to=NOW.isoformat()) == {str(unpaid)}
        assert found(campus=str(uuid4())) == found(campus="nowhere") == set()

    def test_order_table_shows_stuck_orders_with_reasons(
        self, shop_client: ShopClient, clock: MovableClock
    ) -> None:
        fresh = shop_client.unpaid()
        unaccepted, undelivered, refunded = shop_client.paid(), shop_client.shipped(), shop_client.shipped()
        underpaid = shop_client.unpaid()
        with shop_client.database.transaction() as session:
            settle(session, make_charge(make_intent(session, shop_client.shop, underpaid), amount_minor=5))
            [made] = refund(session, refunded, make_officer(session), amount_minor=1).refunds
            report_refund_status(session, made.id, "failed")
            release(session, shop_client.shop, refunded)

        clock.now = later(hours=23)
        assert set(ids(table(shop_client, stuck="true"))) == {str(underpaid), str(refunded)}
        clock.now = later(days=14)
        rows = {row["id"]: row["stuck"] for row in table(shop_client, stuck="true")}

        assert rows == {
            str(unaccepted): ["not_accepted"],
            str(undelivered): ["not_delivered"],
            str(underpaid): ["payment_held_back"],
            str(refunded): ["refund_failed"],
        }
        assert ids(table(shop_client, stuck="false")) == [str(fresh)]

    def test_order_table_takes_a_constant_number_of_queries(
        self, shop_client: ShopClient, paying_services: Services
    ) -> None:
        headers = shop_client.officer()

        def statements() -> int:
            with counted_statements(paying_services.database) as seen:
                assert (
                    shop_client.get(ADMIN, headers, campus=str(shop_client.shop.campus_id)).status_code == 200
                )
            return len(seen)

        shop_client.paid()
        few = statements()
        for _ in range(5):
            shop_client.paid()

        assert statements() == few <= 6

    def test_csv_contains_all_filtered_rows(
        self, shop_client: ShopClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with shop_client.database.transaction() as session:
            orders = [paid_order(session, shop_client.shop) for _ in range(3)]
            session.execute(
                text("UPDATE profiles SET name = '=1+1' WHERE id = :id"), {"id": shop_client.shop.buyer.id}
            )

        def file(**query: Any) -> list[dict[str, str]]:
            answer = shop_client.get(
                ADMIN, shop_client.officer(), campus=str(shop_client.shop.campus_id), **query
            )
            assert answer.content_type == "text/csv; charset=utf-8"
            assert answer.headers["Content-Disposition"] == 'attachment; filename="orders.csv"'
            return list(csv.DictReader(io.StringIO(answer.text)))

        rows = file(format="csv", limit=1, page=3)
        assert {row["id"] for row in rows} == {str(order_id) for order_id in orders}
        assert {row["buyer"] for row in rows} == {"'=1+1"}
        assert all(row["escrowMinor"] == row["total_amount"] for row in rows)
        assert file(format="csv", status="shipped") == []

    def test_truncated_csv_is_marked(self, shop_client: ShopClient, monkeypatch: pytest.MonkeyPatch) -> None:
        for _ in range(3):
            shop_client.paid()

        def file() -> tuple[int, str | None]:
            answer = shop_client.get(
                ADMIN, shop_client.officer(), campus=str(shop_client.shop.campus_id), format="csv"
            )
            return len(list(csv.DictReader(io.StringIO(answer.text)))), answer.headers.get("X-Truncated")

        monkeypatch.setattr(routes, "MAX_CSV_ROWS", 3)
        assert file() == (3, None)
        monkeypatch.setattr(routes, "MAX_CSV_ROWS", 2)
        assert file() == (2, "true")

    def test_csv_is_sorted_like_table_and_read_in_batches(
        self, shop_client: ShopClient, paying_services: Services, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with shop_client.database.transaction() as session:
            for minor in (3_000, 1_000, 2_000, 5_000, 4_000):
                place(session, shop_client.shop, make_product(session, shop_client.shop, price_minor=minor))
        monkeypatch.setattr(admin_table, "EXPORT_BATCH_SIZE", 2)
        wanted = {"campus": str(shop_client.shop.campus_id), "sort": "total_amount", "order": "asc"}
        shown = ids(table(shop_client, **wanted))
        headers = shop_client.officer()

        with counted_statements(paying_services.database) as seen:
            answer = shop_client.get(ADMIN, headers, format="csv", **wanted)

        assert [row["id"] for row in csv.DictReader(io.StringIO(answer.text))] == shown
        assert len(shown) == 5
        # Three queries for each of three batches, and those for caller, campus and ids.
        assert len(seen) <= 3 * 3 + 4

    @pytest.mark.parametrize(
        ("query", "named"),
        [
            ({"sort": "number"}, ["sort"]),
            ({"order": "up"}, ["order"]),
            ({"status": "lost"}, ["status"]),
            ({"escrowStatus": "gone"}, ["escrowStatus"]),
            ({"campus": ""}, ["campus"]),
            ({"campus": "x" * 81}, ["campus"]),
            ({"vendor": "x"}, ["vendor"]),
            ({"buyer": "x"}, ["buyer"]),
            ({"minTotal": "-1"}, ["minTotal"]),
            ({"maxTotal": "1.5"}, ["maxTotal"]),
            ({"minTotal": "10" * 20}, ["minTotal"]),
            ({"from": "yesterday"}, ["from"]),
            ({"to": "2026-11-20"}, ["to"]),
            ({"owner": "x"}, ["owner"]),
            ({"olderThanHours": "0"}, ["olderThanHours"]),
            ({"stuck": "yes"}, ["stuck"]),
            ({"format": "xml"}, ["format"]),
            ({"limit": "101"}, ["limit"]),
            ({"page": "0"}, ["page"]),
            ({"cursor": "x"}, ["cursor"]),
        ],
        ids=repr,
    )
    def test_invalid_parameters_are_named(
        self, shop_client: ShopClient, query: dict[str, str], named: list[str]
    ) -> None:
        assert faults(shop_client.get(ADMIN, shop_client.officer(), **query)) == named

    @pytest.mark.parametrize("staff_role", ["admin", "orders"])
    def test_officers_with_permission_see_order_table(self, shop_client: ShopClient, staff_role: str) -> None:
        assert shop_client.get(ADMIN, shop_client.officer(staff_role)).status_code == 200
        assert shop_client.get(ADMIN, shop_client.officer(staff_role), format="csv").status_code == 200

    @pytest.mark.parametrize("staff_role", ["finance", "support", "moderator", "compliance", "campus_rep"])
    def test_officers_without_permission_are_refused(self, shop_client: ShopClient, staff_role: str) -> None:
        headers = shop_client.officer(staff_role)
        for query in ({}, {"format": "csv"}, {"page": "0"}):
            assert_problem(shop_client.get(ADMIN, headers, **query), 403, "AUTH_FORBIDDEN")

    def test_buyers_vendors_and_anonymous_callers_are_refused(self, shop_client: ShopClient) -> None:
        for headers in (shop_client.buyer, shop_client.vendor):
            assert_problem(shop_client.get(ADMIN, headers), 403, "AUTH_FORBIDDEN")
        assert_problem(shop_client.client.get(ADMIN), 401, "AUTH_UNAUTHORIZED")


class TestCampus:
    def test_representative_sees_only_paid_orders_of_own_campus(self, shop_client: ShopClient) -> None:
        shop_client.unpaid()
        paid, shipped = shop_client.paid(), shop_client.shipped()
        away = shop_client.database.in_transaction(make_shop)
        there = str(shop_client.database.in_transaction(paid_order, away))
        headers = representative(shop_client, shop_client.shop.campus_id)

        rows = shop_client.get(CAMPUS, headers).json["data"]

        assert ids(rows) == [str(shipped), str(paid)]
        assert (rows[0]["status"], rows[0]["deliveryStatus"]) == ("shipped", "in_transit")
        assert (rows[0]["deliveryMethod"], rows[0]["hub"]) == ("delivery", None)
        assert ids(
            shop_client.get(CAMPUS, headers, campus=str(shop_client.shop.campus_id)).json["data"]
        ) == ids(rows)
        assert_problem(
            shop_client.get(CAMPUS, headers, campus=str(away.campus_id)), 404, "RESOURCE_NOT_FOUND"
        )
        assert shop_client.get(CAMPUS, representative(shop_client, None)).json["data"] == []
        officer = shop_client.officer("support")
        assert ids(shop_client.get(CAMPUS, officer, campus=str(away.campus_id)).json["data"]) == [there]
        assert ids(shop_client.get(CAMPUS, officer, limit=1).json["data"]) == [there]

    def test_pickup_orders_show_hub(self, shop_client: ShopClient) -> None:
        with shop_client.database.transaction() as session:
            hub = Hub(
                campus_id=shop_client.shop.campus_id, name="Gate", address="1 Road", opening_hours="9-5"
            )
            session.add(hub)
            session.flush()
            order_id = place(
                session,
                shop_client.shop,
                make_product(session, shop_client.shop),
                delivery=Delivery("pickup", hub_id=hub.id),
            )
            pay(session, shop_client.shop, order_id)
            hub_id = hub.id
        shop_client.paid()
        headers = representative(shop_client, shop_client.shop.campus_id)

        [row] = shop_client.get(CAMPUS, headers, deliveryMethod="pickup").json["data"]

        assert (row["id"], row["hub"]) == (str(order_id), {"id": str(hub_id), "name": "Gate"})

    def test_pages_stay_consistent_while_orders_arrive(self, shop_client: ShopClient) -> None:
        orders = [str(shop_client.paid()) for _ in range(5)]
        headers = representative(shop_client, shop_client.shop.campus_id)
        seen: list[str] = []
        query: dict[str, Any] = {}
        while True:
            page = shop_client.get(CAMPUS, headers, limit=2, **query).json
            seen += ids(page["data"])
            shop_client.paid()
            if not page["meta"]["has_more"]:
                break
            query = {"cursor": page["meta"]["next_cursor"]}

        assert seen == orders[::-1]
        assert faults(shop_client.get(CAMPUS, headers, status="shipped", **query)) == ["cursor"]

    @pytest.mark.parametrize("query", [{"status": "x"}, {"deliveryMethod": "mail"}, {"campus": ""}], ids=repr)
    def test_invalid_campus_parameters_are_named(
        self, shop_client: ShopClient, query: dict[str, str]
    ) -> None:
        assert faults(shop_client.get(CAMPUS, shop_client.officer(), **query)) == list(query)

    def test_campus_orders_require_staff_and_known_campus(self, shop_client: ShopClient) -> None:
        for headers in (shop_client.buyer, shop_client.vendor):
            assert_problem(shop_client.get(CAMPUS, headers), 403, "AUTH_FORBIDDEN")
        assert_problem(
            shop_client.get(CAMPUS, shop_client.officer(), campus="nowhere"), 404, "RESOURCE_NOT_FOUND"
        )
