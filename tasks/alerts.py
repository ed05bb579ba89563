"""Tasks of alerts: people are told of them, on each channel by a message of its own.

A channel that hangs keeps one thread of a worker at most: what else is to be told on it is put off at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.alerts import messages, operations, queries
from marketplace.infra.outbox import Handler
from marketplace.providers.client import ProviderRefusedError
from marketplace.providers.messaging.alert_channels import channel_kind
from marketplace.services import Services
from tasks.phased_handler import PhasedHandler


@dataclass(frozen=True)
class _PendingAlertMessage:
    """A message about an alert, and the alert as it is now; ``kind`` is that of the channels that it is for."""

    alert: dict[str, Any]
    kind: str
    event: str


def _load_message(session: Session, payload: dict[str, Any]) -> _PendingAlertMessage:
    alert = queries.fetch_alert(session, alert_id=UUID(payload["alertId"]))
    return _PendingAlertMessage(alert, payload["channel"], payload["event"])


def _send_to_channels(services: Services, found: _PendingAlertMessage) -> None:
    """Send it on the channels that are there and meant for it, and where nobody has.

    One who is refused keeps it from nobody else. The next try is for him alone, as the others have been told.
    """
    failures: list[Exception] = []
    for name, channel in services.alert_channels.items():
        if channel_kind(name) != found.kind:
            continue
        if not messages.is_severe_enough(channel.least_severity, found.alert["severity"]):
            continue
        try:
            with services.alert_circuit_breakers[found.kind].passing(services.clock):
                _send_to_channel(services, found, name)
        except (ProviderRefusedError, messages.DeliveryInProgressError) as failure:
            failures.append(failure)
    if failures:
        raise failures[0]


def _send_to_channel(services: Services, found: _PendingAlertMessage, name: str) -> None:
    """Send it on a channel, unless somebody has."""
    key = {"alert_id": found.alert["id"], "channel": name, "event": found.event}
    database = services.database
    if not database.in_transaction(messages.lease_delivery, **key, now=services.clock()):
        return
    try:
        services.alert_channels[name].send(messages.compose_message(found.alert, event=found.event))
    except Exception:
        database.in_transaction(messages.release_delivery_lease, **key)
        raise
    # At once, and not with the event: should that be put off, it is not sent again.
    database.in_transaction(messages.mark_sent, **key, now=services.clock())


def _complete(_session: Session, _found: _PendingAlertMessage, _answer: None, _now: datetime) -> None:
    """Nothing is left: the event is done."""


HANDLERS: Mapping[str, Handler | PhasedHandler[Any, Any]] = {
    operations.SEND_ALERT_TOPIC: PhasedHandler(read=_load_message, ask=_send_to_channels, settle=_complete)
}
