"""Deliver what is due: plan, send in parallel by channel, and record. A slow channel delays no other channel."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol
from urllib.parse import urljoin
from uuid import UUID

import structlog
from sqlalchemy.orm import Session

from marketplace.infra.db import Database
from marketplace.kernel.clock import Clock
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.notifications.delivery import record
from marketplace.notifications.delivery.channels import (
    DeadRecipientError,
    DeferredError,
    DeliveryChannel,
    OutgoingMessage,
    SentMessage,
)
from marketplace.notifications.delivery.plan import plan_due_fallbacks, plan_due_notifications
from marketplace.notifications.delivery.record import LeasedDelivery, Outcome
from marketplace.notifications.delivery.sms_limit import is_limit_reached
from marketplace.notifications.kinds import EMAIL, KINDS, PUSH, SMS
from marketplace.providers.client import ProviderRefusedError

_PLAN_BATCH = 500
_SEND_BATCH = 50
# The limit of the SMS cost can be exceeded by one batch.
_SEND_BATCHES = {SMS: 10}
_OVER_LIMIT_DELAY = timedelta(minutes=15)
_CONCURRENT_CALLS = 4
# After this number of failures in a row, a channel pauses. One call then probes the provider.
_FAILURES_BEFORE_PAUSE = 3
_PAUSE = timedelta(seconds=30)

_log = structlog.get_logger(__name__)


class PinDetails(Protocol):
    """The delivery PIN of an order, with the order's number."""

    @property
    def pin(self) -> str:
        """The PIN of six digits."""

    @property
    def order_number(self) -> str:
        """The number that people see."""


@dataclass
class ChannelHealth:
    """The failures of a channel in this process. While the channel pauses, its deliveries wait uncounted."""

    failures: int = 0
    paused_until: datetime | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def may_send(self, now: datetime) -> bool:
        """Return whether the channel does not pause."""
        return self.paused_until is None or now >= self.paused_until

    @property
    def is_suspect(self) -> bool:
        """Whether the next call probes the provider."""
        return self.failures >= _FAILURES_BEFORE_PAUSE

    def record_response(self) -> None:
        """Record that the provider responded."""
        with self._lock:
            self.failures, self.paused_until = 0, None

    def record_failure(self, now: datetime) -> None:
        """Record that the provider did not respond."""
        with self._lock:
            self.failures += 1
            if self.failures >= _FAILURES_BEFORE_PAUSE:
                self.paused_until = now + _PAUSE


@dataclass(frozen=True)
class DeliveryServices:
    """The collaborators of a drain.

    :ivar channels: the configured channels by name
    :ivar health: the state of each channel, kept between drains
    :ivar fetch_pin: returns the PIN of an order; none once the order needs no PIN
    :ivar client_base_url: the address of the client application, for links
    :ivar make_unsubscribe_url: returns the one-click address of a person's kind of preferences
    :ivar make_reply_address: returns the address for replies to a notification with a link; none without replies
    :ivar sms_daily_limit_minor: the limit of the SMS cost of a day in kobo
    """

    database: Database
    clock: Clock
    channels: Mapping[str, DeliveryChannel]
    health: Mapping[str, ChannelHealth]
    fetch_pin: Callable[[Session, UUID], PinDetails | None]
    client_base_url: str
    make_unsubscribe_url: Callable[[UUID, str], str]
    make_reply_address: Callable[[str | None], str | None]
    sms_daily_limit_minor: int


@dataclass
class DrainResult:
    """The numbers of planned notifications and of attempted deliveries."""

    planned: int = field(default=0, metadata={"label": "planned"})
    sent: int = field(default=0, metadata={"label": "sent"})
    failed: int = field(default=0, metadata={"label": "failed"})

    def add(self, other: "DrainResult") -> None:
        """Add the numbers of a channel."""
        self.sent += other.sent
        self.failed += other.failed


def deliver_due(services: DeliveryServices, *, max_seconds: float) -> DrainResult:
    """Plan and deliver all notifications that are due.

    :param max_seconds: no batch starts after this time
    """
    until = time.monotonic() + max_seconds
    result = DrainResult()
    with ThreadPoolExecutor(len(services.channels) + 1, thread_name_prefix="delivery") as executor:
        while time.monotonic() < until:
            planned = _plan(services)
            result.planned += planned
            drained = list(
                executor.map(lambda name: _drain_channel(services, name, until=until), services.channels)
            )
            for of_channel in drained:
                result.add(of_channel)
            if not planned and not any(one.sent or one.failed for one in drained):
                break
    return result


def _plan(services: DeliveryServices) -> int:
    database, now, configured = services.database, services.clock(), services.channels.keys()
    database.in_transaction(record.record_abandoned_deliveries, now=now, limit=_PLAN_BATCH)
    planned = database.in_transaction(
        plan_due_notifications, configured=configured, now=now, limit=_PLAN_BATCH
    )
    return planned + database.in_transaction(
        plan_due_fallbacks, configured=configured, now=now, limit=_PLAN_BATCH
    )


def _drain_channel(services: DeliveryServices, name: str, *, until: float) -> DrainResult:
    """Deliver the due batches of a channel."""
    result = DrainResult()
    with ThreadPoolExecutor(_CONCURRENT_CALLS, thread_name_prefix=f"delivery-{name}") as executor:
        while time.monotonic() < until:
            health, now = services.health[name], services.clock()
            if not health.may_send(now):
                break
            limit = 1 if health.is_suspect else _SEND_BATCHES.get(name, _SEND_BATCH)
            leased = services.database.in_transaction(
                record.lease_due_deliveries, channel=name, now=now, limit=limit
            )
            if not leased or (name == SMS and _postpone_over_limit(services, leased, now)):
                break
            outcomes = _attempt_all(services, name, leased, executor)
            failed = sum(outcome.error_class is not None for outcome in outcomes)
            result.add(DrainResult(sent=len(outcomes) - failed, failed=failed))
    return result


def _attempt_all(
    services: DeliveryServices, name: str, leased: Sequence[LeasedDelivery], executor: ThreadPoolExecutor
) -> list[Outcome]:
    """Attempt leased deliveries and record the outcomes. Deliveries of a channel that pauses return to the queue."""
    composed = services.database.in_transaction(_compose_all, services, leased)
    channel, health = services.channels[name], services.health[name]

    def attempt(item: tuple[LeasedDelivery, OutgoingMessage | str]) -> Outcome | None:
        delivery, message = item
        if isinstance(message, str):
            return Outcome(delivery, message)
        if not health.may_send(services.clock()):
            return None
        return _attempt(channel, health, delivery, message, services.clock)

    attempted = list(executor.map(attempt, composed))
    outcomes = [outcome for outcome in attempted if outcome is not None]
    returned = [
        delivery.id for (delivery, _), outcome in zip(composed, attempted, strict=True) if outcome is None
    ]
    now = services.clock()

    def finish(session: Session) -> None:
        record.record_outcomes(session, outcomes, now=now)
        record.return_deliveries(session, ids=returned, due_at=now, now=now)

    services.database.in_transaction(finish)
    return outcomes


def _attempt(
    channel: DeliveryChannel,
    health: ChannelHealth,
    delivery: LeasedDelivery,
    message: OutgoingMessage,
    clock: Clock,
) -> Outcome:
    started_at = time.perf_counter()

    def outcome(
        error_class: str | None, *, code: str | None = None, sent: SentMessage | None = None
    ) -> Outcome:
        return Outcome(
            delivery,
            error_class,
            error_code=code,
            provider_message_id=sent.provider_message_id if sent else None,
            cost_minor=sent.cost_minor if sent else None,
            milliseconds=round((time.perf_counter() - started_at) * 1000),
        )

    try:
        sent = channel.send(message)
    except DeadRecipientError:
        health.record_response()
        return outcome(record.DEAD_RECIPIENT)
    except DeferredError:
        health.record_response()
        return outcome(record.UNAVAILABLE)
    except ProviderRefusedError as error:
        health.record_response()
        return outcome(record.REFUSED, code=str(error.status))
    except ProviderUnavailableError as error:
        health.record_failure(clock())
        return outcome(record.UNKNOWN_OUTCOME if error.may_have_happened else record.UNAVAILABLE)
    except Exception:  # noqa: BLE001 - logged with the traceback; one faulty message must not stop the others
        _log.exception("message not sent", channel=delivery.channel, deliveryId=str(delivery.id))
        return outcome(record.UNKNOWN_OUTCOME)
    health.record_response()
    return outcome(None, sent=sent)


def _compose_all(
    session: Session, services: DeliveryServices, leased: Sequence[LeasedDelivery]
) -> list[tuple[LeasedDelivery, OutgoingMessage | str]]:
    """Compose the message of each delivery, or return the class of the error that prevents the message."""
    device_ids = [delivery.device_id for delivery in leased if delivery.device_id is not None]
    tokens = record.list_device_tokens(session, device_ids=device_ids) if device_ids else {}
    return [(delivery, _compose(session, services, delivery, tokens)) for delivery in leased]


def _compose(
    session: Session,
    services: DeliveryServices,
    delivery: LeasedDelivery,
    tokens: Mapping[UUID, tuple[str, str]],
) -> OutgoingMessage | str:
    kind = KINDS[delivery.type]
    expires_at = delivery.created_at + kind.lifetime
    if services.clock() >= expires_at:
        return record.EXPIRED
    device_kind: str | None = None
    recipient = delivery.email if delivery.channel == EMAIL else delivery.phone
    if delivery.channel == PUSH:
        device = tokens.get(delivery.device_id) if delivery.device_id else None
        device_kind, recipient = device or (None, None)
    if recipient is None:
        return record.NO_RECIPIENT
    details = None
    if kind.carries_pin and delivery.channel not in (PUSH, EMAIL) and delivery.subject_id is not None:
        details = services.fetch_pin(session, delivery.subject_id)
        if details is None:
            return record.OBSOLETE
    unsubscribe = kind.is_marketing and kind.preference is not None and delivery.channel == EMAIL
    return OutgoingMessage(
        delivery_id=delivery.id,
        message_id=delivery.notification_id,
        kind=delivery.type,
        title=delivery.title,
        body=delivery.body,
        language=delivery.language,
        recipient=recipient,
        device_kind=device_kind,
        url=urljoin(services.client_base_url, delivery.link) if delivery.link else None,
        pin=details.pin if details else None,
        order_number=details.order_number if details else None,
        unsubscribe_url=services.make_unsubscribe_url(delivery.user_id, kind.preference or "")
        if unsubscribe
        else None,
        reply_to=services.make_reply_address(delivery.link) if delivery.channel == EMAIL else None,
        expires_at=expires_at,
    )


def _postpone_over_limit(services: DeliveryServices, leased: Sequence[LeasedDelivery], now: datetime) -> bool:
    """Postpone SMS and raise an alert if the cost of the day in Nigeria has reached the limit."""
    with services.database.transaction() as session:
        if not is_limit_reached(session, limit_minor=services.sms_daily_limit_minor, now=now):
            return False
        ids = [delivery.id for delivery in leased]
        record.return_deliveries(session, ids=ids, due_at=now + _OVER_LIMIT_DELAY, now=now)
    return True
