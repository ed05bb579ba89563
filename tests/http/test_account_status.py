"""Restrictions, suspensions and appeals over HTTP: staff, the person, the store, and the end of a decision."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from blueprints.people.schemas import AppealView, OwnAccountStatus, PersonView
from marketplace.audit.person_keys import unseal
from marketplace.identity.models import Profile
from marketplace.infra.db import Database
from marketplace.people.account_status import end_due_decisions
from tests.support.gateway import MovableClock
from tests.support.market import Bearer
from tests.support.probes import assert_problem, faults
from tests.support.purchases import NOW, later, make_person, row_of
from tests.support.shop_client import ShopClient
from tests.support.store_profiles import format_time, profile_path

PEOPLE = "/api/admin/users"
APPEALS = "/api/admin/appeals"
STATUS = "/api/users/me/account-status"
APPEAL = "/api/users/me/appeal"
REASON = "Several buyers reported counterfeit phones."
MESSAGE = {"message": "I have the receipts of all phones that I sold."}


def make_admin(database: Database) -> UUID:
    return database.in_transaction(make_person, role="staff", staff_role="admin").id


@pytest.fixture
def officer(database: Database, bearer: Bearer) -> dict[str, str]:
    return bearer(make_admin(database))


@pytest.fixture
def other_officer(database: Database, bearer: Bearer) -> dict[str, str]:
    return bearer(make_admin(database))


@pytest.fixture
def vendor_id(shop_client: ShopClient) -> UUID:
    return shop_client.shop.vendor.id


def decide(
    shop_client: ShopClient, officer: dict[str, str], user_id: UUID, action: str, **fields: Any
) -> Any:
    return shop_client.post(f"{PEOPLE}/{user_id}/{action}", officer, {"reason": REASON} | fields)


def bar(shop_client: ShopClient, officer: dict[str, str], user_id: UUID, action: str, **fields: Any) -> Any:
    answer = decide(shop_client, officer, user_id, action, **fields)
    assert answer.status_code == 200, answer.json
    data = answer.json["data"]
    assert not PersonView().validate(data)
    return data


def own_status(shop_client: ShopClient, headers: dict[str, str]) -> Any:
    answer = shop_client.get(STATUS, headers)
    assert answer.status_code == 200, answer.json
    data = answer.json["data"]
    assert not OwnAccountStatus().validate(data)
    return data


def notified_of(database: Database, user_id: UUID) -> list[str]:
    with database.reading() as session:
        rows = session.execute(
            text("SELECT type FROM notifications WHERE user_id = :id ORDER BY id"), {"id": user_id}
        )
        return [row.type for row in rows]


class TestDecision:
    @pytest.mark.parametrize(("action", "status"), [("restrict", "restricted"), ("suspend", "suspended")])
    def test_decision_bars_the_person_and_is_shown_with_reason_and_end(
        self,
        shop_client: ShopClient,
        database: Database,
        officer: dict[str, str],
        vendor_id: UUID,
        action: str,
        status: str,
    ) -> None:
        until = format_time(later(days=7))
        assert own_status(shop_client, shop_client.vendor) == {
            "status": "active",
            **dict.fromkeys(("reason", "since", "until", "allowed", "appeal")),
            "canAppeal": False,
        }

        person = bar(shop_client, officer, vendor_id, action, until=until)

        assert (person["accountStatus"], person["statusReason"], person["statusUntil"]) == (
            status,
            REASON,
            until,
        )
        [decision] = person["decisions"]
        assert (decision["status"], decision["endedAt"], decision["appealId"]) == (status, None, None)
        assert own_status(shop_client, shop_client.vendor) == {
            "status": status,
            "reason": REASON,
            "since": format_time(NOW),
            "until": until,
            "allowed": ["profile", "paid_orders", "notifications", "appeal"],
            "canAppeal": True,
            "appeal": None,
        }
        refused = shop_client.get("/api/users/me/addresses", shop_client.vendor)
        assert assert_problem(refused, 403, "AUTH_FORBIDDEN")["reason"] == "account-not-active"
        assert notified_of(database, vendor_id) == [f"account_{status}"]
        with database.reading() as session:
            entry = row_of(session, "audit_logs", action="person.status", target_id=str(vendor_id))
            assert entry["before"]["accountStatus"] == "active"
            assert entry["after"]["accountStatus"] == status
            assert unseal(session, entry["after"]["reason"]) == REASON

    def test_same_status_twice_is_refused_and_another_status_replaces_the_decision(
        self, shop_client: ShopClient, officer: dict[str, str], vendor_id: UUID
    ) -> None:
        bar(shop_client, officer, vendor_id, "restrict")
        refused = decide(shop_client, officer, vendor_id, "restrict")
        assert assert_problem(refused, 409, "CONCURRENCY_CONFLICT")["reason"] == "account-status-unchanged"

        person = bar(shop_client, officer, vendor_id, "suspend")
        assert [decision["endedHow"] for decision in person["decisions"]] == [None, "replaced"]
        bar(shop_client, officer, vendor_id, "reinstate")
        refused = decide(shop_client, officer, vendor_id, "reinstate")
        assert "already active" in assert_problem(refused, 409, "CONCURRENCY_CONFLICT")["detail"]

    def test_officer_cannot_decide_about_the_own_account(
        self, shop_client: ShopClient, database: Database, bearer: Bearer
    ) -> None:
        officer_id = make_admin(database)
        for action in ("restrict", "suspend", "reinstate"):
            refused = decide(shop_client, bearer(officer_id), officer_id, action)
            assert assert_problem(refused, 403, "AUTH_FORBIDDEN")["reason"] == "conflict-of-interest"

    @pytest.mark.parametrize(
        ("fields", "name"),
        [
            ({"reason": "Too short"}, "reason"),
            ({"reason": "x" * 501}, "reason"),
            ({"until": format_time(NOW)}, "until"),
            ({"until": "tomorrow"}, "until"),
            ({"role": "buyer"}, "role"),
        ],
    )
    def test_faulty_decision_is_refused(
        self,
        shop_client: ShopClient,
        officer: dict[str, str],
        vendor_id: UUID,
        fields: dict[str, Any],
        name: str,
    ) -> None:
        assert faults(decide(shop_client, officer, vendor_id, "restrict", **fields)) == [name]

    def test_other_staff_and_unknown_people_are_refused(
        self, shop_client: ShopClient, officer: dict[str, str], vendor_id: UUID
    ) -> None:
        for headers in (shop_client.buyer, shop_client.officer("support")):
            assert_problem(decide(shop_client, headers, vendor_id, "suspend"), 403, "AUTH_FORBIDDEN")
        assert_problem(decide(shop_client, officer, uuid4(), "suspend"), 404, "RESOURCE_NOT_FOUND")

    def test_concurrent_decisions_leave_a_single_decision(
        self, shop_client: ShopClient, officer: dict[str, str], vendor_id: UUID
    ) -> None:
        with ThreadPoolExecutor(4) as pool:
            answers = list(
                pool.map(lambda _: decide(shop_client, officer, vendor_id, "suspend").status_code, range(4))
            )
        assert sorted(answers) == [200, 409, 409, 409]


class TestStore:
    def test_store_is_hidden_and_closed_with_the_owner_and_reopens(
        self, shop_client: ShopClient, officer: dict[str, str], vendor_id: UUID
    ) -> None:
        product_id = shop_client.product()
        listed = {"vendor": str(shop_client.shop.store_id)}

        def is_public() -> tuple[int, int, int]:
            listing = shop_client.client.get("/api/products", query_string=listed)
            return (
                len(listing.json["data"]) if listing.status_code == 200 else 0,
                shop_client.client.get(profile_path(shop_client)).status_code,
                shop_client.client.get(f"/api/products/{product_id}").status_code,
            )

        assert is_public() == (1, 200, 200)
        bar(shop_client, officer, vendor_id, "restrict")
        assert is_public() == (0, 404, 404)
        order = {"items": [{"productId": str(product_id), "quantity": 1}], "hostel": "x"}
        assert shop_client.post("/api/orders", shop_client.buyer, order).status_code == 422

        bar(shop_client, officer, vendor_id, "reinstate")
        assert is_public() == (1, 200, 200)

    def test_store_that_staff_closed_before_stays_closed(
        self, shop_client: ShopClient, database: Database, officer: dict[str, str], vendor_id: UUID
    ) -> None:
        with database.transaction() as session:
            session.execute(
                text("UPDATE vendor_profiles SET status = 'closed' WHERE user_id = :id"), {"id": vendor_id}
            )
        bar(shop_client, officer, vendor_id, "suspend")
        bar(shop_client, officer, vendor_id, "reinstate")
        with database.reading() as session:
            store = row_of(session, "vendor_profiles", user_id=vendor_id)
        assert (store["status"], store["suspended_with_owner"]) == ("closed", False)


class TestEnd:
    def test_decision_ends_at_its_time_for_person_and_store(
        self,
        shop_client: ShopClient,
        database: Database,
        officer: dict[str, str],
        vendor_id: UUID,
        clock: MovableClock,
    ) -> None:
        bar(shop_client, officer, vendor_id, "suspend", until=format_time(later(days=1)))
        clock.now = later(days=1) - timedelta(seconds=1)
        assert own_status(shop_client, shop_client.vendor)["status"] == "suspended"
        assert end_due_decisions(database, now=clock.now) == 0

        # At once for the person, and for the store with the next run of the task.
        clock.now = later(days=1)
        assert own_status(shop_client, shop_client.vendor)["status"] == "active"
        assert shop_client.get("/api/users/me/addresses", shop_client.vendor).status_code == 200
        assert end_due_decisions(database, now=clock.now) >= 1
        assert end_due_decisions(database, now=clock.now) == 0
        assert shop_client.client.get(profile_path(shop_client)).status_code == 200
        assert notified_of(database, vendor_id)[-1] == "account_reinstated"

    def test_decision_past_its_end_gives_way_before_the_task_runs(
        self, shop_client: ShopClient, officer: dict[str, str], vendor_id: UUID, clock: MovableClock
    ) -> None:
        bar(shop_client, officer, vendor_id, "restrict", until=format_time(later(days=1)))
        clock.now = later(days=2)
        person = bar(shop_client, officer, vendor_id, "restrict")
        assert [decision["endedHow"] for decision in person["decisions"]] == [None, "expired"]


class TestPaidOrders:
    def test_barred_parties_complete_paid_orders_only(
        self, shop_client: ShopClient, officer: dict[str, str], vendor_id: UUID
    ) -> None:
        unpaid, paid, other = shop_client.unpaid(), shop_client.paid(), shop_client.paid()
        for user_id in (vendor_id, shop_client.shop.buyer.id):
            bar(shop_client, officer, user_id, "suspend")
        buyer, vendor = shop_client.buyer, shop_client.vendor

        listed = [order["id"] for order in shop_client.get("/api/orders", buyer).json["data"]]
        assert {str(paid), str(other)} <= set(listed)
        assert str(unpaid) not in listed
        for path in ("", "/items", "/events", "/money"):
            assert shop_client.get(f"/api/orders/{paid}{path}", buyer).status_code == 200
            refused = shop_client.get(f"/api/orders/{unpaid}{path}", buyer)
            assert "paid orders only" in assert_problem(refused, 403, "AUTH_FORBIDDEN")["detail"]
        assert_problem(shop_client.post(f"/api/orders/{unpaid}/cancel", buyer), 403, "AUTH_FORBIDDEN")
        assert_problem(shop_client.post(f"/api/orders/{unpaid}/confirm", buyer), 403, "AUTH_FORBIDDEN")

        assert shop_client.get("/api/orders/vendor", vendor).status_code == 200
        assert shop_client.get("/api/orders/vendor/counts", vendor).status_code == 200
        assert shop_client.post(f"/api/orders/{paid}/accept", vendor).status_code == 200
        assert (
            shop_client.post(f"/api/orders/{paid}/status", vendor, {"status": "shipped"}).status_code == 200
        )
        assert shop_client.post(f"/api/orders/{paid}/confirm", buyer).status_code == 200
        assert shop_client.post(f"/api/orders/{other}/cancel", vendor).status_code == 200

    def test_barred_officer_sees_no_orders_of_others(
        self, shop_client: ShopClient, database: Database, bearer: Bearer
    ) -> None:
        with database.transaction() as session:
            staff_id = make_person(session, role="staff", staff_role="orders").id
            session.get_one(Profile, staff_id).account_status = "suspended"
        order_id = shop_client.paid()
        assert_problem(
            shop_client.get(f"/api/orders/{order_id}", bearer(staff_id)), 404, "RESOURCE_NOT_FOUND"
        )


class TestAppeal:
    def appeal(self, shop_client: ShopClient) -> UUID:
        answer = shop_client.post(APPEAL, shop_client.vendor, MESSAGE)
        assert answer.status_code == 201, answer.json
        assert not OwnAccountStatus().validate(answer.json["data"])
        with shop_client.database.reading() as session:
            return UUID(
                str(
                    session.execute(
                        text(
                            "SELECT a.id FROM account_appeals a JOIN account_decisions d ON d.id = a.decision_id"
                            " WHERE d.user_id = :id ORDER BY a.id DESC LIMIT 1"
                        ),
                        {"id": shop_client.shop.vendor.id},
                    ).scalar_one()
                )
            )

    def rule(self, shop_client: ShopClient, headers: dict[str, str], appeal_id: UUID, outcome: str) -> Any:
        body = {"outcome": outcome, "comment": "The receipts were genuine."}
        return shop_client.post(f"{APPEALS}/{appeal_id}/decide", headers, body)

    def test_appeal_is_possible_once_for_each_decision(
        self, shop_client: ShopClient, officer: dict[str, str], vendor_id: UUID
    ) -> None:
        refused = shop_client.post(APPEAL, shop_client.vendor, MESSAGE)
        assert assert_problem(refused, 409, "CONCURRENCY_CONFLICT")["reason"] == "nothing-to-appeal"
        bar(shop_client, officer, vendor_id, "restrict")
        with ThreadPoolExecutor(3) as pool:
            answers = list(
                pool.map(
                    lambda _: shop_client.post(APPEAL, shop_client.vendor, MESSAGE).status_code, range(3)
                )
            )
        assert sorted(answers) == [201, 409, 409]
        status = own_status(shop_client, shop_client.vendor)
        assert (status["canAppeal"], status["appeal"]["status"]) == (False, "pending")
        assert status["allowed"] == ["profile", "paid_orders", "notifications"]
        assert shop_client.get("/api/users/me", shop_client.vendor).json["data"]["appealStatus"] == "pending"

        # Another decision can be appealed against. The first appeal is closed.
        person = bar(shop_client, officer, vendor_id, "suspend")
        assert [decision["appealStatus"] for decision in person["decisions"]] == [None, "closed"]
        assert own_status(shop_client, shop_client.vendor)["canAppeal"] is True

    def test_another_officer_rules_once_and_acceptance_reinstates(
        self,
        shop_client: ShopClient,
        database: Database,
        officer: dict[str, str],
        other_officer: dict[str, str],
        vendor_id: UUID,
    ) -> None:
        bar(shop_client, officer, vendor_id, "suspend")
        appeal_id = self.appeal(shop_client)

        refused = self.rule(shop_client, officer, appeal_id, "accepted")
        assert assert_problem(refused, 403, "AUTH_FORBIDDEN")["reason"] == "conflict-of-interest"
        with ThreadPoolExecutor(2) as pool:
            answers = list(
                pool.map(
                    lambda outcome: self.rule(shop_client, other_officer, appeal_id, outcome).status_code,
                    ("accepted", "accepted"),
                )
            )
        assert sorted(answers) == [200, 409]

        assert own_status(shop_client, shop_client.vendor)["status"] == "active"
        assert shop_client.client.get(profile_path(shop_client)).status_code == 200
        assert set(notified_of(database, vendor_id)) >= {"account_reinstated", "appeal_decided"}

    def test_rejected_appeal_keeps_the_decision_and_shows_the_comment(
        self,
        shop_client: ShopClient,
        officer: dict[str, str],
        other_officer: dict[str, str],
        vendor_id: UUID,
    ) -> None:
        bar(shop_client, officer, vendor_id, "suspend")
        appeal_id = self.appeal(shop_client)
        answer = self.rule(shop_client, other_officer, appeal_id, "rejected")
        assert answer.status_code == 200, answer.json
        assert not AppealView().validate(answer.json["data"])

        status = own_status(shop_client, shop_client.vendor)
        assert (status["status"], status["canAppeal"]) == ("suspended", False)
        assert (status["appeal"]["status"], status["appeal"]["comment"]) == (
            "rejected",
            "The receipts were genuine.",
        )

    def test_queue_lists_appeals_with_the_decision_by_cursor(
        self, shop_client: ShopClient, officer: dict[str, str], vendor_id: UUID
    ) -> None:
        expected = []
        for user_id, headers in (
            (vendor_id, shop_client.vendor),
            (shop_client.shop.buyer.id, shop_client.buyer),
        ):
            bar(shop_client, officer, user_id, "restrict")
            assert shop_client.post(APPEAL, headers, MESSAGE).status_code == 201
            expected.append(str(user_id))
        found, cursor = [], None
        while True:
            query = {"limit": 1, **({"cursor": cursor} if cursor else {})}
            answer = shop_client.get(APPEALS, officer, **query)
            assert not AppealView(many=True).validate(answer.json["data"])
            found += [(row["userId"], row["reason"]) for row in answer.json["data"]]
            cursor = answer.json["meta"]["next_cursor"]
            if cursor is None:
                break
        assert [row for row in found if row[0] in expected] == [(user_id, REASON) for user_id in expected]
        assert_problem(shop_client.get(APPEALS, shop_client.officer("support")), 403, "AUTH_FORBIDDEN")
        assert_problem(self.rule(shop_client, officer, uuid4(), "accepted"), 404, "RESOURCE_NOT_FOUND")
