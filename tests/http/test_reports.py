"""Reports of products, reviews and people over HTTP: submit, automatic hiding, and decisions of staff."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from blueprints.reports.schemas import ReportCaseDetail, ReportCaseView, ReportView
from marketplace.identity.models import Profile
from marketplace.infra.db import Database
from tests.support.gateway import MovableClock
from tests.support.probes import assert_problem, faults
from tests.support.purchases import NOW, Shop, later, make_person, paid_order, row_of, with_buyer
from tests.support.shop_client import ShopClient

FLAGS = "/api/users/content-flags"
QUEUE = "/api/admin/reports"
REVIEW_TEXT = "The lamp came the same day and works well."


def make_reporter(shop_client: ShopClient, *, days: int = 30, has_paid: bool = True) -> dict[str, str]:
    """Create a person with an account of some days, and return the header."""

    def create(session: Any) -> Shop:
        shop = with_buyer(session, shop_client.shop)
        session.get_one(Profile, shop.buyer.id).created_at = NOW - timedelta(days=days)
        if has_paid:
            paid_order(session, shop)
        return shop

    return shop_client.bearer(shop_client.database.in_transaction(create).buyer.id)


def report(shop_client: ShopClient, headers: dict[str, str], target_id: Any, **fields: Any) -> Any:
    body = {"targetType": "product", "targetId": str(target_id), "reason": "counterfeit"} | fields
    return shop_client.post(FLAGS, headers, body)


def report_as(shop_client: ShopClient, count: int, target_id: Any, **fields: Any) -> None:
    for _ in range(count):
        answer = report(shop_client, make_reporter(shop_client), target_id, **fields)
        assert answer.status_code == 201, answer.json


def make_review(shop_client: ShopClient) -> str:
    body = {"orderId": str(shop_client.delivered()), "rating": 1, "text": REVIEW_TEXT}
    path = f"/api/vendors/{shop_client.shop.store_id}/reviews"
    review_id: str = shop_client.post(path, shop_client.buyer, body).json["data"]["id"]
    return review_id


def case_of(database: Database, target_id: Any) -> dict[str, Any]:
    with database.reading() as session:
        row = session.execute(
            text("SELECT * FROM report_cases WHERE target_id = :id ORDER BY id DESC LIMIT 1"),
            {"id": str(target_id)},
        )
        return dict(row.mappings().one())


def decide(shop_client: ShopClient, headers: dict[str, str], case_id: Any, outcome: str = "dismissed") -> Any:
    body = {"outcome": outcome, "reason": "The seller has shown the receipt."}
    return shop_client.post(f"{QUEUE}/{case_id}/decide", headers, body)


def is_public(shop_client: ShopClient, product_id: UUID) -> bool:
    return bool(shop_client.client.get(f"/api/products/{product_id}").status_code == 200)


@pytest.fixture
def moderator(shop_client: ShopClient) -> dict[str, str]:
    return shop_client.officer("moderator")


class TestSubmit:
    def test_report_opens_one_case_for_all_reporters(self, shop_client: ShopClient) -> None:
        product_id = shop_client.product()
        for path, reason in ((FLAGS, "scam"), (f"{FLAGS}u", "spam")):
            answer = shop_client.post(
                path,
                make_reporter(shop_client),
                {
                    "targetType": "product",
                    "targetId": str(product_id),
                    "reason": reason,
                    "details": "The logo is misspelled \U0001f914.",
                },
            )
            assert answer.status_code == 201, answer.json
            assert not ReportView().validate(answer.json["data"])
        case = case_of(shop_client.database, product_id)
        assert (case["reports"], case["counted_reports"], case["hidden_at"]) == (2, 2, None)
        assert case["owner_id"] == shop_client.shop.vendor.id

    def test_second_report_of_a_person_is_refused_also_at_once(self, shop_client: ShopClient) -> None:
        product_id, headers = shop_client.product(), make_reporter(shop_client)
        with ThreadPoolExecutor(3) as pool:
            answers = list(pool.map(lambda _: report(shop_client, headers, product_id).status_code, range(3)))
        assert sorted(answers) == [201, 409, 409]
        refused = report(shop_client, headers, product_id, reason="spam")
        assert assert_problem(refused, 409, "CONCURRENCY_CONFLICT")["reason"] == "already-reported"

    def test_hidden_and_unknown_targets_are_not_found(self, shop_client: ShopClient) -> None:
        hidden, headers = shop_client.product(status="draft"), make_reporter(shop_client)
        for target_type, target_id in (
            ("product", hidden),
            ("product", uuid4()),
            ("review", uuid4()),
            ("user", uuid4()),
            ("message", uuid4()),
        ):
            refused = report(shop_client, headers, target_id, targetType=target_type)
            assert_problem(refused, 404, "RESOURCE_NOT_FOUND")
        # A buyer without store, review or order at the reporter's store is no visible person.
        stranger = shop_client.database.in_transaction(make_person).id
        assert_problem(report(shop_client, headers, stranger, targetType="user"), 404, "RESOURCE_NOT_FOUND")

    def test_own_content_is_refused(self, shop_client: ShopClient) -> None:
        product_id, review_id = shop_client.product(), make_review(shop_client)
        for headers, target_type, target_id in (
            (shop_client.vendor, "product", product_id),
            (shop_client.vendor, "user", shop_client.shop.vendor.id),
            (shop_client.buyer, "review", review_id),
        ):
            refused = report(shop_client, headers, target_id, targetType=target_type)
            assert assert_problem(refused, 403, "AUTH_FORBIDDEN")["reason"] == "own-content"

    def test_people_are_reported_by_their_counterparts(
        self, shop_client: ShopClient, moderator: dict[str, str]
    ) -> None:
        buyer_id, vendor_id = shop_client.shop.buyer.id, shop_client.shop.vendor.id
        shop_client.paid()
        assert report(shop_client, shop_client.vendor, buyer_id, targetType="user").status_code == 201
        report_as(shop_client, 6, vendor_id, targetType="user")
        case = case_of(shop_client.database, vendor_id)
        assert (case["counted_reports"], case["hidden_at"]) == (6, None)
        # People need another permission.
        assert_problem(shop_client.get(f"{QUEUE}/{case['id']}", moderator), 404, "RESOURCE_NOT_FOUND")
        assert_problem(decide(shop_client, moderator, case["id"]), 404, "RESOURCE_NOT_FOUND")
        admin = shop_client.officer("admin")
        assert decide(shop_client, admin, case["id"], "upheld").status_code == 200
        person = shop_client.get(f"/api/admin/users/{vendor_id}", admin).json["data"]
        assert (person["reportCounts"]["upheldCases"], person["reportCounts"]["openCases"]) == (1, 0)

    @pytest.mark.parametrize(
        ("fields", "names"),
        [
            ({"targetType": "store"}, ["targetType"]),
            ({"targetId": "no-id"}, ["targetId"]),
            ({"reason": "dislike"}, ["reason"]),
            ({"details": "x" * 1_001}, ["details"]),
            ({"details": "  "}, ["details"]),
            ({"counted": True}, ["counted"]),
        ],
    )
    def test_faulty_report_is_refused(
        self, shop_client: ShopClient, fields: dict[str, Any], names: list[str]
    ) -> None:
        assert faults(report(shop_client, shop_client.buyer, uuid4(), **fields)) == names


class TestAutomaticHiding:
    def test_fifth_counted_report_holds_the_listing_once(
        self, shop_client: ShopClient, moderator: dict[str, str]
    ) -> None:
        product_id = shop_client.product()
        for headers in (
            make_reporter(shop_client, days=6),
            make_reporter(shop_client, has_paid=False),
        ):
            assert report(shop_client, headers, product_id).status_code == 201
        report_as(shop_client, 4, product_id)
        assert is_public(shop_client, product_id)
        report_as(shop_client, 1, product_id, reason="scam")

        assert not is_public(shop_client, product_id)
        case = case_of(shop_client.database, product_id)
        assert (case["reports"], case["counted_reports"]) == (7, 5)
        with shop_client.database.reading() as session:
            product = row_of(session, "products", id=product_id)
        assert (product["status"], product["held"], product["needs_staff"]) == ("in_review", True, True)

        # Moderation may approve meanwhile. Further reports do not hide the listing again before the decision.
        approved = shop_client.post(f"/api/products/{product_id}/approve", moderator, {})
        assert approved.status_code == 200
        report_as(shop_client, 1, product_id)
        assert is_public(shop_client, product_id)

    def test_five_reports_at_once_hide_exactly_once(self, shop_client: ShopClient) -> None:
        product_id = shop_client.product()
        reporters = [make_reporter(shop_client) for _ in range(6)]
        with ThreadPoolExecutor(6) as pool:
            answers = list(
                pool.map(lambda headers: report(shop_client, headers, product_id).status_code, reporters)
            )
        # The last report may come after the hiding, and then finds no visible listing.
        assert sorted(answers) in ([201] * 6, [201] * 5 + [404])
        case = case_of(shop_client.database, product_id)
        assert (case["counted_reports"] >= 5, case["hidden_at"] is not None) == (True, True)
        with shop_client.database.reading() as session:
            held = session.execute(
                text("SELECT count(*) FROM notifications WHERE user_id = :id AND type = 'product_held'"),
                {"id": shop_client.shop.vendor.id},
            ).scalar_one()
        assert held == 1

    def test_hidden_review_leaves_the_rating_and_returns_with_the_dismissal(
        self, shop_client: ShopClient, moderator: dict[str, str]
    ) -> None:
        review_id = make_review(shop_client)

        def rating_count() -> int:
            with shop_client.database.reading() as session:
                return int(row_of(session, "vendor_profiles", id=shop_client.shop.store_id)["rating_count"])

        assert rating_count() == 1
        report_as(shop_client, 5, review_id, targetType="review", reason="offensive")
        assert rating_count() == 0
        answer = decide(shop_client, moderator, case_of(shop_client.database, review_id)["id"])
        assert answer.status_code == 200, answer.json
        assert rating_count() == 1


class TestDecision:
    def test_dismissal_restores_the_listing_and_clears_the_reason_for_thirty_days(
        self, shop_client: ShopClient, moderator: dict[str, str], clock: MovableClock
    ) -> None:
        product_id = shop_client.product()
        report_as(shop_client, 5, product_id)
        answer = decide(shop_client, moderator, case_of(shop_client.database, product_id)["id"])
        assert answer.status_code == 200, answer.json
        assert not ReportCaseDetail().validate(answer.json["data"])
        assert is_public(shop_client, product_id)

        report_as(shop_client, 5, product_id)
        assert is_public(shop_client, product_id)
        case = case_of(shop_client.database, product_id)
        assert (case["status"], case["reports"], case["counted_reports"]) == ("open", 5, 0)
        # Another reason counts, and the same reason counts again after the time.
        report_as(shop_client, 1, product_id, reason="prohibited")
        clock.now = later(days=30)
        report_as(shop_client, 1, product_id)
        assert case_of(shop_client.database, product_id)["counted_reports"] == 2

    @pytest.mark.parametrize(("reports", "status"), [(1, "removed"), (5, "rejected")])
    def test_upheld_reports_remove_the_listing(
        self, shop_client: ShopClient, moderator: dict[str, str], reports: int, status: str
    ) -> None:
        product_id = shop_client.product()
        report_as(shop_client, reports, product_id)
        case_id = case_of(shop_client.database, product_id)["id"]
        with ThreadPoolExecutor(2) as pool:
            answers = list(
                pool.map(
                    lambda headers: decide(shop_client, headers, case_id, "upheld").status_code,
                    (moderator, shop_client.officer("moderator")),
                )
            )
        assert sorted(answers) == [200, 409]
        with shop_client.database.reading() as session:
            assert row_of(session, "products", id=product_id)["status"] == status
            reporters: Sequence[UUID] = session.scalars(
                text("SELECT reporter_id FROM content_reports WHERE case_id = :id"), {"id": case_id}
            ).all()
            notified = session.scalars(
                text("SELECT user_id FROM notifications WHERE type = 'report_decided' AND cause = :cause"),
                {"cause": f"report:{case_id}"},
            ).all()
            assert row_of(session, "audit_logs", action="reports.upheld", target_id=str(product_id))
        assert sorted(notified) == sorted(reporters)
        refused = decide(shop_client, moderator, case_id, "upheld")
        assert assert_problem(refused, 409, "CONCURRENCY_CONFLICT")["reason"] == "reports-decided"

    def test_listing_that_the_vendor_deleted_meanwhile_can_still_be_decided(
        self, shop_client: ShopClient, moderator: dict[str, str]
    ) -> None:
        product_id = shop_client.product()
        report_as(shop_client, 1, product_id)
        with shop_client.database.transaction() as session:
            session.execute(text("UPDATE products SET status = 'deleted' WHERE id = :id"), {"id": product_id})
        case_id = case_of(shop_client.database, product_id)["id"]
        assert decide(shop_client, moderator, case_id, "upheld").status_code == 200

    def test_party_and_other_staff_cannot_decide(self, shop_client: ShopClient) -> None:
        product_id = shop_client.product()
        officer = shop_client.officer("moderator")
        assert report(shop_client, officer, product_id).status_code == 201
        case_id = case_of(shop_client.database, product_id)["id"]
        refused = decide(shop_client, officer, case_id)
        assert assert_problem(refused, 403, "AUTH_FORBIDDEN")["reason"] == "conflict-of-interest"
        for headers in (shop_client.buyer, shop_client.officer("finance")):
            assert_problem(decide(shop_client, headers, case_id), 403, "AUTH_FORBIDDEN")
            assert_problem(shop_client.get(QUEUE, headers), 403, "AUTH_FORBIDDEN")
        assert_problem(
            decide(shop_client, shop_client.officer("moderator"), uuid4()), 404, "RESOURCE_NOT_FOUND"
        )

    def test_queue_is_listed_by_cursor_and_filtered(
        self, shop_client: ShopClient, moderator: dict[str, str]
    ) -> None:
        product_ids = [shop_client.product() for _ in range(3)]
        for product_id in product_ids:
            report_as(shop_client, 1, product_id)
        found: list[str] = []
        cursor = None
        while True:
            query = {"limit": 2, "targetType": "product"} | ({"cursor": cursor} if cursor else {})
            answer = shop_client.get(QUEUE, moderator, **query)
            assert not ReportCaseView(many=True).validate(answer.json["data"])
            found += [case["targetId"] for case in answer.json["data"]]
            cursor = answer.json["meta"]["next_cursor"]
            if cursor is None:
                break
        expected = [str(product_id) for product_id in product_ids]
        assert [target_id for target_id in found if target_id in expected] == expected
        shown = shop_client.get(QUEUE, moderator, status="upheld").json["data"]
        assert not {case["targetId"] for case in shown} & set(expected)
        users = shop_client.get(QUEUE, moderator, targetType="user").json["data"]
        assert users == []
