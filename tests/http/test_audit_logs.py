"""The table of the audit trail over HTTP."""

import csv
import io
from collections import deque
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from flask.testing import FlaskClient

from blueprints.areas import AREAS
from blueprints.http import auth
from marketplace.audit.operations import Act, record_audit_entry
from marketplace.infra.db import Database
from marketplace.kernel.clock import iso
from marketplace.services import Services
from tests.support.audit_and_notifications import find_first_broken_link
from tests.support.checked_client import checked_app
from tests.support.market import Bearer, Market
from tests.support.probes import assert_problem, faults
from tests.support.purchases import NOW

PATH = "/api/admin/audit-logs"


@dataclass
class Trail:
    """A reader of the trail, and entries of an own kind of object."""

    client: FlaskClient
    database: Database
    headers: dict[str, str]
    kind: str
    market: Market

    def record(self, action: str, *, target: str = "one", minutes: int = 0, **act: Any) -> None:
        at = NOW + timedelta(minutes=minutes)
        self.database.in_transaction(
            record_audit_entry,
            act=Act("admin", at, **act),
            action=action,
            target_type=self.kind,
            target_id=target,
            before={"status": "active"},
            after={"status": "=1+1"},
        )

    def get(self, **query: Any) -> Any:
        return self.client.get(PATH, headers=self.headers, query_string={"targetType": self.kind} | query)

    def actions(self, **query: Any) -> list[str]:
        return [row["action"] for row in self.get(**query).json["data"]]


@pytest.fixture(scope="module")
def reader(services: Services) -> FlaskClient:
    return checked_app(services, AREAS).test_client()


@pytest.fixture
def trail(services: Services, reader: FlaskClient, bearer: Bearer) -> Trail:
    market, client = Market(services.database), reader
    headers = bearer(market.staff("compliance"))
    return Trail(client, services.database, headers, f"tests-{uuid4().hex}", market)


def test_entry_shows_actor_request_difference_and_chain(trail: Trail) -> None:
    actor, person, request_id = trail.market.staff("admin"), trail.market.person(), uuid4()
    trail.record(
        "account.suspend",
        target=str(person),
        user_id=actor,
        ip_address="192.0.2.7",
        user_agent="Tests",
        request_id=request_id,
        on_behalf_of_id=person,
    )
    [row] = trail.get().json["data"]
    assert row["actorId"] == str(actor)
    assert (row["requestId"], row["onBehalfOfId"]) == (str(request_id), str(person))
    assert (row["ipAddress"], row["userAgent"]) == ("192.0.2.7", "Tests")
    assert (row["before"], row["after"]) == ({"status": "active"}, {"status": "=1+1"})
    assert len(row["hash"]) == len(row["previousHash"]) == 64
    with trail.database.reading() as session:
        assert find_first_broken_link(session) is None


def test_filters_and_order_apply(trail: Trail) -> None:
    actor, request_id = trail.market.staff("admin"), uuid4()
    trail.record("account.suspend", minutes=1, user_id=actor)
    trail.record("account.restrict", minutes=2, target="two", request_id=request_id)
    trail.record("accounting.correct", minutes=3)
    assert trail.actions() == ["accounting.correct", "account.restrict", "account.suspend"]
    assert trail.actions(order="asc")[0] == "account.suspend"
    assert trail.actions(action="account") == ["account.restrict", "account.suspend"]
    assert trail.actions(action="account.suspend") == ["account.suspend"]
    assert trail.actions(actorId=str(actor)) == ["account.suspend"]
    assert trail.actions(targetId="two") == ["account.restrict"]
    assert trail.actions(requestId=str(request_id)) == ["account.restrict"]
    period = {"from": iso(NOW + timedelta(minutes=2)), "to": iso(NOW + timedelta(minutes=3))}
    assert trail.actions(**period) == ["account.restrict"]


def test_pages_and_total_are_given(trail: Trail) -> None:
    for number in range(5):
        trail.record(f"tests.{number}")
    page = trail.get(limit=2, page=2).json
    assert [row["action"] for row in page["data"]] == ["tests.2", "tests.1"]
    assert (page["meta"]["total"], page["meta"]["total_pages"]) == (5, 3)


def test_export_is_safe_in_spreadsheets(trail: Trail) -> None:
    trail.record("=cmd()", target="-2+3")
    response = trail.get(format="csv")
    [row] = csv.DictReader(io.StringIO(response.text))
    assert (row["action"], row["target_id"]) == ("'=cmd()", "'-2+3")
    assert row["after"] == '{"status":"=1+1"}'


def test_act_of_a_request_names_the_request(trail: Trail, bearer: Bearer) -> None:
    officer, person = trail.market.staff("admin"), trail.market.person()
    request_id = str(uuid4())
    suspended = trail.client.post(
        f"/api/admin/users/{person}/suspend",
        json={"reason": "Sold counterfeit goods."},
        headers=bearer(officer, aal="aal2") | {"X-Request-ID": request_id},
    )
    assert suspended.status_code == 200, suspended.text
    listed = trail.client.get(PATH, headers=trail.headers, query_string={"requestId": request_id}).json[
        "data"
    ]
    assert [UUID(row["targetId"]) for row in listed] == [person]


@pytest.mark.parametrize("role", ["finance", "support", "moderator"])
def test_other_officers_may_not_read_the_trail(trail: Trail, bearer: Bearer, role: str) -> None:
    refused = trail.client.get(PATH, headers=bearer(trail.market.staff(role)))
    assert_problem(refused, 403, "AUTH_FORBIDDEN")
    assert trail.client.get(PATH).status_code == 401


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ({"actorId": "x"}, "actorId"),
        ({"sort": "hash"}, "sort"),
        ({"from": "yesterday"}, "from"),
        ({"actor": "admin"}, "actor"),
    ],
)
def test_invalid_filters_are_named(trail: Trail, query: dict[str, str], fault: str) -> None:
    assert faults(trail.get(**query)) == [fault]


class TestStaffSignIns:
    def sign_ins(self, trail: Trail, user_id: UUID) -> list[dict[str, Any]]:
        rows = trail.client.get(
            PATH, headers=trail.headers, query_string={"actorId": str(user_id), "action": "staff.sign-in"}
        ).json["data"]
        return [row["after"] for row in rows]

    def test_sign_in_is_recorded_once(self, trail: Trail, bearer: Bearer) -> None:
        officer = trail.market.staff("support")
        for path in ("/api/users/me", "/api/orders", "/api/admin/audit-logs"):
            trail.client.get(path, headers=bearer(officer, aal="aal2", auth_time=1_900_000_000))
        trail.client.get("/api/users/me", headers=bearer(officer, auth_time=1_900_000_900))

        assert self.sign_ins(trail, officer) == [
            {"signedInAt": "2030-03-17T18:01:40+00:00", "aal": "aal1"},
            {"signedInAt": "2030-03-17T17:46:40+00:00", "aal": "aal2"},
        ]

    def test_restarted_process_records_no_second_entry(
        self, trail: Trail, bearer: Bearer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        officer = trail.market.staff("support")
        for _ in range(2):
            monkeypatch.setattr(auth, "_recorded_sign_ins", deque())
            trail.client.get("/api/users/me", headers=bearer(officer, auth_time=1_900_000_000))

        assert len(self.sign_ins(trail, officer)) == 1

    @pytest.mark.parametrize("claims", [{}, {"auth_time": "now"}, {"auth_time": 1e300}])
    def test_token_without_a_usable_time_is_accepted(
        self, trail: Trail, bearer: Bearer, claims: dict[str, Any]
    ) -> None:
        officer = trail.market.staff("support")

        assert trail.client.get("/api/users/me", headers=bearer(officer, **claims)).status_code == 200
        assert self.sign_ins(trail, officer) == []

    def test_sign_in_of_a_buyer_is_not_recorded(self, trail: Trail, bearer: Bearer) -> None:
        buyer = trail.market.person()
        trail.client.get("/api/users/me", headers=bearer(buyer, auth_time=1_900_000_000))

        assert self.sign_ins(trail, buyer) == []


class TestExports:
    def exports(self, trail: Trail, user_id: UUID) -> list[dict[str, Any]]:
        rows = trail.client.get(
            PATH, headers=trail.headers, query_string={"actorId": str(user_id), "action": "data.export"}
        ).json["data"]
        return [{"name": row["targetId"], **row["after"]} for row in rows]

    def test_file_for_staff_is_recorded_with_filters(self, trail: Trail, bearer: Bearer) -> None:
        officer = trail.market.staff("orders")
        query = {"format": "csv", "status": "shipped"}
        trail.client.get("/api/orders/admin", headers=bearer(officer, aal="aal2"), query_string=query)

        assert self.exports(trail, officer) == [
            {"name": "orders", "path": "/api/orders/admin", "filters": query}
        ]

    def test_page_for_staff_and_own_file_are_not_recorded(self, trail: Trail, bearer: Bearer) -> None:
        officer, vendor = trail.market.staff("orders"), trail.market.store().user_id
        trail.client.get("/api/orders/admin", headers=bearer(officer, aal="aal2"))
        trail.client.get("/api/payouts/statement", headers=bearer(vendor), query_string={"format": "csv"})

        assert self.exports(trail, officer) == self.exports(trail, vendor) == []
