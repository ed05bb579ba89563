"""Incidents that staff announce, in the public status and on the status page."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import delete, select

from marketplace.audit.models import AuditLog
from marketplace.audit.operations import Act
from marketplace.health.incidents import SHOWN_AFTER_RESOLUTION, add_incident_note, list_shown_incidents
from marketplace.health.models import Incident, IncidentNote
from marketplace.infra.db import Database
from tests.support.probes import assert_problem, faults
from tests.support.purchases import NOW, make_person
from tests.support.resource_usage import counted_statements
from tests.support.shop_client import ShopClient, new_key
from tests.support.threads import at_once

PATH = "/api/admin/incidents"
INCIDENT = {
    "title": "Transfers <late>",
    "impact": "major",
    "components": ["payments"],
    "message": "Bank transfers arrive late.",
}
SOLVED = {"status": "resolved", "message": "All transfers have arrived."}


@pytest.fixture(autouse=True)
def no_incidents(database: Database) -> Iterator[None]:
    yield
    with database.transaction() as session:
        session.execute(delete(IncidentNote))
        session.execute(delete(Incident))


@pytest.fixture
def admin(shop_client: ShopClient) -> dict[str, str]:
    return shop_client.officer("admin")


def announce(shop_client: ShopClient, admin: dict[str, str], **fields: Any) -> dict[str, Any]:
    answer = shop_client.post(PATH, admin, INCIDENT | fields)
    assert answer.status_code == 201, answer.json
    created: dict[str, Any] = answer.json["data"]
    return created


def read_status(shop_client: ShopClient) -> dict[str, Any]:
    found: dict[str, Any] = shop_client.client.get("/api/status").json["data"]
    return found


def component(shop_client: ShopClient, name: str) -> str:
    return {item["name"]: item["status"] for item in read_status(shop_client)["components"]}[name]


def test_incident_is_public_at_once_until_resolved(shop_client: ShopClient, admin: dict[str, str]) -> None:
    assert read_status(shop_client)["incidents"] == []
    opened = announce(shop_client, admin)

    assert read_status(shop_client)["incidents"] == [opened]
    assert (opened["status"], opened["resolvedAt"]) == ("investigating", None)
    assert (component(shop_client, "payments"), component(shop_client, "payouts")) == (
        "degraded",
        "operational",
    )
    notes = f"{PATH}/{opened['id']}/notes"
    assert shop_client.post(notes, admin, {"status": "monitoring", "message": "Better."}).status_code == 201
    resolved = shop_client.post(notes, admin, SOLVED).json["data"]
    assert [note["status"] for note in resolved["notes"]] == ["resolved", "monitoring", "investigating"]
    assert resolved["resolvedAt"] is not None
    assert read_status(shop_client)["incidents"] == [resolved]
    assert component(shop_client, "payments") == "operational"


def test_critical_incident_shows_component_as_down(shop_client: ShopClient, admin: dict[str, str]) -> None:
    announce(shop_client, admin, impact="critical", components=["payouts", "payouts"])
    assert component(shop_client, "payouts") == "down"
    assert read_status(shop_client)["status"] == "down"


def test_resolved_incident_takes_no_further_note(shop_client: ShopClient, admin: dict[str, str]) -> None:
    notes = f"{PATH}/{announce(shop_client, admin)['id']}/notes"
    assert shop_client.post(notes, admin, SOLVED).status_code == 201
    problem = assert_problem(shop_client.post(notes, admin, SOLVED), 409, "CONCURRENCY_CONFLICT")
    assert problem["reason"] == "incident-resolved"
    missing = shop_client.post(f"{PATH}/{uuid4()}/notes", admin, SOLVED)
    assert_problem(missing, 404, "RESOURCE_NOT_FOUND")


def test_incident_is_resolved_once_by_simultaneous_notes(
    shop_client: ShopClient, admin: dict[str, str]
) -> None:
    opened = announce(shop_client, admin)

    def resolve(_number: int) -> int:
        client = shop_client.client.application.test_client()
        return client.post(f"{PATH}/{opened['id']}/notes", headers=admin, json=SOLVED).status_code

    assert sorted(at_once(resolve, range(3)), key=str) == [201, 409, 409]


def test_later_request_that_commits_first_does_not_reopen_the_incident(
    shop_client: ShopClient, admin: dict[str, str]
) -> None:
    incident_id = UUID(announce(shop_client, admin)["id"])
    officer = shop_client.database.in_transaction(make_person, role="staff", staff_role="admin").id
    for seconds, status in ((2, "monitoring"), (1, "resolved")):
        act = Act("admin", NOW + timedelta(seconds=seconds), user_id=officer)
        found = shop_client.database.in_transaction(
            add_incident_note, incident_id=incident_id, status=status, message="A note.", act=act
        )
    assert found.status == "resolved"
    assert [note.status for note in found.notes] == ["resolved", "monitoring", "investigating"]


def test_repeated_announcement_with_same_key_creates_a_single_incident(
    shop_client: ShopClient, admin: dict[str, str]
) -> None:
    key = new_key()
    first, second = (shop_client.post(PATH, admin, INCIDENT, key=key).json["data"] for _ in range(2))
    assert first == second
    assert len(shop_client.get(PATH, admin).json["data"]) == 1


def test_announcements_and_notes_are_audited(shop_client: ShopClient, admin: dict[str, str]) -> None:
    opened = announce(shop_client, admin)
    shop_client.post(f"{PATH}/{opened['id']}/notes", admin, SOLVED)
    with shop_client.database.reading() as session:
        actions = session.scalars(
            select(AuditLog.action).where(AuditLog.target_id == opened["id"]).order_by(AuditLog.id)
        )
        assert list(actions) == ["incident.open", "incident.note"]


def test_invalid_incidents_are_refused(shop_client: ShopClient, admin: dict[str, str]) -> None:
    answer = shop_client.post(PATH, admin, {"title": "x", "impact": "huge", "components": ["moon"]})
    assert set(faults(answer)) == {"title", "impact", "components[0]", "message"}
    opened = announce(shop_client, admin)
    answer = shop_client.post(f"{PATH}/{opened['id']}/notes", admin, {"status": "gone", "message": " "})
    assert set(faults(answer)) == {"message", "status"}


def test_incidents_require_platform_permission(shop_client: ShopClient) -> None:
    for headers in (shop_client.buyer, shop_client.vendor, shop_client.officer("support")):
        assert_problem(shop_client.post(PATH, headers, INCIDENT), 403, "AUTH_FORBIDDEN")
        assert_problem(shop_client.get(PATH, headers), 403, "AUTH_FORBIDDEN")


def test_staff_page_through_incidents_with_a_fixed_number_of_statements(
    shop_client: ShopClient, admin: dict[str, str]
) -> None:
    application_database = shop_client.client.application.extensions["marketplace"].database
    made = [announce(shop_client, admin, title=f"Fault {number}")["id"] for number in range(5)]
    with counted_statements(application_database) as few:
        first = shop_client.get(PATH, admin, limit=1).json
    with counted_statements(application_database) as many:
        rest = shop_client.get(PATH, admin, limit=4, cursor=first["meta"]["next_cursor"]).json
    assert [row["id"] for row in [*first["data"], *rest["data"]]] == made[::-1]
    assert len(few) == len(many)


def test_resolved_incidents_are_shown_for_a_week(shop_client: ShopClient, admin: dict[str, str]) -> None:
    opened = announce(shop_client, admin)
    shop_client.post(f"{PATH}/{opened['id']}/notes", admin, SOLVED)
    left = announce(shop_client, admin)
    with shop_client.database.reading() as session:
        end = session.get_one(Incident, opened["id"]).resolved_at
        assert end is not None

        def shown(after: timedelta) -> list[str]:
            reports = list_shown_incidents(session, now=end + after)
            return [str(report.incident.id) for report in reports]

        assert shown(SHOWN_AFTER_RESOLUTION - timedelta(seconds=1)) == [left["id"], opened["id"]]
        assert shown(SHOWN_AFTER_RESOLUTION) == [left["id"]]


class TestStatusPage:
    def read(self, shop_client: ShopClient) -> str:
        answer = shop_client.client.get("/status")
        assert answer.status_code == 200
        return answer.get_data(as_text=True)

    def test_page_shows_incidents_at_once(self, shop_client: ShopClient, admin: dict[str, str]) -> None:
        assert "No incidents in the last 7 days." in self.read(shop_client)
        announce(shop_client, admin)
        page = self.read(shop_client)
        assert "Some features are slow or unavailable" in page
        assert "Transfers &lt;late&gt;" in page
        assert "Bank transfers arrive late." in page
        assert f"{NOW:%d %b %Y}" in page

    def test_page_comes_from_the_cache(self, shop_client: ShopClient) -> None:
        application_database = shop_client.client.application.extensions["marketplace"].database
        first = self.read(shop_client)
        with counted_statements(application_database) as statements:
            assert self.read(shop_client) == first
        assert len(statements) == 0
