"""Product moderation over HTTP: review queue, decisions and banned terms."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from flask import Flask
from flask.testing import FlaskClient

from blueprints.catalog.moderation.schemas import BannedTermView, ModeratedProduct
from marketplace.catalog.models import BannedTerm, Product
from marketplace.infra.db import Database
from tests.support.audit_and_notifications import audit_of, find_first_broken_link, notifications_of
from tests.support.market import Bearer, Market, Store
from tests.support.moderation import screen_by_rules_alone
from tests.support.product_api import faults_of, ids_of, list_products, listing_body
from tests.support.threads import at_once

REASON = {"reason": "The picture shows another article."}


@pytest.fixture
def officer(market: Market, bearer: Bearer) -> dict[str, str]:
    return bearer(market.staff("moderator"))


def held_product(market: Market, store: Store, **columns: Any) -> UUID:
    given: dict[str, Any] = {"status": "in_review", "held": True, "review_reasons": ["The price is odd."]}
    return market.product(store, **given | {"status_reason": "The price is odd."} | columns)


def decide(client: FlaskClient, product_id: UUID, decision: str, headers: dict[str, str], **body: Any) -> Any:
    given = body or ({} if decision == "approve" else REASON)
    return client.post(f"/api/products/{product_id}/{decision}", json=given, headers=headers)


def queue(client: FlaskClient, headers: dict[str, str], **query: Any) -> Any:
    response = client.get("/api/products/moderation", query_string=query, headers=headers)
    assert response.status_code == 200, response.json
    return response.json


class TestReviewQueue:
    def test_review_queue_lists_oldest_first_by_page(
        self, client: FlaskClient, market: Market, store: Store, officer: dict[str, str]
    ) -> None:
        made = [
            held_product(market, store, moderated_at=market.now - timedelta(hours=hours))
            for hours in range(5)
        ]
        elsewhere = market.store(campus_id=market.campus())
        held_product(market, elsewhere)

        seen: list[UUID] = []
        cursor: dict[str, str] = {}
        for _ in range(3):
            page = queue(client, officer, campus=str(market.campus_id), limit=2, **cursor)
            seen += ids_of(page)
            cursor = {"cursor": page["meta"]["next_cursor"]}

        assert seen == made[::-1]
        assert not page["meta"]["has_more"]

    def test_review_queue_shows_pending_decisions(
        self, client: FlaskClient, market: Market, store: Store, officer: dict[str, str]
    ) -> None:
        image_id = market.image(store.user_id)
        product_id = held_product(market, store, images=(image_id,), description="As new.", revision=3)

        [item] = queue(client, officer, campus=str(market.campus_id))["data"]

        assert not ModeratedProduct().validate(item)
        assert item["id"] == str(product_id)
        assert (item["status"], item["reviewState"], item["revision"]) == ("in_review", "held", 3)
        assert item["reviewReasons"] == ["The price is odd."]
        assert item["vendor"]["id"] == str(store.id)
        assert item["description"] == "As new."
        assert len(item["imageUrls"]) == 1

    def test_review_queue_is_filtered_by_status(
        self, client: FlaskClient, market: Market, store: Store, officer: dict[str, str]
    ) -> None:
        made = {
            "held": held_product(market, store),
            "screening": market.product(store, status="in_review"),
            "rejected": market.product(store, status="rejected"),
            "removed": market.product(store, status="removed"),
        }
        for status in ("draft", "published", "paused", "deleted"):
            market.product(store, status=status)

        for state, product_id in made.items():
            page = queue(client, officer, campus=str(market.campus_id), status=state)
            assert ids_of(page) == [product_id]

    @pytest.mark.parametrize("query", [{"status": "published"}, {"limit": 0}, {"page": 1}, {"cursor": "x"}])
    def test_invalid_queue_parameter_is_refused(
        self, client: FlaskClient, officer: dict[str, str], query: dict[str, Any]
    ) -> None:
        response = client.get("/api/products/moderation", query_string=query, headers=officer)

        assert (response.status_code, faults_of(response)) == (422, list(query))

    def test_review_queue_is_filtered_by_campus_slug(
        self, client: FlaskClient, market: Market, store: Store, officer: dict[str, str]
    ) -> None:
        product_id = held_product(market, store)
        slug = queue(client, officer, campus=str(market.campus_id))["data"][0]["campus"]["slug"]

        assert ids_of(queue(client, officer, campus=slug)) == [product_id]
        assert ids_of(queue(client, officer, campus="nowhere")) == []


class TestDecisions:
    def test_approved_product_is_published_audited_and_notified(
        self,
        client: FlaskClient,
        market: Market,
        store: Store,
        database: Database,
        officer: dict[str, str],
    ) -> None:
        product_id = held_product(market, store, title="Reading lamp")
        assert ids_of(list_products(client, vendor=store.id)) == []

        response = decide(client, product_id, "approve", officer, note="Fine.")

        assert response.status_code == 200
        assert not ModeratedProduct().validate(response.json["data"])
        assert (response.json["data"]["status"], response.json["data"]["reviewReasons"]) == ("published", [])
        assert ids_of(list_products(client, vendor=store.id)) == [product_id]
        [row] = audit_of(database, product_id)
        assert (row["action"], row["actor"]) == ("product.approve", "moderator")
        assert row["before"]["status"] == "in_review"
        assert row["before"]["reviewReasons"] == ["The price is odd."]
        assert (row["after"]["status"], row["after"]["note"]) == ("published", "Fine.")
        assert row["before"]["title"] == row["after"]["title"] == "Reading lamp"
        [notification] = notifications_of(database, store.user_id)
        assert notification["type"] == "product_published"

    def test_rejected_product_shows_the_reason_and_can_be_resubmitted(
        self,
        client: FlaskClient,
        market: Market,
        store: Store,
        database: Database,
        officer: dict[str, str],
        bearer: Bearer,
    ) -> None:
        product_id = held_product(market, store)
        owner = bearer(store.user_id)

        assert decide(client, product_id, "reject", officer).status_code == 200

        seen = client.get(f"/api/products/{product_id}", headers=owner).json["data"]
        assert (seen["status"], seen["statusReason"]) == ("rejected", REASON["reason"])
        assert seen["reviewState"] is None
        [notification] = notifications_of(database, store.user_id)
        assert notification["type"] == "product_rejected"
        assert REASON["reason"] in notification["body"]

        again = client.put(
            f"/api/products/{product_id}", json={"title": "Mended lamp", "status": "published"}, headers=owner
        )
        assert (again.json["data"]["status"], again.json["data"]["reviewState"]) == ("in_review", "screening")
        assert again.json["data"]["statusReason"] is None
        # A product that staff rejected needs staff approval, even after a clean screening.
        database.in_transaction(screen_by_rules_alone, product_id=product_id, now=market.now)
        assert market.row(Product, product_id).held
        assert decide(client, product_id, "approve", officer).status_code == 200
        assert not market.row(Product, product_id).needs_staff

    def test_taken_down_product_stays_hidden_until_staff_restore(
        self,
        client: FlaskClient,
        market: Market,
        store: Store,
        database: Database,
        officer: dict[str, str],
        bearer: Bearer,
    ) -> None:
        product_id = market.product(store, price_minor=777_000)
        assert ids_of(list_products(client, vendor=store.id)) == [product_id]

        assert decide(client, product_id, "takedown", officer).json["data"]["status"] == "removed"

        assert ids_of(list_products(client, vendor=store.id)) == []
        assert client.get(f"/api/products/{product_id}").status_code == 404
        owner = bearer(store.user_id)
        for change in ({"status": "published"}, {"title": "Another"}):
            refused = client.put(f"/api/products/{product_id}", json=change, headers=owner)
            assert (refused.status_code, refused.json["code"]) == (409, "CONCURRENCY_CONFLICT")
        [row] = audit_of(database, product_id)
        assert (row["action"], row["before"]["status"]) == ("product.take_down", "published")
        assert (row["after"]["status"], row["after"]["statusReason"]) == ("removed", REASON["reason"])
        assert row["after"]["priceMinor"] == 777_000
        assert [notification["type"] for notification in notifications_of(database, store.user_id)] == [
            "product_removed"
        ]

        assert decide(client, product_id, "approve", officer).json["data"]["status"] == "published"
        assert ids_of(list_products(client, vendor=store.id)) == [product_id]
        assert [row["action"] for row in audit_of(database, product_id)][-1] == "product.restore"

    @pytest.mark.parametrize(
        ("status", "decision"),
        [
            ("draft", "approve"),
            ("published", "approve"),
            ("paused", "approve"),
            ("draft", "reject"),
            ("published", "reject"),
            ("rejected", "reject"),
            ("removed", "reject"),
            ("draft", "takedown"),
            ("removed", "takedown"),
        ],
    )
    def test_illegal_decision_is_a_conflict_naming_the_current_status(
        self,
        *,
        client: FlaskClient,
        market: Market,
        store: Store,
        database: Database,
        officer: dict[str, str],
        status: str,
        decision: str,
    ) -> None:
        product_id = market.product(store, status=status)

        response = decide(client, product_id, decision, officer)

        assert (response.status_code, response.json["code"]) == (409, "CONCURRENCY_CONFLICT")
        assert status in response.json["detail"]
        assert market.row(Product, product_id).status == status
        assert audit_of(database, product_id) == []
        assert notifications_of(database, store.user_id) == []

    @pytest.mark.parametrize("decision", ["approve", "reject", "takedown"])
    def test_decision_on_changed_listing_is_refused(
        self, client: FlaskClient, market: Market, store: Store, officer: dict[str, str], decision: str
    ) -> None:
        product_id = held_product(market, store, revision=4)
        body = {} if decision == "approve" else REASON

        for given, header in (({"revision": 3}, None), ({}, '"3"')):
            extra = {"If-Match": header} if header else {}
            response = client.post(
                f"/api/products/{product_id}/{decision}", json=body | given, headers=officer | extra
            )
            assert response.status_code == 409
            assert "revision is 4" in response.json["detail"]
        assert market.row(Product, product_id).held
        assert decide(client, product_id, decision, officer, **body, revision=4).status_code == 200
        assert market.row(Product, product_id).revision == 5

    @pytest.mark.parametrize("decision", ["approve", "reject", "takedown"])
    def test_decision_requires_product_permission(
        self, client: FlaskClient, market: Market, store: Store, bearer: Bearer, decision: str
    ) -> None:
        product_id = held_product(market, store)
        path = f"/api/products/{product_id}/{decision}"

        assert client.post(path, json=REASON).status_code == 401
        for user_id in (
            store.user_id,
            market.person(),
            market.staff("support"),
            market.staff("campus_rep"),
            market.staff("finance"),
        ):
            refused = client.post(path, json=REASON, headers=bearer(user_id))
            assert (refused.status_code, refused.json["code"]) == (403, "AUTH_FORBIDDEN")
        assert market.row(Product, product_id).held
        assert decide(client, product_id, decision, bearer(market.staff("admin"))).status_code == 200

    @pytest.mark.parametrize("decision", ["approve", "reject", "takedown"])
    def test_officer_cannot_moderate_own_listing(
        self, client: FlaskClient, market: Market, database: Database, bearer: Bearer, decision: str
    ) -> None:
        officer_id = market.staff("moderator")
        product_id = held_product(market, market.store(user_id=officer_id))

        response = decide(client, product_id, decision, bearer(officer_id))

        assert (response.status_code, response.json["code"]) == (403, "AUTH_FORBIDDEN")
        assert audit_of(database, product_id) == []

    @pytest.mark.parametrize("decision", ["approve", "reject", "takedown"])
    def test_decision_on_missing_or_deleted_product_is_not_found(
        self, client: FlaskClient, market: Market, store: Store, officer: dict[str, str], decision: str
    ) -> None:
        assert decide(client, uuid4(), decision, officer).status_code == 404
        assert decide(client, market.product(store, status="deleted"), decision, officer).status_code == 404

    @pytest.mark.parametrize(
        ("body", "fault"),
        [
            ({}, "reason"),
            ({"reason": "  "}, "reason"),
            ({"reason": "x" * 501}, "reason"),
            ({"reason": 7}, "reason"),
            (REASON | {"revision": 0}, "revision"),
            (REASON | {"status": "published"}, "status"),
        ],
    )
    def test_rejection_with_invalid_body_is_refused(
        self,
        *,
        client: FlaskClient,
        market: Market,
        store: Store,
        officer: dict[str, str],
        body: dict[str, Any],
        fault: str,
    ) -> None:
        product_id = held_product(market, store)

        response = client.post(f"/api/products/{product_id}/reject", json=body, headers=officer)

        assert (response.status_code, faults_of(response)) == (422, [fault])

    def test_audit_log_omits_contact_details(
        self,
        client: FlaskClient,
        market: Market,
        store: Store,
        database: Database,
        officer: dict[str, str],
    ) -> None:
        product_id = held_product(market, store, title="Lamp, call 08031234567")

        decide(client, product_id, "takedown", officer)

        assert "08031234567" not in str(audit_of(database, product_id))

    def test_concurrent_decisions_are_serialized(
        self, app: Flask, market: Market, store: Store, database: Database, bearer: Bearer
    ) -> None:
        for _ in range(3):
            product_id = held_product(market, store)
            decisions = [
                (decision, bearer(market.staff("moderator")))
                for decision in ("approve", "reject", "approve", "reject")
            ]

            answers = at_once(
                lambda one, product_id=product_id: decide(app.test_client(), product_id, one[0], one[1]),  # type: ignore[misc]
                decisions,
            )

            # A rejected product may still be approved. No other decision may follow a decision.
            acts = [row["action"] for row in audit_of(database, product_id)]
            assert acts in (["product.approve"], ["product.reject"], ["product.reject", "product.approve"])
            assert [answer.status_code for answer in answers].count(200) == len(acts)  # type: ignore[union-attr]
            assert len(notifications_of(database, store.user_id)) >= len(acts)
        with database.reading() as session:
            assert find_first_broken_link(session) is None

    def test_approval_never_covers_a_concurrent_edit(
        self, app: Flask, market: Market, store: Store, bearer: Bearer
    ) -> None:
        """An approval names the revision that the officer read."""
        officer, owner = bearer(market.staff("moderator")), bearer(store.user_id)
        for number in range(4):
            product_id = held_product(market, store, title="As it was")

            def approve(product_id: UUID = product_id) -> int:
                body = {"revision": 1}
                path = f"/api/products/{product_id}/approve"
                return app.test_client().post(path, json=body, headers=officer).status_code

            def edit(product_id: UUID = product_id, number: int = number) -> int:
                body = {"title": f"As it is now {number}"}
                path = f"/api/products/{product_id}"
                return app.test_client().put(path, json=body, headers=owner).status_code

            decided, edited = at_once(lambda work: work(), [approve, edit])

            row = market.row(Product, product_id)
            assert edited == 200
            assert decided in (200, 409)
            # An edit after the approval reopens the review. An edit before the approval makes the approval stale.
            assert (row.status, row.held) == ("in_review", False)


def test_held_product_is_published_after_vendor_corrects_the_text(
    client: FlaskClient, market: Market, store: Store, database: Database, bearer: Bearer
) -> None:
    owner = bearer(store.user_id)
    made = client.post(
        "/api/products", json=listing_body(market, description="WhatsApp me on 0803 123 4567"), headers=owner
    ).json["data"]
    assert (made["status"], made["reviewState"], made["reviewReasons"]) == ("in_review", "screening", [])
    product_id = UUID(made["id"])
    database.in_transaction(screen_by_rules_alone, product_id=product_id, now=market.now)

    seen = client.get(f"/api/products/{product_id}", headers=owner).json["data"]
    assert (seen["status"], seen["reviewState"]) == ("in_review", "held")
    assert len(seen["reviewReasons"]) == 1
    assert "phone number" in seen["statusReason"]
    assert "0803" not in seen["statusReason"]
    [item] = client.get("/api/products/vendor/paginated", headers=owner).json["data"]
    assert (item["status"], item["reviewState"]) == ("in_review", "held")
    assert item["reviewReasons"] == seen["reviewReasons"]

    corrected = client.put(
        f"/api/products/{product_id}", json={"description": "Hardly used."}, headers=owner
    ).json["data"]
    assert (corrected["status"], corrected["reviewState"], corrected["reviewReasons"]) == (
        "in_review",
        "screening",
        [],
    )
    database.in_transaction(screen_by_rules_alone, product_id=product_id, now=market.now)

    assert ids_of(list_products(client, vendor=store.id)) == [product_id]
    kinds = [notification["type"] for notification in notifications_of(database, store.user_id)]
    assert kinds == ["product_held", "product_published"]


def test_public_detail_omits_review_fields(
    client: FlaskClient, market: Market, store: Store, bearer: Bearer
) -> None:
    product_id = market.product(store)

    for headers in ({}, bearer(market.person()), bearer(market.store().user_id)):
        seen = client.get(f"/api/products/{product_id}", headers=headers).json["data"]
        assert not {"reviewState", "reviewReasons", "statusReason", "status"} & seen.keys()


class TestBannedTerms:
    PATH = "/api/products/moderation/banned-terms"

    def ban(self, client: FlaskClient, headers: dict[str, str], **body: Any) -> Any:
        return client.post(self.PATH, json=body, headers=headers)

    def test_banned_term_holds_products_until_allowed_again(
        self,
        client: FlaskClient,
        market: Market,
        store: Store,
        database: Database,
        officer: dict[str, str],
    ) -> None:
        word = f"zorb{uuid4().hex[:10]}"
        made = self.ban(
            client, officer, term=f"  {word.upper()}   Kit ", category="other", exceptions=[f"{word} kit bag"]
        )
        assert made.status_code == 201
        assert not BannedTermView().validate(made.json["data"])
        assert made.json["data"]["term"] == f"{word} kit"
        term_id = made.json["data"]["id"]

        def screened(title: str) -> bool:
            product_id = market.product(store, status="in_review", title=title)
            database.in_transaction(screen_by_rules_alone, product_id=product_id, now=market.now)
            return bool(market.row(Product, product_id).held)

        assert screened(f"New {word} kits")
        assert not screened(f"{word} kit bag")
        assert self.ban(client, officer, term=f"{word} kit", category="drug").status_code == 409

        gone = client.delete(f"{self.PATH}/{term_id}", headers=officer)
        assert gone.json["data"] == {"deleted": True, "id": term_id}
        assert client.delete(f"{self.PATH}/{term_id}", headers=officer).status_code == 404
        assert not screened(f"New {word} kits")
        rows = audit_of(database, term_id)
        assert [row["action"] for row in rows] == ["banned_term.ban", "banned_term.allow"]
        assert rows[0]["before"] is None
        assert rows[0]["after"]["term"] == rows[1]["before"]["term"] == f"{word} kit"

    def test_banned_terms_are_listed_by_page(
        self, client: FlaskClient, market: Market, officer: dict[str, str]
    ) -> None:
        seen: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            answer = client.get(self.PATH, query_string={"limit": 40, **cursor}, headers=officer).json
            seen += [row["term"] for row in answer["data"]]
            if not answer["meta"]["has_more"]:
                break
            cursor = {"cursor": answer["meta"]["next_cursor"]}

        assert seen == sorted(set(seen))
        assert {"gun", "tramadol", "exam runz"} <= set(seen)

    @pytest.mark.parametrize(
        ("body", "fault"),
        [
            ({"category": "drug"}, "term"),
            ({"term": "!!!", "category": "drug"}, "term"),
            ({"term": "x" * 61, "category": "drug"}, "term"),
            ({"term": "thing", "category": "toys"}, "category"),
            ({"term": "thing", "category": "other", "exceptions": ["another"]}, "exceptions[0]"),
            ({"term": "thing", "category": "other", "exceptions": ["thing"]}, "exceptions[0]"),
            ({"term": "thing", "category": "other", "exceptions": ["a thing", "a thing"]}, "exceptions[1]"),
        ],
    )
    def test_invalid_banned_term_is_refused(
        self, client: FlaskClient, officer: dict[str, str], body: dict[str, Any], fault: str
    ) -> None:
        response = self.ban(client, officer, **body)

        assert (response.status_code, faults_of(response)) == (422, [fault])

    def test_banned_terms_require_the_permission(
        self, client: FlaskClient, market: Market, store: Store, bearer: Bearer
    ) -> None:
        term_id = market._save(BannedTerm(term=f"t{uuid4().hex}", category="other", exceptions=[]))
        for headers, status in (
            (None, 401),
            (bearer(store.user_id), 403),
            (bearer(market.staff("orders")), 403),
        ):
            assert client.get(self.PATH, headers=headers).status_code == status
            assert client.post(self.PATH, json={}, headers=headers).status_code == status
            assert client.delete(f"{self.PATH}/{term_id}", headers=headers).status_code == status
