"""Webhook administration by finance over HTTP: listing received events and replaying dead letters."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from werkzeug.test import TestResponse

from marketplace.webhooks import inbox as webhook_inbox
from tests.support.alerts import alerts_about
from tests.support.gateway import charge_data, event_of
from tests.support.gateway_events import refund_data
from tests.support.purchases import NOW, make_intent, make_person, row_of, status_of
from tests.support.shop_client import ShopClient, new_key

PATH = "/api/admin/webhooks"


@pytest.fixture
def officer(shop_client: ShopClient) -> dict[str, str]:
    return staff(shop_client, "finance")


def staff(shop_client: ShopClient, role: str, aal: str = "aal2") -> dict[str, str]:
    made = shop_client.database.in_transaction(make_person, role="staff", staff_role=role)
    return shop_client.bearer(made.id, aal)


def problem_of(answer: TestResponse) -> tuple[int, str]:
    assert answer.mimetype == "application/problem+json", answer.data
    return answer.status_code, answer.json["code"]


def receive(shop_client: ShopClient, body: bytes, **values: Any) -> UUID:
    given = {"provider": "gateway", "now": NOW} | values
    return shop_client.database.in_transaction(webhook_inbox.receive_event, body=body, **given)


def dead_letter(shop_client: ShopClient, body: bytes, **values: Any) -> UUID:
    inbox_id = receive(shop_client, body, **values)
    webhook_inbox.process_event(
        shop_client.database, inbox_id=inbox_id, fee_bearer="platform", now=NOW, random=lambda: 0.5
    )
    return inbox_id


def payment_of(shop_client: ShopClient, order_id: UUID) -> bytes:
    with shop_client.database.transaction() as session:
        intent = make_intent(session, shop_client.shop, order_id)
    return event_of(charge_data(intent.reference, intent.amount_minor, customer={"email": "ada@example.com"}))


class TestListing:
    def test_events_are_listed_newest_first_with_counts(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        kind = f"greeted.{uuid4().hex}"
        inbox = [
            receive(shop_client, event_of({"id": uuid4().hex}, kind), now=NOW + timedelta(seconds=number))
            for number in range(5)
        ]
        for inbox_id in inbox:
            webhook_inbox.process_event(
                shop_client.database, inbox_id=inbox_id, fee_bearer="platform", now=NOW, random=lambda: 0.5
            )

        first = shop_client.get(PATH, officer, type=kind, limit=3).json
        second = shop_client.get(PATH, officer, type=kind, limit=3, cursor=first["meta"]["next_cursor"]).json

        assert [row["id"] for row in first["data"] + second["data"]] == [
            str(inbox_id) for inbox_id in reversed(inbox)
        ]
        assert (first["meta"]["has_more"], second["meta"]["has_more"]) == (True, False)
        row = first["data"][0]
        assert (row["state"], row["duplicate"], row["attempts"], row["dueAt"]) == ("ignored", False, 1, None)
        counts = first["meta"]["counts"]
        assert set(counts) == {"waiting", "retrying", "processed", "ignored", "dead"}
        assert counts["ignored"] >= 5

    def test_events_are_filtered_by_state_error_provider_and_time(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        before = shop_client.get(PATH, officer, limit=1).json["meta"]["counts"]
        broken = dead_letter(shop_client, b"[")
        waiting = receive(shop_client, event_of({"id": uuid4().hex}, "greeted"))
        chat = receive(shop_client, b"{}", provider="messaging")

        def found(**query: Any) -> set[str]:
            answer = shop_client.get(PATH, officer, limit=100, **query)
            assert answer.status_code == 200, answer.json
            return {row["id"] for row in answer.json["data"]} & {str(broken), str(waiting), str(chat)}

        assert found(state="dead") == {str(broken)}
        assert found(state="dead", error="not JSON") == {str(broken)}
        assert found(state="dead", error="not XML") == set()
        assert found(state="waiting", provider="gateway") == {str(waiting)}
        assert found(provider="messaging") == {str(chat)}
        assert found(since=(NOW + timedelta(seconds=1)).isoformat()) == set()
        after = shop_client.get(PATH, officer, limit=1).json["meta"]["counts"]
        assert after["dead"] == before["dead"] + 1
        assert after["waiting"] == before["waiting"] + 2

    @pytest.mark.parametrize(
        "query",
        [{"state": "lost"}, {"provider": "x"}, {"since": "yesterday"}, {"limit": 0}, {"colour": "red"}],
    )
    def test_invalid_parameters_are_refused(
        self, shop_client: ShopClient, officer: dict[str, str], query: dict[str, Any]
    ) -> None:
        assert problem_of(shop_client.get(PATH, officer, **query)) == (422, "VALIDATION_FAILED")

    def test_event_is_shown_without_payer_details(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        body = payment_of(shop_client, shop_client.unpaid())
        inbox_id = receive(shop_client, body)

        shown = shop_client.get(f"{PATH}/{inbox_id}", officer)

        data = shown.json["data"]
        assert (data["state"], data["bodyBytes"]) == ("waiting", len(body))
        assert data["payload"]["data"]["status"] == "success"
        assert "ada@" not in shown.text
        assert problem_of(shop_client.get(f"{PATH}/{uuid4()}", officer)) == (404, "RESOURCE_NOT_FOUND")


class TestIdentifiers:
    def test_event_is_shown_and_replayed_by_event_id_and_reference(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        reference, event_id = f"checkout-{uuid4().hex}", f"{uuid4().int % 10**12}"
        body = event_of({"id": int(event_id), "reference": reference}, "charge.success")
        inbox_id = dead_letter(shop_client, body)

        for identifier in (f"charge.success:{event_id}", reference, str(inbox_id)):
            shown = shop_client.get(f"{PATH}/{identifier}", officer)
            replayed = shop_client.post(f"{PATH}/{identifier}/replay", officer, {})
            assert (shown.json["data"]["id"], shown.json["data"]["state"]) == (str(inbox_id), "dead")
            assert (replayed.json["data"]["id"], replayed.json["data"]["outcome"]) == (
                str(inbox_id),
                "failed",
            )

    def test_reference_of_several_events_is_refused_and_lists_the_events(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        reference = f"checkout-{uuid4().hex}"
        inbox = [
            dead_letter(shop_client, event_of({"id": uuid4().hex, "reference": reference}, kind))
            for kind in ("charge.success", "greeted")
        ]

        for answer in (
            shop_client.get(f"{PATH}/{reference}", officer),
            shop_client.post(f"{PATH}/{reference}/replay", officer, {}),
        ):
            assert problem_of(answer) == (409, "CONCURRENCY_CONFLICT")
            assert answer.json["reason"] == "several-events-match"
        listed = shop_client.get(PATH, officer, id=reference).json["data"]
        assert {row["id"] for row in listed} == {str(inbox_id) for inbox_id in inbox}
        assert shop_client.get(PATH, officer, id=f"{reference}x").json["data"] == []

    def test_unknown_identifiers_are_not_found(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        for identifier in ("none-of-ours", "charge.success:0", "a%00b", "x" * 300):
            for answer in (
                shop_client.get(f"{PATH}/{identifier}", officer),
                shop_client.post(f"{PATH}/{identifier}/replay", officer, {}),
            ):
                assert problem_of(answer) == (404, "RESOURCE_NOT_FOUND")


class TestReplaying:
    def test_replay_is_applied_once_after_dry_run(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        order_id = shop_client.unpaid()
        inbox_id = dead_letter(shop_client, b"{}")
        with shop_client.database.transaction() as session:
            session.execute(
                text("UPDATE webhook_inbox SET body = :body WHERE id = :id"),
                {"body": payment_of(shop_client, order_id), "id": inbox_id},
            )
        path = f"{PATH}/{inbox_id}/replay"

        dry_run = shop_client.post(path, officer, {"dryRun": True})
        assert (dry_run.status_code, dry_run.json["data"]["outcome"]) == (200, "processed")
        with shop_client.database.reading() as session:
            assert status_of(session, order_id) == "pending_payment"
        key = new_key()
        answers = [shop_client.post(path, officer, key=key) for _ in range(2)]
        again = shop_client.post(path, officer)

        assert answers[0].json["data"] | {"dryRun": True, "changes": None} == dry_run.json["data"] | {
            "changes": None
        }
        assert answers[0].json["data"]["changes"]["orders"] == dry_run.json["data"]["changes"]["orders"]
        assert answers[1].data == answers[0].data
        assert answers[1].headers["X-Cache-Lookup"] == "HIT"
        assert again.json["data"] == {
            "id": str(inbox_id),
            "dryRun": False,
            "outcome": "unchanged",
            "before": "processed",
            "after": "processed",
            "error": None,
            "changes": None,
        }
        with shop_client.database.reading() as session:
            assert status_of(session, order_id) == "paid_escrow"
            acts = session.execute(
                text("SELECT actor, after ->> 'outcome' FROM audit_logs WHERE target_id = :id ORDER BY id"),
                {"id": str(inbox_id)},
            ).all()
        assert [tuple(act) for act in acts] == [("finance", "processed"), ("finance", "unchanged")]
        assert shop_client.get(f"{PATH}/{inbox_id}", officer).json["data"]["replayedAt"] is not None

    def test_replay_of_last_dead_letter_of_type_resolves_alert(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        """A finance officer cannot resolve the alert by hand."""
        event_type = f"refund.{uuid4()}"
        inbox = [
            dead_letter(shop_client, event_of({"id": number, "amount": "x"}, event_type)) for number in (1, 2)
        ]
        with shop_client.database.transaction() as session:
            session.execute(
                text("UPDATE webhook_inbox SET body = :body WHERE id = ANY(:ids)"),
                {"body": event_of(refund_data("processed", "none of ours"), event_type), "ids": inbox},
            )

        def alert() -> dict[str, Any]:
            with shop_client.database.reading() as session:
                [found] = alerts_about(session, f"gateway:{event_type}")
            return found

        by_hand = f"/api/admin/alerts/{alert()['id']}/resolve"
        assert problem_of(shop_client.post(by_hand, officer, {"note": "All replayed."})) == (
            403,
            "AUTH_FORBIDDEN",
        )
        for inbox_id in inbox:
            assert alert()["resolved_at"] is None
            shop_client.post(f"{PATH}/{inbox_id}/replay", officer, {})

        assert alert()["resolution"] == "rule"

    def test_failed_replay_stays_a_dead_letter(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        inbox_id = dead_letter(shop_client, b"[]")

        answer = shop_client.post(f"{PATH}/{inbox_id}/replay", officer, {})

        assert answer.status_code == 200
        data = answer.json["data"]
        assert (data["outcome"], data["before"], data["after"]) == ("failed", "dead", "dead")
        assert data["error"] == "the body is not an object"

    def test_replay_of_event_being_processed_is_refused(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        inbox_id = receive(shop_client, b"{}")
        with shop_client.database.transaction() as session:
            session.execute(text("SELECT 1 FROM webhook_inbox WHERE id = :id FOR UPDATE"), {"id": inbox_id})
            for body in ({}, {"dryRun": True}):
                answer = shop_client.post(f"{PATH}/{inbox_id}/replay", officer, body)
                assert problem_of(answer) == (409, "CONCURRENCY_CONFLICT")
                assert answer.headers["Retry-After"] == "2"

    def test_replay_requires_finance_permission_and_second_factor(self, shop_client: ShopClient) -> None:
        inbox_id = dead_letter(shop_client, b"[]")
        path = f"{PATH}/{inbox_id}/replay"
        for headers in (shop_client.buyer, shop_client.vendor, staff(shop_client, "support")):
            assert problem_of(shop_client.get(PATH, headers)) == (403, "AUTH_FORBIDDEN")
            assert problem_of(shop_client.get(f"{PATH}/{inbox_id}", headers)) == (403, "AUTH_FORBIDDEN")
            assert problem_of(shop_client.post(path, headers)) == (403, "AUTH_FORBIDDEN")
        headers_aal1 = staff(shop_client, "finance", "aal1")
        assert shop_client.get(PATH, headers_aal1).status_code == 200
        assert problem_of(shop_client.post(path, headers_aal1)) == (403, "AUTH_AAL2_REQUIRED")
        assert problem_of(shop_client.post(path, {})) == (401, "AUTH_UNAUTHORIZED")
        assert shop_client.post(path, staff(shop_client, "admin")).status_code == 200

    def test_replay_with_invalid_body_or_unknown_id_is_refused(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        inbox_id = dead_letter(shop_client, b"[]")
        for body in ({"dryRun": "yes"}, {"force": True}, {"force": None}, []):
            assert problem_of(shop_client.post(f"{PATH}/{inbox_id}/replay", officer, body)) == (
                422,
                "VALIDATION_FAILED",
            )
        assert problem_of(shop_client.post(f"{PATH}/{uuid4()}/replay", officer)) == (
            404,
            "RESOURCE_NOT_FOUND",
        )
        with shop_client.database.reading() as session:
            assert row_of(session, "webhook_inbox", id=inbox_id)["status"] == "dead"
