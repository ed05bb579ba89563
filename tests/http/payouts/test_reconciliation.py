"""Reconciliation over HTTP: started by finance, performed by a worker, reviewed and resolved by officers."""

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


class FinanceClient:
    """HTTP client of a finance officer."""

    def __init__(self, service: ReconciledService, bearer: Bearer) -> None:
        self.service = service
        self.client: FlaskClient = checked_app(service.services, AREAS).test_client()
        self.headers = bearer(service.officer.id, "aal2")

    def reconcile(self, **body: Any) -> dict[str, Any]:
        """Start a reconciliation, run the worker and return the finished run."""
        answer = self.client.post("/api/payouts/reconcile", json=body, headers=self.headers)
        assert answer.status_code == 202, answer.get_data(as_text=True)
        assert answer.get_json()["data"]["status"] == "running"
        self.service.process_outbox()
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
def finance(service: ReconciledService, bearer: Bearer) -> FinanceClient:
    """Return a new client of a finance officer for each test."""
    return FinanceClient(service, bearer)


def test_reconciliation_is_started_performed_and_shown(finance: FinanceClient) -> None:
    finance.service.paid_order()
    finance.service.gateway.call("POST", "/sandbox/settlements", json={"amountMinor": 100_000})
    shown = finance.reconcile()
    assert (shown["status"], shown["driftMinor"], shown["inFlightMinor"]) == ("matched", 0, 0)
    assert shown["gatewayMinor"] == shown["booksMinor"] == finance.service.gateway_balance()
    assert (shown["startedBy"], shown["officerId"]) == ("officer", str(finance.service.officer.id))
    assert shown["read"] == {"movements": 2, "charges": 1, "transfers": 0, "refunds": 0, "settlements": 1}
    assert (shown["settlementsBooked"], shown["balances"]["bank"]) == (1, 100_000)
    assert (shown["exceptions"], shown["failure"]) == ([], None)


def test_differences_are_listed_with_order_and_suggestion(finance: FinanceClient) -> None:
    order_id, charge = finance.service.paid_order()
    finance.service.gateway.call("POST", "/refund", json={"transaction": charge.reference, "amount": 70_000})
    finance.service.transfer("somebody-elses-4", 120_000)
    shown = finance.reconcile()
    assert (shown["status"], shown["driftMinor"], shown["found"]) == ("drift", -190_000, 2)
    largest, refund = shown["exceptions"]
    assert (largest["kind"], largest["problem"], largest["differenceMinor"]) == (
        "transfer",
        "missing_here",
        -120_000,
    )
    assert largest["suggestion"].startswith("This service did not send this transfer.")
    [order] = finance.service.rows("SELECT number FROM orders")
    assert (refund["orderId"], refund["orderNumber"]) == (str(order_id), order["number"])
    listed = finance.get(f"/{shown['runId']}/exceptions?kind=refund").get_json()
    assert ([row["id"] for row in listed["data"]], listed["meta"]["total"]) == ([refund["id"]], 1)
    assert finance.get(f"/{shown['runId']}/exceptions?problem=amounts_differ").get_json()["data"] == []


def test_difference_is_resolved_once(finance: FinanceClient) -> None:
    finance.service.paid_order()
    finance.service.gateway.fill(120_000)
    finance.service.transfer("somebody-elses-5", 80_000)
    shown = finance.reconcile()
    found = shown["exceptions"][0]["id"]
    assert finance.resolve(shown["runId"], found, "ask").status_code == 409
    done = finance.resolve(shown["runId"], found, "own_funds")
    assert done.get_json()["data"] == {
        "exceptionId": found,
        "state": "resolved",
        "resolution": "own_funds",
        "bookedMinor": -80_000,
    }
    assert finance.resolve(shown["runId"], found, "own_funds").status_code == 409
    assert finance.resolve(shown["runId"], str(uuid4()), "own_funds").status_code == 404
    assert finance.show(shown["runId"])["openExceptions"] == 0
    listed = finance.get(f"/{shown['runId']}/exceptions?open=false").get_json()["data"]
    assert [(row["resolution"], row["note"]) for row in listed] == [("own_funds", NOTE)]
    assert finance.reconcile()["status"] == "matched"


def test_write_off_above_the_limit_needs_a_second_officer(finance: FinanceClient, bearer: Bearer) -> None:
    finance.service.paid_order()
    finance.service.gateway.fill(300_000)
    finance.service.transfer("somebody-elses-6", 250_000)
    shown = finance.reconcile()
    found = shown["exceptions"][0]["id"]
    proposed = finance.resolve(shown["runId"], found, "own_funds")
    assert (proposed.status_code, proposed.get_json()["data"]["state"]) == (200, "proposed")
    again = finance.resolve(shown["runId"], found, "own_funds")
    assert (again.status_code, again.get_json()["code"]) == (403, "AUTH_FORBIDDEN")
    shown = finance.reconcile()
    [one] = shown["exceptions"]
    first = str(finance.service.officer.id)
    assert (one["proposedResolution"], one["proposedBy"], one["proposalNote"]) == ("own_funds", first, NOTE)
    assert (shown["status"], one["resolvedBy"]) == ("drift", None)
    with finance.service.database.transaction() as session:
        finance.headers = bearer(make_officer(session).id, "aal2")
    done = finance.resolve(shown["runId"], one["id"], "own_funds").get_json()["data"]
    assert (done["state"], done["bookedMinor"]) == ("resolved", -250_000)
    assert finance.reconcile()["status"] == "matched"


def test_runs_are_listed_and_filtered(finance: FinanceClient) -> None:
    first = finance.reconcile()["runId"]
    finance.service.post_nonexistent_money(5, "by-hand:9")
    second = finance.reconcile()["runId"]
    listed = finance.get("").get_json()
    assert ([row["runId"] for row in listed["data"]], listed["meta"]["total"]) == ([second, first], 2)
    assert [row["runId"] for row in finance.get("?status=drift").get_json()["data"]] == [second]
    assert [row["runId"] for row in finance.get("?order=asc&limit=1").get_json()["data"]] == [first]


def test_invalid_window_is_refused(finance: FinanceClient) -> None:
    for body, name in (
        ({"from": "2026-03-02T00:00:00Z", "to": "2026-03-01T00:00:00Z"}, "from"),
        ({"to": "2999-01-01T00:00:00Z"}, "to"),
        ({"from": "0001-01-01T00:00:00Z", "to": "0001-01-05T00:00:00Z"}, "from"),
        ({"to": "0001-01-01T00:00:00Z"}, "to"),
        ({"from": "yesterday"}, "from"),
        ({"since": "2026-03-01T00:00:00Z"}, "since"),
    ):
        answer = finance.client.post("/api/payouts/reconcile", json=body, headers=finance.headers)
        assert answer.status_code == 422, body
        assert [param["name"] for param in answer.get_json()["invalid_params"]] == [name], body


def test_second_reconciliation_is_refused_while_the_first_runs(finance: FinanceClient) -> None:
    assert finance.client.post("/api/payouts/reconcile", headers=finance.headers).status_code == 202
    again = finance.client.post("/api/payouts/reconcile", headers=finance.headers)
    assert (again.status_code, again.get_json()["code"]) == (409, "CONCURRENCY_CONFLICT")
    finance.service.process_outbox()
    assert finance.client.post("/api/payouts/reconcile", headers=finance.headers).status_code == 202


@pytest.mark.parametrize(
    ("role", "aal", "code"),
    [("support", "aal2", "AUTH_FORBIDDEN"), ("finance", "aal1", "AUTH_AAL2_REQUIRED")],
)
def test_reconciliation_requires_finance_with_two_factors(
    finance: FinanceClient, bearer: Bearer, role: str, aal: str, code: str
) -> None:
    with finance.service.database.transaction() as session:
        person_id: UUID = make_person(session, role="staff", staff_role=role).id
    answer = finance.client.post("/api/payouts/reconcile", json={}, headers=bearer(person_id, aal))
    assert (answer.status_code, answer.get_json()["code"]) == (403, code)


def test_unknown_reconciliation_is_not_found(finance: FinanceClient) -> None:
    for path in (f"/{uuid4()}", f"/{uuid4()}/exceptions"):
        answer = finance.client.get(f"/api/payouts/reconciliations{path}", headers=finance.headers)
        assert answer.status_code == 404
