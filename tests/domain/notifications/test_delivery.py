"""Delivery of notifications: plans, attempts, retries, fallback, limits and outages, with channels in memory."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import delete, select, update

from marketplace.alerts.models import Alert
from marketplace.identity.models import Profile
from marketplace.infra.db import Database
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.notifications.delivery import record
from marketplace.notifications.delivery.channels import DeadRecipientError, OutgoingMessage, SentMessage
from marketplace.notifications.delivery.drain import ChannelHealth, DeliveryServices, deliver_due
from marketplace.notifications.delivery.plan import plan_due_notifications
from marketplace.notifications.delivery.policy import FALLBACK_AFTER, LEASE
from marketplace.notifications.kinds import CHANNELS, EMAIL, MESSAGING, PUSH, SMS
from marketplace.notifications.models import MessageOptOut, Notification, NotificationDeliveryLog, UserDevice
from marketplace.notifications.operations import notify, record_delivery_status
from marketplace.providers.client import ProviderRefusedError
from tests.support.market import Market

NOON = datetime(2026, 11, 25, 11, 0, tzinfo=UTC)  # 12:00 in Nigeria
NIGHT = datetime(2026, 11, 25, 22, 30, tzinfo=UTC)  # 23:30 in Nigeria
PIN, ORDER_NUMBER = "493817", "CM-1042"


class UnclearOutcomeError(ProviderUnavailableError):
    """A call without a response."""

    may_have_happened = True


class NoConnectionError(ProviderUnavailableError):
    """A call that never reached the provider."""

    may_have_happened = False


class FakeChannel:
    """A channel that records messages and fails on demand."""

    def __init__(self) -> None:
        self.messages: list[OutgoingMessage] = []
        self.calls = 0
        self.faults: list[Exception] = []
        self.cost_minor = 0

    def send(self, message: OutgoingMessage) -> SentMessage:
        """Record a message, or raise the next fault."""
        self.calls += 1
        if self.faults:
            raise self.faults.pop(0)
        self.messages.append(message)
        return SentMessage(f"provider:{message.delivery_id}", self.cost_minor)


@dataclass
class Site:
    """People, channels and a clock."""

    database: Database
    now: datetime = NOON
    channels: dict[str, FakeChannel] = field(
        default_factory=lambda: {name: FakeChannel() for name in CHANNELS}
    )
    health: defaultdict[str, ChannelHealth] = field(default_factory=lambda: defaultdict(ChannelHealth))
    pins: dict[UUID, Any] = field(default_factory=dict)
    sms_limit_minor: int = 1_000_000

    def person(self, *, phone: bool = True, email: bool = True, devices: int = 0, **columns: Any) -> UUID:
        """Add a person with contacts."""
        number = f"+23480{uuid4().int % 10**8:08d}"
        user_id = Market(self.database).person(
            phone=number if phone else None,
            phone_verified_at=NOON if phone else None,
            email=f"{uuid4().hex}@students.example" if email else None,
            **columns,
        )
        with self.database.transaction() as session:
            for _ in range(devices):
                token = uuid4().hex
                session.add(
                    UserDevice(
                        user_id=user_id,
                        kind="fcm",
                        token=token,
                        token_index=token,
                        created_at=NOON,
                        last_seen_at=NOON,
                    )
                )
        return user_id

    def notify(self, user_id: UUID, kind: str = "payout_sent", *, subject_id: UUID | None = None) -> UUID:
        """Write a notification."""
        with self.database.transaction() as session:
            written = notify(
                session,
                user_id=user_id,
                type=kind,
                title="A title",
                body="A body.",
                link="/orders/17",
                cause=f"tests:{uuid4()}",
                now=self.now,
            )
            assert written is not None
            if subject_id:
                session.execute(
                    update(Notification).where(Notification.id == written).values(subject_id=subject_id)
                )
        return written

    def paid_order(self, user_id: UUID) -> UUID:
        """Write the notification of a paid order with a PIN."""
        order_id = uuid4()
        self.pins[order_id] = SimpleNamespace(pin=PIN, order_number=ORDER_NUMBER)
        return self.notify(user_id, "order_paid", subject_id=order_id)

    @property
    def services(self) -> DeliveryServices:
        """The collaborators of a drain."""
        return DeliveryServices(
            database=self.database,
            clock=lambda: self.now,
            channels=self.channels,
            health=self.health,
            fetch_pin=lambda _session, order_id: self.pins.get(order_id),
            client_base_url="https://app.example",
            make_unsubscribe_url=lambda user_id, kind: f"https://api.example/{user_id}/{kind}",
            make_reply_address=lambda _link: None,
            sms_daily_limit_minor=self.sms_limit_minor,
        )

    def drain(self) -> None:
        """Deliver what is due."""
        deliver_due(self.services, max_seconds=20)

    def wait(self, delay: timedelta) -> None:
        """Let time pass, and deliver what is due."""
        self.now += delay
        self.drain()

    def log(self, notification_id: UUID) -> list[NotificationDeliveryLog]:
        """List the attempts of a notification in order."""
        with self.database.reading() as session:
            return list(
                session.scalars(
                    select(NotificationDeliveryLog)
                    .where(NotificationDeliveryLog.notification_id == notification_id)
                    .order_by(NotificationDeliveryLog.id)
                )
            )

    def attempts(self, notification_id: UUID) -> list[tuple[str, int, str, str | None]]:
        """List channel, number, status and class of error of the attempts."""
        return [(row.channel, row.attempt, row.status, row.error_class) for row in self.log(notification_id)]

    def sent(self, channel: str) -> list[OutgoingMessage]:
        """List the messages that a channel accepted."""
        return self.channels[channel].messages


@pytest.fixture
def site(own_database: Database) -> Iterator[Site]:
    with own_database.transaction() as session:
        session.execute(delete(NotificationDeliveryLog))
        session.execute(update(Notification).values(deliver_at=None))
        session.execute(delete(Alert))
    return Site(own_database)


def sent_channels(site: Site) -> set[str]:
    return {name for name, channel in site.channels.items() if channel.messages}


def test_notification_takes_the_channels_of_the_preferences(site: Site) -> None:
    person = site.person(devices=2)
    payout = site.notify(person)
    site.drain()

    assert sorted(site.attempts(payout)) == [
        (EMAIL, 1, "sent", None),
        (PUSH, 1, "sent", None),
        (PUSH, 1, "sent", None),
    ]
    assert site.sent(EMAIL)[0].url == "https://app.example/orders/17"
    assert {message.message_id for message in site.sent(PUSH)} == {payout}


@pytest.mark.parametrize(
    ("preferences", "channels"),
    [
        ({"payouts": {"push": False}}, {EMAIL}),
        ({"payouts": {"email": False, "message": True}}, {PUSH, MESSAGING}),
        ({"payouts": {"sms": True}}, {PUSH, EMAIL, SMS}),
        ({"payouts": {"push": False, "email": False}}, set()),
    ],
)
def test_preferences_choose_channels(
    site: Site, preferences: dict[str, dict[str, bool]], channels: set[str]
) -> None:
    person = site.person(devices=1, notification_preferences=preferences)
    site.notify(person)
    site.drain()

    assert sent_channels(site) == channels


def test_security_messages_ignore_preferences(site: Site) -> None:
    off = {"push": False, "message": False, "sms": False, "email": False}
    person = site.person(devices=1, notification_preferences={"payouts": off, "orders": off})
    site.notify(person, "bank_account_changed")
    site.drain()

    assert sent_channels(site) == {PUSH, SMS, EMAIL}


def test_second_drain_sends_nothing_again(site: Site) -> None:
    site.notify(site.person(devices=1))
    site.drain()
    calls = {name: channel.calls for name, channel in site.channels.items()}
    site.wait(timedelta(hours=1))

    assert {name: channel.calls for name, channel in site.channels.items()} == calls


def test_person_without_contacts_receives_only_the_feed(site: Site) -> None:
    notification = site.notify(site.person(phone=False, email=False))
    site.drain()

    assert site.attempts(notification) == []


def test_unverified_phone_receives_nothing(site: Site) -> None:
    person = site.person(devices=0)
    with site.database.transaction() as session:
        session.execute(update(Profile).where(Profile.id == person).values(phone_verified_at=None))
    site.paid_order(person)
    site.drain()

    assert sent_channels(site) == {EMAIL}


def test_marketing_waits_for_the_morning_except_by_email(site: Site) -> None:
    site.now = NIGHT
    person = site.person(devices=1, notification_preferences={"favorites": {"email": True}})
    site.notify(person, "favorite_restocked")
    site.drain()
    assert sent_channels(site) == {EMAIL}
    assert site.sent(EMAIL)[0].unsubscribe_url == f"https://api.example/{person}/favorites"

    site.wait(timedelta(hours=7))
    assert site.sent(PUSH) == []
    site.wait(timedelta(minutes=31))
    assert len(site.sent(PUSH)) == 1


def test_payout_is_announced_at_night(site: Site) -> None:
    site.now = NIGHT
    site.notify(site.person(devices=1))
    site.drain()

    assert sent_channels(site) == {PUSH, EMAIL}


def test_pin_goes_by_push_then_message_then_sms(site: Site) -> None:
    paid = site.paid_order(site.person(devices=1))
    site.drain()
    assert sent_channels(site) == {PUSH, EMAIL}
    assert site.sent(PUSH)[0].pin is None
    assert site.sent(EMAIL)[0].pin is None

    site.wait(FALLBACK_AFTER)
    assert [message.pin for message in site.sent(MESSAGING)] == [PIN]
    assert site.sent(SMS) == []

    site.wait(FALLBACK_AFTER)
    assert [(message.pin, message.order_number) for message in site.sent(SMS)] == [(PIN, ORDER_NUMBER)]

    site.wait(timedelta(hours=1))
    assert [row[0] for row in site.attempts(paid) if row[0] != EMAIL] == [PUSH, MESSAGING, SMS]


def test_receipt_ends_the_fallback(site: Site) -> None:
    paid = site.paid_order(site.person())
    site.drain()
    [message] = site.sent(MESSAGING)
    with site.database.transaction() as session:
        assert record_delivery_status(
            session,
            provider_message_id=f"provider:{message.delivery_id}",
            status="delivered",
            error_code=None,
            at=site.now,
            now=site.now,
        )
    site.wait(FALLBACK_AFTER)

    assert site.sent(SMS) == []
    assert ("messaging", 1, "delivered", None) in site.attempts(paid)


def test_reading_the_notification_ends_the_fallback(site: Site) -> None:
    paid = site.paid_order(site.person(devices=1))
    site.drain()
    with site.database.transaction() as session:
        session.execute(update(Notification).where(Notification.id == paid).values(read_at=site.now))
    site.wait(FALLBACK_AFTER)

    assert site.sent(MESSAGING) == []


def test_refused_message_falls_back_at_once(site: Site) -> None:
    site.channels[MESSAGING].faults = [ProviderRefusedError("provider", 400, "")]
    paid = site.paid_order(site.person())
    site.drain()

    assert [row for row in site.attempts(paid) if row[0] != EMAIL] == [
        (MESSAGING, 1, "failed", "refused"),
        (SMS, 1, "sent", None),
    ]


def test_opted_out_person_gets_the_pin_by_sms(site: Site) -> None:
    person = site.person()
    with site.database.transaction() as session:
        phone = session.scalars(select(Profile.phone).where(Profile.id == person)).one()
        session.add(MessageOptOut(phone_index=phone, created_at=NOON))
    site.paid_order(person)
    site.drain()

    assert sent_channels(site) == {SMS, EMAIL}


def test_pin_of_a_delivered_order_is_not_sent(site: Site) -> None:
    paid = site.paid_order(site.person())
    site.pins.clear()
    site.drain()

    assert (MESSAGING, 1, "failed", "obsolete") in site.attempts(paid)
    site.wait(FALLBACK_AFTER)
    assert site.sent(SMS) == []


def test_call_without_connection_is_repeated_until_the_provider_is_back(site: Site) -> None:
    site.channels[EMAIL].faults = [NoConnectionError("down") for _ in range(5)]
    notification = site.notify(site.person(phone=False))
    site.drain()
    for _ in range(24):
        site.wait(timedelta(minutes=60))

    assert len(site.sent(EMAIL)) == 1
    assert [row[3] for row in site.attempts(notification)] == ["unavailable"] * 5 + [None]


@pytest.mark.parametrize(
    ("channel", "kind", "preferences", "repeats"),
    [
        (EMAIL, "payout_sent", {}, True),
        (SMS, "payout_sent", {"payouts": {"sms": True, "email": False}}, False),
        (MESSAGING, "payout_sent", {"payouts": {"message": True, "email": False}}, False),
        (MESSAGING, "order_paid", {}, True),
    ],
)
def test_unknown_outcome_repeats_only_harmless_messages(
    site: Site, channel: str, kind: str, preferences: dict[str, Any], repeats: bool
) -> None:
    person = site.person(notification_preferences=preferences)
    site.channels[channel].faults = [UnclearOutcomeError("late")]
    notification = site.paid_order(person) if kind == "order_paid" else site.notify(person, kind)
    site.drain()
    site.wait(timedelta(minutes=2))

    attempts = [row for row in site.attempts(notification) if row[0] == channel]
    assert attempts[0] == (channel, 1, "failed", "unknown_outcome")
    assert (len(attempts) == 2) == repeats


def test_dead_device_is_removed(site: Site) -> None:
    person = site.person(devices=1)
    site.channels[PUSH].faults = [DeadRecipientError()]
    site.notify(person)
    site.drain()

    with site.database.reading() as session:
        assert session.scalars(select(UserDevice.id).where(UserDevice.user_id == person)).all() == []


def test_outage_pauses_a_single_channel_without_losses(site: Site) -> None:
    people = [site.person(devices=1) for _ in range(20)]
    site.channels[PUSH].faults = [NoConnectionError("down") for _ in range(40)]
    for person in people:
        site.notify(person)
    site.drain()

    assert len(site.sent(EMAIL)) == 20
    assert site.channels[PUSH].calls < 10
    for _ in range(60):
        site.wait(timedelta(minutes=1))
    for _ in range(4):
        site.wait(timedelta(minutes=30))
    assert sorted(message.message_id for message in site.sent(PUSH)) == sorted(
        {message.message_id for message in site.sent(EMAIL)}
    )


def test_delivery_of_a_dead_worker_is_an_unknown_outcome(site: Site) -> None:
    notification = site.notify(site.person(phone=False))
    site.database.in_transaction(plan_due_notifications, configured=CHANNELS, now=site.now, limit=10)
    with site.database.transaction() as session:
        [leased] = record.lease_due_deliveries(session, channel=EMAIL, now=site.now, limit=10)
    assert leased.notification_id == notification

    site.drain()
    assert site.sent(EMAIL) == []
    site.wait(LEASE)
    site.wait(timedelta(minutes=1))
    assert site.attempts(notification) == [
        (EMAIL, 1, "failed", "unknown_outcome"),
        (EMAIL, 2, "sent", None),
    ]


def test_receipt_before_the_record_is_kept(site: Site) -> None:
    notification = site.notify(site.person(phone=False))
    site.database.in_transaction(plan_due_notifications, configured=CHANNELS, now=site.now, limit=10)
    with site.database.transaction() as session:
        [leased] = record.lease_due_deliveries(session, channel=EMAIL, now=site.now, limit=10)
        session.execute(update(NotificationDeliveryLog).values(status="delivered"))
        record.record_outcomes(session, [record.Outcome(leased)], now=site.now)

    assert site.attempts(notification) == [(EMAIL, 1, "delivered", None)]


def test_late_notification_expires(site: Site) -> None:
    notification = site.notify(site.person(phone=False))
    site.wait(timedelta(days=3))

    assert site.attempts(notification) == [(EMAIL, 1, "failed", "expired")]
    assert site.sent(EMAIL) == []


def test_sms_wait_once_the_daily_limit_is_reached(site: Site) -> None:
    site.sms_limit_minor = 800
    site.channels[SMS].cost_minor = 400
    everyone = [
        site.person(email=False, notification_preferences={"payouts": {"sms": True}}) for _ in range(3)
    ]
    for person in everyone:
        site.notify(person)
        site.drain()

    assert len(site.sent(SMS)) == 2
    assert open_alerts(site) == ["SMS_LIMIT_REACHED"]
    site.wait(timedelta(hours=13))
    assert len(site.sent(SMS)) == 3
    assert open_alerts(site) == []


def open_alerts(site: Site) -> list[str]:
    with site.database.reading() as session:
        return list(session.scalars(select(Alert.identifier).where(Alert.resolved_at.is_(None))))


def test_failure_of_a_message_does_not_stop_the_others(site: Site) -> None:
    site.channels[EMAIL].faults = [ValueError("faulty")]
    for _ in range(3):
        site.notify(site.person(phone=False))
    site.drain()

    assert len(site.sent(EMAIL)) == 2


def test_unregistered_kind_is_refused(site: Site) -> None:
    with pytest.raises(LookupError, match="order_vanished"):
        site.notify(site.person(), "order_vanished")


def test_channels_that_are_not_configured_are_left_out(site: Site) -> None:
    del site.channels[PUSH], site.channels[MESSAGING]
    site.paid_order(site.person(devices=1))
    site.drain()

    assert [message.pin for message in site.sent(SMS)] == [PIN]
    assert sent_channels(site) == {SMS, EMAIL}


def test_fallback_skips_a_channel_that_is_not_configured(site: Site) -> None:
    del site.channels[MESSAGING]
    site.paid_order(site.person(devices=1))
    site.drain()
    site.wait(FALLBACK_AFTER)

    assert [message.pin for message in site.sent(SMS)] == [PIN]
