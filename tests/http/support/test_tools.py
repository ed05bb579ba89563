"""Canned replies, saved views and figures of support over HTTP."""

from typing import Any

import pytest
from flask import Flask
from sqlalchemy import text

from marketplace.infra.db import Database
from tests.support.audit_and_notifications import audit_of
from tests.support.gateway import MovableClock
from tests.support.market import Bearer, Market
from tests.support.probes import assert_problem, faults
from tests.support.purchases import NOW

BASE = "/api/admin/support"
REPLIES, VIEWS = f"{BASE}/canned-replies", f"{BASE}/views"


class Officer:
    """A member of support staff."""

    def __init__(self, app: Flask, market: Market, bearer: Bearer) -> None:
        self.client, self.market, self.bearer = app.test_client(), market, bearer
        self.database: Database = market.database
        self.id = market.staff("support")
        with self.database.transaction() as session:
            session.execute(text("DELETE FROM support_canned_replies"))

    def call(self, method: str, path: str, body: Any = None, headers: Any = None) -> Any:
        return self.client.open(path, method=method, json=body, headers=headers or self.bearer(self.id))

    def create(self, title: str = "Pickup hours", body: str = "From 8:00 to 20:00.") -> Any:
        return self.call("POST", REPLIES, {"title": title, "body": body})


@pytest.fixture
def officer(paying_app: Flask, market: Market, bearer: Bearer, clock: MovableClock) -> Officer:
    assert clock.now == NOW
    return Officer(paying_app, market, bearer)


class TestCannedReplies:
    def test_reply_is_created_changed_and_deleted(self, officer: Officer) -> None:
        created = officer.create().json["data"]
        path = f"{REPLIES}/{created['id']}"
        changed = officer.call("PUT", path, {"body": "From 8:00 to 18:00.", "revision": 1}).json["data"]
        assert (changed["title"], changed["body"], changed["revision"]) == (
            "Pickup hours",
            "From 8:00 to 18:00.",
            2,
        )
        assert_problem(officer.call("PUT", path, {"body": "x", "revision": 1}), 409, "CONCURRENCY_CONFLICT")
        assert officer.call("DELETE", path).json["data"] == {"id": created["id"], "deleted": True}
        assert officer.call("GET", REPLIES).json["data"] == []
        assert_problem(officer.call("DELETE", path), 404, "RESOURCE_NOT_FOUND")
        actions = [entry["action"] for entry in audit_of(officer.database, created["id"])]
        assert actions == ["canned_reply.create", "canned_reply.update", "canned_reply.delete"]

    def test_title_is_unique(self, officer: Officer) -> None:
        officer.create("Pickup hours")
        problem = assert_problem(officer.create("Pickup hours"), 409, "CONCURRENCY_CONFLICT")
        assert problem["reason"] == "title-taken"
        other = officer.create("Refunds").json["data"]["id"]
        renamed = officer.call("PUT", f"{REPLIES}/{other}", {"title": "Pickup hours"})
        assert_problem(renamed, 409, "CONCURRENCY_CONFLICT")
        titles = [reply["title"] for reply in officer.call("GET", REPLIES).json["data"]]
        assert titles == ["Pickup hours", "Refunds"]


class TestViews:
    def test_view_keeps_filters_under_a_name(self, officer: Officer) -> None:
        saved = officer.call("POST", VIEWS, {"name": "Late", "filters": {"tag": "hub", "assignee": "me"}})
        view = saved.json["data"]
        assert view["filters"] == {"status": "waiting", "tag": "hub", "assignee": "me"}
        assert (
            officer.client.get(BASE, query_string=view["filters"], headers=officer.bearer(officer.id)).json[
                "data"
            ]
            == []
        )
        replaced = officer.call("POST", VIEWS, {"name": "Late", "filters": {"severity": "SEV-1"}})
        assert replaced.json["data"]["id"] == view["id"]
        assert [one["filters"] for one in officer.call("GET", VIEWS).json["data"]] == [
            {"status": "waiting", "severity": "SEV-1"}
        ]
        officer.call("DELETE", f"{VIEWS}/{view['id']}")
        assert officer.call("GET", VIEWS).json["data"] == []

    def test_view_belongs_to_the_owner(self, officer: Officer) -> None:
        saved = officer.call("POST", VIEWS, {"name": "Late", "filters": {}}).json["data"]["id"]
        colleague = officer.bearer(officer.market.staff("support"))
        assert officer.call("GET", VIEWS, headers=colleague).json["data"] == []
        answer = officer.call("DELETE", f"{VIEWS}/{saved}", headers=colleague)
        assert_problem(answer, 404, "RESOURCE_NOT_FOUND")

    def test_number_of_views_and_filters_are_checked(self, officer: Officer) -> None:
        assert faults(officer.call("POST", VIEWS, {"name": "", "filters": {"severity": "SEV-9"}})) == [
            "name",
            "filters.severity",
        ]
        for number in range(20):
            body = {"name": f"View {number}", "filters": {}}
            assert officer.call("POST", VIEWS, body).status_code == 201
        full = officer.call("POST", VIEWS, {"name": "One more", "filters": {}})
        assert_problem(full, 409, "CONCURRENCY_CONFLICT")


def test_figures_compare_times_with_targets(officer: Officer, clock: MovableClock) -> None:
    period = "from=2026-05-04&to=2026-05-10"
    clock.now = NOW.replace(month=5, day=5)
    opened_at = clock.now
    user = officer.bearer(officer.market.person())
    ids = []
    for category in ("delivery", "delivery", "payment"):
        body = {"subject": "A question", "message": "Where is it?", "category": category}
        ids.append(officer.call("POST", "/api/support", body, user).json["data"]["id"])
    for minutes, ticket_id in ((10, ids[0]), (300, ids[1])):
        clock.now = opened_at.replace(
            hour=opened_at.hour + minutes // 60, minute=opened_at.minute + minutes % 60
        )
        officer.call("POST", f"/api/support/{ticket_id}/messages", {"message": "At the hub."})
    officer.call("POST", f"{BASE}/{ids[0]}/resolve")
    officer.call("PUT", f"/api/support/{ids[0]}/rate", {"rating": 4}, user)

    figures = officer.call("GET", f"{BASE}/figures?{period}").json["data"]
    overall = figures["overall"]
    assert (overall["opened"], overall["responded"], overall["responsesOnTime"]) == (3, 2, 1)
    assert (overall["resolved"], overall["resolutionsOnTime"], overall["satisfaction"]) == (1, 1, 4.0)
    assert overall["responseSeconds"] == 155 * 60
    assert [(row["category"], row["opened"]) for row in figures["byCategory"]] == [
        ("delivery", 2),
        ("payment", 1),
    ]
    assert [(row["week"], row["opened"]) for row in figures["byWeek"]] == [("2026-05-04", 3)]


@pytest.mark.parametrize(
    "query", ["from=2026-05-10&to=2026-05-04", "from=2024-01-01&to=2026-05-04", "from=soon"]
)
def test_period_of_figures_is_checked(officer: Officer, query: str) -> None:
    assert faults(officer.call("GET", f"{BASE}/figures?{query}")) == ["from"]
