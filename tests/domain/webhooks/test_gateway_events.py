"""Effects of every gateway event: applied once, in any order of arrival."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given, settings, strategies as st
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.alerts.kinds import ALERT_KINDS
from marketplace.infra.db import Database
from marketplace.orders import operations as orders
from marketplace.payments.guards import ChargedBackError
from marketplace.payments.intents.lifecycle import Intent
from marketplace.payouts.transfers.exceptions import UNRECOGNIZED_FAILURES_SUBJECT, resolve_exception
from marketplace.services import Services
from marketplace.webhooks import inbox, queries
from marketplace.webhooks.inbox import RETRY_DELAYS_SECONDS, ProcessingResult
from tests.support import gateway_events
from tests.support.alerts import alerts_about, open_about
from tests.support.finance import act_of, make_officer, refund
from tests.support.gateway import charge_data, event_of
from tests.support.gateway_events import dispute_data, transfer_data
from tests.support.purchases import (
    NOW,
    Shop,
    apply,
    assert_ledger_is_consistent,
    later,
    make_charge,
    make_intent,
    make_product,
    make_shop,
    paid_order,
    place,
    release,
    row_of,
    shipped_order,
    status_of,
    trail_of,
)
from tests.support.sealed_payloads import open_payload

CREATE, REMIND, RESOLVE = gateway_events.DISPUTES
LOST = {"status": "resolved", "resolution": "merchant-accepted"}
WON = {"status": "resolved", "resolution": "declined"}


def receive(database: Database, event: str, data: dict[str, Any]) -> UUID:
    return database.in_transaction(
        inbox.receive_event, provider="gateway", body=event_of(data, event), now=NOW
    )


def process(database: Database, inbox_id: UUID, now: datetime = NOW) -> ProcessingResult | None:
    return inbox.process_event(
        database, inbox_id=inbox_id, fee_bearer="platform", now=now, random=lambda: 0.5
    )


def deliver(database: Database, event: str, data: dict[str, Any]) -> str:
    result = process(database, receive(database, event, data))
    assert result is not None
    return result.status


class Payment:
    """An initialized payment of an unpaid order."""

    def __init__(self, database: Database) -> None:
        self.database = database
        with database.transaction() as session:
            self.shop: Shop = make_shop(session)
            self.order_id = place(session, self.shop, make_product(session, self.shop))
            self.intent: Intent = make_intent(session, self.shop, self.order_id)
        self.charge_id = gateway_events.new_id()

    def data_of(self, event: str) -> dict[str, Any]:
        """Return the data of an event of the given type about this payment."""
        return gateway_events.data_of(
            event,
            reference=self.intent.reference,
            charge_id=self.charge_id,
            amount_minor=self.intent.amount_minor,
        )

    def pay(self) -> None:
        """Deliver the event of a successful charge."""
        assert deliver(self.database, "charge.success", self.data_of("charge.success")) == "processed"

    @property
    def state(self) -> tuple[str, str]:
        """The statuses of order and escrow."""
        return state_of(self.database, self.order_id)


def state_of(database: Database, order_id: UUID) -> tuple[str, str]:
    with database.reading() as session:
        return status_of(session, order_id), row_of(session, "escrows", order_id=order_id)["status"]


def reference_of(database: Database, order_id: UUID) -> tuple[str, int]:
    """Return payment reference and charge id of a paid order."""
    with database.reading() as session:
        row = session.execute(
            text(
                "SELECT i.reference, c.gateway_charge_id FROM gateway_charges c"
                " JOIN payment_intents i ON i.id = c.intent_id"
                " JOIN payment_allocations a ON a.intent_id = i.id WHERE a.order_id = :id"
            ),
            {"id": order_id},
        ).one()
    return row.reference, int(row.gateway_charge_id)


def alert_subject(session: Session, data: dict[str, Any]) -> str:
    return f"charge-dispute:{row_of(session, 'charge_disputes', gateway_dispute_id=str(data['id']))['id']}"


# Expected result of each event on a paid order. The refunds are unrecognized, as if made in the gateway's dashboard.
EFFECTS = (
    {"charge.success": "processed"}
    | dict.fromkeys(gateway_events.REFUNDS, "ignored")
    | dict.fromkeys(gateway_events.TRANSFERS, "processed")
    | dict.fromkeys(gateway_events.DISPUTES, "processed")
    | dict.fromkeys(gateway_events.OTHERS, "ignored")
)


def test_every_gateway_event_has_an_expected_result() -> None:
    assert EFFECTS.keys() == set(gateway_events.ALL)


@pytest.mark.parametrize("rest", ["", ',"data":null', ',"data":[]', ',"data":"x"'])
@pytest.mark.parametrize("event", gateway_events.ALL)
def test_event_without_data_is_dead_unless_the_type_is_ignored(
    database: Database, event: str, rest: str
) -> None:
    body = f'{{"event":"{event}","domain":"{uuid4()}"{rest}}}'.encode()
    inbox_id = database.in_transaction(inbox.receive_event, provider="gateway", body=body, now=NOW)

    result = process(database, inbox_id)

    assert result is not None
    assert result.status == ("ignored" if event in gateway_events.OTHERS else "dead")
    with database.reading() as session:
        row = queries.fetch_event(session, inbox_id=inbox_id)
    assert (row.status, row.event_type) == (result.status, event)


@pytest.mark.parametrize("event", gateway_events.ALL)
def test_second_delivery_of_each_event_is_a_duplicate(database: Database, event: str) -> None:
    payment = Payment(database)
    if event != "charge.success":
        payment.pay()
    data = payment.data_of(event)
    first, second = receive(database, event, data), receive(database, event, data)

    assert process(database, first) == ProcessingResult(EFFECTS[event])
    assert process(database, second) == ProcessingResult("duplicate")

    with database.reading() as session:
        shown = [queries.fetch_event(session, inbox_id=inbox_id) for inbox_id in (first, second)]
        assert {row.event_type for row in shown} == {event}
        record = row_of(session, "processed_webhook_events", id=shown[0].dedupe_id)
        opened = open_payload(session, record["payload"])
        if event.startswith("transfer."):
            # Nobody is known for the reference, so the values are lost and the members stay.
            assert opened["data"].keys() == data.keys()
        else:
            assert opened == {"event": event, "data": data}
        assert_ledger_is_consistent(session)
    disputed = event in gateway_events.DISPUTES
    assert payment.state == (("disputed", "frozen") if disputed else ("paid_escrow", "held"))


@settings(max_examples=12)
@given(st.permutations([event for event in gateway_events.ALL for _ in range(2)]))
def test_duplicated_events_in_any_order_have_the_same_result(services: Services, order: list[str]) -> None:
    database = services.database
    payment = Payment(database)
    data = {event: payment.data_of(event) for event in gateway_events.ALL}
    disputes = {event: data[event] | {"id": data[CREATE]["id"]} for event in gateway_events.DISPUTES}
    waiting = [receive(database, event, (data | disputes)[event]) for event in order]
    ended: list[str] = []

    now = NOW
    for _ in range(len(RETRY_DELAYS_SECONDS)):
        results = {inbox_id: process(database, inbox_id, now) for inbox_id in waiting}
        assert None not in results.values()
        waiting = [inbox_id for inbox_id, result in results.items() if result and result.due_at]
        ended += [result.status for result in results.values() if result and not result.due_at]
        now = now + (later(seconds=700) - NOW)

    assert waiting == []
    assert set(ended) == {"processed", "ignored", "duplicate"}
    assert ended.count("duplicate") == len(gateway_events.ALL)
    assert payment.state == ("disputed", "frozen")
    with database.reading() as session:
        assert [step[2] for step in trail_of(session, payment.order_id)] == ["place", "pay", "charge-dispute"]
        row = row_of(session, "charge_disputes", gateway_dispute_id=str(data[CREATE]["id"]))
        assert (row["status"], row["resolution"]) == ("resolved", "merchant-accepted")
        assert open_about(session, f"charge-dispute:{row['id']}") == {"CHARGE_DISPUTE_RESOLVED": "SEV-2"}
        assert_ledger_is_consistent(session)


class TestChargeDisputes:
    """Disputes of charges by the buyer's bank freeze the paid orders."""

    @pytest.mark.parametrize("event", [CREATE, REMIND])
    @pytest.mark.parametrize("step", ["paid_escrow", "processing", "shipped"])
    def test_dispute_freezes_an_order_in_escrow(self, database: Database, event: str, step: str) -> None:
        with database.transaction() as session:
            shop = make_shop(session)
            order_id = (shipped_order if step == "shipped" else paid_order)(session, shop)
            if step == "processing":
                orders.accept_order(session, order_id=order_id, caller=shop.vendor, now=NOW)
        data = dispute_data(*reference_of(database, order_id))

        assert deliver(database, event, data) == "processed"

        assert state_of(database, order_id) == ("disputed", "frozen")
        with database.reading() as session:
            assert trail_of(session, order_id)[-1] == (step, "disputed", "charge-dispute", "gateway")
            assert row_of(session, "orders", id=order_id)["disputed_at"] == NOW
            row = row_of(session, "charge_disputes", gateway_dispute_id=str(data["id"]))
            assert (row["status"], row["gateway_status"]) == ("open", "awaiting-merchant-feedback")
            assert (row["amount_minor"], row["category"]) == (310_050, "chargeback")
            assert row["due_at"] == datetime(2026, 11, 25, 18, tzinfo=UTC)
            assert open_about(session, alert_subject(session, data)) == {"CHARGE_DISPUTED": "SEV-2"}
            assert row_of(session, "notifications", user_id=shop.vendor.id, type="order_disputed")
            assert_ledger_is_consistent(session)

    def test_dispute_alert_names_the_orders_without_personal_data(self, database: Database) -> None:
        payment = Payment(database)
        payment.pay()
        data = payment.data_of(CREATE)

        deliver(database, CREATE, data)

        with database.reading() as session:
            [alert] = alerts_about(session, alert_subject(session, data))
            number = row_of(session, "orders", id=payment.order_id)["number"]
        assert alert["facts"]["orders"] == [
            {"id": str(payment.order_id), "number": number, "was": "paid_escrow", "frozen": True}
        ]
        assert alert["facts"]["reference"] == payment.intent.reference
        for private in ("ada@example.edu", "+2348031234567", "4081"):
            assert private not in str(alert)

    def test_dispute_reminder_counts_as_another_occurrence_of_the_alert(self, database: Database) -> None:
        payment = Payment(database)
        payment.pay()
        data = payment.data_of(CREATE)
        deliver(database, CREATE, data)

        assert deliver(database, REMIND, data | {"status": "pending"}) == "processed"

        with database.reading() as session:
            [alert] = alerts_about(session, alert_subject(session, data))
            assert alert["occurrences"] == 2
            assert row_of(session, "charge_disputes", gateway_dispute_id=str(data["id"]))[
                "gateway_status"
            ] == ("pending")
            assert [step[2] for step in trail_of(session, payment.order_id)].count("charge-dispute") == 1

    @pytest.mark.parametrize("destination", ["gateway", "wallet"])
    def test_refund_is_refused_while_a_dispute_is_open_or_lost(
        self, database: Database, destination: str
    ) -> None:
        payment = Payment(database)
        payment.pay()
        data = payment.data_of(CREATE)
        deliver(database, CREATE, data)

        def try_refund() -> None:
            with database.transaction() as session:
                refund(session, payment.order_id, make_officer(session), destination=destination)

        with pytest.raises(ChargedBackError, match="retry after the dispute is won"):
            try_refund()
        deliver(database, RESOLVE, data | LOST)
        with pytest.raises(ChargedBackError, match="has already returned this payment"):
            try_refund()
        assert payment.state == ("disputed", "frozen")

    def test_dispute_id_is_never_truncated(self, database: Database) -> None:
        """A truncated id could match the dispute of another order."""
        one, other = Payment(database), Payment(database)
        one.pay()
        other.pay()
        long, longer = "d" * 200, "d" * 300
        assert deliver(database, CREATE, one.data_of(CREATE) | {"id": long}) == "processed"

        assert deliver(database, CREATE, other.data_of(CREATE) | {"id": longer}) == "dead"
        assert deliver(database, CREATE, other.data_of(CREATE) | {"id": long + "e"}) == "processed"

        assert (one.state, other.state) == (("disputed", "frozen"), ("disputed", "frozen"))

    def test_order_with_won_dispute_can_be_refunded(self, database: Database) -> None:
        payment = Payment(database)
        payment.pay()
        data = payment.data_of(CREATE)
        deliver(database, CREATE, data)
        deliver(database, RESOLVE, data | WON)

        with database.transaction() as session:
            refund(session, payment.order_id, make_officer(session), destination="wallet")

        assert payment.state == ("refunded", "refunded")

    @pytest.mark.parametrize(("end", "severity"), [(LOST, "SEV-2"), (WON, "SEV-3")])
    def test_resolved_bank_dispute_leaves_the_order_frozen_for_a_ruling(
        self, database: Database, end: dict[str, str], severity: str
    ) -> None:
        payment = Payment(database)
        payment.pay()
        data = payment.data_of(CREATE)
        deliver(database, CREATE, data)

        assert deliver(database, RESOLVE, data | end) == "processed"

        assert payment.state == ("disputed", "frozen")
        with database.reading() as session:
            assert open_about(session, alert_subject(session, data)) == {"CHARGE_DISPUTE_RESOLVED": severity}
            row = row_of(session, "charge_disputes", gateway_dispute_id=str(data["id"]))
            assert (row["status"], row["resolution"]) == ("resolved", end["resolution"])
        assert deliver(database, REMIND, data) == "ignored"
        with database.reading() as session:
            assert row_of(session, "charge_disputes", gateway_dispute_id=str(data["id"]))["status"] == (
                "resolved"
            )
            assert open_about(session, alert_subject(session, data)) == {"CHARGE_DISPUTE_RESOLVED": severity}

    @pytest.mark.parametrize("word", ["auto-accepted", "", None])
    @pytest.mark.parametrize(("end", "severity"), [(LOST, "SEV-2"), (WON, "SEV-3")])
    def test_unrecognized_dispute_outcome_posts_nothing_and_stays_open(
        self, database: Database, word: str | None, end: dict[str, str], severity: str
    ) -> None:
        payment = Payment(database)
        payment.pay()
        data = payment.data_of(CREATE)
        deliver(database, CREATE, data)

        assert deliver(database, RESOLVE, data | {"status": "resolved", "resolution": word}) == "processed"

        with database.reading() as session:
            assert open_about(session, alert_subject(session, data)) == {"CHARGE_DISPUTE_UNCLEAR": "SEV-2"}
            [_, alert] = alerts_about(session, alert_subject(session, data))
            assert (alert["facts"]["resolution"], alert["facts"]["booked"]) == (word or "", [])
            assert "Nothing was posted" in ALERT_KINDS[alert["identifier"]].meaning
        assert deliver(database, REMIND, data) == "ignored"
        assert deliver(database, RESOLVE, data | end) == "processed"
        with database.reading() as session:
            assert open_about(session, alert_subject(session, data)) == {"CHARGE_DISPUTE_RESOLVED": severity}

    def test_dispute_won_before_the_first_event_freezes_no_order(self, database: Database) -> None:
        payment = Payment(database)
        payment.pay()
        data = payment.data_of(CREATE)

        assert deliver(database, RESOLVE, data | WON) == "processed"
        assert deliver(database, CREATE, data) == "ignored"

        assert payment.state == ("paid_escrow", "held")

    @pytest.mark.parametrize("state", ["delivered", "refunded"])
    def test_dispute_of_delivered_or_refunded_order_freezes_nothing(
        self, database: Database, state: str
    ) -> None:
        with database.transaction() as session:
            shop = make_shop(session)
            order_id = (shipped_order if state == "delivered" else paid_order)(session, shop)
            if state == "delivered":
                release(session, shop, order_id)
            else:
                refund(session, order_id, make_officer(session))
        before = state_of(database, order_id)
        data = dispute_data(*reference_of(database, order_id))

        assert deliver(database, CREATE, data) == "processed"

        assert state_of(database, order_id) == before
        with database.reading() as session:
            [alert] = alerts_about(session, alert_subject(session, data))
            assert [(one["was"], one["frozen"]) for one in alert["facts"]["orders"]] == [(state, False)]

    def test_dispute_of_quarantined_charge_freezes_nothing(self, database: Database) -> None:
        payment = Payment(database)
        short = charge_data(payment.intent.reference, 5, id=payment.charge_id)
        assert deliver(database, "charge.success", short) == "processed"
        data = payment.data_of(CREATE)

        assert deliver(database, CREATE, data) == "processed"

        assert payment.state == ("pending_payment", "pending")
        with database.reading() as session:
            assert open_about(session, alert_subject(session, data)) == {"CHARGE_DISPUTED": "SEV-2"}

    def test_dispute_freezes_the_order_only_for_the_charge_that_paid(self, database: Database) -> None:
        payment = Payment(database)
        payment.pay()
        with database.transaction() as session:
            second = make_charge(payment.intent)
            apply(session, second)

        other = dispute_data(payment.intent.reference, int(second.id))
        assert deliver(database, CREATE, other) == "processed"
        assert payment.state == ("paid_escrow", "held")

        assert deliver(database, CREATE, dispute_data(payment.intent.reference, None)) == "processed"
        assert payment.state == ("disputed", "frozen")

    def test_dispute_before_the_charge_is_retried(self, database: Database) -> None:
        payment = Payment(database)
        inbox_id = receive(database, CREATE, payment.data_of(CREATE))
        assert process(database, inbox_id) == ProcessingResult("retrying", later(seconds=1))

        payment.pay()

        assert process(database, inbox_id, later(seconds=1)) == ProcessingResult("processed")
        assert payment.state == ("disputed", "frozen")

    def test_dispute_of_unknown_charge_becomes_a_dead_letter(self, database: Database) -> None:
        inbox_id = receive(database, CREATE, dispute_data(f"checkout-{uuid4().hex}", 7))
        now = NOW
        for _ in RETRY_DELAYS_SECONDS:
            result = process(database, inbox_id, now)
            assert result is not None
            assert result.due_at is not None
            now = result.due_at

        assert process(database, inbox_id, now) == ProcessingResult("dead")

    @pytest.mark.parametrize(
        "changes",
        [
            {"id": None, "reference": "r"},
            {"transaction": None},
            {"transaction": {"reference": 5.5}, "transaction_reference": []},
            {"transaction": "checkout", "transaction_reference": ""},
        ],
    )
    def test_dispute_without_id_or_charge_is_a_dead_letter_at_once(
        self, database: Database, changes: dict[str, Any]
    ) -> None:
        data = dispute_data(f"checkout-{uuid4().hex}", 7) | changes

        assert deliver(database, CREATE, data) == "dead"

    @pytest.mark.parametrize(
        "changes",
        [
            {"refund_amount": "much", "dueAt": "soon", "category": ["x"], "status": None},
            {"refund_amount": 10**40, "dueAt": "9999-12-31T23:59:59-23:59", "category": "x" * 5_000},
            {"refund_amount": -1, "dueAt": 5, "resolution": True},
        ],
    )
    def test_malformed_optional_dispute_fields_do_not_prevent_freezing(
        self, database: Database, changes: dict[str, Any]
    ) -> None:
        payment = Payment(database)
        payment.pay()

        assert deliver(database, CREATE, payment.data_of(CREATE) | changes) == "processed"

        assert payment.state == ("disputed", "frozen")

    def test_dispute_is_matched_by_the_top_level_transaction_reference(self, database: Database) -> None:
        payment = Payment(database)
        payment.pay()
        data = payment.data_of(CREATE) | {
            "transaction": None,
            "transaction_reference": payment.intent.reference,
        }

        assert deliver(database, CREATE, data) == "processed"

        assert payment.state == ("disputed", "frozen")


class TestUnrecognizedTransfers:
    """Events of unrecognized transfers are logged as payout exceptions and raise alerts."""

    @pytest.mark.parametrize("outcome", ["failed", "reversed"])
    def test_failed_transfer_is_a_payout_exception(self, database: Database, outcome: str) -> None:
        data = transfer_data(outcome)

        assert deliver(database, f"transfer.{outcome}", data) == "processed"

        with database.reading() as session:
            row = row_of(session, "payout_exceptions", reference=data["reference"])
            assert (row["gateway_transfer_id"], row["outcome"]) == (str(data["id"]), outcome)
            assert (row["amount_minor"], row["currency"], row["resolved_at"]) == (500_000, "NGN", None)
            assert open_about(session, f"payout-exception:{row['id']}") == {}
            assert open_about(session, UNRECOGNIZED_FAILURES_SUBJECT) == {"TRANSFER_UNKNOWN_FAILED": "SEV-2"}
            alert = alerts_about(session, UNRECOGNIZED_FAILURES_SUBJECT)[-1]
            assert alert["latest_facts"]["payoutExceptionId"] == str(row["id"])
            assert "0123456789" not in str(alert)

    def test_unrecognized_failures_share_an_alert_until_all_are_resolved(self, database: Database) -> None:
        with database.transaction() as session:
            officer = make_officer(session)
            # Resolve the exceptions and alerts that other tests left.
            session.execute(text("UPDATE alerts SET resolved_at = now(), resolution = 'rule'"))
            session.execute(
                text(
                    "UPDATE payout_exceptions SET resolved_at = now(), resolved_by = :id"
                    " WHERE resolved_at IS NULL"
                ),
                {"id": officer.id},
            )
        first, second = transfer_data("failed"), transfer_data("failed")
        for event, data in (("failed", first), ("failed", second), ("reversed", second), ("failed", second)):
            deliver(database, f"transfer.{event}", data)

        def state() -> tuple[int, str | None]:
            with database.reading() as session:
                alert = alerts_about(session, UNRECOGNIZED_FAILURES_SUBJECT)[-1]
                return alert["occurrences"], alert["resolution"]

        with database.reading() as session:
            left = session.execute(text("SELECT id FROM payout_exceptions WHERE resolved_at IS NULL"))
            ids = list(left.scalars())
        assert len(ids) == 3
        for exception_id in ids:
            assert state() == (3, None)
            database.in_transaction(
                resolve_exception,
                exception_id=exception_id,
                note="By hand.",
                act=act_of(officer, now=NOW),
            )
        assert state() == (3, "rule")

    def test_successful_transfer_without_payout_is_unrecognized(self, database: Database) -> None:
        data = transfer_data("success")

        assert deliver(database, "transfer.success", data) == "processed"

        with database.reading() as session:
            row = row_of(session, "payout_exceptions", reference=data["reference"])
            assert row["outcome"] == "unexpected"
            assert open_about(session, f"payout-exception:{row['id']}") == {"TRANSFER_UNKNOWN": "SEV-2"}

    @pytest.mark.parametrize(
        "changes", [{"amount": 1.5}, {"amount": -1}, {"reference": None}, {"currency": ""}]
    )
    def test_malformed_transfer_event_is_a_dead_letter_at_once(
        self, database: Database, changes: dict[str, Any]
    ) -> None:
        assert deliver(database, "transfer.failed", transfer_data("failed") | changes) == "dead"
