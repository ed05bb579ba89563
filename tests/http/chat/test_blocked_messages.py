"""Refused messages over HTTP: the problem, the record for staff, the review, and the report after three."""

from typing import Any

import pytest
from sqlalchemy import text

from blueprints.chat.schemas import BlockedMessageView
from marketplace.chat.models import BlockedMessage
from marketplace.infra.outbox import OutboxEvent
from tasks.community import report_repeated_blocks
from tests.support.audit_and_notifications import audit_of
from tests.support.gateway import MovableClock
from tests.support.probes import assert_problem
from tests.support.purchases import NOW, later
from tests.support.shop_client import ShopClient

SEND = "/api/chat/send"
QUEUE = "/api/admin/blocked-messages"
NUMBER = "Call me on 0803 555 0199"


def send(shop_client: ShopClient, body: str = NUMBER) -> Any:
    fields = {"vendorId": str(shop_client.shop.store_id), "body": body}
    return shop_client.post(SEND, shop_client.buyer, fields)


def blocked_rows(shop_client: ShopClient) -> list[Any]:
    with shop_client.database.reading() as session:
        rows = session.execute(
            text("SELECT * FROM blocked_messages WHERE sender_id = :id ORDER BY id"),
            {"id": shop_client.shop.buyer.id},
        )
        return list(rows.mappings())


@pytest.fixture
def support(shop_client: ShopClient) -> dict[str, str]:
    return shop_client.officer("support")


class TestRefusal:
    def test_message_with_contact_details_is_refused_and_kept(self, shop_client: ShopClient) -> None:
        problem = assert_problem(send(shop_client), 422, "VALIDATION_FAILED")
        assert problem["reason"] == "contact-details"
        assert problem["invalid_params"] == [{"name": "body", "reason": "Remove a phone number."}]
        assert "exchange phone numbers" in problem["detail"]
        [row] = blocked_rows(shop_client)
        assert (row["body"], row["kinds"], row["earlier_messages"]) == (NUMBER, ["phone"], [])
        # The conversation does not exist without a sent message.
        assert shop_client.get("/api/conversations", shop_client.buyer).json["data"] == []

    def test_number_split_over_messages_is_refused(
        self, shop_client: ShopClient, clock: MovableClock
    ) -> None:
        for part in ("my line is 0803", "then 555"):
            assert send(shop_client, part).status_code == 201
        problem = assert_problem(send(shop_client, "0199 last"), 422, "VALIDATION_FAILED")
        assert "Together with your last messages" in problem["invalid_params"][0]["reason"]
        [row] = blocked_rows(shop_client)
        assert row["earlier_messages"] == ["my line is 0803", "then 555"]
        # The parts are old after two minutes.
        clock.now = later(minutes=3)
        assert send(shop_client, "0199 last").status_code == 201

    def test_parts_of_both_parties_are_not_joined(self, shop_client: ShopClient) -> None:
        conversation_id = send(shop_client, "is it 0803").json["data"]["conversationId"]
        body = {"conversationId": conversation_id, "body": "555 0199"}
        assert shop_client.post(SEND, shop_client.vendor, body).status_code == 201

    def test_blocked_person_learns_of_the_block_first(self, shop_client: ShopClient) -> None:
        conversation_id = send(shop_client, "Hello").json["data"]["conversationId"]
        assert (
            shop_client.post(f"/api/conversations/{conversation_id}/block", shop_client.vendor).status_code
            == 200
        )
        assert_problem(send(shop_client), 403, "AUTH_FORBIDDEN")
        assert blocked_rows(shop_client) == []


class TestReview:
    def test_staff_review_refused_messages(self, shop_client: ShopClient, support: dict[str, str]) -> None:
        send(shop_client)
        [row] = blocked_rows(shop_client)
        listed = shop_client.get(QUEUE, support, senderId=str(shop_client.shop.buyer.id)).json["data"]
        assert not BlockedMessageView(many=True).validate(listed)
        assert [(one["id"], one["body"]) for one in listed] == [(str(row["id"]), NUMBER)]
        path = f"{QUEUE}/{row['id']}/review"
        reviewed = shop_client.post(path, support, {"verdict": "mistaken"})
        assert reviewed.json["data"]["verdict"] == "mistaken"
        again = shop_client.post(path, support, {"verdict": "correct"})
        assert assert_problem(again, 409, "CONCURRENCY_CONFLICT")["reason"] == "blocked-message-reviewed"
        for query, ids in (({}, []), ({"reviewed": "true"}, [str(row["id"])])):
            page = shop_client.get(QUEUE, support, senderId=str(shop_client.shop.buyer.id), **query)
            assert [one["id"] for one in page.json["data"]] == ids
        [entry] = audit_of(shop_client.database, row["id"])
        assert (entry["action"], entry["after"]) == ("chat.blocked-message-reviewed", {"verdict": "mistaken"})

    def test_other_staff_and_people_have_no_access(self, shop_client: ShopClient) -> None:
        send(shop_client)
        [row] = blocked_rows(shop_client)
        for headers in (shop_client.buyer, shop_client.vendor, shop_client.officer("finance")):
            assert_problem(shop_client.get(QUEUE, headers), 403, "AUTH_FORBIDDEN")
            refused = shop_client.post(f"{QUEUE}/{row['id']}/review", headers, {"verdict": "correct"})
            assert_problem(refused, 403, "AUTH_FORBIDDEN")

    def test_officer_does_not_review_own_messages(self, shop_client: ShopClient) -> None:
        send(shop_client)
        with shop_client.database.transaction() as session:
            # The sender joins the staff later.
            session.execute(
                text("UPDATE profiles SET role = 'staff', staff_role = 'support' WHERE id = :id"),
                {"id": shop_client.shop.buyer.id},
            )
        [row] = blocked_rows(shop_client)
        refused = shop_client.post(f"{QUEUE}/{row['id']}/review", shop_client.buyer, {"verdict": "mistaken"})
        assert assert_problem(refused, 403, "AUTH_FORBIDDEN")["reason"] == "conflict-of-interest"


class TestRepeatedRefusals:
    def test_third_refusal_within_a_day_reports_the_sender_once(self, shop_client: ShopClient) -> None:
        user_id = shop_client.shop.buyer.id
        send(shop_client)
        with shop_client.database.transaction() as session:
            session.query(BlockedMessage).filter_by(sender_id=user_id).update(
                {"created_at": later(hours=-25)}
            )
        for _ in range(2):
            send(shop_client)
        assert self._events(shop_client) == []
        send(shop_client)
        [payload] = self._events(shop_client)
        for _ in range(2):
            with shop_client.database.transaction() as session:
                report_repeated_blocks(session, payload, NOW)
        admin = shop_client.officer("admin")
        queue = shop_client.get("/api/admin/reports", admin, targetType="user", limit=100).json["data"]
        [case] = [one for one in queue if one["targetId"] == str(user_id)]
        assert (case["reports"], case["countedReports"]) == (1, 0)
        detail = shop_client.get(f"/api/admin/reports/{case['id']}", admin).json["data"]
        [report] = detail["latestReports"]
        assert report["reporterId"] is None
        assert "3 messages" in report["details"]
        decided = shop_client.post(
            f"/api/admin/reports/{case['id']}/decide",
            admin,
            {"outcome": "dismissed", "reason": "The texts were harmless."},
        )
        assert decided.status_code == 200, decided.json

    def _events(self, shop_client: ShopClient) -> list[dict[str, Any]]:
        with shop_client.database.reading() as session:
            events = session.query(OutboxEvent).filter_by(topic="chat.repeated-blocks").all()
            return [
                event.payload for event in events if event.payload["userId"] == str(shop_client.shop.buyer.id)
            ]
