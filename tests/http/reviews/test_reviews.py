"""Reviews of stores over HTTP: submit, list, change, delete and reply."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from werkzeug.test import TestResponse

from marketplace.audit.operations import Act
from marketplace.identity.models import Profile
from marketplace.reviews.moderation import hide_review
from marketplace.services import Services
from tests.support.finance import claw_back, make_officer
from tests.support.gateway import MovableClock
from tests.support.probes import assert_problem, faults
from tests.support.purchases import NOW, later, make_shop, row_of
from tests.support.resource_usage import counted_statements
from tests.support.shop_client import ShopClient

TEXT = "The lamp came the same day and works well."
REPLY = "Thank you. See you next semester."


def submit(
    shop_client: ShopClient, order_id: UUID, headers: dict[str, str] | None = None, **body: Any
) -> TestResponse:
    """Review the shop for an order."""
    given = {"orderId": str(order_id), "rating": 4, "text": TEXT} | body
    return shop_client.post(path_of(shop_client), headers or shop_client.buyer, given)


def path_of(shop_client: ShopClient) -> str:
    """Return the path of the shop's reviews."""
    return f"/api/vendors/{shop_client.shop.store_id}/reviews"


def reviewed(shop_client: ShopClient, **body: Any) -> str:
    """Review a delivered order and return the review's id."""
    answer = submit(shop_client, shop_client.delivered(), **body)
    assert answer.status_code == 201, answer.json
    review_id: str = answer.json["data"]["id"]
    return review_id


def summary_of(shop_client: ShopClient) -> dict[str, Any]:
    """Return the summary of the shop's reviews."""
    answer = shop_client.get(path_of(shop_client), {})
    assert answer.status_code == 200
    summary: dict[str, Any] = answer.json["meta"]["summary"]
    return summary


def put(shop_client: ShopClient, path: str, headers: dict[str, str], body: Any) -> TestResponse:
    """Send a PUT request."""
    return shop_client.client.put(path, json=body, headers=headers)


def assert_conflict(answer: TestResponse, reason: str) -> None:
    """Assert that the state does not allow the request."""
    assert assert_problem(answer, 409, "CONCURRENCY_CONFLICT")["reason"] == reason


class TestSubmit:
    """``POST /api/vendors/:id/reviews``."""

    def test_buyer_of_delivered_order_reviews_store(self, shop_client: ShopClient) -> None:
        shop_client.database.in_transaction(rename, shop_client.shop.buyer.id, "Amara Ada Okafor")
        order_id = shop_client.delivered()

        answer = submit(shop_client, order_id)

        assert answer.status_code == 201
        data = answer.json["data"]
        public = {
            "id": data["id"],
            "vendorId": str(shop_client.shop.store_id),
            "rating": 4,
            "text": TEXT,
            "author": {"name": "Amara O."},
            "images": [],
            "refunded": False,
            "editedAt": None,
            "reply": None,
            "createdAt": "2026-11-20T09:30:00Z",
        }
        assert data == public | {
            "orderId": str(order_id),
            "status": "visible",
            "revision": 1,
            "updatedAt": "2026-11-20T09:30:00Z",
            "editableUntil": "2026-11-27T09:30:00Z",
        }
        listed = shop_client.get(path_of(shop_client), {})
        assert listed.json["data"] == [public]
        assert listed.json["meta"]["summary"] == {
            "rating": 4.0,
            "ratingCount": 1,
            "distribution": {"1": 0, "2": 0, "3": 0, "4": 1, "5": 0},
        }
        profile = shop_client.get(f"/api/vendors/profile/{shop_client.shop.store_id}", {}).json["data"]
        assert (profile["rating"], profile["ratingCount"]) == (4.0, 1)

    def test_store_is_notified(self, shop_client: ShopClient) -> None:
        review_id = reviewed(shop_client, rating=1)

        with shop_client.database.reading() as session:
            row = row_of(session, "notifications", cause=f"review:{review_id}:received")
        assert row["user_id"] == shop_client.shop.vendor.id
        assert "with 1 star." in row["body"]

    def test_order_is_reviewed_once(self, shop_client: ShopClient) -> None:
        order_id = shop_client.delivered()
        submit(shop_client, order_id)

        assert_conflict(submit(shop_client, order_id, rating=1), "order-already-reviewed")
        assert summary_of(shop_client)["ratingCount"] == 1

    @pytest.mark.parametrize("status", ["unpaid", "paid", "shipped"])
    def test_order_before_delivery_is_refused(self, shop_client: ShopClient, status: str) -> None:
        order_id = getattr(shop_client, status)()

        assert_conflict(submit(shop_client, order_id), "order-not-delivered")

    def test_foreign_order_is_not_found(self, shop_client: ShopClient) -> None:
        order_id = shop_client.delivered()

        for headers in (shop_client.stranger, shop_client.vendor, shop_client.officer("admin")):
            assert_problem(submit(shop_client, order_id, headers), 404, "RESOURCE_NOT_FOUND")
        assert_problem(submit(shop_client, uuid4()), 404, "RESOURCE_NOT_FOUND")

    def test_order_of_other_store_is_not_found(self, shop_client: ShopClient) -> None:
        order_id = shop_client.delivered()
        other = shop_client.database.in_transaction(make_shop)
        body = {"orderId": str(order_id), "rating": 1, "text": TEXT}

        for store_id in (other.store_id, uuid4()):
            answer = shop_client.post(f"/api/vendors/{store_id}/reviews", shop_client.buyer, body)
            assert_problem(answer, 404, "RESOURCE_NOT_FOUND")

    def test_order_refunded_in_full_is_refused(self, shop_client: ShopClient) -> None:
        order_id = shop_client.delivered()
        shop_client.database.in_transaction(refund_after_release, order_id)

        assert_conflict(submit(shop_client, order_id), "order-refunded-in-full")

    def test_partly_refunded_order_can_be_reviewed(self, shop_client: ShopClient) -> None:
        order_id = shop_client.delivered()
        shop_client.database.in_transaction(refund_after_release, order_id, amount_minor=1_000)

        assert submit(shop_client, order_id).status_code == 201

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({"orderId": "CM-1"}, "orderId"),
            ({"rating": 0}, "rating"),
            ({"rating": 6}, "rating"),
            ({"rating": 4.5}, "rating"),
            ({"rating": "5"}, "rating"),
            ({"text": "Too short"}, "text"),
            ({"text": "   short   \n\n   "}, "text"),
            ({"text": "x" * 2001}, "text"),
            ({"text": "Call me on 0803 123 4567 for a better price"}, "text"),
            ({"text": "Fvck no, this fucking lamp is broken"}, "text"),
            ({"vendorId": str(uuid4())}, "vendorId"),
            ({"status": "visible"}, "status"),
            ({"refunded": False}, "refunded"),
        ],
    )
    def test_invalid_field_is_named(self, shop_client: ShopClient, body: dict[str, Any], field: str) -> None:
        answer = submit(shop_client, uuid4(), **body)

        assert_problem(answer, 422, "VALIDATION_FAILED")
        assert field in faults(answer)

    @pytest.mark.parametrize("body", [{"rating": 1, "text": "x" * 10}, {"rating": 5, "text": "x" * 2000}])
    def test_bounds_are_accepted(self, shop_client: ShopClient, body: dict[str, Any]) -> None:
        assert submit(shop_client, shop_client.delivered(), **body).status_code == 201


class TestListOfStore:
    """``GET /api/vendors/:id/reviews``."""

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ({}, [4, 2, 5, 4]),
            ({"sort": "highest"}, [5, 4, 4, 2]),
            ({"sort": "lowest"}, [2, 4, 4, 5]),
            ({"rating": 4}, [4, 4]),
            ({"rating": 1}, []),
            ({"rating": 4, "sort": "lowest"}, [4, 4]),
        ],
    )
    def test_reviews_are_sorted_filtered_and_paged(
        self, shop_client: ShopClient, clock: MovableClock, query: dict[str, Any], expected: list[int]
    ) -> None:
        for minutes, rating in enumerate((4, 5, 2, 4)):
            clock.now = later(minutes=minutes)
            reviewed(shop_client, rating=rating)

        found, cursor = [], None
        while True:
            answer = shop_client.get(
                path_of(shop_client), {}, limit=1, **query, **({"cursor": cursor} if cursor else {})
            )
            found += answer.json["data"]
            cursor = answer.json["meta"]["next_cursor"]
            if cursor is None:
                break

        assert [review["rating"] for review in found] == expected
        for stars in expected:
            times = [review["createdAt"] for review in found if review["rating"] == stars]
            assert times == sorted(times, reverse=True)

    def test_page_takes_a_fixed_number_of_statements(
        self, shop_client: ShopClient, paying_services: Services
    ) -> None:
        counts = []
        for _ in range(2):
            reviewed(shop_client)
            with counted_statements(paying_services.database) as seen:
                assert shop_client.get(path_of(shop_client), {}).status_code == 200
            counts.append(len(seen))
        assert counts == [2, 2]

    def test_unknown_or_inactive_store_is_not_found(self, shop_client: ShopClient) -> None:
        suspended = shop_client.database.in_transaction(make_shop, status="suspended")

        for store_id in (uuid4(), suspended.store_id):
            answer = shop_client.get(f"/api/vendors/{store_id}/reviews", {})
            assert_problem(answer, 404, "RESOURCE_NOT_FOUND")

    @pytest.mark.parametrize(
        "query", [{"sort": "best"}, {"rating": 0}, {"rating": 6}, {"limit": 101}, {"cursor": "x"}, {"x": 1}]
    )
    def test_invalid_parameter_is_refused(self, shop_client: ShopClient, query: dict[str, Any]) -> None:
        answer = shop_client.get(path_of(shop_client), {}, **query)

        assert_problem(answer, 422, "VALIDATION_FAILED")
        assert next(iter(query)) in faults(answer)


class TestListOfProduct:
    """``GET /api/products/:id/reviews``."""

    def test_review_appears_on_each_product_of_order(self, shop_client: ShopClient) -> None:
        review_id = reviewed(shop_client)
        with shop_client.database.reading() as session:
            product_id = row_of(session, "review_products", review_id=UUID(review_id))["product_id"]
        reviewed(shop_client)

        answer = shop_client.get(f"/api/products/{product_id}/reviews", {}, limit=1)

        assert [review["id"] for review in answer.json["data"]] == [review_id]
        assert not answer.json["meta"]["has_more"]

    def test_pages_continue_after_cursor(self, shop_client: ShopClient, clock: MovableClock) -> None:
        reviews = []
        for minutes in range(2):
            clock.now = later(minutes=minutes)
            reviews.append(reviewed(shop_client))
        product_id = shop_client.product()
        with shop_client.database.transaction() as session:
            session.execute(
                text(
                    "UPDATE review_products SET product_id = :id WHERE review_id = ANY(CAST(:reviews AS uuid[]))"
                ),
                {"id": product_id, "reviews": reviews},
            )

        first = shop_client.get(f"/api/products/{product_id}/reviews", {}, limit=1)
        second = shop_client.get(
            f"/api/products/{product_id}/reviews", {}, limit=1, cursor=first.json["meta"]["next_cursor"]
        )

        assert [first.json["data"][0]["id"], second.json["data"][0]["id"]] == reviews[::-1]

    def test_product_that_is_not_public_is_not_found(self, shop_client: ShopClient) -> None:
        paused = shop_client.product(status="paused")

        for product_id in (paused, uuid4()):
            answer = shop_client.get(f"/api/products/{product_id}/reviews", {})
            assert_problem(answer, 404, "RESOURCE_NOT_FOUND")


class TestOwnReviews:
    """``GET /api/users/me/reviews``."""

    def test_author_sees_hidden_review_that_others_do_not(self, shop_client: ShopClient) -> None:
        review_id = reviewed(shop_client)
        shop_client.database.in_transaction(hide_review, review_id=UUID(review_id), act=Act("system", NOW))

        [own] = shop_client.get("/api/users/me/reviews", shop_client.buyer).json["data"]

        assert (own["id"], own["status"], own["editableUntil"]) == (review_id, "hidden", None)
        listed = shop_client.get(path_of(shop_client), shop_client.buyer).json
        assert (listed["data"], listed["meta"]["summary"]["ratingCount"]) == ([], 0)
        assert shop_client.get("/api/users/me/reviews", shop_client.stranger).json["data"] == []


class TestUpdate:
    """``PUT /api/reviews/:id``."""

    def test_author_changes_stars_and_text(self, shop_client: ShopClient, clock: MovableClock) -> None:
        review_id = reviewed(shop_client, rating=2)
        clock.now = later(days=6, hours=23, minutes=59)
        body = {"rating": 5, "text": f"{TEXT} Really.", "revision": 1}

        answer = put(shop_client, f"/api/reviews/{review_id}", shop_client.buyer, body)

        data = answer.json["data"]
        assert (data["rating"], data["text"], data["revision"]) == (5, body["text"], 2)
        assert data["editedAt"] == "2026-11-27T09:29:00Z"
        assert summary_of(shop_client) == {
            "rating": 5.0,
            "ratingCount": 1,
            "distribution": {"1": 0, "2": 0, "3": 0, "4": 0, "5": 1},
        }

    def test_equal_values_change_nothing(self, shop_client: ShopClient) -> None:
        review_id = reviewed(shop_client)

        answer = put(shop_client, f"/api/reviews/{review_id}", shop_client.buyer, {"rating": 4, "text": TEXT})

        assert (answer.json["data"]["revision"], answer.json["data"]["editedAt"]) == (1, None)

    def test_stale_revision_is_refused(self, shop_client: ShopClient) -> None:
        review_id = reviewed(shop_client)
        put(shop_client, f"/api/reviews/{review_id}", shop_client.buyer, {"rating": 3})

        answer = put(
            shop_client, f"/api/reviews/{review_id}", shop_client.buyer, {"rating": 1, "revision": 1}
        )

        assert_conflict(answer, "stale-revision")

    def test_change_after_seven_days_is_refused(self, shop_client: ShopClient, clock: MovableClock) -> None:
        review_id = reviewed(shop_client)
        clock.now = later(days=7)

        answer = put(shop_client, f"/api/reviews/{review_id}", shop_client.buyer, {"rating": 1})

        assert_conflict(answer, "review-edits-closed")

    def test_change_of_hidden_review_is_refused(self, shop_client: ShopClient) -> None:
        review_id = reviewed(shop_client)
        shop_client.database.in_transaction(hide_review, review_id=UUID(review_id), act=Act("system", NOW))

        answer = put(shop_client, f"/api/reviews/{review_id}", shop_client.buyer, {"rating": 1})

        assert_conflict(answer, "transition-not-allowed")

    def test_others_do_not_find_review(self, shop_client: ShopClient) -> None:
        review_id = reviewed(shop_client)

        for headers in (shop_client.stranger, shop_client.vendor, shop_client.officer("admin")):
            answer = put(shop_client, f"/api/reviews/{review_id}", headers, {"rating": 1})
            assert_problem(answer, 404, "RESOURCE_NOT_FOUND")
            answer = shop_client.client.delete(f"/api/reviews/{review_id}", headers=headers)
            assert_problem(answer, 404, "RESOURCE_NOT_FOUND")

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({"rating": 6}, "rating"),
            ({"text": "ada@mail.example is my address"}, "text"),
            ({"text": "What an ashewo of a seller"}, "text"),
            ({"orderId": str(uuid4())}, "orderId"),
            ({"revision": 1}, "body"),
            ({}, "body"),
        ],
    )
    def test_invalid_change_is_refused(
        self, shop_client: ShopClient, body: dict[str, Any], field: str
    ) -> None:
        answer = put(shop_client, f"/api/reviews/{uuid4()}", shop_client.buyer, body)

        assert_problem(answer, 422, "VALIDATION_FAILED")
        assert field in faults(answer)


class TestDelete:
    """``DELETE /api/reviews/:id``."""

    def test_deleted_review_disappears_with_texts(self, shop_client: ShopClient) -> None:
        order_id = shop_client.delivered()
        review_id = submit(shop_client, order_id).json["data"]["id"]
        shop_client.post(f"/api/reviews/{review_id}/reply", shop_client.vendor, {"text": REPLY})

        answer = shop_client.client.delete(f"/api/reviews/{review_id}", headers=shop_client.buyer)

        assert answer.json["data"] == {"deleted": True, "id": review_id}
        assert shop_client.get(path_of(shop_client), {}).json["data"] == []
        assert shop_client.get("/api/users/me/reviews", shop_client.buyer).json["data"] == []
        assert summary_of(shop_client)["ratingCount"] == 0
        with shop_client.database.reading() as session:
            row = row_of(session, "reviews", id=UUID(review_id))
        assert (row["text"], row["reply_text"]) == (None, None)
        again = shop_client.client.delete(f"/api/reviews/{review_id}", headers=shop_client.buyer)
        assert_problem(again, 404, "RESOURCE_NOT_FOUND")
        assert_conflict(submit(shop_client, order_id), "order-already-reviewed")


class TestReply:
    """``POST`` and ``PUT /api/reviews/:id/reply``."""

    def test_store_replies_once_and_author_is_notified(self, shop_client: ShopClient) -> None:
        review_id = reviewed(shop_client)
        path = f"/api/reviews/{review_id}/reply"

        answer = shop_client.post(path, shop_client.vendor, {"text": REPLY})

        assert answer.status_code == 201
        reply = {"text": REPLY, "createdAt": "2026-11-20T09:30:00Z", "editedAt": None}
        assert answer.json["data"]["reply"] == reply
        assert shop_client.get(path_of(shop_client), {}).json["data"][0]["reply"] == reply
        with shop_client.database.reading() as session:
            row_of(session, "notifications", user_id=shop_client.shop.buyer.id, type="review_reply")
        again = shop_client.post(path, shop_client.vendor, {"text": REPLY})
        assert_conflict(again, "review-already-replied")

    def test_reply_is_changed_within_seven_days(self, shop_client: ShopClient, clock: MovableClock) -> None:
        path = f"/api/reviews/{reviewed(shop_client)}/reply"
        shop_client.post(path, shop_client.vendor, {"text": REPLY})
        clock.now = later(days=6)

        answer = put(shop_client, path, shop_client.vendor, {"text": "Thanks!"})

        assert answer.json["data"]["reply"]["text"] == "Thanks!"
        assert answer.json["data"]["reply"]["editedAt"] == "2026-11-26T09:30:00Z"
        clock.now = later(days=7)
        late = put(shop_client, path, shop_client.vendor, {"text": REPLY})
        assert_conflict(late, "reply-edits-closed")

    def test_missing_reply_cannot_be_changed(self, shop_client: ShopClient) -> None:
        path = f"/api/reviews/{reviewed(shop_client)}/reply"

        answer = put(shop_client, path, shop_client.vendor, {"text": REPLY})

        assert_conflict(answer, "review-without-reply")

    def test_only_owner_of_store_replies(self, shop_client: ShopClient) -> None:
        path = f"/api/reviews/{reviewed(shop_client)}/reply"
        other = shop_client.database.in_transaction(make_shop)

        for send in (shop_client.post, lambda *given: put(shop_client, *given)):
            foreign = send(path, shop_client.bearer(other.vendor.id), {"text": REPLY})
            assert_problem(foreign, 404, "RESOURCE_NOT_FOUND")
            for headers in (shop_client.buyer, shop_client.officer("admin")):
                assert_problem(send(path, headers, {"text": REPLY}), 403, "AUTH_FORBIDDEN")

    def test_hidden_review_is_not_found_by_store(self, shop_client: ShopClient) -> None:
        review_id = reviewed(shop_client)
        shop_client.database.in_transaction(hide_review, review_id=UUID(review_id), act=Act("system", NOW))

        answer = shop_client.post(f"/api/reviews/{review_id}/reply", shop_client.vendor, {"text": REPLY})

        assert_problem(answer, 404, "RESOURCE_NOT_FOUND")

    @pytest.mark.parametrize("reply", ["", "x", "x" * 1001, "Chat me on www.lamps.com", "You olodo"])
    def test_invalid_text_is_refused(self, shop_client: ShopClient, reply: str) -> None:
        answer = shop_client.post(f"/api/reviews/{uuid4()}/reply", shop_client.vendor, {"text": reply})

        assert_problem(answer, 422, "VALIDATION_FAILED")
        assert set(faults(answer)) == {"text"}


def rename(session: Any, user_id: UUID, name: str) -> None:
    """Change a person's name."""
    session.get_one(Profile, user_id).name = name


def refund_after_release(session: Any, order_id: UUID, amount_minor: int | None = None) -> None:
    """Refund a delivered order as an officer, by default in full."""
    claw_back(session, order_id, make_officer(session), amount_minor=amount_minor)
