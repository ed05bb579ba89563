"""Recovery of failed refunds: retried or credited to the wallet, never both."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.identity.queries import Caller
from marketplace.infra.settings import Settings
from marketplace.kernel.errors import (
    ConflictError,
    ForbiddenError,
    NotFoundError,
    ProviderUnavailableError,
)
from marketplace.kernel.paging import TableRequest
from marketplace.kernel.states import IllegalTransitionError
from marketplace.ledger.queries import fetch_balances_by_kind
from marketplace.orders.placing.place_order import WalletUse
from marketplace.payments import admin_queries, states
from marketplace.payments.guards import ChargedBackError
from marketplace.payments.refunds import gateway_refund, gateway_reports, order_cancellation, recovery
from marketplace.payments.refunds.gateway_reports import PolledRefund
from marketplace.payments.refunds.recovery import (
    GatewayStatusUnknownError,
    RefundStillInFlightError,
)
from marketplace.providers.gateway.payloads import GatewayRefund
from tests.support.alerts import open_about
from tests.support.finance import (
    act_of,
    audit_entries_of,
    cancelled_order,
    dispute_charge,
    notification_types_of,
    recover_refund,
    refund,
    refunds_of,
    report_refund_status,
)
from tests.support.gateway import TestGateway
from tests.support.purchases import (
    NOW,
    Shop,
    apply,
    assert_ledger_is_consistent,
    fill_wallet,
    later,
    make_intent,
    make_product,
    paid_order,
    pay,
    place,
    row_of,
    wallet_of,
)


@pytest.fixture
def order_id(session: Session, shop: Shop) -> UUID:
    return cancelled_order(session, shop)


@pytest.fixture
def refund_id(session: Session, order_id: UUID) -> UUID:
    """A failed refund."""
    [made] = refunds_of(session, order_id)
    found: UUID = made["id"]
    assert report_refund_status(session, found, "failed") == "failed"
    return found


def find_failed(
    session: Session, refund_id: UUID, officer: Caller, trigger: str = states.CREDIT
) -> PolledRefund:
    return recovery.find_failed_refund(session, refund_id=refund_id, trigger=trigger, officer_id=officer.id)


@pytest.mark.parametrize("trigger", [states.RETRY, states.CREDIT])
def test_refund_with_open_dispute_cannot_be_recovered(
    session: Session, officer: Caller, refund_id: UUID, trigger: str
) -> None:
    charge_id = row_of(session, "refunds", id=refund_id)["charge_id"]
    dispute_charge(session, row_of(session, "gateway_charges", id=charge_id)["gateway_charge_id"])

    with pytest.raises(ChargedBackError, match="is disputing this payment"):
        recover_refund(session, refund_id, officer, trigger)

    assert row_of(session, "refunds", id=refund_id)["status"] == "failed"


class TestRetry:
    def test_retried_refund_is_sent_as_another_attempt(
        self, session: Session, officer: Caller, refund_id: UUID
    ) -> None:
        before = fetch_balances_by_kind(session)

        done = recover_refund(session, refund_id, officer, states.RETRY)

        assert (done.status, done.attempt) == ("pending", 2)
        row = row_of(session, "refunds", id=refund_id)
        assert (row["asked_at"], row["asking_until"], row["gateway_refund_id"]) == (None, None, None)
        assert fetch_balances_by_kind(session) == before
        found = gateway_refund.lease_refund(session, refund_id=refund_id, now=NOW)
        assert found is not None
        assert not found.may_be_known_to_gateway
        waiting = session.execute(
            text("SELECT count(*) FROM outbox_events WHERE payload ->> 'refundId' = :id"),
            {"id": str(refund_id)},
        ).scalar_one()
        assert waiting == 2
        assert audit_entries_of(session, refund_id) == [
            (
                "refund.retry",
                {"status": "failed", "attempt": 1},
                {"status": "pending", "attempt": 2, "amountMinor": row["amount_minor"]},
            )
        ]
        assert report_refund_status(session, refund_id, "processed") == "processed"
        assert_ledger_is_consistent(session)

    def test_refund_that_needs_attention_cannot_be_retried(
        self, session: Session, officer: Caller, order_id: UUID
    ) -> None:
        [made] = refunds_of(session, order_id)
        report_refund_status(session, made["id"], "needs-attention")

        with pytest.raises(IllegalTransitionError):
            recover_refund(session, made["id"], officer, states.RETRY)


class TestCredit:
    @pytest.mark.parametrize("gateway_status", ["failed", "needs-attention"])
    def test_credit_moves_refund_to_wallet_and_restores_refundable_amount(
        self, session: Session, shop: Shop, officer: Caller, order_id: UUID, gateway_status: str
    ) -> None:
        [made] = refunds_of(session, order_id)
        report_refund_status(session, made["id"], gateway_status)
        before = fetch_balances_by_kind(session)["refunds_in_transit"]

        report = GatewayRefund(
            "9", gateway_status, made["amount_minor"], gateway_refund.refund_reference(made["id"], 1)
        )
        done = recover_refund(session, made["id"], officer, states.CREDIT, report)

        amount = made["amount_minor"]
        assert done.status == "credited"
        assert wallet_of(session, shop.buyer.id) == amount
        assert fetch_balances_by_kind(session)["refunds_in_transit"] == before - amount
        assert row_of(session, "gateway_charges", id=made["charge_id"])["refunded_minor"] == 0
        assert row_of(session, "refunds", id=made["id"])["settled_at"] == NOW
        assert notification_types_of(session, shop.buyer.id)[-1] == "wallet_credited"
        assert [entry[0] for entry in audit_entries_of(session, made["id"])] == ["refund.credit"]
        assert_ledger_is_consistent(session)

    def test_credited_partial_refund_leaves_charge_refundable_for_the_rest(
        self, session: Session, shop: Shop, officer: Caller
    ) -> None:
        order_id = paid_order(session, shop)
        refund(session, order_id, officer, amount_minor=1_000)
        [part] = refunds_of(session, order_id)
        report_refund_status(session, part["id"], "failed")
        recover_refund(session, part["id"], officer, states.CREDIT)

        refund(session, order_id, officer)

        total = row_of(session, "orders", id=order_id)["total_minor"]
        assert [row["amount_minor"] for row in refunds_of(session, order_id)] == [1_000, total - 1_000]
        charge = row_of(session, "gateway_charges", id=part["charge_id"])
        assert charge["refunded_minor"] == total - 1_000
        assert_ledger_is_consistent(session)

    def test_credited_part_of_mixed_payment_leaves_charge_refundable_by_gateway(
        self, session: Session, shop: Shop, officer: Caller
    ) -> None:
        fill_wallet(session, shop.buyer.id, 2_000)
        order_id = place(session, shop, make_product(session, shop), wallet=WalletUse(2_000))
        pay(session, shop, order_id)
        refund(session, order_id, officer, amount_minor=1_000)
        [part] = refunds_of(session, order_id)
        report_refund_status(session, part["id"], "failed")
        recover_refund(session, part["id"], officer, states.CREDIT)

        refund(session, order_id, officer)

        charged = row_of(session, "gateway_charges", id=part["charge_id"])["principal_minor"]
        amounts = [row["amount_minor"] for row in refunds_of(session, order_id)]
        assert sorted(amounts) == [1_000, 1_000, charged]
        assert wallet_of(session, shop.buyer.id) == 2_000
        assert_ledger_is_consistent(session)

    def test_refund_with_unknown_gateway_status_is_not_credited(
        self, session: Session, shop: Shop, officer: Caller, order_id: UUID
    ) -> None:
        [made] = refunds_of(session, order_id)
        report_refund_status(session, made["id"], "needs-attention")

        with pytest.raises(GatewayStatusUnknownError, match="may still send the refund"):
            recover_refund(session, made["id"], officer, states.CREDIT)

        assert row_of(session, "refunds", id=made["id"])["status"] == "needs_attention"
        assert wallet_of(session, shop.buyer.id) == 0
        assert_ledger_is_consistent(session)


class TestReturnedRefund:
    """Refunds that the gateway reports as failed after success, because the buyer's bank rejected the money."""

    @pytest.fixture
    def returned_refund_id(self, session: Session, order_id: UUID) -> UUID:
        [made] = refunds_of(session, order_id)
        assert report_refund_status(session, made["id"], "processed") == "processed"
        assert report_refund_status(session, made["id"], "failed") == "failed"
        found: UUID = made["id"]
        return found

    def test_returned_refund_is_back_at_the_gateway_and_shown_to_finance(
        self, session: Session, shop: Shop, order_id: UUID
    ) -> None:
        [made] = refunds_of(session, order_id)
        before = fetch_balances_by_kind(session)
        report_refund_status(session, made["id"], "processed")

        for _ in range(2):
            assert report_refund_status(session, made["id"], "failed") == "failed"

        assert fetch_balances_by_kind(session) == before
        assert row_of(session, "ledger_transactions", kind="refund_returned", source=f"refund:{made['id']}")
        assert open_about(session, f"refund:{made['id']}") == {"REFUND_CAME_BACK": "SEV-1"}
        row = row_of(session, "refunds", id=made["id"])
        assert (row["settled_at"], row["times_returned"]) == (None, 1)
        page = TableRequest(number=1, limit=100, sort="created_at", descending=True)
        listed = admin_queries.list_refunds(session, status="open", page=page, now=NOW)
        shown = {item.id: (item.status, item.times_returned) for item in listed.items}
        assert shown[made["id"]] == ("failed", 1)
        # The buyer is notified only after finance decides.
        assert notification_types_of(session, shop.buyer.id)[-1] == "refund_processed"
        assert_ledger_is_consistent(session)

    def test_refund_returned_twice_is_sent_again_twice(
        self, session: Session, shop: Shop, officer: Caller, returned_refund_id: UUID
    ) -> None:
        before = fetch_balances_by_kind(session)["gateway_clearing"]
        for time in (2, 3):
            recover_refund(session, returned_refund_id, officer, states.RETRY)
            assert report_refund_status(session, returned_refund_id, "processed") == "processed"
            assert_ledger_is_consistent(session)
            if time == 2:
                assert report_refund_status(session, returned_refund_id, "failed") == "failed"
                assert_ledger_is_consistent(session)

        row = row_of(session, "refunds", id=returned_refund_id)
        assert (row["status"], row["attempt"], row["times_returned"]) == ("processed", 3, 2)
        assert fetch_balances_by_kind(session)["gateway_clearing"] == before - row["amount_minor"]
        titles = session.execute(
            text(
                "SELECT title FROM notifications WHERE user_id = :id AND type = 'refund_processed' ORDER BY id"
            ),
            {"id": shop.buyer.id},
        )
        assert list(titles.scalars()) == ["Your refund was sent", *["Your refund was sent again"] * 2]

    def test_retry_after_late_first_attempt_gets_a_new_attempt_number(
        self, session: Session, officer: Caller, refund_id: UUID
    ) -> None:
        """Both attempts fail, then the first attempt is sent late and returned."""
        amount = row_of(session, "refunds", id=refund_id)["amount_minor"]
        recover_refund(session, refund_id, officer, states.RETRY)
        report_refund_status(session, refund_id, "failed")
        for gateway_status in ("processed", "failed"):
            first = GatewayRefund("11", gateway_status, amount, gateway_refund.refund_reference(refund_id, 1))
            assert (
                gateway_refund.apply_gateway_status(session, refund_id=refund_id, reported=first, now=NOW)
                == gateway_status
            )

        done = recover_refund(session, refund_id, officer, states.RETRY)

        assert (done.status, done.attempt) == ("pending", 3)
        assert_ledger_is_consistent(session)

    def test_returned_refund_is_credited_to_the_wallet(
        self, session: Session, shop: Shop, officer: Caller, returned_refund_id: UUID
    ) -> None:
        recover_refund(session, returned_refund_id, officer, states.CREDIT)

        row = row_of(session, "refunds", id=returned_refund_id)
        assert (row["status"], wallet_of(session, shop.buyer.id)) == ("credited", row["amount_minor"])
        assert notification_types_of(session, shop.buyer.id)[-1] == "wallet_credited"
        assert_ledger_is_consistent(session)


class TestRetryAndCredit:
    @pytest.mark.parametrize("trigger", [states.RETRY, states.CREDIT])
    @pytest.mark.parametrize("gateway_status", ["pending", "processing", "processed"])
    def test_refund_possibly_sent_by_the_gateway_is_not_recovered(
        self,
        session: Session,
        shop: Shop,
        officer: Caller,
        refund_id: UUID,
        trigger: str,
        gateway_status: str,
    ) -> None:
        row = row_of(session, "refunds", id=refund_id)
        report = GatewayRefund(
            "", gateway_status, row["amount_minor"], gateway_refund.refund_reference(refund_id, 1)
        )

        with pytest.raises(RefundStillInFlightError, match=f"gateway status: {gateway_status}") as refused:
            recover_refund(session, refund_id, officer, trigger, report)

        # The reported status is kept despite the error.
        assert refused.value.keeps_changes
        status = row_of(session, "refunds", id=refund_id)["status"]
        assert status == ("processed" if gateway_status == "processed" else "failed")
        assert wallet_of(session, shop.buyer.id) == 0
        assert_ledger_is_consistent(session)

    @pytest.mark.parametrize("trigger", [states.RETRY, states.CREDIT])
    def test_second_decision_on_same_refund_is_refused(
        self, session: Session, officer: Caller, refund_id: UUID, trigger: str
    ) -> None:
        stuck = find_failed(session, refund_id, officer, trigger)
        recover_refund(session, refund_id, officer, trigger)

        for work in (recovery.retry_failed_refund, recovery.credit_failed_refund):
            with pytest.raises(ConflictError):
                work(session, failed_refund=stuck, attempts=[], act=act_of(officer, now=NOW))
        assert_ledger_is_consistent(session)

    @pytest.mark.parametrize("trigger", [states.RETRY, states.CREDIT])
    def test_refund_that_did_not_fail_cannot_be_recovered(
        self, session: Session, shop: Shop, officer: Caller, trigger: str
    ) -> None:
        order_id = paid_order(session, shop)
        refund(session, order_id, officer, amount_minor=500)
        refund(session, order_id, officer, amount_minor=500, destination="wallet")

        for made in refunds_of(session, order_id):
            with pytest.raises(IllegalTransitionError):
                find_failed(session, made["id"], officer, trigger)
        with pytest.raises(NotFoundError):
            find_failed(session, uuid4(), officer, trigger)

    @pytest.mark.parametrize("party", ["buyer", "vendor"])
    def test_officer_cannot_decide_on_own_refund(
        self, session: Session, shop: Shop, refund_id: UUID, party: str
    ) -> None:
        with pytest.raises(ForbiddenError):
            find_failed(session, refund_id, getattr(shop, party))


class TestGatewayPoll:
    def test_poll_covers_all_attempts_and_blocks_credit_while_in_transit(
        self, session: Session, shop: Shop, officer: Caller, gateway: TestGateway, settings: Settings
    ) -> None:
        order_id = place(session, shop, make_product(session, shop))
        intent = make_intent(session, shop, order_id)
        gateway.open(intent.reference, intent.amount_minor)
        apply(session, gateway.charge_of_paid(intent.reference))
        order_cancellation.cancel_order(session, order_id=order_id, caller=shop.buyer, reason=None, now=NOW)
        [made] = refunds_of(session, order_id)
        found = gateway_refund.lease_refund(session, refund_id=made["id"], now=NOW)
        adapter = gateway.adapter(settings)
        gateway_refund.send_refund(adapter, found)
        report_refund_status(session, made["id"], "failed")

        known = gateway_reports.fetch_status(adapter, find_failed(session, made["id"], officer))
        assert [one.merchant_note for one in known] == [gateway_refund.refund_reference(made["id"], 1)]
        recover_refund(session, made["id"], officer, states.RETRY)
        report_refund_status(session, made["id"], "failed")
        # The gateway does not know the second attempt, but the first attempt is in transit.
        stuck = find_failed(session, made["id"], officer)
        assert gateway_reports.fetch_status(adapter, stuck) == known
        with pytest.raises(RefundStillInFlightError):
            recovery.credit_failed_refund(
                session, failed_refund=stuck, attempts=known, act=act_of(officer, now=NOW)
            )

        gateway.proxy.fault = "lose"
        with pytest.raises(ProviderUnavailableError):
            gateway_reports.fetch_status(adapter, find_failed(session, made["id"], officer))


def test_refund_with_expired_lease_can_be_leased_again(
    session: Session, officer: Caller, refund_id: UUID
) -> None:
    recover_refund(session, refund_id, officer, states.RETRY)
    gateway_refund.lease_refund(session, refund_id=refund_id, now=NOW)

    again = gateway_refund.lease_refund(session, refund_id=refund_id, now=later() + timedelta(minutes=2))

    assert again is not None
    assert (again.may_be_known_to_gateway, again.attempt) == (True, 2)
