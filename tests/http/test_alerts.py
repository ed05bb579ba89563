"""Alerts over HTTP: access, filters and resolution."""

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
from flask.testing import FlaskClient
from sqlalchemy import text

from marketplace.alerts import kinds
from marketplace.alerts.operations import raise_alert
from marketplace.infra.db import Database
from tests.support.alerts import alerts_about, messages_of, unique_subject
from tests.support.market import Bearer
from tests.support.probes import assert_problem, faults
from tests.support.purchases import NOW, make_person

PATH = "/api/admin/alerts"
NOTE = "Paid by hand."
Raise = Callable[..., UUID]
Officer = Callable[..., dict[str, str]]


@pytest.fixture
def raised(database: Database) -> Raise:
    """A factory that raises an alert about a fresh subject, by default a money alert."""

    def make(**values: Any) -> UUID:
        given = {
            "identifier": "REFUND_STUCK",
            "title": "A refund needs finance",
            "facts": {"amountMinor": 7},
        }
        return database.in_transaction(
            raise_alert, **{"subject": unique_subject(), "now": NOW} | given | values
        )

    return make


@pytest.fixture
def officer(database: Database, bearer: Bearer) -> Officer:
    """A factory for the headers of a new officer."""

    def make(staff_role: str = "finance", **token: Any) -> dict[str, str]:
        person = database.in_transaction(make_person, role="staff", staff_role=staff_role)
        return bearer(person.id, **token)

    return make


def resolve(
    client: FlaskClient, alert_id: UUID, headers: dict[str, str], note: Any = NOTE, key: str | None = None
) -> Any:
    more = {"Idempotency-Key": key} if key else {}
    return client.post(f"{PATH}/{alert_id}/resolve", json={"note": note}, headers=headers | more)


class TestAccess:
    def test_request_without_token_is_unauthorized(self, client: FlaskClient, raised: Raise) -> None:
        assert_problem(client.get(PATH), 401, "AUTH_UNAUTHORIZED")
        assert_problem(resolve(client, raised(), {}), 401, "AUTH_UNAUTHORIZED")

    @pytest.mark.parametrize("role", ["buyer", "vendor"])
    def test_customers_are_refused(
        self, client: FlaskClient, database: Database, bearer: Bearer, raised: Raise, role: str
    ) -> None:
        headers = bearer(database.in_transaction(make_person, role=role).id)

        assert_problem(client.get(PATH, headers=headers), 403, "AUTH_FORBIDDEN")
        assert_problem(resolve(client, raised(), headers), 403, "AUTH_FORBIDDEN")

    @pytest.mark.parametrize("role", ["admin", "finance", "orders", "support", "moderator", "campus_rep"])
    def test_all_staff_see_alerts(
        self, client: FlaskClient, officer: Officer, raised: Raise, role: str
    ) -> None:
        alert_id = raised()

        shown = client.get(PATH, query_string={"limit": 100}, headers=officer(role))

        assert shown.status_code == 200
        assert str(alert_id) in [row["id"] for row in pages(client, officer(role))]

    @pytest.mark.parametrize(
        ("role", "money", "platform"),
        [
            ("admin", 200, 200),
            ("finance", 200, 403),
            ("orders", 403, 403),
            ("support", 403, 403),
            ("moderator", 403, 403),
            ("campus_rep", 403, 403),
        ],
    )
    def test_resolution_requires_permission_of_alert_kind(
        self, client: FlaskClient, officer: Officer, raised: Raise, role: str, money: int, platform: int
    ) -> None:
        headers = officer(role)

        assert resolve(client, raised(), headers).status_code == money
        platform_alert = raised(identifier="WEBHOOK_DEAD")
        answer = resolve(client, platform_alert, headers)
        assert answer.status_code == platform
        if platform == 403:
            assert "canManagePlatform" in assert_problem(answer, 403, "AUTH_FORBIDDEN")["detail"]


def pages(client: FlaskClient, headers: dict[str, str], **query: Any) -> list[dict[str, Any]]:
    """Read all pages of the listing."""
    rows: list[dict[str, Any]] = []
    query_string = {"limit": 100} | query
    while True:
        answer = client.get(PATH, query_string=query_string, headers=headers)
        assert answer.status_code == 200, answer.text
        rows += answer.json["data"]
        if not answer.json["meta"]["has_more"]:
            return rows
        query_string["cursor"] = answer.json["meta"]["next_cursor"]
        assert len(rows) < 5_000


class TestListing:
    def test_alert_is_listed_with_all_fields(
        self, client: FlaskClient, officer: Officer, raised: Raise
    ) -> None:
        subject = unique_subject()
        raised(subject=subject)
        alert_id = raised(subject=subject, facts={"amountMinor": 9})

        [row] = [row for row in pages(client, officer()) if row["subject"] == subject]

        kind = kinds.ALERT_KINDS["REFUND_STUCK"]
        assert row == {
            "id": str(alert_id),
            "identifier": "REFUND_STUCK",
            "severity": "SEV-3",
            "subject": subject,
            "title": "A refund needs finance",
            "meaning": kind.meaning,
            "firstStep": kind.first_step,
            "facts": {"amountMinor": 7},
            "latestFacts": {"amountMinor": 9},
            "occurrences": 2,
            "state": "open",
            "raisedAt": row["raisedAt"],
            "lastRaisedAt": row["raisedAt"],
            "resolvedAt": None,
            "resolution": None,
            "resolvedBy": None,
            "note": None,
        }
        assert row["raisedAt"].startswith("2026-11-20T09:30:00")

    def test_alerts_are_filtered_by_state_severity_and_identifier(
        self, client: FlaskClient, officer: Officer, raised: Raise
    ) -> None:
        headers = officer("admin")
        ids = {
            "resolved": raised(),
            "open": raised(),
            "bad": raised(identifier="REFUND_CAME_BACK"),
            "worse": raised(severity="SEV-1"),
        }
        assert resolve(client, ids["resolved"], headers).status_code == 200
        names = {str(alert_id): name for name, alert_id in ids.items()}

        def found(**query: str) -> set[str]:
            return {names[row["id"]] for row in pages(client, headers, **query) if row["id"] in names}

        assert found() == found(state="all") == set(ids)
        assert found(state="open") == {"open", "bad", "worse"}
        assert found(state="resolved") == {"resolved"}
        assert found(severity="SEV-1") == {"bad", "worse"}
        assert found(identifier="REFUND_STUCK", state="open") == {"open", "worse"}
        assert found(identifier="REFUND_STUCK", severity="SEV-3", state="resolved") == {"resolved"}

    def test_cursor_with_other_filters_is_refused(
        self, client: FlaskClient, officer: Officer, raised: Raise
    ) -> None:
        headers = officer()
        for _ in range(3):
            raised()
        first = client.get(PATH, query_string={"limit": 1, "state": "open"}, headers=headers).json
        cursor = first["meta"]["next_cursor"]

        second = client.get(
            PATH, query_string={"limit": 1, "state": "open", "cursor": cursor}, headers=headers
        ).json

        [newer], [older] = first["data"], second["data"]
        assert (older["raisedAt"], older["id"]) < (newer["raisedAt"], newer["id"])
        for query in ({"state": "resolved"}, {}, {"state": "open", "severity": "SEV-3"}):
            answer = client.get(PATH, query_string={"cursor": cursor} | query, headers=headers)
            assert faults(answer) == ["cursor"]

    @pytest.mark.parametrize(
        ("query", "name"),
        [
            ({"state": "closed"}, "state"),
            ({"severity": "SEV-4"}, "severity"),
            ({"identifier": "NOBODY_KNOWS"}, "identifier"),
            ({"limit": 101}, "limit"),
            ({"page": 1}, "page"),
        ],
    )
    def test_unknown_filter_value_is_refused(
        self, client: FlaskClient, officer: Officer, query: dict[str, Any], name: str
    ) -> None:
        assert faults(client.get(PATH, query_string=query, headers=officer())) == [name]


class TestResolving:
    def test_resolved_alert_is_notified_and_audited(
        self, client: FlaskClient, database: Database, officer: Officer, raised: Raise
    ) -> None:
        alert_id = raised()

        answer = resolve(client, alert_id, officer(), note="  Paid\n by hand. ")

        assert answer.status_code == 200
        data = answer.json["data"]
        assert (data["state"], data["resolution"], data["note"]) == ("resolved", "officer", NOTE)
        with database.reading() as session:
            messages = messages_of(session, alert_id)
            audit = (
                session.execute(text("SELECT * FROM audit_logs WHERE target_id = :id"), {"id": str(alert_id)})
                .mappings()
                .one()
            )
        assert messages[2:] == [("chat", "resolved"), ("email", "resolved")]
        assert (audit["action"], audit["actor"], audit["after"]["note"]) == ("alert.resolve", "finance", NOTE)
        assert data["resolvedBy"] == str(audit["actor_id"])

    def test_alert_is_resolved_only_once(self, client: FlaskClient, officer: Officer, raised: Raise) -> None:
        alert_id = raised()
        assert resolve(client, alert_id, officer()).status_code == 200

        assert_problem(resolve(client, alert_id, officer()), 409, "CONCURRENCY_CONFLICT")

    def test_resolution_with_same_key_is_replayed(
        self, client: FlaskClient, officer: Officer, raised: Raise
    ) -> None:
        alert_id, headers, key = raised(), officer(), str(uuid4())

        first = resolve(client, alert_id, headers, key=key)
        second = resolve(client, alert_id, headers, key=key)

        assert (first.status_code, second.status_code) == (200, 200)
        assert second.headers["X-Cache-Lookup"] == "HIT"
        assert second.data == first.data
        assert faults(resolve(client, alert_id, headers, "Another note.", key)) == ["Idempotency-Key"]

    def test_invalid_note_is_refused(
        self, client: FlaskClient, database: Database, officer: Officer, raised: Raise
    ) -> None:
        subject = unique_subject()
        alert_id, headers = raised(subject=subject), officer()

        for note in ("", "ok", "x" * 501, None, 5):
            assert faults(resolve(client, alert_id, headers, note)) == ["note"]
        bare = client.post(f"{PATH}/{alert_id}/resolve", json={}, headers=headers)
        assert faults(bare) == ["note"]
        with database.reading() as session:
            assert alerts_about(session, subject)[0]["resolved_at"] is None

    def test_missing_alert_is_not_found(self, client: FlaskClient, officer: Officer) -> None:
        assert_problem(resolve(client, uuid4(), officer()), 404, "RESOURCE_NOT_FOUND")
        answer = client.post(f"{PATH}/none/resolve", json={"note": NOTE}, headers=officer())
        assert_problem(answer, 404, "RESOURCE_NOT_FOUND")
