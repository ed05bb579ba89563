"""Dispatch of payout batches over HTTP: permissions, refusals and responses."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from werkzeug.test import TestResponse

from marketplace.platform.halts import halt_payouts
from tests.support.finance import audit_entries_of, make_officer
from tests.support.payouts import (
    OWED_MINOR,
    Payee,
    approved_batch,
    intents_in,
    make_account,
    make_payee,
    make_payees,
    payable_balance_of,
    staged_batch,
)
from tests.support.purchases import NOW, row_of
from tests.support.shop_client import ShopClient, new_key
from tests.support.transfers import transfers_in

PATH = "/api/payouts/dispatch"


@pytest.fixture
def officer(shop_client: ShopClient) -> dict[str, str]:
    """Headers of a finance officer signed in with two factors."""
    return officer_of(shop_client)


def officer_of(shop_client: ShopClient, aal: str = "aal2") -> dict[str, str]:
    return shop_client.bearer(shop_client.database.in_transaction(make_officer).id, aal)


def make_approved_batch(shop_client: ShopClient, payees: Sequence[Payee] = ()) -> UUID:
    with shop_client.database.transaction() as session:
        return approved_batch(session, payees or make_payees(session, 2))


def send(
    shop_client: ShopClient, headers: dict[str, str], batch_id: UUID, key: str | None = None
) -> TestResponse:
    return shop_client.post(PATH, headers, {"batchId": str(batch_id)}, key=key or new_key())


def problem(answer: TestResponse) -> tuple[int, str]:
    return answer.status_code, answer.json["code"]


def status_of(shop_client: ShopClient, batch_id: UUID) -> str:
    with shop_client.database.reading() as session:
        status: str = row_of(session, "payout_batches", id=batch_id)["status"]
        return status


class TestDispatch:
    def test_approved_batch_is_dispatched_once(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        batch_id = make_approved_batch(shop_client)
        key = new_key()

        first, replayed = (send(shop_client, officer, batch_id, key) for _ in range(2))
        again = send(shop_client, officer, batch_id)

        assert first.status_code == 202
        assert first.json["data"] == {
            "batchId": str(batch_id),
            "payoutId": None,
            "status": "dispatching",
            "payments": 2,
            "amountMinor": 2 * OWED_MINOR,
        }
        assert (replayed.status_code, replayed.data) == (202, first.data)
        assert problem(again) == (409, "CONCURRENCY_CONFLICT")
        with shop_client.database.reading() as session:
            assert len(transfers_in(session, batch_id)) == 2
            assert audit_entries_of(session, batch_id)[-1][0] == "payout_batch.dispatch"

    def test_concurrent_dispatches_send_the_batch_once(self, shop_client: ShopClient) -> None:
        batch_id = make_approved_batch(shop_client)
        headers = [officer_of(shop_client) for _ in range(2)]

        with ThreadPoolExecutor(2) as pool:
            answers = list(
                pool.map(
                    lambda one: (
                        shop_client.client.application.test_client()
                        .post(
                            PATH,
                            json={"batchId": str(batch_id)},
                            headers={**one, "Idempotency-Key": new_key()},
                        )
                        .status_code
                    ),
                    headers,
                )
            )

        assert sorted(answers) == [202, 409]
        with shop_client.database.reading() as session:
            assert len(transfers_in(session, batch_id)) == 2

    def test_dispatch_requires_idempotency_key_two_factors_and_finance(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        batch_id = make_approved_batch(shop_client)
        body = {"batchId": str(batch_id)}

        assert problem(shop_client.post(PATH, officer, body)) == (422, "VALIDATION_FAILED")
        assert problem(send(shop_client, officer_of(shop_client, aal="aal1"), batch_id)) == (
            403,
            "AUTH_AAL2_REQUIRED",
        )
        assert problem(send(shop_client, shop_client.officer("orders"), batch_id)) == (403, "AUTH_FORBIDDEN")
        assert problem(send(shop_client, shop_client.buyer, batch_id)) == (403, "AUTH_FORBIDDEN")
        # Permissions are checked before the body is validated.
        assert (
            problem(shop_client.post(PATH, shop_client.officer("orders"), {"x": 1}, key=new_key()))[0] == 403
        )
        assert problem(send(shop_client, shop_client.vendor, batch_id)) == (422, "VALIDATION_FAILED")
        assert status_of(shop_client, batch_id) == "approved"

    @pytest.mark.parametrize(
        "body",
        [{}, {"batchId": "x"}, {"batchId": str(uuid4()), "amountMinor": 100_000}, {"amountMinor": 500}],
    )
    def test_body_without_a_valid_batch_id_is_refused(
        self, shop_client: ShopClient, officer: dict[str, str], body: dict[str, Any]
    ) -> None:
        answer = shop_client.post(PATH, officer, body, key=new_key())

        assert problem(answer) == (422, "VALIDATION_FAILED")
        assert [fault["name"] for fault in answer.json["invalid_params"]] == ["batchId"]

    def test_unknown_or_unapproved_batch_is_not_dispatched(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        assert problem(send(shop_client, officer, uuid4())) == (404, "RESOURCE_NOT_FOUND")
        with shop_client.database.transaction() as session:
            batch_id = staged_batch(session, make_payees(session, 1))

        answer = send(shop_client, officer, batch_id)

        assert problem(answer) == (409, "CONCURRENCY_CONFLICT")
        assert "staged" in answer.json["detail"]
        assert status_of(shop_client, batch_id) == "staged"

    def test_batch_changed_after_approval_needs_approval_again(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        batch_id = make_approved_batch(shop_client)
        with shop_client.database.transaction() as session:
            [first, _] = intents_in(session, batch_id)
            make_account(session, first["user_id"])

        answer = send(shop_client, officer, batch_id)

        assert problem(answer) == (409, "CONCURRENCY_CONFLICT")
        assert status_of(shop_client, batch_id) == "staged"
        with shop_client.database.reading() as session:
            assert transfers_in(session, batch_id) == []
            assert row_of(session, "payout_batches", id=batch_id)["approved_hash"] is None

    def test_officer_cannot_dispatch_own_payout(self, shop_client: ShopClient) -> None:
        with shop_client.database.transaction() as session:
            payee = make_payee(session)
            session.execute(
                text("UPDATE profiles SET role = 'staff', staff_role = 'finance' WHERE id = :id"),
                {"id": payee.user.id},
            )
        batch_id = make_approved_batch(shop_client, [payee])

        answer = send(shop_client, shop_client.bearer(payee.user.id, "aal2"), batch_id)

        assert problem(answer) == (403, "AUTH_FORBIDDEN")
        assert status_of(shop_client, batch_id) == "approved"

    def test_dispatch_is_refused_while_payouts_are_halted(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        batch_id = make_approved_batch(shop_client)
        shop_client.database.in_transaction(halt_payouts, "ESCROW_DRIFT: of this test", NOW)
        try:
            answer = send(shop_client, officer, batch_id)
        finally:
            with shop_client.database.transaction() as session:
                session.execute(text("DELETE FROM payout_halts"))

        assert problem(answer) == (409, "CONCURRENCY_CONFLICT")
        assert "ESCROW_DRIFT" in answer.json["detail"]
        assert send(shop_client, officer, batch_id).status_code == 202

    def test_vendor_can_request_an_early_payout(self, shop_client: ShopClient) -> None:
        with shop_client.database.transaction() as session:
            payee = make_payee(session)
        vendor = shop_client.bearer(payee.user.id)

        too_little = shop_client.post(PATH, vendor, {"amountMinor": 99_999}, key=new_key())
        answer = shop_client.post(PATH, vendor, {"amountMinor": 200_000}, key=new_key())

        assert too_little.json["reason"] == "payout-below-minimum"
        assert answer.status_code == 202
        data = answer.json["data"]
        assert data == {
            "batchId": None,
            "payoutId": data["payoutId"],
            "status": "pending",
            "payments": 1,
            "amountMinor": 200_000,
        }
        with shop_client.database.reading() as session:
            assert payable_balance_of(session, payee) == OWED_MINOR - 200_000
