"""Campuses and hubs over HTTP: public lists, the operational view, and changes by staff."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import select, text, update
from sqlalchemy.exc import IntegrityError

from blueprints.campuses.schemas import HubView, OperatedHubView
from marketplace.audit.models import AuditLog
from marketplace.identity.models import Profile
from marketplace.kernel.errors import ValidationError
from marketplace.orders.deadlines import HANDOVER_DEADLINE
from marketplace.orders.models import Order
from marketplace.orders.placing.place_order import Delivery
from marketplace.platform.models import Campus, Hub, PublicHoliday
from tests.support.market import Bearer
from tests.support.probes import assert_problem, faults
from tests.support.purchases import NOW, make_campus, make_product, pay, place
from tests.support.resource_usage import counted_statements
from tests.support.shop_client import ShopClient

# The tests' time is Friday, 10:30 in Lagos.
FRIDAY = [{"day": "friday", "opens": "08:00", "closes": "18:00"}]
SATURDAY = [{"day": "saturday", "opens": "10:00", "closes": "14:00"}]
OTHER_ID = "01958b3c-7a10-7c3e-9d52-4f6a8b0c1d2e"
OPERATIONS = "/api/campus/operations"
HOLIDAYS = "/api/admin/public-holidays"
SHIFTS = "/api/admin/rep-shifts"
CAMPUSES = "/api/admin/campuses"


def hub_body(**fields: Any) -> dict[str, Any]:
    return {"name": "Library Hub", "address": "Ground floor", "openingHours": FRIDAY} | fields


@pytest.fixture
def campus(shop_client: ShopClient) -> str:
    return f"/api/campuses/{shop_client.shop.campus_id}"


@pytest.fixture
def administered(shop_client: ShopClient) -> str:
    return f"{CAMPUSES}/{shop_client.shop.campus_id}"


@pytest.fixture
def admin(shop_client: ShopClient) -> dict[str, str]:
    return shop_client.officer("admin")


def add_hub(
    shop_client: ShopClient, administered: str, admin: dict[str, str], **fields: Any
) -> dict[str, Any]:
    answer = shop_client.post(f"{administered}/hubs", admin, hub_body(**fields))
    assert answer.status_code == 201, answer.json
    created: dict[str, Any] = answer.json["data"]
    return created


def make_rep(shop_client: ShopClient, campus_id: UUID | None) -> UUID:
    rep_id = uuid4()
    with shop_client.database.transaction() as session:
        session.add(
            Profile(id=rep_id, role="staff", staff_role="campus_rep", campus_id=campus_id, name="Sade")
        )
    return rep_id


def order_to(shop_client: ShopClient, hub_id: str, *, shipped_ago: timedelta | None = None) -> UUID:
    """Place and pay an order for pickup at a hub, and maybe ship the order."""
    with shop_client.database.transaction() as session:
        product_id = make_product(session, shop_client.shop)
        order_id = place(
            session, shop_client.shop, product_id, delivery=Delivery("pickup", hub_id=UUID(hub_id))
        )
        pay(session, shop_client.shop, order_id)
        if shipped_ago is not None:
            session.execute(
                update(Order)
                .where(Order.id == order_id)
                .values(status="shipped", accepted_at=NOW, shipped_at=NOW - shipped_ago)
            )
    return order_id


class TestPublicLists:
    def test_active_campuses_are_listed_by_name(self, shop_client: ShopClient, admin: dict[str, str]) -> None:
        slug = f"aaa-{uuid4().hex[:8]}"
        created = shop_client.post(CAMPUSES, admin, {"name": "AAA Campus", "slug": slug}).json["data"]
        wanted = {"id": created["id"], "name": "AAA Campus", "slug": slug}

        answer = shop_client.get("/api/campuses", {}, limit=100)

        assert answer.headers["Cache-Control"] == "no-store"
        assert wanted in answer.json["data"]
        names = [row["name"] for row in answer.json["data"]]
        assert names == sorted(names)
        shop_client.put(f"{CAMPUSES}/{created['id']}", admin, {"active": False})
        assert wanted not in shop_client.get("/api/campuses", {}, limit=100).json["data"]
        assert_problem(shop_client.get(f"/api/campuses/{slug}/hubs", {}), 404, "RESOURCE_NOT_FOUND")

    def test_hubs_show_hours_and_opening_status(
        self, shop_client: ShopClient, campus: str, administered: str, admin: dict[str, str]
    ) -> None:
        add_hub(shop_client, administered, admin, name="Hub A")
        add_hub(shop_client, administered, admin, name="Hub B", openingHours=SATURDAY)
        with shop_client.database.transaction() as session:
            session.add(
                Hub(campus_id=shop_client.shop.campus_id, name="Hub C", address="Gate", opening_hours="8-18")
            )
            slug = session.get_one(Campus, shop_client.shop.campus_id).slug

        answer = shop_client.get(f"{campus}/hubs", {})

        hubs = answer.json["data"]
        assert not HubView(many=True).validate(hubs)
        shown = [(hub["openNow"], hub["opensAt"], hub["closesAt"], hub["openingHours"]) for hub in hubs]
        assert shown == [
            (True, None, "2026-11-20T17:00:00Z", FRIDAY),
            (False, "2026-11-21T09:00:00Z", None, SATURDAY),
            (None, None, None, None),
        ]
        assert shop_client.get(f"/api/campuses/{slug}/hubs", {}).json["data"] == hubs

    def test_public_holiday_closes_hubs_of_campus(
        self, shop_client: ShopClient, campus: str, administered: str, admin: dict[str, str]
    ) -> None:
        add_hub(shop_client, administered, admin)
        holiday = {
            "date": "2026-11-20",
            "name": "Founders' Day",
            "campusId": str(shop_client.shop.campus_id),
        }
        created = shop_client.post(HOLIDAYS, admin, holiday).json["data"]

        [hub] = shop_client.get(f"{campus}/hubs", {}).json["data"]
        assert (hub["openNow"], hub["holiday"]) == (False, "Founders' Day")
        assert hub["opensAt"] == "2026-11-27T07:00:00Z"

        shop_client.put(f"{HOLIDAYS}/{created['id']}", admin, {"active": False, "revision": 1})
        [hub] = shop_client.get(f"{campus}/hubs", {}).json["data"]
        assert (hub["openNow"], hub["holiday"]) == (True, None)

    def test_place_of_client_sorts_hubs_by_distance(
        self, shop_client: ShopClient, campus: str, administered: str, admin: dict[str, str]
    ) -> None:
        add_hub(shop_client, administered, admin, name="Hub A", latitude=6.52, longitude=3.39)
        add_hub(shop_client, administered, admin, name="Hub B", latitude=6.516, longitude=3.39)
        add_hub(shop_client, administered, admin, name="Hub C")
        seen, query = [], {"lat": "6.5155", "lng": "3.39", "limit": "1"}
        while True:
            page = shop_client.get(f"{campus}/hubs", {}, **query).json
            seen += [(hub["name"], hub["distanceMeters"]) for hub in page["data"]]
            if not page["meta"]["next_cursor"]:
                break
            query["cursor"] = page["meta"]["next_cursor"]

        assert seen == [("Hub B", 56), ("Hub A", 500), ("Hub C", None)]
        by_name = shop_client.get(f"{campus}/hubs", {}).json["data"]
        assert [(hub["name"], hub["distanceMeters"]) for hub in by_name] == [
            ("Hub A", None),
            ("Hub B", None),
            ("Hub C", None),
        ]

    @pytest.mark.parametrize(
        "query",
        [
            {"lat": "6.5"},
            {"lng": "3.3"},
            {"lat": "90.1", "lng": "0"},
            {"lat": "0", "lng": "-180.1"},
            {"lat": "nan", "lng": "0"},
            {"lat": "1e1", "lng": "0"},
            {"lat": "", "lng": "0"},
            {"lat": "\u0661", "lng": "0"},
        ],
    )
    def test_invalid_place_is_refused(
        self, shop_client: ShopClient, campus: str, query: dict[str, str]
    ) -> None:
        assert_problem(shop_client.get(f"{campus}/hubs", {}, **query), 422, "VALIDATION_FAILED")

    @pytest.mark.parametrize("query", [{"lat": "90", "lng": "-180"}, {"lat": "-90.000", "lng": "180"}])
    def test_extreme_place_is_accepted(
        self, shop_client: ShopClient, campus: str, query: dict[str, str]
    ) -> None:
        assert shop_client.get(f"{campus}/hubs", {}, **query).json["data"] == []

    @pytest.mark.parametrize("campus_id", [OTHER_ID, "no-such-campus", "x" * 500, "%00"])
    def test_unknown_campus_is_not_found(self, shop_client: ShopClient, campus_id: str) -> None:
        answer = shop_client.get(f"/api/campuses/{campus_id}/hubs", {})
        assert answer.status_code in (404, 422)


class TestOperations:
    def test_hub_shows_pickups_shifts_and_status(
        self, shop_client: ShopClient, administered: str, admin: dict[str, str], bearer: Bearer
    ) -> None:
        hub = add_hub(shop_client, administered, admin)
        other = add_hub(shop_client, administered, admin, name="Other")
        order_to(shop_client, hub["id"])
        order_to(shop_client, hub["id"], shipped_ago=HANDOVER_DEADLINE)
        order_to(shop_client, hub["id"], shipped_ago=HANDOVER_DEADLINE + timedelta(seconds=1))
        rep_id = make_rep(shop_client, shop_client.shop.campus_id)
        for day, starts, ends in (("friday", "10:30", "11:00"), ("friday", "09:00", "10:30")):
            shift = {"hubId": hub["id"], "userId": str(rep_id), "day": day, "starts": starts, "ends": ends}
            assert shop_client.post(SHIFTS, admin, shift).status_code == 201

        answer = shop_client.get(f"{OPERATIONS}/hubs", bearer(rep_id))

        rows = answer.json["data"]
        assert not OperatedHubView(many=True).validate(rows)
        first, second = rows
        assert [row["id"] for row in rows] == [hub["id"], other["id"]]
        counts = ("waitingPickups", "awaitingHandover", "overdueHandovers", "repsOnDuty")
        assert [first[name] for name in counts] == [3, 2, 1, 1]
        assert [(shift["starts"], shift["onDuty"]) for shift in first["shifts"]] == [
            ("09:00", False),
            ("10:30", True),
        ]
        assert first["shifts"][0]["rep"] == {"id": str(rep_id), "name": "Sade"}
        assert [second[name] for name in counts] == [0, 0, 0, 0]

        # Representatives who lose their role are off duty.
        with shop_client.database.transaction() as session:
            session.execute(update(Profile).where(Profile.id == rep_id).values(account_status="suspended"))
        campus_slug = shop_client.shop.campus_id
        row = shop_client.get(f"{OPERATIONS}/hubs", admin, campus=str(campus_slug)).json["data"][0]
        assert (row["repsOnDuty"], row["shifts"]) == (0, [])

    def test_representative_sees_only_own_campus(
        self, shop_client: ShopClient, administered: str, admin: dict[str, str], bearer: Bearer
    ) -> None:
        hub = add_hub(shop_client, administered, admin)
        away = shop_client.database.in_transaction(make_campus)
        add_hub(shop_client, f"{CAMPUSES}/{away}", admin)
        rep = bearer(make_rep(shop_client, shop_client.shop.campus_id))

        def listed(headers: dict[str, str], **query: Any) -> list[str]:
            return [row["id"] for row in shop_client.get(f"{OPERATIONS}/hubs", headers, **query).json["data"]]

        assert listed(rep) == [hub["id"]]
        assert listed(rep, campus=str(shop_client.shop.campus_id)) == [hub["id"]]
        for unseen in (str(away), str(uuid4()), "no-such"):
            assert_problem(
                shop_client.get(f"{OPERATIONS}/hubs", rep, campus=unseen), 404, "RESOURCE_NOT_FOUND"
            )
        assert listed(bearer(make_rep(shop_client, None))) == []
        assert len(listed(shop_client.officer("support"), campus=str(away))) == 1

    def test_list_takes_constant_number_of_queries(
        self, shop_client: ShopClient, campus: str, administered: str, admin: dict[str, str], bearer: Bearer
    ) -> None:
        rep = bearer(make_rep(shop_client, shop_client.shop.campus_id))
        counts = []
        for path in (f"{OPERATIONS}/hubs", f"{campus}/hubs"):
            for hub_count in (1, 3):
                while len(shop_client.get(f"{campus}/hubs", {}).json["data"]) < hub_count:
                    order_to(shop_client, add_hub(shop_client, administered, admin, name=uuid4().hex)["id"])
                with counted_statements(
                    shop_client.client.application.extensions["marketplace"].database
                ) as statements:
                    shop_client.get(path, rep)
                counts.append(len(statements))
        assert counts[0] == counts[1] <= 5
        assert counts[2] == counts[3] <= 4

    def test_shift_of_other_people_or_times_is_refused(
        self, shop_client: ShopClient, administered: str, admin: dict[str, str]
    ) -> None:
        hub = add_hub(shop_client, administered, admin)
        away = shop_client.database.in_transaction(make_campus)
        rep_id = make_rep(shop_client, shop_client.shop.campus_id)
        shift = {
            "hubId": hub["id"],
            "userId": str(rep_id),
            "day": "monday",
            "starts": "09:00",
            "ends": "12:00",
        }

        def refused(status: int, **changes: Any) -> list[str]:
            answer = shop_client.post(SHIFTS, admin, shift | changes)
            assert answer.status_code == status, answer.json
            return faults(answer) if status == 422 else []

        assert refused(422, userId=str(shop_client.shop.buyer.id)) == ["userId"]
        assert refused(422, userId=str(make_rep(shop_client, away))) == ["userId"]
        assert refused(422, hubId=str(uuid4())) == ["hubId"]
        assert refused(422, ends="09:00") == ["ends"]
        assert refused(422, ends="24:01") == ["ends"]
        created = shop_client.post(SHIFTS, admin, shift).json["data"]
        answer = shop_client.post(SHIFTS, admin, shift | {"starts": "11:59", "ends": "13:00"})
        assert assert_problem(answer, 409, "CONCURRENCY_CONFLICT")["reason"] == "shifts-overlap"
        assert shop_client.client.delete(f"{SHIFTS}/{created['id']}", headers=admin).status_code == 200
        again = shop_client.client.delete(f"{SHIFTS}/{created['id']}", headers=admin)
        assert_problem(again, 404, "RESOURCE_NOT_FOUND")


class TestStaffChanges:
    def test_campus_is_created_once_and_changed_by_revision(
        self, shop_client: ShopClient, admin: dict[str, str]
    ) -> None:
        body = {"name": "East Campus", "slug": f"east-{uuid4().hex[:8]}"}
        created = shop_client.post(CAMPUSES, admin, body)
        assert created.status_code == 201
        path = f"{CAMPUSES}/{created.json['data']['id']}"
        again = shop_client.post(CAMPUSES, admin, body)
        assert assert_problem(again, 409, "CONCURRENCY_CONFLICT")["reason"] == "campus-slug-taken"

        renamed = shop_client.put(path, admin, {"name": "Far East", "revision": 1}).json["data"]
        assert (renamed["name"], renamed["revision"]) == ("Far East", 2)
        stale = shop_client.put(path, admin, {"name": "Near East", "revision": 1})
        assert assert_problem(stale, 409, "CONCURRENCY_CONFLICT")["reason"] == "stale-revision"
        with shop_client.database.reading() as session:
            entries = session.scalars(
                select(AuditLog).where(AuditLog.target_id == renamed["id"]).order_by(AuditLog.id)
            ).all()
        assert [entry.action for entry in entries] == ["campus.create", "campus.change"]
        assert entries[1].before["name"] == "East Campus"  # type: ignore[index]
        assert entries[1].after["name"] == "Far East"  # type: ignore[index]

    def test_domain_is_added_and_removed(
        self, shop_client: ShopClient, administered: str, admin: dict[str, str]
    ) -> None:
        domain = f"{uuid4().hex}.edu.ng"
        added = shop_client.post(f"{administered}/domains", admin, {"domain": domain.upper()})
        assert added.json["data"]["domains"] == [domain]
        again = shop_client.post(f"{administered}/domains", admin, {"domain": domain})
        assert assert_problem(again, 409, "CONCURRENCY_CONFLICT")["reason"] == "email-domain-taken"
        refused = shop_client.post(f"{administered}/domains", admin, {"domain": "gmail.com"})
        assert faults(refused) == ["domain"]
        shop_client.put(administered, admin, {"name": "AAA North"})
        listed = shop_client.get(CAMPUSES, admin, limit=100).json["data"]
        assert [domain] in [row["domains"] for row in listed]

        removed = shop_client.client.delete(f"{administered}/domains/{domain}", headers=admin)
        assert removed.json["data"] == {"domain": domain, "deleted": True}
        assert_problem(
            shop_client.client.delete(f"{administered}/domains/{domain}", headers=admin),
            404,
            "RESOURCE_NOT_FOUND",
        )

    def test_closed_hub_takes_no_new_orders_and_keeps_open_ones(
        self, shop_client: ShopClient, campus: str, administered: str, admin: dict[str, str]
    ) -> None:
        hub = add_hub(shop_client, administered, admin)
        path = f"{administered}/hubs/{hub['id']}"
        order_id = order_to(shop_client, hub["id"])

        closed = shop_client.put(path, admin, {"active": False, "revision": 1}).json["data"]

        assert (closed["active"], closed["revision"]) == (False, 2)
        assert shop_client.get(f"{campus}/hubs", {}).json["data"] == []
        with pytest.raises(ValidationError, match="hub"):
            order_to(shop_client, hub["id"])
        order = shop_client.get(f"/api/orders/{order_id}", shop_client.buyer).json["data"]
        assert order["shippingAddress"]["hubId"] == hub["id"]
        [row] = shop_client.get(f"{OPERATIONS}/hubs", admin, campus=str(shop_client.shop.campus_id)).json[
            "data"
        ]
        assert (row["active"], row["waitingPickups"]) == (False, 1)
        shop_client.put(path, admin, {"active": True})
        order_to(shop_client, hub["id"])

    def test_closed_campus_is_kept_and_not_chosen(
        self, shop_client: ShopClient, administered: str, admin: dict[str, str]
    ) -> None:
        campus_id = str(shop_client.shop.campus_id)
        with shop_client.database.transaction() as session:
            session.get_one(Profile, shop_client.shop.buyer.id).campus_id = None
            session.get_one(Profile, shop_client.shop.vendor.id).campus_id = shop_client.shop.campus_id
        shop_client.put(administered, admin, {"active": False})

        chosen = shop_client.put("/api/users/me", shop_client.buyer, {"campusId": campus_id})
        kept = shop_client.put("/api/users/me", shop_client.vendor, {"campusId": campus_id})

        assert faults(chosen) == ["campusId"]
        assert kept.json["data"]["campus"]["id"] == campus_id

    def test_hub_of_closed_campus_takes_no_new_orders(
        self, shop_client: ShopClient, administered: str, admin: dict[str, str]
    ) -> None:
        hub = add_hub(shop_client, administered, admin)
        order_to(shop_client, hub["id"])

        shop_client.put(administered, admin, {"active": False})

        with pytest.raises(ValidationError, match="hub"):
            order_to(shop_client, hub["id"])

    def test_name_of_active_hub_is_unique_on_campus(
        self, shop_client: ShopClient, administered: str, admin: dict[str, str]
    ) -> None:
        first = add_hub(shop_client, administered, admin)
        again = shop_client.post(f"{administered}/hubs", admin, hub_body(name="LIBRARY HUB"))
        assert assert_problem(again, 409, "CONCURRENCY_CONFLICT")["reason"] == "hub-name-taken"
        away = shop_client.database.in_transaction(make_campus)
        add_hub(shop_client, f"{CAMPUSES}/{away}", admin)
        shop_client.put(f"{administered}/hubs/{first['id']}", admin, {"active": False})
        add_hub(shop_client, administered, admin)
        back = shop_client.put(f"{administered}/hubs/{first['id']}", admin, {"active": True})
        assert assert_problem(back, 409, "CONCURRENCY_CONFLICT")["reason"] == "hub-name-taken"

    def test_hub_of_other_campus_is_not_found(
        self, shop_client: ShopClient, administered: str, admin: dict[str, str]
    ) -> None:
        away = shop_client.database.in_transaction(make_campus)
        hub = add_hub(shop_client, f"{CAMPUSES}/{away}", admin)
        for path in (
            f"{administered}/hubs/{hub['id']}",
            f"{administered}/hubs/{uuid4()}",
            f"{CAMPUSES}/{uuid4()}/hubs/{hub['id']}",
        ):
            assert_problem(shop_client.put(path, admin, {"name": "Mine"}), 404, "RESOURCE_NOT_FOUND")

    def test_fields_of_hub_can_be_cleared(
        self, shop_client: ShopClient, administered: str, admin: dict[str, str]
    ) -> None:
        hub = add_hub(shop_client, administered, admin, latitude=6.5, longitude=3.3)
        path = f"{administered}/hubs/{hub['id']}"

        assert faults(shop_client.put(path, admin, {"clear": ["latitude"]})) == ["latitude"]
        cleared = shop_client.put(path, admin, {"clear": ["latitude", "longitude", "openingHours"]}).json[
            "data"
        ]

        assert [cleared[name] for name in ("latitude", "longitude", "openingHours", "openNow")] == [None] * 4

    @pytest.mark.parametrize(
        ("fields", "fault"),
        [
            ({"name": "x"}, "name"),
            ({"name": "x" * 81}, "name"),
            ({"address": "x" * 201}, "address"),
            ({"latitude": 6.5}, "longitude"),
            ({"latitude": 90.1, "longitude": 0}, "latitude"),
            ({"latitude": True, "longitude": 0}, "latitude"),
            ({"openingHours": None}, "openingHours"),
            ({"openingHours": FRIDAY * 2}, "openingHours[1]"),
            ({"openingHours": [FRIDAY[0] | {"closes": "07:00"}]}, "openingHours[0]"),
            ({"openingHours": [FRIDAY[0] | {"day": "someday"}]}, "openingHours[0].day"),
            ({"active": False}, "active"),
            ({"revision": 7}, "revision"),
            ({"campusId": OTHER_ID}, "campusId"),
        ],
    )
    def test_invalid_hub_is_refused(
        self,
        shop_client: ShopClient,
        administered: str,
        admin: dict[str, str],
        fields: dict[str, Any],
        fault: str,
    ) -> None:
        answer = shop_client.post(f"{administered}/hubs", admin, hub_body(**fields))
        assert_problem(answer, 422, "VALIDATION_FAILED")
        assert faults(answer) == [fault]

    @pytest.mark.parametrize(
        ("body", "fault"),
        [
            ({"name": "x", "slug": "ok-slug"}, "name"),
            ({"name": "x" * 101, "slug": "ok-slug"}, "name"),
            *(
                ({"name": "East", "slug": slug}, "slug")
                for slug in ("x", "x" * 61, "A-b", "a--b", "a b", "-a")
            ),
            ({"name": "East", "slug": OTHER_ID}, "slug"),
        ],
    )
    def test_invalid_campus_is_refused(
        self, shop_client: ShopClient, admin: dict[str, str], body: dict[str, Any], fault: str
    ) -> None:
        assert faults(shop_client.post(CAMPUSES, admin, body)) == [fault]

    def test_holidays_are_listed_by_date_and_unique(
        self, shop_client: ShopClient, admin: dict[str, str]
    ) -> None:
        name = f"Day {uuid4().hex[:8]}"
        body = {"date": "2030-02-28", "name": name, "campusId": str(shop_client.shop.campus_id)}
        created = shop_client.post(HOLIDAYS, admin, body).json["data"]
        again = shop_client.post(HOLIDAYS, admin, body)
        assert assert_problem(again, 409, "CONCURRENCY_CONFLICT")["reason"] == "holiday-exists"
        query = {"from": "2030-02-28", "limit": 1}
        assert shop_client.get(HOLIDAYS, admin, **query).json["data"] == [created]
        for date in ("2019-12-31", "2101-01-01", "2030-02-29", "yesterday"):
            assert faults(shop_client.post(HOLIDAYS, admin, body | {"date": date})) == ["date"]
        with shop_client.database.transaction() as session:
            session.delete(session.get_one(PublicHoliday, UUID(created["id"])))


STAFF_ROUTES = [
    ("GET", CAMPUSES),
    ("POST", CAMPUSES),
    ("PUT", f"{CAMPUSES}/{{id}}"),
    ("POST", f"{CAMPUSES}/{{id}}/domains"),
    ("DELETE", f"{CAMPUSES}/{{id}}/domains/example.edu"),
    ("POST", f"{CAMPUSES}/{{id}}/hubs"),
    ("PUT", f"{CAMPUSES}/{{id}}/hubs/{{id}}"),
    ("POST", SHIFTS),
    ("DELETE", f"{SHIFTS}/{{id}}"),
    ("POST", HOLIDAYS),
    ("PUT", f"{HOLIDAYS}/{{id}}"),
]


def test_staff_routes_refuse_every_other_caller(shop_client: ShopClient, bearer: Bearer) -> None:
    campus_id = shop_client.shop.campus_id
    others = [
        shop_client.buyer,
        shop_client.vendor,
        bearer(make_rep(shop_client, campus_id)),
        *(shop_client.officer(role) for role in ("finance", "orders", "support", "moderator", "compliance")),
    ]
    for method, path in STAFF_ROUTES:
        url = path.format(id=campus_id)
        body = None if method in ("GET", "DELETE") else {}
        assert shop_client.client.open(url, method=method, json=body).status_code == 401
        for headers in others:
            answer = shop_client.client.open(url, method=method, json=body, headers=headers)
            assert_problem(answer, 403, "AUTH_FORBIDDEN")
    for url in (f"{OPERATIONS}/hubs", HOLIDAYS):
        for headers in (shop_client.buyer, shop_client.vendor):
            assert_problem(shop_client.get(url, headers), 403, "AUTH_FORBIDDEN")


@pytest.mark.parametrize(
    "hours",
    [
        '{"day": "monday"}',
        '[{"day": "monday", "opens": "08:00"}]',
        '["monday"]',
        '[{"day": "mon", "opens": "08:00", "closes": "09:00"}]',
        '[{"day": "monday", "opens": "09:00", "closes": "09:00"}]',
        '[{"day": "monday", "opens": "08:00", "closes": "24:01"}]',
        '[{"day":"monday","opens":"08:00","closes":"12:00"}, {"day":"monday","opens":"11:59","closes":"13:00"}]',
    ],
)
def test_database_refuses_malformed_hours(shop_client: ShopClient, hours: str) -> None:
    with (
        pytest.raises(IntegrityError, match="ck_hubs_weekly_hours"),
        shop_client.database.transaction() as session,
    ):
        session.execute(
            text(
                "INSERT INTO hubs (campus_id, name, address, opening_hours, weekly_hours)"
                " VALUES (:campus, 'Hub', 'Gate', '', CAST(:hours AS jsonb))"
            ),
            {"campus": shop_client.shop.campus_id, "hours": hours},
        )
