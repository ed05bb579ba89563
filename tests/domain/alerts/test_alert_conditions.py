"""Conditions in payments, refunds, ledger and webhooks that raise and resolve alerts."""

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.alerts.queries import list_open_subjects
from marketplace.audit.operations import Act
from marketplace.infra.db import Database
from marketplace.infra.settings import Settings
from marketplace.payments import gateway_alerts, states
from marketplace.payments.charges import quarantine
from marketplace.payments.charges.apply import ChargeOutcome
from marketplace.payments.intents import expiry, lifecycle
from marketplace.payments.intents.expiry import sweep_abandoned_checkouts
from marketplace.payments.intents.lifecycle import Intent
from marketplace.payments.intents.payment_methods import open_hosted_page
from marketplace.payments.refunds import gateway_refund, order_cancellation
from marketplace.payments.refunds.gateway_refund import RefusedRefund
from marketplace.payments.refunds.gateway_reports import poll_refunds
from marketplace.platform.halts import are_payouts_halted
from marketplace.providers.gateway.payloads import GatewayRefund
from marketplace.reconciliation import ledger_check
from marketplace.webhooks import inbox as webhooks
from marketplace.webhooks.replay import replay_event
from tests.support.alerts import alerts_about, open_about
from tests.support.finance import (
    act_of,
    cancelled_order,
    make_officer,
    recover_refund,
    refunds_of,
    report_refund_status,
)
from tests.support.gateway import TestGateway, charge_data, event_of
from tests.support.purchases import (
    NOW,
    Shop,
    apply,
    later,
    make_charge,
    make_intent,
    make_product,
    make_shop,
    paid_order,
    place,
    row_of,
    status_of,
)


@pytest.fixture
def refund_id(session: Session, shop: Shop) -> UUID:
    """A refund that waits to be sent by the gateway."""
    [made] = refunds_of(session, cancelled_order(session, shop))
    found: UUID = made["id"]
    return found


def about(refund_id: UUID) -> str:
    return f"refund:{refund_id}"


def act_on_refund(session: Session, refund_id: UUID, trigger: str) -> None:
    recover_refund(session, refund_id, make_officer(session), trigger, now=later(hours=1))


class TestRefunds:
    @pytest.mark.parametrize("status", ["failed", "needs-attention"])
    def test_refund_that_needs_finance_raises_an_alert(
        self, session: Session, refund_id: UUID, status: str
    ) -> None:
        report_refund_status(session, refund_id, status)
        report_refund_status(session, refund_id, status)

        assert open_about(session, about(refund_id)) == {"REFUND_STUCK": "SEV-3"}
        [alert] = alerts_about(session, about(refund_id))
        row = row_of(session, "refunds", id=refund_id)
        assert alert["facts"] == {
            "refundId": str(refund_id),
            "orderId": str(row["order_id"]),
            "amountMinor": row["amount_minor"],
            "attempt": 1,
            "status": row["status"],
        }
        assert alert["occurrences"] == 1

    @pytest.mark.parametrize("trigger", [states.RETRY, states.CREDIT])
    def test_refund_alert_is_resolved_when_finance_acts(
        self, session: Session, refund_id: UUID, trigger: str
    ) -> None:
        report_refund_status(session, refund_id, "failed")

        act_on_refund(session, refund_id, trigger)

        [alert] = alerts_about(session, about(refund_id))
        assert (alert["resolution"], alert["resolved_at"]) == ("rule", later(hours=1))

    def test_refund_alert_is_resolved_when_the_gateway_sends_the_refund(
        self, session: Session, refund_id: UUID
    ) -> None:
        report_refund_status(session, refund_id, "needs-attention")
        assert report_refund_status(session, refund_id, "processed") == "processed"

        assert open_about(session, about(refund_id)) == {}

    def test_refund_refused_by_the_gateway_raises_an_alert(self, session: Session, refund_id: UUID) -> None:
        amount = row_of(session, "refunds", id=refund_id)["amount_minor"]
        note = gateway_refund.refund_reference(refund_id, 1)
        refused = RefusedRefund("", "failed", amount, note, "checkout-x", refusal_status=400)

        assert (
            gateway_refund.apply_gateway_status(session, refund_id=refund_id, reported=refused, now=NOW)
            == "failed"
        )

        assert open_about(session, about(refund_id)) == {"REFUND_REFUSED": "SEV-2"}
        assert alerts_about(session, about(refund_id))[0]["facts"]["refusedWith"] == 400
        act_on_refund(session, refund_id, states.CREDIT)
        assert open_about(session, about(refund_id)) == {}

    def test_credited_refund_sent_by_the_gateway_raises_an_alert(
        self, session: Session, refund_id: UUID
    ) -> None:
        report_refund_status(session, refund_id, "failed")
        act_on_refund(session, refund_id, states.CREDIT)

        assert report_refund_status(session, refund_id, "processed") == "credited"

        assert open_about(session, about(refund_id)) == {"REFUND_SENT_TWICE": "SEV-1"}

    def test_refund_with_earlier_attempt_sent_raises_an_alert(
        self, session: Session, refund_id: UUID
    ) -> None:
        report_refund_status(session, refund_id, "failed")
        act_on_refund(session, refund_id, states.RETRY)
        amount = row_of(session, "refunds", id=refund_id)["amount_minor"]
        first_try = gateway_refund.refund_reference(refund_id, 1)

        def report_first_attempt(status: str) -> None:
            word = GatewayRefund(
                status=status, id="7", amount_minor=amount, merchant_note=first_try, charge_reference="x"
            )
            gateway_refund.apply_gateway_status(session, refund_id=refund_id, reported=word, now=NOW)

        report_refund_status(session, refund_id, "pending")
        report_first_attempt("failed")
        assert open_about(session, about(refund_id)) == {}
        report_first_attempt("processed")
        assert open_about(session, about(refund_id)) == {"REFUND_SENT_TWICE": "SEV-1"}
        facts = alerts_about(session, about(refund_id))[-1]["facts"]
        assert (facts["attempt"], facts["sentAtTry"]) == (2, 1)

    def test_refund_that_fails_after_sending_raises_an_alert(self, session: Session, refund_id: UUID) -> None:
        report_refund_status(session, refund_id, "processed")
        assert report_refund_status(session, refund_id, "failed") == "failed"

        assert open_about(session, about(refund_id)) == {"REFUND_CAME_BACK": "SEV-1"}
        act_on_refund(session, refund_id, states.RETRY)
        assert open_about(session, about(refund_id)) == {}

    def test_refund_of_another_amount_raises_an_alert(self, session: Session, refund_id: UUID) -> None:
        assert report_refund_status(session, refund_id, "processed", amount_minor=1) == "needs_attention"

        assert open_about(session, about(refund_id)) == {"REFUND_AMOUNT_DIFFERS": "SEV-2"}
        facts = alerts_about(session, about(refund_id))[0]["facts"]
        assert (facts["toldMinor"], facts["toldStatus"]) == (1, "processed")
        assert report_refund_status(session, refund_id, "processed") == "processed"
        assert open_about(session, about(refund_id)) == {}

    def test_successful_refund_raises_no_alert(self, session: Session, refund_id: UUID) -> None:
        for status in ("pending", "processing", "processed", "processed"):
            report_refund_status(session, refund_id, status)

        assert alerts_about(session, about(refund_id)) == []

    def test_refund_unknown_to_the_gateway_raises_an_alert(
        self, database: Database, gateway: TestGateway, settings: Settings
    ) -> None:
        with database.transaction() as session:
            shop = make_shop(session)
            order_id = place(session, shop, make_product(session, shop))
            intent = make_intent(session, shop, order_id)
            gateway.open(intent.reference, intent.amount_minor)
            apply(session, gateway.charge_of_paid(intent.reference))
            order_cancellation.cancel_order(
                session, order_id=order_id, caller=shop.buyer, reason=None, now=NOW
            )
            [made] = refunds_of(session, order_id)
            session.execute(
                text(
                    "UPDATE refunds SET status = 'submitted', asked_at = :now, updated_at = :now WHERE id = :id"
                ),
                {"id": made["id"], "now": NOW},
            )
        adapter = gateway.adapter(settings)

        def open_now() -> dict[str, str]:
            with database.reading() as session:
                return open_about(session, about(made["id"]))

        database.in_transaction(gateway_alerts.raise_gateway_unreachable_alert, waiting_since=NOW, now=NOW)
        for hours in (2, 4):
            poll_refunds(database, adapter, now=later(hours=hours))
        assert open_now() == {"REFUND_UNKNOWN": "SEV-2"}
        with database.reading() as session:
            # The poll got a response, so the gateway is reachable.
            assert list_open_subjects(session, identifier="GATEWAY_UNREACHABLE") == set()
            assert alerts_about(session, about(made["id"]))[0]["occurrences"] == 2
        adapter.create_refund(
            charge_reference=intent.reference,
            amount_minor=made["amount_minor"],
            merchant_note=gateway_refund.refund_reference(made["id"], 1),
        )
        poll_refunds(database, adapter, now=later(hours=6))
        assert open_now() == {}


class TestQuarantine:
    def test_quarantined_charge_raises_alert_until_finance_decides(
        self, session: Session, shop: Shop
    ) -> None:
        order_id = place(session, shop, make_product(session, shop))
        intent = make_intent(session, shop, order_id)
        charge = make_charge(intent, amount_minor=intent.amount_minor - 500)
        assert apply(session, charge) is ChargeOutcome.QUARANTINED
        held_id = row_of(session, "quarantined_charges", intent_id=intent.id)["id"]

        assert open_about(session, f"quarantine:{held_id}") == {"CHARGE_QUARANTINED": "SEV-3"}
        [alert] = alerts_about(session, f"quarantine:{held_id}")
        assert alert["facts"] == {
            "quarantineId": str(held_id),
            "reason": "amount_below_total",
            "reference": intent.reference,
            "amountMinor": intent.amount_minor - 500,
            "dueMinor": intent.amount_minor,
            "currency": "NGN",
            "orderIds": [str(order_id)],
        }
        # A duplicate of the charge raises no second alert.
        assert apply(session, charge) is ChargeOutcome.DUPLICATE
        assert alerts_about(session, f"quarantine:{held_id}")[0]["occurrences"] == 1

        officer = make_officer(session)
        quarantine.resolve_quarantined_charge(
            session,
            quarantined_charge_id=held_id,
            action="wallet",
            note="The buyer wants it so.",
            act=act_of(officer, now=later(hours=1)),
        )
        assert open_about(session, f"quarantine:{held_id}") == {}


class TestStalledPayments:
    def stalled(self, session: Session, intent: Intent, now: datetime) -> list[dict[str, Any]]:
        expiry.flag_stalled_payments(session, now=now)
        return alerts_about(session, f"payment:{intent.id}")

    @pytest.fixture
    def order_id(self, session: Session, shop: Shop) -> UUID:
        return place(session, shop, make_product(session, shop))

    @pytest.fixture
    def intent(self, session: Session, shop: Shop, order_id: UUID) -> Intent:
        return make_intent(session, shop, order_id)

    def test_payment_unresolved_long_after_expiry_raises_a_single_alert(
        self, session: Session, intent: Intent, order_id: UUID
    ) -> None:
        expires_at = row_of(session, "orders", id=order_id)["expires_at"]
        limit = expires_at + expiry.STALLED_AFTER

        assert self.stalled(session, intent, limit - (limit - expires_at) / 100) == []
        for _ in range(3):
            [alert] = self.stalled(session, intent, limit)

        assert (alert["identifier"], alert["occurrences"], alert["resolved_at"]) == (
            "PAYMENT_STALLED",
            1,
            None,
        )
        assert alert["facts"]["reference"] == intent.reference
        assert alert["facts"]["orders"] == 1

    def test_stalled_payment_alert_is_resolved_when_the_payment_settles(
        self, session: Session, intent: Intent, order_id: UUID
    ) -> None:
        assert len(self.stalled(session, intent, later(hours=5))) == 1

        apply(session, make_charge(intent), now=later(hours=5))

        [alert] = self.stalled(session, intent, later(hours=6))
        assert status_of(session, order_id) == "paid_escrow"
        assert (alert["resolved_at"], alert["resolution"]) == (later(hours=6), "rule")

    def test_stalled_payment_alert_is_resolved_when_all_orders_are_final(
        self, session: Session, shop: Shop, intent: Intent, order_id: UUID
    ) -> None:
        self.stalled(session, intent, later(hours=5))
        order_cancellation.cancel_order(
            session, order_id=order_id, caller=shop.buyer, reason=None, now=later(hours=5)
        )

        [alert] = self.stalled(session, intent, later(hours=6))
        assert alert["resolution"] == "rule"

    def test_quarantined_charge_raises_no_stalled_payment_alert(
        self, session: Session, intent: Intent
    ) -> None:
        apply(session, make_charge(intent, amount_minor=100))

        assert self.stalled(session, intent, later(hours=5)) == []


class TestGateway:
    @pytest.fixture
    def opened(self, database: Database, gateway: TestGateway, settings: Settings) -> Intent:
        """A payment intent with an open hosted page."""
        with database.transaction() as session:
            shop = make_shop(session)
            order_id = place(session, shop, make_product(session, shop))
        intent, page = open_hosted_page(
            database,
            gateway.adapter(settings),
            buyer_id=shop.buyer.id,
            email="ada@example.com",
            target=lifecycle.PaymentTarget(order_id=order_id),
            callback_url=None,
            clock=lambda: NOW,
        )
        database.in_transaction(lifecycle.record_hosted_page, intent=intent, page=page, now=NOW)
        return intent

    @pytest.fixture
    def sweep(
        self, database: Database, gateway: TestGateway, settings: Settings
    ) -> Callable[[datetime], bool]:
        """A function that sweeps and returns whether the alert about an unreachable gateway is open."""
        database.in_transaction(gateway_alerts.resolve_gateway_unreachable_alert, now=NOW)

        def run(now: datetime) -> bool:
            sweep_abandoned_checkouts(database, gateway.adapter(settings), fee_bearer="platform", now=now)
            with database.reading() as session:
                return bool(list_open_subjects(session, identifier="GATEWAY_UNREACHABLE"))

        return run

    def test_unanswered_gateway_raises_alert_after_five_minutes_until_answer(
        self, gateway: TestGateway, opened: Intent, sweep: Callable[[datetime], bool]
    ) -> None:
        gateway.proxy.fault = "refuse"

        # The order expires at minute 30, as do the orders of other tests.
        assert [sweep(later(minutes=minute)) for minute in (30, 34, 35, 40)] == [False, False, True, True]

        gateway.proxy.fault = None
        assert not sweep(later(minutes=41))


class TestLedgerCheck:
    def test_ledger_check_raises_alert_and_next_clean_check_resolves_alert(
        self, committed_database: Database
    ) -> None:
        database = committed_database
        with database.transaction() as session:
            order_id = paid_order(session, make_shop(session))

        def change(by: int) -> None:
            with database.transaction() as session:
                session.execute(text("SET LOCAL session_replication_role = replica"))
                session.execute(
                    text("UPDATE escrows SET amount_minor = amount_minor + :by WHERE order_id = :id"),
                    {"by": by, "id": order_id},
                )

        def open_rules() -> set[str]:
            with database.reading() as session:
                return list_open_subjects(session, identifier="ESCROW_DRIFT")

        change(1)
        try:
            broken = ledger_check.check_ledger(database, now=NOW)
            assert open_rules() == {violation.rule for violation in broken} != set()
            with database.reading() as session:
                assert are_payouts_halted(session)
        finally:
            change(-1)
            with database.transaction() as session:
                session.execute(text("DELETE FROM payout_halts"))
        ledger_check.check_ledger(database, now=later(hours=1))
        assert not open_rules() & {violation.rule for violation in broken}


class TestWebhooks:
    def make_dead_letter(self, database: Database, event_type: str | None, body: bytes | None = None) -> UUID:
        """Process an invalid event, by default a charge with an unknown status, and return the inbox id."""
        content = body or event_of(charge_data("checkout-x", 100, status="odd"), str(event_type))
        inbox_id = database.in_transaction(webhooks.receive_event, provider="gateway", body=content, now=NOW)
        self.process(database, inbox_id)
        return inbox_id

    def process(self, database: Database, inbox_id: UUID) -> None:
        webhooks.process_event(
            database, inbox_id=inbox_id, fee_bearer="platform", now=NOW, random=lambda: 0.5
        )

    def alert(self, database: Database, subject: str) -> dict[str, Any]:
        with database.reading() as session:
            return alerts_about(session, subject)[-1]

    def test_dead_letters_of_same_type_raise_a_single_alert(self, database: Database) -> None:
        subject = "gateway:charge.success"
        first = self.make_dead_letter(database, "charge.success")
        before = self.alert(database, subject)
        second = self.make_dead_letter(database, "charge.success")
        after = self.alert(database, subject)

        assert before["id"] == after["id"]
        assert after["occurrences"] == before["occurrences"] + 1
        assert (before["identifier"], before["severity"]) == ("WEBHOOK_DEAD", "SEV-2")
        assert before["latest_facts"]["inboxId"] == str(first)
        assert after["latest_facts"].keys() == {"inboxId", "tries", "error"}
        assert after["latest_facts"]["inboxId"] == str(second)
        assert "odd" not in str(after)

    def test_unreadable_webhook_raises_an_alert(self, database: Database) -> None:
        inbox_id = self.make_dead_letter(database, None, b"{ada@example.com")

        alert = self.alert(database, "gateway:unreadable")
        assert alert["latest_facts"]["inboxId"] == str(inbox_id)
        assert "ada@" not in str(alert)

    def test_dead_letter_alert_is_resolved_when_the_last_is_replayed(self, database: Database) -> None:
        """Two charges become dead letters because no payment has the reference. Payments get the references later."""
        with database.transaction() as session:
            session.execute(text("UPDATE dead_letter_webhooks SET replayed_at = now()"))
            shop = make_shop(session)
            intents = [
                make_intent(session, shop, place(session, shop, make_product(session, shop)))
                for _ in range(2)
            ]
            references = [f"checkout-{uuid4().hex}" for _ in intents]
        dead = []
        for reference, intent in zip(references, intents, strict=True):
            body = event_of(charge_data(reference, intent.amount_minor))
            inbox_id = database.in_transaction(webhooks.receive_event, provider="gateway", body=body, now=NOW)
            now = NOW
            for _ in range(6):
                result = webhooks.process_event(
                    database, inbox_id=inbox_id, fee_bearer="platform", now=now, random=lambda: 0.5
                )
                assert result is not None
                now = result.due_at or now
            assert result.status == "dead"
            dead.append(inbox_id)
        for reference, intent in zip(references, intents, strict=True):
            with database.transaction() as session:
                session.execute(
                    text("UPDATE payment_intents SET reference = :reference WHERE id = :id"),
                    {"reference": reference, "id": intent.id},
                )

        def replay_one(inbox_id: UUID) -> None:
            with database.transaction() as session, database.reading() as outside:
                done = replay_event(
                    session,
                    outside,
                    inbox_id=inbox_id,
                    fee_bearer="platform",
                    act=Act("operator", later(days=1)),
                )
            assert done.outcome == "processed"

        replay_one(dead[0])
        assert self.alert(database, "gateway:charge.success")["resolved_at"] is None
        replay_one(dead[1])
        assert self.alert(database, "gateway:charge.success")["resolution"] == "rule"
