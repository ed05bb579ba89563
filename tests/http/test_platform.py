"""Platform proposals and platform status over HTTP."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any
from uuid import uuid4

import pytest
from flask import Flask
from sqlalchemy import text
from werkzeug.test import TestResponse

from blueprints.health.status_routes import status_area
from marketplace.infra.cache import Cache
from marketplace.infra.db import Database
from marketplace.platform import halts
from marketplace.services import Services
from tests.support.gateway import MovableClock, TestGateway, clock, gateway, paying_app, paying_services
from tests.support.market import Bearer
from tests.support.probes import assert_problem, closed_port, faults, serve
from tests.support.proposals import make_admin
from tests.support.purchases import NOW, SERVICE_FEE_MINOR, later, make_person, make_shop
from tests.support.shop_client import ShopClient

__all__ = ["clock", "gateway", "paying_app", "paying_services"]

PATH = "/api/platform/proposals"
REASON = "The rectorate asked for it."
FEE = {"key": "service_fee_minor", "value": 20_000}
Officer = Callable[..., dict[str, str]]


@pytest.fixture
def shop_client(
    paying_app: Flask, database: Database, bearer: Bearer, clock: MovableClock, gateway: TestGateway
) -> Iterator[ShopClient]:
    """A fresh shop; changes to platform settings are reverted afterwards."""
    assert clock.now == NOW
    client = paying_app.test_client()
    with database.reading() as session:
        before = session.execute(text("SELECT key, value::text FROM platform_settings")).all()
    yield ShopClient(database.in_transaction(make_shop), database, client, bearer)
    with database.transaction() as session:
        session.execute(text("DELETE FROM payout_halts"))
        session.execute(text("DELETE FROM platform_settings"))
        for key, value in before:
            session.execute(
                text(
                    "INSERT INTO platform_settings (key, value, description) VALUES (:key, CAST(:value AS jsonb), '')"
                ),
                {"key": key, "value": value},
            )


@pytest.fixture
def officer(database: Database, bearer: Bearer) -> Officer:
    """A factory for the headers of a new platform officer, by default with second factor."""

    def make(aal: str = "aal2") -> dict[str, str]:
        return bearer(database.in_transaction(make_admin).id, aal=aal)

    return make


def iso(moment: datetime) -> str:
    """Format a time like the API."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def propose(shop_client: ShopClient, headers: dict[str, str], **body: Any) -> TestResponse:
    given = {"kind": "fee", "payload": FEE, "reason": REASON} | body
    return shop_client.post(PATH, headers, given)


def file_proposal(shop_client: ShopClient, headers: dict[str, str], **body: Any) -> dict[str, Any]:
    answer = propose(shop_client, headers, **body)
    assert answer.status_code == 201, answer.json
    found: dict[str, Any] = answer.json["data"]
    return found


def propose_and_approve(shop_client: ShopClient, officer: Officer, **body: Any) -> dict[str, Any]:
    """Make a proposal by an officer and approve the proposal by another officer."""
    made = file_proposal(shop_client, officer(), **body)
    answer = shop_client.post(f"{PATH}/{made['id']}/approve", officer())
    assert answer.status_code == 200, answer.json
    found: dict[str, Any] = answer.json["data"]
    return found


class TestProposals:
    def test_approved_fee_proposal_applies_to_new_orders(
        self, shop_client: ShopClient, officer: Officer
    ) -> None:
        proposer, other = officer("aal1"), officer()
        made = file_proposal(shop_client, proposer)
        assert (made["status"], made["before"]["value"], made["after"]["value"]) == (
            "pending",
            SERVICE_FEE_MINOR,
            20_000,
        )
        assert made["nextActions"] == ["reject"]
        assert made["expiresAt"] == iso(later(days=7))
        sample = made["effect"]["sampleOrder"]
        assert sample["after"]["totalMinor"] - sample["before"]["totalMinor"] == 20_000 - SERVICE_FEE_MINOR

        seen = shop_client.get(f"{PATH}/{made['id']}", other).json["data"]
        assert seen["nextActions"] == ["approve", "reject"]
        approved = shop_client.post(f"{PATH}/{made['id']}/approve", other).json["data"]
        assert approved["status"] == "active"
        assert approved["approvedBy"]["id"] != approved["proposedBy"]["id"]

        product = shop_client.product()
        order = shop_client.post(
            "/api/orders",
            shop_client.buyer,
            {"items": [{"productId": str(product), "quantity": 1}], "shippingAddress": {"hostel": "Moremi"}},
        )
        assert order.json["data"]["serviceFeeMinor"] == 20_000

    def test_proposals_require_platform_permission_and_another_approver(
        self, shop_client: ShopClient, officer: Officer
    ) -> None:
        proposer = officer()
        made = file_proposal(shop_client, proposer)
        path = f"{PATH}/{made['id']}"
        for headers in (
            shop_client.buyer,
            shop_client.vendor,
            shop_client.officer("support"),
        ):
            assert_problem(propose(shop_client, headers), 403, "AUTH_FORBIDDEN")
            assert_problem(shop_client.get(PATH, headers), 403, "AUTH_FORBIDDEN")
            assert_problem(shop_client.get(path, headers), 403, "AUTH_FORBIDDEN")
            assert_problem(shop_client.post(f"{path}/approve", headers), 403, "AUTH_FORBIDDEN")
            assert_problem(
                shop_client.post(f"{path}/reject", headers, {"reason": REASON}), 403, "AUTH_FORBIDDEN"
            )
        assert_problem(propose(shop_client, {}), 401, "AUTH_UNAUTHORIZED")
        assert_problem(shop_client.post(f"{path}/approve", officer("aal1")), 403, "AUTH_AAL2_REQUIRED")
        assert_problem(shop_client.post(f"{path}/approve", proposer), 403, "AUTH_FORBIDDEN")
        assert shop_client.get(path, proposer).json["data"]["status"] == "pending"

    def test_finance_officers_see_and_decide_wallet_adjustments_only(
        self, shop_client: ShopClient, database: Database, bearer: Bearer, officer: Officer
    ) -> None:
        finance, weak = (
            bearer(database.in_transaction(make_person, role="staff", staff_role="finance").id, aal=aal)
            for aal in ("aal2", "aal1")
        )
        fee = f"{PATH}/{file_proposal(shop_client, officer())['id']}"
        adjustment = {
            "kind": "wallet_adjustment",
            "payload": {"userId": str(shop_client.shop.buyer.id), "amountMinor": 700, "reason": REASON},
        }
        assert_problem(propose(shop_client, weak, **adjustment), 403, "AUTH_AAL2_REQUIRED")
        assert_problem(propose(shop_client, finance), 403, "AUTH_FORBIDDEN")
        made = file_proposal(shop_client, finance, **adjustment)
        assert made["after"]["balanceMinor"] - made["before"]["balanceMinor"] == 700
        assert made["effect"] == {"balanceAfterMinor": 700, "platformCostMinor": 700}

        listed = shop_client.get(PATH, finance).json["data"]
        assert {proposal["kind"] for proposal in listed} == {"wallet_adjustment"}
        assert_problem(shop_client.get(fee, finance), 404, "RESOURCE_NOT_FOUND")
        assert_problem(shop_client.post(f"{fee}/approve", finance), 404, "RESOURCE_NOT_FOUND")
        assert_problem(
            shop_client.post(f"{fee}/reject", finance, {"reason": REASON}), 404, "RESOURCE_NOT_FOUND"
        )
        approved = shop_client.post(f"{PATH}/{made['id']}/approve", officer())
        assert approved.json["data"]["status"] == "active"
        assert shop_client.get("/api/wallet", shop_client.buyer).json["data"]["balanceMinor"] == 700

    def test_unknown_proposal_is_not_found(self, shop_client: ShopClient, officer: Officer) -> None:
        headers = officer()
        for path in (f"{PATH}/{uuid4()}", f"{PATH}/no-id"):
            assert_problem(shop_client.get(path, headers), 404, "RESOURCE_NOT_FOUND")
            assert_problem(shop_client.post(f"{path}/approve", headers), 404, "RESOURCE_NOT_FOUND")
            assert_problem(
                shop_client.post(f"{path}/reject", headers, {"reason": REASON}), 404, "RESOURCE_NOT_FOUND"
            )

    @pytest.mark.parametrize(
        ("body", "names"),
        [
            ({"kind": "colour"}, ["kind"]),
            ({"reason": ""}, ["reason"]),
            ({"payload": {}}, ["payload.key", "payload.value"]),
            ({"payload": {"key": "service_fee_minor"}}, ["payload.value"]),
            ({"payload": FEE | {"enabled": True}}, ["payload.enabled"]),
            ({"payload": FEE | {"value": "20000"}}, ["payload.value"]),
            ({"payload": FEE | {"value": 2.5}}, ["payload.value"]),
            ({"payload": FEE | {"value": True}}, ["payload.value"]),
            ({"payload": FEE | {"value": 10**9}}, ["payload.value"]),
            ({"payload": FEE | {"key": "unknown_fee"}}, ["payload.key"]),
            ({"payload": FEE | {"colour": "red"}}, ["payload.colour"]),
            ({"payload": [FEE]}, ["payload"]),
            (
                {"kind": "category_commission", "payload": {"categoryId": str(uuid4()), "commissionBps": 5}},
                ["payload.categoryId"],
            ),
            ({"kind": "category_commission", "payload": {"commissionBps": 5}}, ["payload.categoryId"]),
            ({"kind": "feature_flag", "payload": {"key": "checkout"}}, ["payload.enabled"]),
            ({"kind": "maintenance", "payload": {"active": "yes"}}, ["payload.active"]),
            ({"kind": "payout_resume", "payload": {}}, ["payload.reason"]),
            (
                {"kind": "wallet_adjustment", "payload": {"userId": "me", "amountMinor": 1.5}},
                ["payload.amountMinor", "payload.userId"],
            ),
            (
                {
                    "kind": "wallet_adjustment",
                    "payload": {"userId": str(uuid4()), "amountMinor": 10**9, "reason": REASON},
                },
                ["payload.amountMinor"],
            ),
            ({"effectiveAt": iso(later(hours=-1))}, ["effectiveAt"]),
            ({"effectiveAt": "tomorrow"}, ["effectiveAt"]),
            ({"effectiveAt": iso(later(days=91))}, ["effectiveAt"]),
        ],
    )
    def test_invalid_proposal_is_refused(
        self, shop_client: ShopClient, officer: Officer, body: dict[str, Any], names: list[str]
    ) -> None:
        headers = officer()
        assert sorted(faults(propose(shop_client, headers, **body))) == names

    def test_each_proposal_kind_can_be_filed(self, shop_client: ShopClient, officer: Officer) -> None:
        headers = officer()
        category = str(shop_client.shop.category_id)
        kinds = {
            "fee": FEE,
            "category_commission": {"categoryId": category, "commissionBps": 250},
            "feature_flag": {"key": "checkout", "enabled": False},
            "maintenance": {"active": True, "message": "New shelves.", "until": iso(later(hours=1))},
            "payout_resume": {"reason": "Mended."},
            "wallet_adjustment": {
                "userId": str(shop_client.shop.buyer.id),
                "amountMinor": 1,
                "reason": "A voucher.",
            },
        }
        database = shop_client.client.application.extensions["marketplace"].database
        database.in_transaction(halts.halt_payouts, "ESCROW_DRIFT: a rule", NOW)
        for kind, payload in kinds.items():
            made = file_proposal(shop_client, headers, kind=kind, payload=payload)
            assert made["kind"] == kind
            assert payload.items() <= made["payload"].items()

    def test_payout_resume_without_halt_is_refused(self, shop_client: ShopClient, officer: Officer) -> None:
        answer = propose(shop_client, officer(), kind="payout_resume", payload={"reason": "In case."})
        assert_problem(answer, 409, "CONCURRENCY_CONFLICT")

    def test_payout_resume_is_not_approved_after_new_finding(
        self, shop_client: ShopClient, officer: Officer
    ) -> None:
        database = shop_client.client.application.extensions["marketplace"].database
        database.in_transaction(halts.halt_payouts, "ESCROW_DRIFT: a rule", NOW, facts={"rows": 1})
        made = file_proposal(shop_client, officer(), kind="payout_resume", payload={"reason": "Mended."})
        database.in_transaction(
            halts.halt_payouts, "ESCROW_DRIFT: another", later(hours=1), facts={"rows": 2}
        )
        path, other = f"{PATH}/{made['id']}", officer()

        shown = shop_client.get(path, other).json["data"]

        assert [item["facts"] for item in shown["before"]["found"]] == [{"rows": 1}]
        assert [item["facts"] for item in shown["current"]["found"]] == [{"rows": 1}, {"rows": 2}]
        assert shown["effect"]["resumes"] is False
        assert_problem(shop_client.post(f"{path}/approve", other), 409, "CONCURRENCY_CONFLICT")
        assert shop_client.get(path, other).json["data"]["status"] == "pending"

    def test_rejected_proposal_cannot_be_approved_or_rejected_again(
        self, shop_client: ShopClient, officer: Officer
    ) -> None:
        made = file_proposal(shop_client, officer())
        path = f"{PATH}/{made['id']}"
        assert faults(shop_client.post(f"{path}/reject", officer(), {})) == ["reason"]

        answer = shop_client.post(f"{path}/reject", officer(), {"reason": "Not now."})

        assert (answer.json["data"]["status"], answer.json["data"]["rejectionReason"]) == (
            "rejected",
            "Not now.",
        )
        assert_problem(shop_client.post(f"{path}/approve", officer()), 409, "CONCURRENCY_CONFLICT")
        assert_problem(
            shop_client.post(f"{path}/reject", officer(), {"reason": "Again."}), 409, "CONCURRENCY_CONFLICT"
        )

    def test_proposal_expires_after_seven_days(
        self, shop_client: ShopClient, officer: Officer, clock: MovableClock
    ) -> None:
        made = file_proposal(shop_client, officer())
        clock.now = later(days=7)
        path = f"{PATH}/{made['id']}"
        problem = assert_problem(shop_client.post(f"{path}/approve", officer()), 409, "CONCURRENCY_CONFLICT")
        assert "expired" in problem["detail"]
        assert shop_client.get(path, officer()).json["data"]["status"] == "expired"

    def test_proposal_with_future_effective_date_stays_approved(
        self, shop_client: ShopClient, officer: Officer
    ) -> None:
        approved = propose_and_approve(shop_client, officer, effectiveAt=iso(later(hours=1)))
        assert (approved["status"], approved["activatedAt"]) == ("approved", None)
        assert approved["nextActions"] == ["reject"]

    def test_proposals_are_filtered_sorted_and_paged(self, shop_client: ShopClient, officer: Officer) -> None:
        headers = officer()
        with shop_client.database.transaction() as session:
            session.execute(text("DELETE FROM platform_proposals WHERE status <> 'active'"))
        made = [
            file_proposal(shop_client, headers, payload=FEE | {"value": value})["id"] for value in (1, 2, 3)
        ]
        shop_client.post(f"{PATH}/{made[1]}/reject", officer(), {"reason": "Not now."})

        def ids(**query: Any) -> list[str]:
            answer = shop_client.get(PATH, headers, **query)
            assert answer.status_code == 200, answer.json
            return [row["id"] for row in answer.json["data"]]

        assert ids(status="pending") == [made[2], made[0]]
        assert ids(status="pending", order="asc") == [made[0], made[2]]
        assert ids(status="rejected", kind="fee") == [made[1]]
        assert ids(status="pending", kind="maintenance") == []
        page = shop_client.get(PATH, headers, status="pending", limit=1, page=2).json
        assert [row["id"] for row in page["data"]] == [made[0]]
        assert (page["meta"]["total"], page["meta"]["total_pages"]) == (2, 2)
        assert faults(shop_client.get(PATH, headers, status="odd")) == ["status"]
        assert faults(shop_client.get(PATH, headers, sort="reason")) == ["sort"]


class TestStatus:
    def status(self, shop_client: ShopClient) -> dict[str, Any]:
        answer = shop_client.client.get("/api/status")
        assert answer.status_code == 200
        assert answer.headers["Cache-Control"] == "public, max-age=30"
        found: dict[str, Any] = answer.json["data"]
        return found

    def test_status_is_operational_without_incidents(self, shop_client: ShopClient) -> None:
        with shop_client.database.reading() as session:
            assert halts.fetch_current_halt(session) is None
        found = self.status(shop_client)
        assert found["maintenance"] == {"active": False, "message": None, "until": None}
        assert {item["name"]: item["status"] for item in found["components"]}["database"] == "operational"
        assert found["features"]["checkout"] is True

    def test_maintenance_is_shown_immediately_and_blocks_new_orders(
        self, shop_client: ShopClient, officer: Officer
    ) -> None:
        self.status(shop_client)
        until = iso(later(minutes=10))
        payload = {"active": True, "message": "New shelves.", "until": until}
        propose_and_approve(shop_client, officer, kind="maintenance", payload=payload)

        found = self.status(shop_client)
        assert (found["status"], found["maintenance"]) == ("maintenance", payload)
        wanted = {
            "items": [{"productId": str(shop_client.product()), "quantity": 1}],
            "shippingAddress": {"hostel": "Moremi"},
        }
        for path in ("/api/orders", "/api/orders/checkout"):
            answer = shop_client.post(path, shop_client.buyer, wanted, key=str(uuid4()))
            assert_problem(answer, 503, "SERVICE_UNAVAILABLE")
            assert answer.headers["Retry-After"] == "600"
        assert shop_client.get("/api/orders", shop_client.buyer).status_code == 200

        propose_and_approve(shop_client, officer, kind="maintenance", payload={"active": False})
        assert self.status(shop_client)["maintenance"]["active"] is False
        assert shop_client.post("/api/orders", shop_client.buyer, wanted).status_code == 201

    def test_payout_halt_is_shown_until_resumed(self, shop_client: ShopClient, officer: Officer) -> None:
        def payouts() -> str:
            return {item["name"]: item["status"] for item in self.status(shop_client)["components"]}[
                "payouts"
            ]

        # The application's database object invalidates the cached status.
        database = shop_client.client.application.extensions["marketplace"].database
        database.in_transaction(halts.halt_payouts, "ESCROW_DRIFT: a rule", NOW)
        assert payouts() == "degraded"
        carried = propose_and_approve(
            shop_client, officer, kind="payout_resume", payload={"reason": "Mended."}
        )
        assert carried["before"]["haltReason"] == "ESCROW_DRIFT: a rule"
        assert payouts() == "operational"

    def test_staff_see_payout_halts_with_time_and_reason(
        self, shop_client: ShopClient, officer: Officer
    ) -> None:
        database = shop_client.client.application.extensions["marketplace"].database
        for hour in (0, 1):
            database.in_transaction(halts.halt_payouts, f"ESCROW_DRIFT: rule {hour}", later(hours=hour))
            if hour == 0:
                carried = propose_and_approve(
                    shop_client, officer, kind="payout_resume", payload={"reason": "Mended."}
                )
        headers = shop_client.officer("support")

        first = shop_client.get("/api/platform/halts", headers, limit=1).json
        [row] = first["data"]
        assert (row["state"], row["reason"], row["proposalId"]) == ("halted", "ESCROW_DRIFT: rule 1", None)
        cursor = first["meta"]["next_cursor"]
        [row] = shop_client.get("/api/platform/halts", headers, limit=1, cursor=cursor).json["data"]
        assert (row["state"], row["reason"]) == ("resumed", "ESCROW_DRIFT: rule 0")
        assert (row["proposalId"], row["resumedAt"]) == (carried["id"], carried["activatedAt"])
        for others in (shop_client.buyer, shop_client.vendor):
            assert_problem(shop_client.get("/api/platform/halts", others), 403, "AUTH_FORBIDDEN")

    def test_status_is_answered_without_database_and_cache(self, services: Services) -> None:
        port = closed_port()
        gone = Database(f"postgresql://unknown@127.0.0.1:{port}/none", pool_size=1, application_name="tests")
        client = serve(services, status_area, database=gone, cache=Cache(f"redis://127.0.0.1:{port}/0"))
        answer = client.get("/api/status")
        assert answer.status_code == 200
        assert answer.json["data"]["status"] == "down"
        assert {item["name"]: item["status"] for item in answer.json["data"]["components"]} == {
            "database": "down",
            "cache": "degraded",
            "payments": "down",
            "payouts": "down",
        }
