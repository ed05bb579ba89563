"""Deletion of accounts over HTTP: request, blockers, restriction, reminders, cancellation, and due dates."""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from marketplace.identity.models import DeletionRequest
from marketplace.infra.db import Database
from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, post_transaction
from marketplace.privacy.deletion import remind_people
from marketplace.privacy.requests import update_alerts
from tests.support.alerts import alerts_about, open_about
from tests.support.gateway import MovableClock
from tests.support.market import Bearer
from tests.support.probes import assert_problem
from tests.support.purchases import NOW, fill_wallet, make_person, row_of
from tests.support.shop_client import ShopClient

REQUEST = "/api/users/me/request-deletion"
CANCEL = "/api/users/me/cancel-deletion"
LATEST = "/api/users/me/deletion-request"
STATUS = "/api/users/me/account-status"
OPEN_REQUESTS = "/api/admin/privacy-requests"


@pytest.fixture
def signed_in(bearer: Bearer) -> Bearer:
    """A function that builds the header of a person who has just signed in."""
    return lambda user_id, **claims: bearer(user_id, **{"auth_time": time.time()} | claims)


@pytest.fixture
def person(database: Database) -> UUID:
    return database.in_transaction(make_person).id


def request_deletion(shop_client: ShopClient, headers: dict[str, str], **body: Any) -> Any:
    answer = shop_client.post(REQUEST, headers, body)
    assert answer.status_code == 201, answer.json
    return answer.json["data"]


def notifications_of(database: Database, user_id: UUID) -> list[tuple[str, str]]:
    with database.reading() as session:
        rows = session.execute(
            text("SELECT type, body FROM notifications WHERE user_id = :id ORDER BY id"), {"id": user_id}
        )
        return [(row.type, row.body) for row in rows]


class TestRequest:
    def test_account_is_restricted_for_thirty_days(
        self, shop_client: ShopClient, signed_in: Bearer, person: UUID, database: Database
    ) -> None:
        made = request_deletion(shop_client, signed_in(person), reason="I have graduated.")

        assert made["status"] == "pending"
        assert made["graceEndsAt"] == "2026-12-20T09:30:00Z"
        status = shop_client.get(STATUS, signed_in(person)).json["data"]
        assert status["status"] == "restricted"
        assert "cancel_deletion" in status["allowed"]
        assert not status["canAppeal"]
        assert_problem(shop_client.get("/api/cart", signed_in(person)), 403, "AUTH_FORBIDDEN")
        [(kind, body)] = notifications_of(database, person)
        assert kind == "deletion_requested"
        assert "20 December 2026" in body
        assert "cancel" in body

    @pytest.mark.parametrize(
        "claims",
        [{"auth_time": None}, {"auth_time": 0}, {"auth_time": "now"}, {"auth_time": True}],
        ids=["missing", "old", "text", "boolean"],
    )
    def test_old_sign_in_is_refused_without_using_the_daily_request(
        self, shop_client: ShopClient, signed_in: Bearer, person: UUID, claims: dict[str, Any]
    ) -> None:
        for _ in range(2):
            refused = shop_client.post(REQUEST, signed_in(person, **claims), {})
            problem = assert_problem(refused, 403, "AUTH_FORBIDDEN")
            assert problem["reason"] == "recent-sign-in-required"

        request_deletion(shop_client, signed_in(person))

    def test_sign_in_time_counts_rather_than_the_renewed_token(
        self, shop_client: ShopClient, signed_in: Bearer, bearer: Bearer, person: UUID
    ) -> None:
        old = signed_in(person, auth_time=time.time() - 16 * 60, iat=time.time())

        assert_problem(shop_client.post(REQUEST, old, {}), 403, "AUTH_FORBIDDEN")
        request_deletion(shop_client, bearer(person, iat=time.time()))

    def test_open_order_blocks_buyer_and_vendor(self, shop_client: ShopClient, signed_in: Bearer) -> None:
        shop_client.paid()
        for person in (shop_client.shop.buyer, shop_client.shop.vendor):
            refused = shop_client.post(REQUEST, signed_in(person.id), {})

            problem = assert_problem(refused, 409, "CONCURRENCY_CONFLICT")
            assert problem["reason"] == "deletion-blocked"
            assert [(blocker["kind"], blocker["count"]) for blocker in problem["blockers"]] == [
                ("open_orders", 1)
            ]
            assert "cancel" in problem["blockers"][0]["detail"]

    def test_staff_role_blocks(self, shop_client: ShopClient, signed_in: Bearer, database: Database) -> None:
        officer = database.in_transaction(make_person, role="staff", staff_role="support").id

        problem = assert_problem(
            shop_client.post(REQUEST, signed_in(officer), {}), 409, "CONCURRENCY_CONFLICT"
        )

        assert [blocker["kind"] for blocker in problem["blockers"]] == ["staff_role"]

    def test_concurrent_requests_create_a_single_deletion(
        self, shop_client: ShopClient, signed_in: Bearer, person: UUID, database: Database, paying_app: Any
    ) -> None:
        headers = signed_in(person)

        def send(_: int) -> int:
            answer = paying_app.test_client().post(REQUEST, headers=headers, json={})
            return int(answer.status_code)

        with ThreadPoolExecutor(4) as pool:
            statuses = sorted(pool.map(send, range(4)))

        assert statuses[0] == 201
        assert set(statuses[1:]) <= {409, 429}
        with database.reading() as session:
            count = session.scalar(
                text("SELECT count(*) FROM deletion_requests WHERE user_id = :id"), {"id": person}
            )
        assert count == 1

    def test_pending_deletion_is_not_requested_again(
        self, shop_client: ShopClient, signed_in: Bearer, person: UUID, clock: MovableClock
    ) -> None:
        request_deletion(shop_client, signed_in(person))
        clock.now += timedelta(days=2)

        refused = shop_client.post(REQUEST, signed_in(person), {})

        assert refused.status_code in (409, 429)

    @pytest.mark.parametrize("body", [{"reason": 5}, {"reason": "x" * 1001}, [], {"other": "x"}])
    def test_wrong_body_is_refused(
        self, shop_client: ShopClient, signed_in: Bearer, person: UUID, body: Any
    ) -> None:
        answer = shop_client.post(REQUEST, signed_in(person), body)

        assert answer.status_code in (400, 422)


class TestMoney:
    def test_wallet_stays_open_and_shown(
        self, shop_client: ShopClient, signed_in: Bearer, person: UUID, database: Database
    ) -> None:
        database.in_transaction(fill_wallet, person, 120_000)

        made = request_deletion(shop_client, signed_in(person))

        assert made["walletMinor"] == 120_000
        for path in ("/api/wallet", "/api/wallet/bank-account", "/api/wallet/cash-outs", "/api/transactions"):
            assert shop_client.get(path, signed_in(person)).status_code == 200, path
        refused = shop_client.post("/api/wallet/cash-outs", signed_in(person), {"amountMinor": 120_000})
        assert assert_problem(refused, 409, "CONCURRENCY_CONFLICT")["reason"] == "payouts-on-hold"
        assert "bank account" in refused.json["detail"]

    def test_vendor_keeps_payout_routes_and_loses_the_storefront(
        self, shop_client: ShopClient, signed_in: Bearer, database: Database
    ) -> None:
        vendor = shop_client.shop.vendor.id
        request_deletion(shop_client, signed_in(vendor))

        for path in ("/api/payouts", "/api/payouts/balance", "/api/payouts/statement"):
            assert shop_client.get(path, signed_in(vendor)).status_code == 200, path
        with database.reading() as session:
            store = row_of(session, "vendor_profiles", user_id=vendor)
        assert (store["status"], store["suspended_with_owner"]) == ("suspended", True)

    def test_restriction_by_staff_closes_the_wallet(
        self, shop_client: ShopClient, signed_in: Bearer, person: UUID, database: Database
    ) -> None:
        request_deletion(shop_client, signed_in(person))
        bar(shop_client, person, "restrict")

        assert_problem(shop_client.get("/api/wallet", signed_in(person)), 403, "AUTH_FORBIDDEN")


def bar(shop_client: ShopClient, user_id: UUID, action: str) -> None:
    answer = shop_client.post(
        f"/api/admin/users/{user_id}/{action}",
        shop_client.officer("admin"),
        {"reason": "Counterfeit phones."},
    )
    assert answer.status_code == 200, answer.json


class TestCancellation:
    def test_account_and_store_are_as_before(
        self, shop_client: ShopClient, signed_in: Bearer, database: Database
    ) -> None:
        vendor = shop_client.shop.vendor.id
        request_deletion(shop_client, signed_in(vendor))

        answer = shop_client.post(CANCEL, signed_in(vendor))

        assert answer.status_code == 200
        assert answer.json["data"]["status"] == "cancelled"
        assert shop_client.get(STATUS, signed_in(vendor)).json["data"]["status"] == "active"
        with database.reading() as session:
            assert row_of(session, "vendor_profiles", user_id=vendor)["status"] == "active"
        assert notifications_of(database, vendor)[-1][0] == "deletion_cancelled"

    def test_nothing_to_cancel(self, shop_client: ShopClient, signed_in: Bearer, person: UUID) -> None:
        problem = assert_problem(shop_client.post(CANCEL, signed_in(person)), 409, "CONCURRENCY_CONFLICT")

        assert problem["reason"] == "no-deletion-pending"
        assert_problem(shop_client.get(LATEST, signed_in(person)), 404, "RESOURCE_NOT_FOUND")

    def test_suspension_by_staff_survives_request_and_cancellation(
        self, shop_client: ShopClient, signed_in: Bearer, person: UUID
    ) -> None:
        bar(shop_client, person, "suspend")
        request_deletion(shop_client, signed_in(person))
        assert shop_client.get(STATUS, signed_in(person)).json["data"]["status"] == "suspended"

        shop_client.post(CANCEL, signed_in(person))

        assert shop_client.get(STATUS, signed_in(person)).json["data"]["status"] == "suspended"

    def test_reinstated_account_stays_restricted_for_the_deletion(
        self, shop_client: ShopClient, signed_in: Bearer, person: UUID
    ) -> None:
        request_deletion(shop_client, signed_in(person))
        bar(shop_client, person, "suspend")
        bar(shop_client, person, "reinstate")

        status = shop_client.get(STATUS, signed_in(person)).json["data"]

        assert status["status"] == "restricted"
        assert "cancel_deletion" in status["allowed"]

    def test_staff_cannot_end_the_restriction(
        self, shop_client: ShopClient, signed_in: Bearer, person: UUID
    ) -> None:
        request_deletion(shop_client, signed_in(person))

        refused = shop_client.post(
            f"/api/admin/users/{person}/reinstate", shop_client.officer("admin"), {"reason": "By mistake."}
        )

        assert assert_problem(refused, 409, "CONCURRENCY_CONFLICT")["reason"] == "deletion-pending"


class TestReminders:
    def remind(self, database: Database, person: UUID, days: float) -> list[str]:
        """Run the task some days after the request, and return the bodies of reminders so far."""
        remind_people(database, now=NOW + timedelta(days=days))
        return [body for kind, body in notifications_of(database, person) if kind == "deletion_reminder"]

    def test_reminders_come_on_three_days_once(
        self, shop_client: ShopClient, signed_in: Bearer, person: UUID, database: Database
    ) -> None:
        request_deletion(shop_client, signed_in(person))

        counts = [
            len(self.remind(database, person, day)) for day in (6.9, 7, 7.1, 22.9, 23, 28.9, 29, 31, 46, 61)
        ]

        assert counts == [0, 1, 1, 1, 2, 2, 3, 3, 3, 3]
        assert "20 December 2026" in self.remind(database, person, 61)[0]

    def test_outage_causes_a_single_reminder(
        self, shop_client: ShopClient, signed_in: Bearer, person: UUID, database: Database
    ) -> None:
        request_deletion(shop_client, signed_in(person))

        assert len(self.remind(database, person, 29.5)) == 1

    def test_cancelled_deletion_has_no_reminder(
        self, shop_client: ShopClient, signed_in: Bearer, person: UUID, database: Database
    ) -> None:
        request_deletion(shop_client, signed_in(person))
        shop_client.post(CANCEL, signed_in(person))

        assert self.remind(database, person, 8) == []

    def test_money_left_is_reminded_twice_then_reported_until_paid_out(
        self, shop_client: ShopClient, signed_in: Bearer, person: UUID, database: Database
    ) -> None:
        database.in_transaction(fill_wallet, person, 120_000)
        request_id = request_deletion(shop_client, signed_in(person))["id"]

        bodies = [self.remind(database, person, day)[-1:] for day in (7, 23, 29, 30, 45, 59.9)]
        assert all("NGN 1,200.00" in body for [body] in bodies)
        assert len(self.remind(database, person, 59.9)) == 5
        assert alerts_of(database, request_id) == []

        assert len(self.remind(database, person, 60)) == 5
        [alert] = alerts_of(database, request_id)
        assert (alert["identifier"], alert["resolved_at"]) == ("DELETION_MONEY_LEFT", None)
        assert alert["facts"]["walletMinor"] == 120_000

        database.in_transaction(empty_wallet, person, 120_000)
        self.remind(database, person, 61)
        assert [alert["resolved_at"] is None for alert in alerts_of(database, request_id)] == [False]


def alerts_of(database: Database, request_id: str) -> list[dict[str, Any]]:
    with database.reading() as session:
        return alerts_about(session, f"deletion:{request_id}")


def empty_wallet(session: Any, user_id: UUID, amount_minor: int) -> None:
    post_transaction(
        session,
        kind="wallet_adjustment",
        source=f"empty:{user_id}",
        description="Paid out",
        postings=[
            Posting(accounts.wallet(user_id), "debit", amount_minor),
            Posting(accounts.WALLET_ADJUSTMENTS, "credit", amount_minor),
        ],
        now=NOW,
    )


class TestDueDates:
    def test_compliance_sees_open_requests_by_due_date(
        self,
        shop_client: ShopClient,
        signed_in: Bearer,
        person: UUID,
        database: Database,
        clock: MovableClock,
    ) -> None:
        deletion_id = request_deletion(shop_client, signed_in(person))["id"]
        export_id = shop_client.post("/api/users/me/privacy-exports", signed_in(person)).json["data"]["id"]
        officer = shop_client.officer("compliance")
        clock.now += timedelta(days=31)

        rows = {row["id"]: row for row in shop_client.get(OPEN_REQUESTS, officer, limit=100).json["data"]}

        assert rows[deletion_id]["dueAt"] == "2027-01-19T09:30:00Z"
        assert rows[export_id]["dueAt"] == "2026-12-20T09:30:00Z"
        assert (rows[deletion_id]["isOverdue"], rows[export_id]["isOverdue"]) == (False, True)
        exports = shop_client.get(OPEN_REQUESTS, officer, kind="export", limit=100).json["data"]
        assert {row["kind"] for row in exports} == {"export"}

    def test_pages_have_every_request_once(
        self, shop_client: ShopClient, signed_in: Bearer, database: Database
    ) -> None:
        made = set()
        for _ in range(3):
            person = database.in_transaction(make_person).id
            made.add(request_deletion(shop_client, signed_in(person))["id"])
        officer, seen, cursor = shop_client.officer("compliance"), [], None
        while True:
            more = {"cursor": cursor} if cursor else {}
            page = shop_client.get(OPEN_REQUESTS, officer, kind="deletion", limit=2, **more).json
            seen += [row["id"] for row in page["data"]]
            cursor = page["meta"]["next_cursor"]
            if cursor is None:
                break

        assert made <= set(seen)
        assert len(seen) == len(set(seen))

    @pytest.mark.parametrize("role", ["admin", "support", "finance"])
    def test_other_staff_may_not_see_requests(self, shop_client: ShopClient, role: str) -> None:
        assert_problem(shop_client.get(OPEN_REQUESTS, shop_client.officer(role)), 403, "AUTH_FORBIDDEN")

    def test_alerts_come_after_20_and_28_days(
        self, shop_client: ShopClient, signed_in: Bearer, person: UUID, own_database: Database
    ) -> None:
        database = own_database
        person = database.in_transaction(make_person).id
        with database.transaction() as session:
            session.add(
                DeletionRequest(
                    user_id=person,
                    requested_at=NOW - timedelta(days=30),
                    grace_ends_at=NOW,
                )
            )

        def open_alerts(now: datetime) -> list[str]:
            database.in_transaction(update_alerts, now=now)
            with database.reading() as session:
                return list(open_about(session, "privacy:deletion"))

        assert open_alerts(NOW + timedelta(days=19.9)) == []
        assert open_alerts(NOW + timedelta(days=20)) == ["PRIVACY_REQUESTS_DUE"]
        assert open_alerts(NOW + timedelta(days=28)) == ["PRIVACY_REQUESTS_LATE"]
        with database.transaction() as session:
            session.execute(
                text("UPDATE deletion_requests SET status = 'cancelled', ended_at = :now"), {"now": NOW}
            )
        assert open_alerts(NOW + timedelta(days=28)) == []
