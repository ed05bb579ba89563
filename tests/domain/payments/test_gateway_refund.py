"""Refunds in transit: requested from the gateway once despite faults, and settled by polls and events."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.batches import ChangedWhilePolledError
from marketplace.infra.settings import Settings
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.ledger.queries import fetch_balances_by_kind
from marketplace.payments.refunds import gateway_refund, gateway_reports, order_cancellation
from marketplace.payments.refunds.gateway_refund import (
    SENDING_LEASE,
    PendingGatewayRefund,
    RefundInProgressError,
)
from marketplace.providers.gateway.fields import MalformedGatewayDataError
from marketplace.providers.gateway.payloads import GatewayRefund
from tests.support.alerts import open_about
from tests.support.finance import count_status_requests
from tests.support.gateway import TestGateway
from tests.support.purchases import (
    NOW,
    Shop,
    apply,
    assert_ledger_is_consistent,
    later,
    make_intent,
    make_product,
    place,
    row_of,
)

AMOUNT = 310_050


@pytest.fixture
def refund_id(session: Session, shop: Shop, gateway: TestGateway) -> UUID:
    """A pending refund of a charge that the gateway knows."""
    order_id = place(session, shop, make_product(session, shop))
    intent = make_intent(session, shop, order_id)
    gateway.open(intent.reference, intent.amount_minor)
    apply(session, gateway.charge_of_paid(intent.reference))
    order_cancellation.cancel_order(session, order_id=order_id, caller=shop.buyer, reason=None, now=NOW)
    refund = row_of(session, "refunds", order_id=order_id)
    assert (refund["status"], refund["amount_minor"]) == ("pending", AMOUNT)
    found: UUID = refund["id"]
    return found


def lease(session: Session, refund_id: UUID, **delta: float) -> PendingGatewayRefund:
    found = gateway_refund.lease_refund(session, refund_id=refund_id, now=later(**delta))
    assert found is not None
    return found


def status_of(session: Session, refund_id: UUID) -> str:
    status: str = row_of(session, "refunds", id=refund_id)["status"]
    return status


def count_send_requests(gateway: TestGateway, found: PendingGatewayRefund) -> int:
    """Count the requests to send the refund."""
    return gateway.calls(found.reference).get("POST /refund", 0)


def make_report(found: PendingGatewayRefund, status: str, **values: Any) -> GatewayRefund:
    given = {
        "id": "77",
        "amount_minor": found.amount_minor,
        "merchant_note": found.refund_reference,
        "charge_reference": found.reference,
    }
    return GatewayRefund(**{"status": status} | given | values)


def apply_status(session: Session, report: GatewayRefund | None, refund_id: UUID) -> str:
    assert report is not None
    return gateway_refund.apply_gateway_status(
        session, refund_id=refund_id, reported=report, now=later(minutes=5)
    )


class TestSending:
    def test_refund_is_requested_once_and_ledger_follows_gateway_status(
        self, session: Session, shop: Shop, gateway: TestGateway, settings: Settings, refund_id: UUID
    ) -> None:
        before = fetch_balances_by_kind(session)
        found = lease(session, refund_id)
        assert not found.may_be_known_to_gateway

        report = gateway_refund.send_refund(gateway.adapter(settings), found)

        assert apply_status(session, report, refund_id) == "submitted"
        assert fetch_balances_by_kind(session) == before
        assert count_send_requests(gateway, found) == 1
        assert gateway_refund.lease_refund(session, refund_id=refund_id, now=later(hours=1)) is None
        assert apply_status(session, make_report(found, "processed", id=report.id), refund_id) == "processed"  # type: ignore[union-attr]
        after = fetch_balances_by_kind(session)
        assert after["refunds_in_transit"] == before["refunds_in_transit"] - AMOUNT
        assert after["gateway_clearing"] == before["gateway_clearing"] - AMOUNT
        assert row_of(session, "refunds", id=refund_id)["settled_at"] == later(minutes=5)
        assert row_of(session, "notifications", user_id=shop.buyer.id, type="refund_processed")
        assert_ledger_is_consistent(session)

    def test_refund_is_leased_by_a_single_worker_until_lease_expires(
        self, session: Session, refund_id: UUID
    ) -> None:
        lease(session, refund_id)

        with pytest.raises(RefundInProgressError):
            gateway_refund.lease_refund(session, refund_id=refund_id, now=later(seconds=119))

        assert lease(session, refund_id, seconds=SENDING_LEASE.total_seconds()).may_be_known_to_gateway

    def test_refund_is_sent_after_worker_died_before_request(
        self, session: Session, gateway: TestGateway, settings: Settings, refund_id: UUID
    ) -> None:
        lease(session, refund_id)

        found = lease(session, refund_id, minutes=3)
        report = gateway_refund.send_refund(gateway.adapter(settings), found)

        assert apply_status(session, report, refund_id) == "submitted"
        assert count_send_requests(gateway, found) == 1

    @pytest.mark.parametrize("fault", ["lose", "hang", "garble"])
    def test_refund_with_lost_response_is_found_by_merchant_note(
        self, session: Session, gateway: TestGateway, settings: Settings, refund_id: UUID, fault: str
    ) -> None:
        found = lease(session, refund_id)
        gateway.proxy.fault = fault
        with pytest.raises(ProviderUnavailableError):
            gateway_refund.send_refund(gateway.adapter(settings), found)
        assert status_of(session, refund_id) == "pending"

        # The refund is not sent again while the gateway cannot be polled for the first request.
        again = lease(session, refund_id, minutes=3)
        with pytest.raises(ProviderUnavailableError):
            gateway_refund.send_refund(gateway.adapter(settings), again)
        gateway.proxy.fault = None
        report = gateway_refund.send_refund(gateway.adapter(settings), again)

        # The gateway may have processed the refund by then.
        assert apply_status(session, report, refund_id) in ("submitted", "processed")
        assert count_send_requests(gateway, found) == 1
        assert_ledger_is_consistent(session)

    def test_refund_is_sent_after_gateway_was_down(
        self, session: Session, gateway: TestGateway, settings: Settings, refund_id: UUID
    ) -> None:
        gateway.proxy.fault = "refuse"
        with pytest.raises(ProviderUnavailableError):
            gateway_refund.send_refund(gateway.adapter(settings), lease(session, refund_id))
        gateway.proxy.fault = None

        found = lease(session, refund_id, minutes=3)
        assert (
            apply_status(session, gateway_refund.send_refund(gateway.adapter(settings), found), refund_id)
            == "submitted"
        )
        assert count_send_requests(gateway, found) == 1

    def test_refund_refused_by_the_gateway_needs_finance_and_stays_in_transit(
        self, session: Session, shop: Shop, gateway: TestGateway, settings: Settings, refund_id: UUID
    ) -> None:
        before, found = fetch_balances_by_kind(session), lease(session, refund_id)
        elsewhere = {"transaction": found.reference, "amount": found.amount_minor}
        gateway.call("POST", "/refund", json=elsewhere)

        report = gateway_refund.send_refund(gateway.adapter(settings), found)

        assert apply_status(session, report, refund_id) == "failed"
        assert fetch_balances_by_kind(session) == before
        assert (
            session.execute(
                text("SELECT count(*) FROM notifications WHERE user_id = :id AND type = 'refund_processed'"),
                {"id": shop.buyer.id},
            ).scalar_one()
            == 0
        )
        assert_ledger_is_consistent(session)

    def test_rejected_api_key_counts_as_gateway_unavailable(
        self, session: Session, gateway: TestGateway, settings: Settings, refund_id: UUID
    ) -> None:
        other = gateway.adapter(settings)
        other._client._client._headers["Authorization"] = "Bearer sk_test_of_another_account"

        with pytest.raises(ProviderUnavailableError):
            gateway_refund.send_refund(other, lease(session, refund_id))


def test_refund_list_reads_all_pages_up_to_the_limit(
    session: Session,
    gateway: TestGateway,
    settings: Settings,
    refund_id: UUID,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = lease(session, refund_id)
    for _ in range(5):
        gateway.call("POST", "/refund", json={"transaction": found.reference, "amount": 1})
    adapter = gateway.adapter(settings)
    for pages, per_page in ((3, 2), (6, 1)):
        monkeypatch.setattr("marketplace.providers.gateway.payments._MAX_PAGES", pages)
        monkeypatch.setattr("marketplace.providers.gateway.client.PER_PAGE", per_page)
        assert len(adapter.list_refunds(found.reference)) == 5

    monkeypatch.setattr("marketplace.providers.gateway.payments._MAX_PAGES", 5)
    with pytest.raises(ProviderUnavailableError, match="too many"):
        adapter.list_refunds(found.reference)


def handle_event(session: Session, report: GatewayRefund) -> bool:
    return gateway_reports.handle_refund_event(session, reported=report, now=later(minutes=5))


class TestReportedStatus:
    @pytest.mark.parametrize(
        ("statuses", "status"),
        [
            (["processed", "processed", "pending", "processing"], "processed"),
            (["pending", "processing", "processed", "failed"], "failed"),
            (["processed", "failed", "processed"], "processed"),
            (["failed", "failed", "pending"], "failed"),
            (["failed", "processed"], "processed"),
            (["needs-attention", "pending"], "needs_attention"),
            (["needs-attention", "processed"], "processed"),
            (["needs-attention", "failed"], "failed"),
            (["something-new"], "pending"),
        ],
    )
    def test_polled_final_status_overrides_earlier_status_but_pending_does_not(
        self, session: Session, refund_id: UUID, statuses: list[str], status: str
    ) -> None:
        before, found = fetch_balances_by_kind(session), lease(session, refund_id)

        for reported_status in statuses:
            apply_status(session, make_report(found, reported_status), refund_id)

        assert status_of(session, refund_id) == status
        left = 0 if status == "processed" else AMOUNT
        moved = before["refunds_in_transit"] - fetch_balances_by_kind(session)["refunds_in_transit"]
        assert moved == AMOUNT - left
        assert_ledger_is_consistent(session)

    def test_refund_with_amount_mismatch_needs_attention(self, session: Session, refund_id: UUID) -> None:
        found = lease(session, refund_id)

        assert (
            apply_status(session, make_report(found, "processed", amount_minor=1), refund_id)
            == "needs_attention"
        )
        assert_ledger_is_consistent(session)

    def test_report_with_different_refund_id_is_ignored_and_alerted(
        self, session: Session, refund_id: UUID
    ) -> None:
        found = lease(session, refund_id)
        apply_status(session, make_report(found, "pending", id="4711"), refund_id)

        assert apply_status(session, make_report(found, "processed", id="7777594"), refund_id) == "submitted"

        assert row_of(session, "refunds", id=refund_id)["gateway_refund_id"] == "4711"
        assert open_about(session, f"refund:{refund_id}") == {"REFUND_ID_DIFFERS": "SEV-2"}
        assert apply_status(session, make_report(found, "failed", id="4711"), refund_id) == "failed"

    def test_report_of_earlier_attempt_leaves_requested_retry_pending(
        self, session: Session, refund_id: UUID
    ) -> None:
        first = lease(session, refund_id)
        apply_status(session, make_report(first, "failed"), refund_id)
        session.execute(
            text(
                "UPDATE refunds SET status = 'pending', attempt = 2, tries = 2, asked_at = NULL,"
                " gateway_refund_id = NULL WHERE id = :id"
            ),
            {"id": refund_id},
        )
        second = lease(session, refund_id, minutes=9)
        assert (second.may_be_known_to_gateway, second.refund_reference) == (
            False,
            f"marketplace refund {refund_id} try 2",
        )

        for reported_status in ("failed", "processed", "pending"):
            assert apply_status(session, make_report(first, reported_status), refund_id) == "pending"
        assert apply_status(session, make_report(second, "processed", id="78"), refund_id) == "processed"
        assert_ledger_is_consistent(session)


class TestEvents:
    def test_refund_event_matches_by_id_or_note(self, session: Session, refund_id: UUID) -> None:
        found = lease(session, refund_id)

        assert handle_event(session, make_report(found, "pending", id="4711", charge_reference=""))
        assert status_of(session, refund_id) == "submitted"
        assert handle_event(
            session, make_report(found, "processed", id="4711", merchant_note="", charge_reference="")
        )

        assert status_of(session, refund_id) == "processed"
        assert count_status_requests(session, refund_id) == 0

    @pytest.mark.parametrize("status", ["processed", "failed", "pending"])
    @pytest.mark.parametrize("gateway_id", ["", "7777594"])
    def test_refund_event_naming_only_the_charge_polls_the_gateway(
        self, session: Session, refund_id: UUID, status: str, gateway_id: str
    ) -> None:
        """The event may be about a manual refund of the same charge and amount."""
        found = lease(session, refund_id)
        apply_status(session, make_report(found, "pending", id="4711"), refund_id)

        assert handle_event(session, make_report(found, status, id=gateway_id, merchant_note=""))

        row = row_of(session, "refunds", id=refund_id)
        assert (row["status"], row["gateway_refund_id"]) == ("submitted", "4711")
        assert count_status_requests(session, refund_id) == 1

    @pytest.mark.parametrize(("first", "then"), [("processed", "failed"), ("failed", "processed")])
    def test_event_contradicting_a_final_refund_is_checked_by_polling(
        self, session: Session, refund_id: UUID, first: str, then: str
    ) -> None:
        found = lease(session, refund_id)
        handle_event(session, make_report(found, first))

        for reported_status in (then, "pending", first):
            assert handle_event(session, make_report(found, reported_status))

        assert status_of(session, refund_id) == first
        assert count_status_requests(session, refund_id) == 1
        row = gateway_reports.find_refund(session, refund_id=refund_id)
        assert not gateway_reports.record_status(session, row, [make_report(found, first)], later(minutes=6))
        row = gateway_reports.find_refund(session, refund_id=refund_id)
        assert gateway_reports.record_status(session, row, [make_report(found, then)], later(minutes=7))
        assert status_of(session, refund_id) == then
        assert_ledger_is_consistent(session)

    def test_poll_result_is_rejected_when_refund_changed_during_poll(
        self, session: Session, refund_id: UUID
    ) -> None:
        found = lease(session, refund_id)
        row = gateway_reports.find_refund(session, refund_id=refund_id)
        apply_status(session, make_report(found, "failed"), refund_id)

        with pytest.raises(ChangedWhilePolledError):
            gateway_reports.record_status(session, row, [make_report(found, "processed")], later(minutes=6))

        assert status_of(session, refund_id) == "failed"

    @pytest.mark.parametrize(
        "values",
        [
            {"id": "1", "merchant_note": "by hand", "charge_reference": ""},
            {"id": "1", "merchant_note": f"marketplace refund {uuid4()}", "charge_reference": ""},
            {"id": "1", "merchant_note": f"marketplace refund {'-' * 36}", "charge_reference": ""},
            {"id": "", "merchant_note": "", "charge_reference": "checkout-of-another-buyer"},
            {"id": "", "merchant_note": "", "amount_minor": 1},
            {"id": "", "merchant_note": "Refund for a transaction"},
        ],
    )
    def test_unrecognized_refund_event_is_ignored(
        self, session: Session, refund_id: UUID, values: dict[str, Any]
    ) -> None:
        found = lease(session, refund_id)

        assert not handle_event(session, make_report(found, "processed", **values))

        assert (status_of(session, refund_id), count_status_requests(session, refund_id)) == ("pending", 0)

    def test_event_about_never_requested_refund_is_ignored(self, session: Session, refund_id: UUID) -> None:
        reference = session.execute(
            text(
                "SELECT i.reference FROM refunds r JOIN gateway_charges c ON c.id = r.charge_id"
                " JOIN payment_intents i ON i.id = c.intent_id WHERE r.id = :id"
            ),
            {"id": refund_id},
        ).scalar_one()

        assert not handle_event(session, GatewayRefund("7777594", "processed", AMOUNT, "", reference))


BODY = {"id": 5, "status": "processed", "amount": 700, "merchant_note": "ours", "currency": "NGN"}


class TestParsing:
    def test_refund_event_accepts_amount_as_digits_and_missing_id(self) -> None:
        report = GatewayRefund.from_wire(
            BODY | {"id": None, "amount": "700", "transaction_reference": "checkout-x"}
        )
        assert report == GatewayRefund("", "processed", 700, "ours", "checkout-x")

    @pytest.mark.parametrize(
        "values",
        [
            *({"amount": amount} for amount in ("7.5", None, 7.5, True, "٣", -1, "9" * 16)),
            {"status": 1},
            {"id": "x"},
        ],
    )
    def test_malformed_refund_is_refused(self, values: dict[str, Any]) -> None:
        with pytest.raises(MalformedGatewayDataError):
            GatewayRefund.from_wire(BODY | values)
