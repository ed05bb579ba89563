"""Alert delivery: one message per channel despite crashed workers and failing channels."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.alerts import kinds, messages
from marketplace.alerts.operations import SEND_ALERT_TOPIC, raise_alert, resolve_alert
from marketplace.alerts.queries import list_deliveries, list_open_subjects, list_unsent_messages
from marketplace.infra import circuit_breaker, outbox
from marketplace.infra.db import Database
from marketplace.kernel import queues
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.payments import gateway_alerts
from marketplace.payments.refunds import order_cancellation
from marketplace.providers.gateway.payments import HttpPaymentGateway
from marketplace.providers.messaging import alert_channels as messaging_alert_channels
from marketplace.providers.messaging.alert_channels import (
    CHANNELS,
    EMAIL,
    AlertMessage,
    alert_circuit_breakers,
    channel_kind,
    email_channel_name,
    make_alert_channels,
)
from marketplace.services import Services
from tasks import dispatcher as relay_module
from tasks.dispatcher import Dispatcher
from tests.support.alerts import alerts_about, unique_subject
from tests.support.finance import refunds_of
from tests.support.gateway import MovableClock, TestGateway
from tests.support.mail_server import MailServer
from tests.support.probes import changed
from tests.support.purchases import NOW, apply, later, make_intent, make_product, make_shop, place

TO = ("night@ops.test",)
TIMEOUT_SECONDS = 20


class _KilledError(BaseException):
    """Simulate the kill of a worker. No handler catches this error."""


class CrashingChannel:
    """A channel whose worker crashes before or after sending."""

    def __init__(self, channel: messaging_alert_channels.AlertChannel, moment: str) -> None:
        self.minimum_severity = channel.minimum_severity
        self._channel = channel
        self._moment = moment

    def send(self, message: AlertMessage) -> None:
        if self._moment == "before it is sent":
            raise _KilledError
        self._channel.send(message)
        raise _KilledError


@pytest.fixture
def mail() -> Iterator[MailServer]:
    server = MailServer()
    yield server
    server.close()


@pytest.fixture
def chat_texts(gateway: TestGateway) -> Iterator[Callable[[], list[str]]]:
    """A function that lists the texts of the chat messages of this test."""
    gateway.server.chat.forget()
    yield lambda: [message["text"] for message in gateway.server.chat.told()[1]]
    gateway.server.chat.forget()


@pytest.fixture
def services(
    paying_services: Services,
    gateway: TestGateway,
    mail: MailServer,
    chat_texts: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> Services:
    """The application's services with a real chat server and a real mail server."""
    monkeypatch.setattr(messaging_alert_channels, "_TIMEOUT_SECONDS", 1.0)
    given = replace(
        paying_services.settings,
        alert_chat_url=f"{gateway.server.chat_url}/hook",
        alert_email_to=TO,
        alert_email_from="alerts@shop.test",
        smtp_url=f"smtp://127.0.0.1:{mail.port}",
    )
    return changed(
        paying_services,
        alert_channels=make_alert_channels(given),
        alert_circuit_breakers=alert_circuit_breakers(),
    )


class Case:
    """An alert with its delivery events."""

    def __init__(self, services: Services, clock: MovableClock, **values: Any) -> None:
        self.services, self.clock = services, clock
        self.database: Database = services.database
        self.subject = unique_subject()
        given = {"identifier": "REFUND_REFUSED", "title": "The gateway refused a refund"} | values
        self.identifier = given["identifier"]
        self.id: UUID = self.database.in_transaction(
            raise_alert, subject=self.subject, facts={"amountMinor": 250_050}, now=clock.now, **given
        )

    def events(self) -> dict[tuple[str, str], dict[str, Any]]:
        with self.database.reading() as session:
            rows = session.execute(
                text(
                    "SELECT * FROM outbox_events WHERE topic = :topic AND payload ->> 'alertId' = :id ORDER BY id"
                ),
                {"topic": SEND_ALERT_TOPIC, "id": str(self.id)},
            ).mappings()
            return {(row["payload"]["channel"], row["payload"]["event"]): dict(row) for row in rows}

    def run(self, services: Services | None = None, *, only: str | None = None) -> None:
        """Run each unfinished delivery event of the alert when the event is due."""
        relay = Dispatcher(services or self.services)
        for (channel, _), row in self.events().items():
            if only in (None, channel) and row["done_at"] is None:
                self.clock.now = max(self.clock.now, row["due_at"])
                relay.run_row(queues.NOTIFICATIONS, "outbox", str(row["id"]))

    def resolve(self) -> None:
        assert self.database.in_transaction(
            resolve_alert,
            identifier=self.identifier,
            subject=self.subject,
            note="The refund is processed.",
            now=self.clock.now,
        )

    def done(self) -> bool:
        return all(row["done_at"] is not None for row in self.events().values())

    def messages(self) -> list[tuple[str, str, bool]]:
        with self.database.reading() as session:
            shown = list_deliveries(session, alert_id=self.id)
        return sorted((channel_kind(one.channel), one.event, one.sent_at is not None) for one in shown)

    def waiting(self) -> dict[str, tuple[int, str | None]]:
        """Map each unsent message's channel to its attempts and last error."""
        with self.database.reading() as session:
            shown = list_unsent_messages(session, alert_id=self.id)
        return {one.payload["channel"]: (one.attempts, one.last_error) for one in shown}


@pytest.fixture
def case(services: Services, clock: MovableClock) -> Case:
    return Case(services, clock)


class TestDelivery:
    def test_each_channel_gets_raised_and_resolved_messages_once(
        self, case: Case, mail: MailServer, chat_texts: Callable[[], list[str]]
    ) -> None:
        for _ in range(3):
            case.run()
        [text_] = chat_texts()
        kind = kinds.ALERT_KINDS["REFUND_REFUSED"]
        assert text_.startswith("*[SEV-2] REFUND_REFUSED: The gateway refused a refund*\n")
        for part in (case.subject, "amountMinor 250050", kind.meaning, f"marketplace alerts show {case.id}"):
            assert part in text_
        [one] = mail.mails
        assert one["Subject"] == "[SEV-2] REFUND_REFUSED: The gateway refused a refund"
        assert one["Message-ID"] == f"<{case.id}.raised@shop.test>"
        assert kind.first_step in one.get_content()

        case.resolve()
        for _ in range(3):
            case.run()

        assert chat_texts()[1].startswith("*[RESOLVED SEV-2] REFUND_REFUSED")
        assert (
            "Resolved automatically at 2026-11-20 09:30:00 UTC: The refund is processed." in chat_texts()[1]
        )
        assert "The alert was raised once" in chat_texts()[1]
        assert mail.mails[1]["Message-ID"] == f"<{case.id}.resolved@shop.test>"
        assert (len(chat_texts()), len(mail.mails)) == (2, 2)
        assert case.done()
        assert case.messages() == [
            (channel, event, True) for channel in sorted(CHANNELS) for event in ("raised", "resolved")
        ]

    def test_repeated_alert_sends_no_second_message(
        self, case: Case, mail: MailServer, chat_texts: Callable[[], list[str]]
    ) -> None:
        for _ in range(5):
            case.database.in_transaction(
                raise_alert,
                identifier=case.identifier,
                subject=case.subject,
                title="The gateway refused a refund",
                facts={},
                now=NOW,
            )
        case.run()

        assert (len(chat_texts()), len(mail.mails)) == (1, 1)

    def test_channel_gets_alerts_from_minimum_severity_on(
        self, services: Services, clock: MovableClock, mail: MailServer, chat_texts: Callable[[], list[str]]
    ) -> None:
        case = Case(services, clock, identifier="REFUND_STUCK")

        case.run()
        assert (chat_texts(), len(mail.mails), case.done()) == ([], 1, True)
        # A higher severity notifies only the channels that were not notified before.
        case.database.in_transaction(
            raise_alert,
            identifier=case.identifier,
            subject=case.subject,
            title="x",
            facts={},
            now=NOW,
            severity="SEV-1",
        )
        case.run()
        assert (len(chat_texts()), len(mail.mails)) == (1, 1)
        assert chat_texts()[0].startswith("*[SEV-1] REFUND_STUCK")

    def test_alert_event_is_done_without_channels(
        self, paying_services: Services, clock: MovableClock
    ) -> None:
        case = Case(paying_services, clock)

        case.run()

        assert case.done()
        assert case.messages() == []

    def test_message_of_alert_resolved_before_delivery_states_the_resolution(
        self, case: Case, chat_texts: Callable[[], list[str]]
    ) -> None:
        case.resolve()
        case.run()

        first, second = chat_texts()
        assert "This alert is already resolved. Resolved automatically" in first
        assert second.startswith("*[RESOLVED")

    def test_sweep_delivers_alerts_of_lost_messages(
        self, case: Case, services: Services, relay: Dispatcher, chat_texts: Callable[[], list[str]]
    ) -> None:
        """No wake-up was sent, so the worker finds the rows by a sweep."""
        with case.database.transaction() as session:
            session.execute(
                text("UPDATE outbox_events SET due_at = '2001-01-01' WHERE payload ->> 'alertId' = :id"),
                {"id": str(case.id)},
            )
        mine = Dispatcher(services)
        mine.sweep_outbox(NOW)
        queue = mine.queues[queues.NOTIFICATIONS]
        while (task := queue.dequeue()) is not None:
            queue.execute(task)

        assert any(case.subject in one for one in chat_texts())
        assert case.done()


class TestFaults:
    @pytest.mark.parametrize("channel", CHANNELS)
    def test_message_of_worker_killed_before_sending_is_sent_later(
        self,
        services: Services,
        clock: MovableClock,
        case: Case,
        mail: MailServer,
        chat_texts: Callable[[], list[str]],
        channel: str,
    ) -> None:
        mortal = {
            name: CrashingChannel(one, "before it is sent") if channel_kind(name) == channel else one
            for name, one in services.alert_channels.items()
        }
        with pytest.raises(_KilledError):
            case.run(replace(services, alert_channels=mortal), only=channel)
        # Another worker waits until the lease of the crashed worker ends.
        case.run(only=channel)
        assert (chat_texts(), mail.mails) == ([], [])

        clock.now = later(minutes=4)
        case.run()

        assert (len(chat_texts()), len(mail.mails)) == (1, 1)
        assert case.done()

    def test_worker_killed_after_sending_repeats_mail_with_same_message_id(
        self, services: Services, clock: MovableClock, case: Case, mail: MailServer
    ) -> None:
        mortal = {
            name: CrashingChannel(one, "after it was sent") for name, one in services.alert_channels.items()
        }
        with pytest.raises(_KilledError):
            case.run(replace(services, alert_channels=mortal), only="email")

        clock.now = later(minutes=4)
        case.run()

        first, second = mail.mails
        assert first["Message-ID"] == second["Message-ID"]
        assert case.done()

    def test_concurrent_workers_send_same_message_once(
        self, services: Services, case: Case, chat_texts: Callable[[], list[str]]
    ) -> None:
        """The second worker is postponed while the first sends, and then finds the message sent."""
        inner = services.alert_channels["chat"]

        class Slow:
            minimum_severity = inner.minimum_severity

            def send(self, message: AlertMessage) -> None:
                case.run(only="chat")
                inner.send(message)

        case.run(replace(services, alert_channels={"chat": Slow()}), only="chat")
        assert len(chat_texts()) == 1
        assert not case.done()

        case.run()

        assert len(chat_texts()) == 1
        assert case.done()

    def test_failing_chat_does_not_delay_mail(
        self, gateway: TestGateway, case: Case, mail: MailServer, chat_texts: Callable[[], list[str]]
    ) -> None:
        gateway.server.chat.plan("error", 2)

        case.run()
        assert (chat_texts(), len(mail.mails)) == ([], 1)
        case.run()
        case.run()

        assert (len(chat_texts()), len(mail.mails), case.done()) == (1, 1, True)
        assert case.events()[("chat", "raised")]["attempts"] == 3
        assert case.waiting() == {}

    def test_only_the_refused_mail_recipient_is_retried(
        self, services: Services, clock: MovableClock, mail: MailServer
    ) -> None:
        given = replace(
            services.settings,
            alert_email_to=("late@refused.test", *TO),
            alert_email_from="alerts@shop.test",
            smtp_url=f"smtp://127.0.0.1:{mail.port}",
        )
        case = Case(changed(services, alert_channels=make_alert_channels(given)), clock)

        for _ in range(2):
            case.run(only=EMAIL)
        assert mail.receivers == [[*TO]]
        assert case.waiting()["email"] == (2, "ProviderRefusedError")
        mail.refused = "nobody"
        for _ in range(2):
            case.run(only=EMAIL)

        assert mail.receivers == [[*TO], ["late@refused.test"]]
        assert mail.mails[0]["Message-ID"] == mail.mails[1]["Message-ID"]
        assert case.events()[("email", "raised")]["done_at"] is not None
        with case.database.reading() as session:
            shown = list_deliveries(session, alert_id=case.id)
        assert {one.channel for one in shown} == {
            email_channel_name(address) for address in ("late@refused.test", *TO)
        }

    def test_accepted_mail_is_sent_once_despite_later_server_errors(
        self, case: Case, mail: MailServer
    ) -> None:
        mail.fault = "sulk"

        for _ in range(2):
            case.run(only=EMAIL)

        assert len(mail.mails) == 1
        assert case.events()[("email", "raised")]["done_at"] is not None

    def test_failing_mail_server_does_not_delay_chat(
        self, case: Case, mail: MailServer, chat_texts: Callable[[], list[str]]
    ) -> None:
        mail.fault = "refuse"

        case.run()
        assert (len(chat_texts()), mail.mails) == (1, [])
        mail.fault = None
        case.run()

        assert (len(chat_texts()), len(mail.mails), case.done()) == (1, 1, True)

    def test_undeliverable_message_is_given_up_with_a_single_alert(
        self, gateway: TestGateway, case: Case
    ) -> None:
        gateway.server.chat.plan("refused", outbox.MAX_TRIES)
        with case.database.transaction() as session:
            session.execute(
                text(
                    "UPDATE alerts SET resolved_at = now(), resolution = 'rule' WHERE subject = 'alert.send'"
                )
            )

        for _ in range(outbox.MAX_TRIES):
            case.run(only="chat")

        row = case.events()[("chat", "raised")]
        assert row["failed_at"] is not None
        assert case.waiting()["chat"] == (outbox.MAX_TRIES, "ProviderRefusedError")
        with case.database.reading() as session:
            alert = alerts_about(session, SEND_ALERT_TOPIC)[-1]
        assert (alert["identifier"], alert["severity"], alert["occurrences"]) == (
            "OUTBOX_GIVEN_UP",
            "SEV-2",
            1,
        )
        assert alert["facts"] == {
            "eventId": str(row["id"]),
            "tries": outbox.MAX_TRIES,
            "error": "ProviderRefusedError",
        }


class HangingChannel:
    """A channel that hangs until released, then fails until it is repaired."""

    def __init__(self) -> None:
        self.minimum_severity = "SEV-3"
        self.asked = threading.Semaphore(0)
        self.let_go = threading.Event()
        self.calls = 0
        self.is_well = False

    def send(self, message: AlertMessage) -> None:
        self.calls += 1
        if self.is_well:
            return
        self.asked.release()
        assert self.let_go.wait(TIMEOUT_SECONDS)
        raise ProviderUnavailableError("No answer.")


class TestHangingChannel:
    """A hanging channel blocks one thread of a worker and no other work."""

    @pytest.fixture
    def hanging(self) -> HangingChannel:
        return HangingChannel()

    @pytest.fixture
    def hanging_services(
        self, services: Services, hanging: HangingChannel, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[Services]:
        """Services with a hanging mail server. Threads wait only 10 ms for their turn at a circuit breaker."""
        monkeypatch.setattr(circuit_breaker, "_TURN_TIMEOUT_SECONDS", 0.01)
        yield replace(
            services, alert_channels={"chat": services.alert_channels["chat"], "email:of-a-test": hanging}
        )
        hanging.let_go.set()

    def test_hanging_mail_channel_blocks_a_single_thread_and_chat_continues(
        self,
        hanging_services: Services,
        hanging: HangingChannel,
        clock: MovableClock,
        chat_texts: Callable[[], list[str]],
    ) -> None:
        cases = [Case(hanging_services, clock) for _ in range(6)]
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(cases[0].run, only=EMAIL)
            assert hanging.asked.acquire(timeout=TIMEOUT_SECONDS)
            # A worker takes the mail of each alert before the chat message.
            for case in cases[1:]:
                case.run(only=EMAIL)
                case.run(only="chat")

            assert len(chat_texts()) == 5
            assert hanging.calls == 1
            assert {case.waiting()["email"] for case in cases[1:]} == {(0, "CircuitOpenError")}
            hanging.let_go.set()
            first.result(TIMEOUT_SECONDS)

        assert cases[0].waiting()["email"] == (1, "ProviderUnavailableError")

    def test_hanging_channel_is_retried_and_loses_no_alert(
        self, hanging_services: Services, hanging: HangingChannel, clock: MovableClock
    ) -> None:
        cases = [Case(hanging_services, clock) for _ in range(4)]
        hanging.let_go.set()
        cases[0].run(only=EMAIL)
        failed_at = clock.now

        for seconds in (0, 9.999):
            clock.now = failed_at + timedelta(seconds=seconds)
            relay = Dispatcher(hanging_services)
            for case in cases[1:]:
                row = case.events()[("email", "raised")]
                relay.run_row(queues.NOTIFICATIONS, "outbox", str(row["id"]))
        assert hanging.calls == 1
        due = {case.events()[("email", "raised")]["due_at"] for case in cases}
        assert due == {failed_at + circuit_breaker.OPEN_DURATION}

        # Only the first event probes the channel, so only its attempts increase.
        for case in cases:
            case.run(only=EMAIL)
        assert hanging.calls == 2
        assert [case.waiting()["email"][0] for case in cases] == [2, 0, 0, 0]
        hanging.is_well = True
        for case in cases:
            case.run(only=EMAIL)

        assert [case.events()[("email", "raised")]["done_at"] is not None for case in cases] == [True] * 4
        assert [case.events()[("email", "raised")]["attempts"] for case in cases] == [3, 1, 1, 1]


class TestAlertsOfTasks:
    def test_outbox_event_given_up_raises_alert(
        self, relay: Dispatcher, database: Database, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        topic = f"test.{uuid4().hex}"

        def fail(_session: Session, _payload: dict[str, Any], _now: Any) -> None:
            raise ZeroDivisionError("ada@example.com")

        monkeypatch.setattr(relay_module, "HANDLERS", {**relay_module.HANDLERS, topic: fail})
        for round_number in (1, 2):
            event_id = database.in_transaction(
                outbox.enqueue, queue=queues.NOTIFICATIONS, topic=topic, payload={}, due_at=clock.now
            )
            for _ in range(outbox.MAX_TRIES):
                with database.reading() as session:
                    assert round_number > 1 or alerts_about(session, topic) == []
                    due_at = session.execute(
                        text("SELECT due_at FROM outbox_events WHERE id = :id"), {"id": event_id}
                    ).scalar_one()
                clock.now = max(clock.now, due_at)
                relay.run_row(queues.NOTIFICATIONS, "outbox", str(event_id))

            with database.reading() as session:
                [alert] = alerts_about(session, topic)
            assert (alert["identifier"], alert["occurrences"]) == ("OUTBOX_GIVEN_UP", round_number)
            assert alert["latest_facts"] == {
                "eventId": str(event_id),
                "tries": outbox.MAX_TRIES,
                "error": "ZeroDivisionError",
            }

    def test_gateway_key_alert_is_resolved_when_refund_succeeds(
        self,
        paying_services: Services,
        relay: Dispatcher,
        database: Database,
        clock: MovableClock,
        gateway: TestGateway,
    ) -> None:
        def is_open() -> bool:
            with database.reading() as session:
                return gateway_alerts.GATEWAY_SUBJECT in list_open_subjects(
                    session, identifier="GATEWAY_KEY_REFUSED"
                )

        database.in_transaction(gateway_alerts.resolve_gateway_key_refused_alert, now=NOW)
        settings = replace(paying_services.settings, gateway_secret_key="sk_test_of_another")
        wrong = replace(paying_services, gateway=HttpPaymentGateway(settings))
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
            event_id = session.execute(
                text("SELECT id FROM outbox_events WHERE payload ->> 'refundId' = :id"),
                {"id": str(made["id"])},
            ).scalar_one()

        Dispatcher(wrong).run_row("webhooks", "outbox", str(event_id))
        assert is_open()
        assert gateway.calls(intent.reference).get("POST /refund") is None

        clock.now = later(minutes=10)
        with database.transaction() as session:
            # The lease ends by real time, not by the test clock.
            session.execute(text("UPDATE refunds SET asking_until = NULL WHERE id = :id"), {"id": made["id"]})
        relay.run_row("webhooks", "outbox", str(event_id))
        assert gateway.calls(intent.reference)["POST /refund"] == 1
        assert not is_open()


def test_channel_accepts_severities_from_the_minimum_on() -> None:
    assert [messages.is_severe_enough("SEV-2", severity) for severity in kinds.SEVERITIES] == [
        True,
        True,
        False,
    ]
    assert all(messages.is_severe_enough("SEV-3", severity) for severity in kinds.SEVERITIES)
