"""Reconciliation over HTTP: started by finance, performed by a worker, read and resolved at its desk."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from blueprints.areas import AREAS
from tests.support.checked_client import checked_app
from tests.support.finance import make_officer
from tests.support.market import Bearer
from tests.support.purchases import make_person
from tests.support.reconciliation import ReconciledService, service

__all__ = ["service"]

NOTE = "Ours, paid in by hand."


class Office:
    """Finance's desk at a service."""

    def __init__(self, service: ReconciledService, bearer: Bearer) -> None:
        self.service = service
        self.client: FlaskClient = checked_app(service.services, AREAS).test_client()
        self.headers = bearer(service.officer.id, "aal2")

    def reconcile(self, **body: Any) -> dict[str, Any]:
        """Start one, have the worker perform it, and show it."""
        answer = self.client.post("/api/payouts/reconcile", json=body, headers=self.headers)
        assert answer.status_code == 202, answer.get_data(as_text=True)
        assert answer.get_json()["data"]["status"] == "running"
        self.service.work_off_outbox()
        return self.show(answer.get_json()["data"]["runId"])

    def show(self, run_id: str) -> dict[str, Any]:
        return self.get(f"/{run_id}").get_json()["data"]

    def get(self, path: str) -> TestResponse:
        answer = self.client.get(f"/api/payouts/reconciliations{path}", headers=self.headers)
        assert answer.status_code == 200, answer.get_data(as_text=True)
        return answer

    def resolve(self, run_id: str, exception_id: str, resolution: str) -> TestResponse:
        return self.client.post(
            f"/api/payouts/reconciliations/{run_id}/exceptions/{exception_id}/resolve",
            json={"resolution": resolution, "note": NOTE},
            headers=self.headers,
        )


@pytest.fixture
def office(service: ReconciledService, bearer: Bearer) -> Office:
    """A desk of its own for each test."""
    return Office(service, bearer)


def test_a_reconciliation_is_started_performed_and_shown(office: Office) -> None:
    office.service.paid_order()
    office.service.gateway.call("POST", "/sandbox/settlements", json={"amountMinor": 100_000})
    shown = office.reconcile()
    assert (shown["status"], shown["driftMinor"], shown["inFlightMinor"]) == ("matched", 0, 0)
    assert shown["gatewayMinor"] == shown["booksMinor"] == office.service.held()
    assert (shown["startedBy"], shown["officerId"]) == ("officer", str(office.service.officer.id))
    assert shown["read"] == {"movements": 2, "charges": 1, "transfers": 0, "refunds": 0, "settlements": 1}
    assert (shown["settlementsBooked"], shown["balances"]["bank"]) == (1, 100_000)
    assert (shown["exceptions"], shown["failure"]) == ([], None)


def test_what_differs_is_named_with_its_order_and_what_to_do(office: Office) -> None:
    order_id, charge = office.service.paid_order()
    office.service.gateway.call("POST", "/refund", json={"transaction": charge.reference, "amount": 70_000})
    office.service.transfer("somebody-elses-4", 120_000)
    shown = office.reconcile()
    assert (shown["status"], shown["driftMinor"], shown["found"]) == ("drift", -190_000, 2)
    largest, refund = shown["exceptions"]
    assert (largest["kind"], largest["problem"], largest["differenceMinor"]) == (
        "transfer",
        "missing_here",
        -120_000,
    )
    assert largest["suggestion"].startswith("This service did not send this transfer.")
    [order] = office.service.rows("SELECT number FROM orders")
    assert (refund["orderId"], refund["orderNumber"]) == (str(order_id), order["number"])
    listed = office.get(f"/{shown['runId']}/exceptions?kind=refund").get_json()
    assert ([row["id"] for row in listed["data"]], listed["meta"]["total"]) == ([refund["id"]], 1)
    assert office.get(f"/{shown['runId']}/exceptions?problem=amounts_differ").get_json()["data"] == []


def test_an_exception_is_resolved_once(office: Office) -> None:
    office.service.paid_order()
    office.service.gateway.fill(120_000)
    office.service.transfer("somebody-elses-5", 80_000)
    shown = office.reconcile()
    found = shown["exceptions"][0]["id"]
    assert office.resolve(shown["runId"], found, "ask").status_code == 409
    done = office.resolve(shown["runId"], found, "own_funds")
    assert done.get_json()["data"] == {
        "exceptionId": found,
        "state": "resolved",
        "resolution": "own_funds",
        "bookedMinor": -80_000,
    }
    assert office.resolve(shown["runId"], found, "own_funds").status_code == 409
    assert office.resolve(shown["runId"], str(uuid4()), "own_funds").status_code == 404
    assert office.show(shown["runId"])["openExceptions"] == 0
    listed = office.get(f"/{shown['runId']}/exceptions?open=false").get_json()["data"]
    assert [(row["resolution"], row["note"]) for row in listed] == [("own_funds", NOTE)]
    assert office.reconcile()["status"] == "matched"


def test_much_is_written_off_by_a_second_officer(office: Office, bearer: Bearer) -> None:
    office.service.paid_order()
    office.service.gateway.fill(300_000)
    office.service.transfer("somebody-elses-6", 250_000)
    shown = office.reconcile()
    found = shown["exceptions"][0]["id"]
    proposed = office.resolve(shown["runId"], found, "own_funds")
    assert (proposed.status_code, proposed.get_json()["data"]["state"]) == (200, "proposed")
    again = office.resolve(shown["runId"], found, "own_funds")
    assert (again.status_code, again.get_json()["code"]) == (403, "AUTH_FORBIDDEN")
    shown = office.reconcile()
    [one] = shown["exceptions"]
    first = str(office.service.officer.id)
    assert (one["proposedResolution"], one["proposedBy"], one["proposalNote"]) == ("own_funds", first, NOTE)
    assert (shown["status"], one["resolvedBy"]) == ("drift", None)
    with office.service.database.transaction() as session:
        office.headers = bearer(make_officer(session).id, "aal2")
    done = office.resolve(shown["runId"], one["id"], "own_funds").get_json()["data"]
    assert (done["state"], done["bookedMinor"]) == ("resolved", -250_000)
    assert office.reconcile()["status"] == "matched"


def test_the_history_is_listed_and_filtered(office: Office) -> None:
    first = office.reconcile()["runId"]
    office.service.book(5, "by-hand:9")
    second = office.reconcile()["runId"]
    listed = office.get("").get_json()
    assert ([row["runId"] for row in listed["data"]], listed["meta"]["total"]) == ([second, first], 2)
    assert [row["runId"] for row in office.get("?status=drift").get_json()["data"]] == [second]
    assert [row["runId"] for row in office.get("?order=asc&limit=1").get_json()["data"]] == [first]


def test_invalid_window_is_refused(office: Office) -> None:
    for body, name in (
        ({"from": "2026-03-02T00:00:00Z", "to": "2026-03-01T00:00:00Z"}, "from"),
        ({"to": "2999-01-01T00:00:00Z"}, "to"),
        ({"from": "0001-01-01T00:00:00Z", "to": "0001-01-05T00:00:00Z"}, "from"),
        ({"to": "0001-01-01T00:00:00Z"}, "to"),
        ({"from": "yesterday"}, "from"),
        ({"since": "2026-03-01T00:00:00Z"}, "since"),
    ):
        answer = office.client.post("/api/payouts/reconcile", json=body, headers=office.headers)
        assert answer.status_code == 422, body
        assert [param["name"] for param in answer.get_json()["invalid_params"]] == [name], body


def test_one_that_runs_refuses_another(office: Office) -> None:
    assert office.client.post("/api/payouts/reconcile", headers=office.headers).status_code == 202
    again = office.client.post("/api/payouts/reconcile", headers=office.headers)
    assert (again.status_code, again.get_json()["code"]) == (409, "CONCURRENCY_CONFLICT")
    office.service.work_off_outbox()
    assert office.client.post("/api/payouts/reconcile", headers=office.headers).status_code == 202


@pytest.mark.parametrize(
    ("role", "aal", "code"),
    [("support", "aal2", "AUTH_FORBIDDEN"), ("finance", "aal1", "AUTH_AAL2_REQUIRED")],
)
def test_it_takes_finance_with_two_factors(
    office: Office, bearer: Bearer, role: str, aal: str, code: str
) -> None:
    with office.service.database.transaction() as session:
        somebody: UUID = make_person(session, role="staff", staff_role=role).id
    answer = office.client.post("/api/payouts/reconcile", json={}, headers=bearer(somebody, aal))
    assert (answer.status_code, answer.get_json()["code"]) == (403, code)


def test_a_reconciliation_that_is_none_is_not_found(office: Office) -> None:
    for path in (f"/{uuid4()}", f"/{uuid4()}/exceptions"):
        answer = office.client.get(f"/api/payouts/reconciliations{path}", headers=office.headers)
        assert answer.status_code == 404
