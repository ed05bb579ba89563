"""Tasks of alerts: people are told of them, on each channel by a message of its own.

A channel that hangs keeps one thread of a worker at most: what else is to be told on it is put off at once.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.alerts import messages, operations, queries
from marketplace.alerts.models import Alert
from marketplace.providers.client import ProviderRefusedError
from marketplace.providers.messaging.alert_channels import channel_kind
from marketplace.services import Services
from tasks.phased_handler import PhasedHandler
from tasks.registry import phased_handler


@dataclass(frozen=True)
class _PendingAlertMessage:
    """A message about an alert, and the alert as it is now; ``channel_kind`` is that of the channels that it is for."""

    alert: Alert
    channel_kind: str
    event: str


@phased_handler(operations.SEND_ALERT_TOPIC)
class _SendAlert(PhasedHandler[_PendingAlertMessage, None]):
    """Send a message about an alert on its channels."""

    def read(self, session: Session, payload: dict[str, Any], _now: datetime) -> _PendingAlertMessage:
        alert = queries.fetch_alert(session, alert_id=UUID(payload["alertId"]))
        return _PendingAlertMessage(alert, payload["channel"], payload["event"])

    def call_provider(self, services: Services, message: _PendingAlertMessage) -> None:
        """Send it on the channels that are meant for it and did not get it yet.

        A channel that refuses keeps the message from no other channel. The next try is for that channel alone.
        """
        failures: list[Exception] = []
        for name, channel in services.alert_channels.items():
            if channel_kind(name) != message.channel_kind:
                continue
            if not messages.is_severe_enough(channel.minimum_severity, message.alert.severity):
                continue
            try:
                with services.alert_circuit_breakers[message.channel_kind].guard(services.clock):
                    _send_to_channel(services, message, name)
            except (ProviderRefusedError, messages.DeliveryInProgressError) as failure:
                failures.append(failure)
        if failures:
            raise failures[0]

    def apply(self, session: Session, message: _PendingAlertMessage, response: None, now: datetime) -> None:
        """Do nothing: each channel's delivery is recorded already."""


def _send_to_channel(services: Services, message: _PendingAlertMessage, channel_name: str) -> None:
    """Send it on a channel, unless somebody has."""
    key: dict[str, Any] = {"alert_id": message.alert.id, "channel": channel_name, "event": message.event}
    database = services.database
    if not database.in_transaction(messages.lease_delivery, **key, now=services.clock()):
        return
    try:
        services.alert_channels[channel_name].send(
            messages.compose_message(message.alert, event=message.event)
        )
    except Exception:
        database.in_transaction(messages.release_delivery_lease, **key)
        raise
    # At once, and not with the event: should that be put off, it is not sent again.
    database.in_transaction(messages.mark_sent, **key, now=services.clock())
