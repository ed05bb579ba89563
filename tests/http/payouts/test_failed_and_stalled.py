"""Failed and stalled payouts over HTTP: lists for finance, polling, voiding and resolution."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from werkzeug.test import TestResponse

from marketplace.identity.queries import Caller
from marketplace.payouts import withdrawals
from marketplace.payouts.transfers import stalled
from marketplace.payouts.transfers.exceptions import log_unrecognized_transfer
from marketplace.providers.gateway.payloads import GatewayTransfer
from tests.support.alerts import open_about
from tests.support.finance import audit_entries_of, make_officer
from tests.support.payouts import (
    OWED_MINOR,
    intents_in,
    make_payee,
    make_payees,
    payable_balance_of,
    request_payout,
    staged_batch,
)
from tests.support.purchases import NOW, later, row_of
from tests.support.resource_usage import counted_statements
from tests.support.shop_client import ShopClient
from tests.support.transfers import (
    dispatched_batch,
    handle_transfer_report,
    transfers_in,
    unique_transfer_number,
)

NOTE = "Called the bank: the account was closed."


@pytest.fixture
def officer(shop_client: ShopClient) -> dict[str, str]:
    """Headers of a finance officer signed in with two factors."""
    return officer_of(shop_client)


def officer_of(shop_client: ShopClient, aal: str = "aal2") -> dict[str, str]:
    return shop_client.bearer(shop_client.database.in_transaction(make_officer).id, aal)


def problem(answer: TestResponse) -> tuple[int, str]:
    return answer.status_code, answer.json["code"]


def make_failed_payout(
    shop_client: ShopClient, outcome: str = "failed"
) -> tuple[UUID, dict[str, Any], Caller]:
    """Create a failed payout and return exception id, transfer and payee."""
    with shop_client.database.transaction() as session:
        payee = make_payee(session)
        batch_id = dispatched_batch(session, [payee])
        [transfer] = transfers_in(session, batch_id)
        handle_transfer_report(session, transfer, outcome)
        found: UUID = row_of(session, "payout_exceptions", reference=transfer["reference"])["id"]
    return found, transfer, payee.user


def find_row(
    shop_client: ShopClient, headers: dict[str, str], path: str, row_id: UUID, **query: Any
) -> list[dict[str, Any]]:
    """Find a row by id in a list that other tests fill too."""
    answer = shop_client.get(path, headers, limit=100, **query)
    assert answer.status_code == 200, answer.json
    return [row for row in answer.json["data"] if row["id"] == str(row_id)]


class TestExceptions:
    PATH = "/api/payouts/exceptions"

    def test_exceptions_are_listed_with_the_payout(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        exception_id, transfer, payee = make_failed_payout(shop_client)

        [row] = find_row(shop_client, officer, self.PATH, exception_id, status="open", outcome="failed")

        assert row["payoutId"] == str(transfer["intent_id"])
        assert (row["payeeId"], row["payeeName"]) == (str(payee.id), "Ngozi's Lamps")
        assert (row["payoutStatus"], row["amountMinor"]) == ("failed", OWED_MINOR)
        assert row["reason"] == "The bank did not accept the transfer."
        assert find_row(shop_client, officer, self.PATH, exception_id, outcome="reversed") == []
        assert find_row(shop_client, officer, self.PATH, exception_id, status="resolved") == []

    def test_unrecognized_exception_is_listed_without_payout(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        transfer = GatewayTransfer(unique_transfer_number(), f"by-hand-{uuid4().hex}", 5_000, "NGN")
        with shop_client.database.transaction() as session:
            log_unrecognized_transfer(session, transfer=transfer, now=NOW)
            found = row_of(session, "payout_exceptions", reference=transfer.reference)["id"]

        [row] = find_row(shop_client, officer, self.PATH, found, outcome="unexpected")

        assert (row["payoutId"], row["payeeName"], row["gatewayTransferId"]) == (None, None, transfer.id)

    def test_exceptions_take_a_constant_number_of_queries(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        make_failed_payout(shop_client)
        with counted_statements(shop_client.database) as few:
            shop_client.get(self.PATH, officer)
        for _ in range(3):
            make_failed_payout(shop_client)
        with counted_statements(shop_client.database) as many:
            shop_client.get(self.PATH, officer)

        assert len(many) == len(few)

    def test_exception_is_resolved_once(self, shop_client: ShopClient, officer: dict[str, str]) -> None:
        exception_id, _, _ = make_failed_payout(shop_client)
        path = f"{self.PATH}/{exception_id}/resolve"

        answer = shop_client.post(path, officer, {"note": NOTE})

        assert answer.status_code == 200
        assert answer.json["data"]["resolutionNote"] == NOTE
        assert problem(shop_client.post(path, officer, {"note": NOTE})) == (409, "CONCURRENCY_CONFLICT")
        [row] = find_row(shop_client, officer, self.PATH, exception_id, status="resolved")
        assert (row["resolutionNote"], row["status"]) == (NOTE, "resolved")
        with shop_client.database.reading() as session:
            assert open_about(session, f"payout-exception:{exception_id}") == {}
            [(action, _, after)] = audit_entries_of(session, exception_id)
        assert (action, after["note"]) == ("payout_exception.resolve", NOTE)

    def test_exceptions_require_an_unrelated_finance_officer(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        exception_id, _, payee = make_failed_payout(shop_client)
        path = f"{self.PATH}/{exception_id}/resolve"
        with shop_client.database.transaction() as session:
            session.execute(
                text("UPDATE profiles SET role = 'staff', staff_role = 'finance' WHERE id = :id"),
                {"id": payee.id},
            )

        assert problem(shop_client.post(path, shop_client.bearer(payee.id), {"note": NOTE}))[0] == 403
        for headers in (shop_client.buyer, shop_client.vendor, shop_client.officer("support")):
            assert problem(shop_client.post(path, headers, {"note": NOTE})) == (403, "AUTH_FORBIDDEN")
            assert problem(shop_client.get(self.PATH, headers)) == (403, "AUTH_FORBIDDEN")
        assert problem(shop_client.post(path, officer, {"note": "short"})) == (422, "VALIDATION_FAILED")
        assert problem(shop_client.post(f"{self.PATH}/{uuid4()}/resolve", officer, {"note": NOTE}))[0] == 404


class TestStalled:
    PATH = "/api/payouts/stalled"

    def test_payout_without_progress_for_two_days_raises_an_alert_and_is_listed(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        with shop_client.database.transaction() as session:
            staged = staged_batch(session, make_payees(session, 2))
            sent = dispatched_batch(session, make_payees(session, 1))
            [waiting, _] = intents_in(session, staged)
            [other] = intents_in(session, sent)
        shop_client.database.in_transaction(stalled.flag_stalled_payouts, now=later(hours=47, minutes=59))
        assert find_row(shop_client, officer, self.PATH, waiting["id"]) == []

        assert shop_client.database.in_transaction(stalled.flag_stalled_payouts, now=later(hours=48)) >= 3

        [row] = find_row(shop_client, officer, self.PATH, waiting["id"])
        assert (row["status"], row["batchStatus"], row["reference"]) == ("pending", "staged", None)
        [row] = find_row(shop_client, officer, self.PATH, other["id"])
        assert row["reference"] is not None
        with shop_client.database.reading() as session:
            assert open_about(session, f"payout-batch:{staged}") == {"PAYOUT_STALLED": "SEV-2"}
            [transfer] = transfers_in(session, sent)
        # A payout is flagged once. A payout with a final status is no longer stalled.
        with shop_client.database.transaction() as session:
            handle_transfer_report(session, transfer, "success")
            stalled.flag_stalled_payouts(session, now=later(hours=49))
        assert find_row(shop_client, officer, self.PATH, other["id"]) == []
        with shop_client.database.reading() as session:
            assert open_about(session, f"payout-batch:{sent}") == {}
            alert = row_of(session, "alerts", subject=f"payout-batch:{staged}", identifier="PAYOUT_STALLED")
        assert (alert["occurrences"], alert["facts"]["payments"]) == (1, 2)

    def test_stalled_payouts_require_finance(self, shop_client: ShopClient) -> None:
        for headers in (shop_client.buyer, shop_client.vendor, shop_client.officer("support")):
            assert problem(shop_client.get(self.PATH, headers)) == (403, "AUTH_FORBIDDEN")


class TestPolling:
    def test_officer_can_poll_a_sent_transfer_again(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        with shop_client.database.transaction() as session:
            [transfer] = transfers_in(session, dispatched_batch(session, make_payees(session, 1)))
        path = f"/api/payouts/{transfer['intent_id']}/ask"

        # An unsent transfer cannot be polled.
        assert problem(shop_client.post(path, officer)) == (409, "CONCURRENCY_CONFLICT")
        with shop_client.database.transaction() as session:
            session.execute(
                text("UPDATE payout_transfers SET sent_at = :now, attempts = 7 WHERE id = :id"),
                {"now": NOW, "id": transfer["id"]},
            )
        answer = shop_client.post(path, officer)

        assert answer.status_code == 202
        assert answer.json["data"]["reference"] == transfer["reference"]
        with shop_client.database.reading() as session:
            row = row_of(session, "payout_transfers", id=transfer["id"])
        assert (row["attempts"], row["ask_at"]) == (0, NOW)

    def test_polling_requires_finance_and_an_existing_payout(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        assert problem(shop_client.post(f"/api/payouts/{uuid4()}/ask", officer)) == (
            404,
            "RESOURCE_NOT_FOUND",
        )
        assert problem(shop_client.post(f"/api/payouts/{uuid4()}/ask", shop_client.vendor)) == (
            403,
            "AUTH_FORBIDDEN",
        )


class TestVoiding:
    @pytest.fixture
    def transfer(self, shop_client: ShopClient) -> dict[str, Any]:
        with shop_client.database.transaction() as session:
            payee = make_payee(session)
            [found] = transfers_in(session, dispatched_batch(session, [payee]))
        return found | {"payee": payee}

    def path_of(self, transfer: dict[str, Any]) -> str:
        return f"/api/payouts/{transfer['intent_id']}/give-up"

    def change(self, shop_client: ShopClient, transfer: dict[str, Any], status: str, **columns: Any) -> None:
        """Set the status of the payout and columns of the transfer."""
        names = ", ".join(f"{name} = :{name}" for name in columns)
        with shop_client.database.transaction() as session:
            session.execute(
                text("UPDATE payout_transfer_intents SET status = :status WHERE id = :id"),
                {"status": status, "id": transfer["intent_id"]},
            )
            session.execute(
                text(f"UPDATE payout_transfers SET {names} WHERE id = :id"),
                {"id": transfer["id"]} | columns,
            )

    def test_voided_unsent_payout_returns_to_the_payee(
        self, shop_client: ShopClient, officer: dict[str, str], transfer: dict[str, Any]
    ) -> None:
        answer = shop_client.post(self.path_of(transfer), officer, {"note": NOTE})

        assert answer.status_code == 200
        assert answer.json["data"]["status"] == "failed"
        with shop_client.database.reading() as session:
            assert payable_balance_of(session, transfer["payee"]) == OWED_MINOR
            intent = row_of(session, "payout_transfer_intents", id=transfer["intent_id"])
            assert intent["failure_reason"] == "The transfer could not be sent."
            assert row_of(session, "payout_batches", id=intent["batch_id"])["status"] == "partially_failed"
            [(action, before, after)] = audit_entries_of(session, transfer["intent_id"])
        assert (action, before["status"], after["note"]) == ("payout.give_up", "pending", NOTE)
        assert problem(shop_client.post(self.path_of(transfer), officer, {"note": NOTE}))[0] == 409

    @pytest.mark.parametrize(
        ("status", "columns", "expected"),
        [
            ("pending", {"sent_at": NOW, "ask_at": NOW}, 409),
            ("submitted", {"sent_at": NOW, "ask_at": NOW}, 409),
            ("submitted", {"sent_at": NOW, "ask_at": None}, 409),
            ("unknown", {"sent_at": NOW, "ask_at": NOW}, 409),
            ("unknown", {"sent_at": NOW, "ask_at": None}, 200),
        ],
    )
    def test_possibly_sent_payout_is_voided_only_after_the_last_poll(
        self,
        shop_client: ShopClient,
        officer: dict[str, str],
        transfer: dict[str, Any],
        status: str,
        columns: dict[str, Any],
        expected: int,
    ) -> None:
        self.change(shop_client, transfer, status, **columns)

        answer = shop_client.post(self.path_of(transfer), officer, {"note": NOTE})

        assert answer.status_code == expected
        with shop_client.database.reading() as session:
            assert payable_balance_of(session, transfer["payee"]) == (OWED_MINOR if expected == 200 else 0)

    def test_voided_payout_cannot_be_voided_again(
        self, shop_client: ShopClient, officer: dict[str, str], transfer: dict[str, Any]
    ) -> None:
        path, payee = self.path_of(transfer), transfer["payee"]
        assert shop_client.post(path, officer, {"note": NOTE}).status_code == 200
        with shop_client.database.reading() as session:
            body = row_of(session, "notifications", user_id=payee.user.id, type="payout_failed")["body"]
        assert body.endswith(
            "The transfer could not be sent. The amount is back in your balance."
            " We will include the amount in the next payouts."
        )

        again = shop_client.post(path, officer, {"note": NOTE})

        assert again.status_code == 409
        assert (
            again.json["detail"]
            == "The payout is already failed, and its amount is back in the payee's balance."
        )

    def test_cancelled_payout_cannot_be_voided(
        self, shop_client: ShopClient, officer: dict[str, str]
    ) -> None:
        with shop_client.database.transaction() as session:
            payee = make_payee(session)
            payout_id = request_payout(session, payee, OWED_MINOR)
            withdrawals.cancel_request(session, payout_id=payout_id, caller=payee.user, now=NOW)

        answer = shop_client.post(f"/api/payouts/{payout_id}/give-up", officer, {"note": NOTE})

        assert (answer.status_code, "is already cancelled" in answer.json["detail"]) == (409, True)

    def test_voiding_requires_two_factors_finance_and_a_dispatched_payout(
        self, shop_client: ShopClient, officer: dict[str, str], transfer: dict[str, Any]
    ) -> None:
        path, body = self.path_of(transfer), {"note": NOTE}
        with shop_client.database.transaction() as session:
            [waiting] = intents_in(session, staged_batch(session, make_payees(session, 1)))

        assert problem(shop_client.post(path, officer_of(shop_client, aal="aal1"), body)) == (
            403,
            "AUTH_AAL2_REQUIRED",
        )
        assert problem(shop_client.post(path, shop_client.vendor, body)) == (403, "AUTH_FORBIDDEN")
        assert problem(shop_client.post(path, officer, {"note": "short"})) == (422, "VALIDATION_FAILED")
        assert problem(shop_client.post(f"/api/payouts/{uuid4()}/give-up", officer, body))[0] == 404
        assert problem(shop_client.post(f"/api/payouts/{waiting['id']}/give-up", officer, body))[0] == 409
        payee = transfer["payee"].user.id
        with shop_client.database.transaction() as session:
            session.execute(
                text("UPDATE profiles SET role = 'staff', staff_role = 'finance' WHERE id = :id"),
                {"id": payee},
            )
        assert problem(shop_client.post(path, shop_client.bearer(payee, "aal2"), body)) == (
            403,
            "AUTH_FORBIDDEN",
        )
