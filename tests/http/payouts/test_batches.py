"""Payout batches over HTTP: manual staging, risk flags, approval by two officers and rejection."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from werkzeug.test import TestResponse

from marketplace.identity.queries import Caller
from tests.support.payouts import (
    OWED_MINOR,
    Payee,
    approved_batch,
    intents_of,
    make_account,
    make_payees,
    payable_balance_of,
    staged_batch,
)
from tests.support.purchases import NOW, make_person, row_of
from tests.support.resource_usage import counted_statements
from tests.support.shop_client import ShopClient, new_key
from tests.support.transfers import dispatched_batch

BATCHES = "/api/payouts/batches"
REASON = {"reason": "The amounts are not what they were last week."}


def officer(shop_client: ShopClient, aal: str = "aal2", staff_role: str = "finance") -> dict[str, str]:
    return signed_in(
        shop_client,
        shop_client.database.in_transaction(make_person, role="staff", staff_role=staff_role),
        aal,
    )


def signed_in(shop_client: ShopClient, person: Caller, aal: str = "aal2") -> dict[str, str]:
    return shop_client.bearer(person.id, aal)


def create_payees(shop_client: ShopClient, number: int = 1, **values: Any) -> list[Payee]:
    return shop_client.database.in_transaction(make_payees, number, **values)


def vendor_ids_of(*payees: Payee) -> dict[str, list[str]]:
    return {"vendorIds": [str(payee.store_id) for payee in payees]}


def stage_batch(shop_client: ShopClient, *payees: Payee) -> UUID:
    return shop_client.database.in_transaction(staged_batch, payees)


def problem(answer: TestResponse) -> tuple[int, str]:
    return answer.status_code, answer.json["code"]


def detail(shop_client: ShopClient, batch_id: UUID | str, **query: Any) -> dict[str, Any]:
    answer = shop_client.get(f"{BATCHES}/{batch_id}", officer(shop_client), **query)
    assert answer.status_code == 200, answer.json
    found: dict[str, Any] = answer.json["data"]
    return found


def execute(shop_client: ShopClient, sql: str, **values: Any) -> None:
    with shop_client.database.transaction() as session:
        session.execute(text(sql), values)


def test_manually_staged_batch_is_approved_by_another_officer(shop_client: ShopClient) -> None:
    payees = create_payees(shop_client, 2)
    stager, other = officer(shop_client), officer(shop_client)

    made = shop_client.post(BATCHES, stager, vendor_ids_of(*payees))

    assert made.status_code == 201
    batch = made.json["data"]
    assert (batch["status"], batch["payments"], batch["amountMinor"]) == ("staged", 2, 2 * OWED_MINOR)
    assert (batch["approvalsMissing"], batch["collectedMinor"], batch["leftOut"]) == (1, 0, [])
    path = f"{BATCHES}/{batch['id']}/approve"
    assert problem(shop_client.post(path, stager)) == (403, "AUTH_FORBIDDEN")
    answer = shop_client.post(path, other, {"comment": "Fine.", "contentHash": batch["contentHash"]})
    assert answer.status_code == 200
    approved = answer.json["data"]
    assert (approved["status"], approved["approvalsMissing"]) == ("approved", 0)
    assert approved["approvedHash"] == batch["contentHash"]
    assert [(one["comment"], one["counts"]) for one in approved["approvals"]] == [("Fine.", True)]


def test_scheduled_batch_needs_two_approvals(shop_client: ShopClient) -> None:
    batch_id = stage_batch(shop_client, *create_payees(shop_client))
    path = f"{BATCHES}/{batch_id}/approve"
    first = officer(shop_client)

    answer = shop_client.post(path, first)

    assert (answer.json["data"]["status"], answer.json["data"]["approvalsMissing"]) == ("staged", 1)
    assert answer.json["data"]["stagedBy"] is None
    assert problem(shop_client.post(path, first)) == (403, "AUTH_FORBIDDEN")
    assert shop_client.post(path, officer(shop_client)).json["data"]["status"] == "approved"
    assert problem(shop_client.post(path, officer(shop_client))) == (409, "CONCURRENCY_CONFLICT")


def test_skipped_payees_are_listed_with_the_reason(shop_client: ShopClient) -> None:
    paid, poor = create_payees(shop_client)[0], create_payees(shop_client, owed_minor=5_000)[0]
    held = create_payees(shop_client, account={"created_at": NOW})[0]

    batch = shop_client.post(BATCHES, officer(shop_client), vendor_ids_of(paid, poor, held)).json["data"]

    assert batch["payments"] == 1
    assert {one["vendorId"]: one["reason"] for one in batch["leftOut"]} == {
        str(poor.store_id): "below_minimum",
        str(held.store_id): "bank_account_changed",
    }
    [until] = [one["until"] for one in batch["leftOut"] if one["vendorId"] == str(held.store_id)]
    assert datetime.fromisoformat(until) == NOW + timedelta(hours=24)


def test_staging_without_payable_balance_is_refused(shop_client: ShopClient) -> None:
    answer = shop_client.post(
        BATCHES, officer(shop_client), vendor_ids_of(*create_payees(shop_client, owed_minor=0))
    )

    assert problem(answer) == (409, "CONCURRENCY_CONFLICT")
    assert [one["reason"] for one in answer.json["leftOut"]] == ["nothing_to_pay"]


def test_staging_without_body_includes_every_eligible_payee(shop_client: ShopClient) -> None:
    [payee] = create_payees(shop_client)

    answer = shop_client.post(BATCHES, officer(shop_client))

    assert answer.status_code == 201
    with shop_client.database.reading() as session:
        [intent] = intents_of(session, payee)
    assert str(intent["batch_id"]) == answer.json["data"]["id"]


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({"vendorIds": []}, "vendorIds"),
        ({"vendorIds": "all"}, "vendorIds"),
        ({"vendorIds": ["x"]}, "vendorIds[0]"),
        ({"vendorIds": [str(UUID(int=7))]}, "vendorIds[0]"),
        ({"vendors": []}, "vendors"),
    ],
)
def test_invalid_vendor_ids_are_refused(shop_client: ShopClient, body: dict[str, Any], name: str) -> None:
    answer = shop_client.post(BATCHES, officer(shop_client), body)

    assert problem(answer) == (422, "VALIDATION_FAILED")
    assert [fault["name"] for fault in answer.json["invalid_params"]] == [name]


def test_repeated_idempotency_key_stages_once(shop_client: ShopClient) -> None:
    payees, header, key = create_payees(shop_client), officer(shop_client), new_key()

    first, again = (shop_client.post(BATCHES, header, vendor_ids_of(*payees), key=key) for _ in range(2))

    assert (first.status_code, again.status_code) == (201, 201)
    assert again.headers["X-Cache-Lookup"] == "HIT"
    assert again.json == first.json


@pytest.mark.parametrize("act", ["approve", "reject", "exclude"])
def test_batch_decisions_require_finance_and_two_factors(shop_client: ShopClient, act: str) -> None:
    batch_id = stage_batch(shop_client, *create_payees(shop_client))
    body = {"approve": {}, "reject": REASON, "exclude": {"intentIds": [str(uuid4())], **REASON}}[act]
    path = f"{BATCHES}/{batch_id}/{act}"

    assert problem(shop_client.post(path, officer(shop_client, "aal1"), body)) == (403, "AUTH_AAL2_REQUIRED")
    assert problem(shop_client.post(path, officer(shop_client, staff_role="support"), body)) == (
        403,
        "AUTH_FORBIDDEN",
    )
    assert problem(shop_client.post(path, shop_client.vendor, body)) == (403, "AUTH_FORBIDDEN")
    assert shop_client.post(path, {}, body).status_code == 401
    assert problem(shop_client.post(f"{BATCHES}/{uuid4()}/{act}", officer(shop_client), body)) == (
        404,
        "RESOURCE_NOT_FOUND",
    )
    assert problem(shop_client.post(f"{BATCHES}/none/{act}", officer(shop_client), body)) == (
        404,
        "RESOURCE_NOT_FOUND",
    )


@pytest.mark.parametrize("path", [BATCHES, f"{BATCHES}/{UUID(int=7)}"])
def test_batches_are_visible_to_finance_only(shop_client: ShopClient, path: str) -> None:
    for header in (officer(shop_client, staff_role="support"), shop_client.vendor, shop_client.buyer):
        assert problem(shop_client.get(path, header)) == (403, "AUTH_FORBIDDEN")
    assert shop_client.get(path, {}).status_code == 401


def test_approval_with_an_outdated_content_hash_is_refused(shop_client: ShopClient) -> None:
    [payee] = create_payees(shop_client)
    batch_id = stage_batch(shop_client, payee)
    read = detail(shop_client, batch_id)
    shop_client.database.in_transaction(make_account, payee.user.id)
    path = f"{BATCHES}/{batch_id}/approve"

    stale = shop_client.post(path, officer(shop_client), {"contentHash": read["contentHash"]})
    now = detail(shop_client, batch_id)

    assert problem(stale) == (409, "CONCURRENCY_CONFLICT")
    assert (read["changedSinceStaging"], now["changedSinceStaging"]) == (False, True)
    assert now["stagedHash"] == read["contentHash"] != now["contentHash"]
    assert [(one["change"], one["payee"]["vendorId"]) for one in now["changes"]] == [
        ("account_changed", str(payee.store_id))
    ]
    assert "account_changed_since_staging" in now["intents"][0]["risks"]
    assert now["intents"][0]["stagedAccount"]["id"] == read["intents"][0]["account"]["id"]


def test_rejected_batch_shows_officer_and_reason(shop_client: ShopClient) -> None:
    payees = create_payees(shop_client, 2)
    batch_id = stage_batch(shop_client, *payees)

    answer = shop_client.post(f"{BATCHES}/{batch_id}/reject", officer(shop_client), REASON)

    batch = answer.json["data"]
    assert (batch["status"], batch["rejectionReason"], batch["payments"]) == ("rejected", REASON["reason"], 0)
    assert batch["rejectedBy"] is not None
    with shop_client.database.reading() as session:
        assert [payable_balance_of(session, payee) for payee in payees] == [OWED_MINOR, OWED_MINOR]
    shown = detail(shop_client, batch_id)
    assert [(one["status"], one["payments"]) for one in shown["statuses"]] == [("cancelled", 2)]
    assert problem(shop_client.post(f"{BATCHES}/{batch_id}/approve", officer(shop_client))) == (
        409,
        "CONCURRENCY_CONFLICT",
    )


@pytest.mark.parametrize("body", [{}, {"reason": "short"}, {"reason": 7}, {"reason": "x" * 501}])
def test_rejection_requires_a_reason(shop_client: ShopClient, body: dict[str, Any]) -> None:
    answer = shop_client.post(
        f"{BATCHES}/{stage_batch(shop_client, *create_payees(shop_client))}/reject",
        officer(shop_client),
        body,
    )

    assert problem(answer) == (422, "VALIDATION_FAILED")
    assert [fault["name"] for fault in answer.json["invalid_params"]] == ["reason"]


def test_payment_can_be_excluded_from_a_batch(shop_client: ShopClient) -> None:
    payees = create_payees(shop_client, 2)
    batch_id = stage_batch(shop_client, *payees)
    with shop_client.database.reading() as session:
        [intent] = intents_of(session, payees[0])

    answer = shop_client.post(
        f"{BATCHES}/{batch_id}/exclude", officer(shop_client), {"intentIds": [str(intent["id"])], **REASON}
    )

    assert (answer.json["data"]["payments"], answer.json["data"]["approvalsMissing"]) == (1, 2)
    shown = detail(shop_client, batch_id)
    assert [one["id"] for one in shown["intents"]] != [str(intent["id"])]
    assert [(one["change"], one["intentId"]) for one in shown["changes"]] == [
        ("called_off", str(intent["id"]))
    ]


def test_batches_are_filtered_by_status_and_sorted_by_time(shop_client: ShopClient) -> None:
    waiting = stage_batch(shop_client, *create_payees(shop_client))
    ready = shop_client.database.in_transaction(approved_batch, create_payees(shop_client))
    sent = shop_client.database.in_transaction(dispatched_batch, create_payees(shop_client))
    over = stage_batch(shop_client, *create_payees(shop_client))
    shop_client.post(f"{BATCHES}/{over}/reject", officer(shop_client), REASON)
    header = officer(shop_client)
    # Other tests create batches too, so use a period of the future.
    for number, batch_id in enumerate((waiting, ready, sent, over)):
        at = datetime(2031, 3, 1, tzinfo=UTC) + timedelta(hours=number)
        execute(shop_client, "UPDATE payout_batches SET created_at = :at WHERE id = :id", at=at, id=batch_id)
    period = {"from": "2031-03-01T00:00:00Z", "to": "2031-03-01T04:00:00Z"}

    def listed(**query: Any) -> list[str]:
        answer = shop_client.get(BATCHES, header, **period, **query)
        assert answer.status_code == 200
        assert answer.json["meta"]["total"] >= len(answer.json["data"])
        return [row["id"] for row in answer.json["data"]]

    named_ids = {"waiting": waiting, "ready": ready, "sent": sent, "over": over}
    ids = {name: str(value) for name, value in named_ids.items()}
    # The default lists batches that are not final.
    assert listed() == [ids["sent"], ids["ready"], ids["waiting"]]
    assert listed(order="asc", limit=2) == [ids["waiting"], ids["ready"]]
    assert listed(status="awaiting") == [ids["ready"], ids["waiting"]]
    assert listed(status="rejected") == [ids["over"]]
    assert listed(status="all") == [ids["over"], ids["sent"], ids["ready"], ids["waiting"]]
    assert listed(page=2, limit=2) == [ids["waiting"]]
    [row] = shop_client.get(BATCHES, header, **period, status="approved").json["data"]
    assert (row["payments"], row["amountMinor"], row["currency"]) == (1, OWED_MINOR, "NGN")


@pytest.mark.parametrize("query", [{"status": "paid"}, {"sort": "amount"}, {"page": 0}, {"from": "today"}])
def test_invalid_query_parameter_is_refused(shop_client: ShopClient, query: dict[str, Any]) -> None:
    answer = shop_client.get(BATCHES, officer(shop_client), **query)

    assert problem(answer) == (422, "VALIDATION_FAILED")
    assert [fault["name"] for fault in answer.json["invalid_params"]] == list(query)


def test_batch_list_takes_a_constant_number_of_queries(shop_client: ShopClient) -> None:
    header = officer(shop_client)

    def statements(number: int) -> int:
        for _ in range(number):
            stage_batch(shop_client, *create_payees(shop_client))
        with counted_statements(shop_client.database) as counted:
            assert len(shop_client.get(BATCHES, header, limit=number).json["data"]) == number
        return len(counted)

    assert statements(1) == statements(4)


def test_batch_detail_takes_a_constant_number_of_queries(shop_client: ShopClient) -> None:
    header = officer(shop_client)

    def statements(number: int) -> int:
        batch_id = stage_batch(shop_client, *create_payees(shop_client, number))
        with counted_statements(shop_client.database) as counted:
            assert len(shop_client.get(f"{BATCHES}/{batch_id}", header).json["data"]["intents"]) == number
        return len(counted)

    assert statements(1) == statements(5)


def test_payments_are_paged_and_the_cursor_of_another_batch_is_refused(shop_client: ShopClient) -> None:
    batch_id, other = (
        stage_batch(shop_client, *create_payees(shop_client, 3)),
        stage_batch(shop_client, *create_payees(shop_client)),
    )
    header = officer(shop_client)

    first = shop_client.get(f"{BATCHES}/{batch_id}", header, limit=2)
    cursor = first.json["meta"]["next_cursor"]
    second = shop_client.get(f"{BATCHES}/{batch_id}", header, limit=2, cursor=cursor)

    seen = [one["id"] for page in (first, second) for one in page.json["data"]["intents"]]
    assert (len(seen), len(set(seen)), second.json["meta"]["has_more"]) == (3, 3, False)
    assert problem(shop_client.get(f"{BATCHES}/{other}", header, cursor=cursor)) == (422, "VALIDATION_FAILED")


def test_account_numbers_are_masked(shop_client: ShopClient) -> None:
    [payee] = create_payees(shop_client)
    batch_id = stage_batch(shop_client, payee)
    with shop_client.database.reading() as session:
        number = row_of(session, "payout_accounts", id=payee.account_id)["account_number"]

    answer = shop_client.get(f"{BATCHES}/{batch_id}", officer(shop_client))

    assert number not in answer.get_data(as_text=True)
    assert answer.json["data"]["intents"][0]["account"]["accountNumber"] == f"******{number[-4:]}"
