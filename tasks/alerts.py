"""Tasks of alerts: people are told of them, on each channel by a message of its own.

A channel that hangs keeps one thread of a worker at most: what else is to be told on it is put off at once.
"""

from datetime import datetime
from typing import Any
from uuid import UUID

from marketplace.alerts import messages, operations, queries
from marketplace.alerts.models import Alert
from marketplace.providers.client import ProviderRefusedError
from marketplace.providers.messaging.alert_channels import channel_kind
from marketplace.services import Services
from tasks.registry import phased_handler


@phased_handler(operations.SEND_ALERT_TOPIC)
def send_alert(services: Services, payload: dict[str, Any], _now: datetime) -> None:
    """Send a message about an alert on the channels that are meant for it and did not get it yet.

    Each channel's delivery is recorded by itself. A channel that refuses keeps the message from no other channel. The
    next try is for that channel alone.
    """
    alert = services.database.in_transaction(queries.fetch_alert, alert_id=UUID(payload["alertId"]))
    failures: list[Exception] = []
    for name, channel in services.alert_channels.items():
        is_severe_enough = messages.is_severe_enough(channel.minimum_severity, alert.severity)
        if channel_kind(name) != payload["channel"] or not is_severe_enough:
            continue
        try:
            with services.alert_circuit_breakers[payload["channel"]].guard(services.clock):
                _send_to_channel(services, alert, payload["event"], name)
        except (ProviderRefusedError, messages.DeliveryInProgressError) as failure:
            failures.append(failure)
    if failures:
        raise failures[0]


def _send_to_channel(services: Services, alert: Alert, event: str, channel_name: str) -> None:
    """Send it on a channel, unless somebody has."""
    key: dict[str, Any] = {"alert_id": alert.id, "channel": channel_name, "event": event}
    database = services.database
    if not database.in_transaction(messages.lease_delivery, **key, now=services.clock()):
        return
    try:
        services.alert_channels[channel_name].send(messages.compose_message(alert, event=event))
    except Exception:
        database.in_transaction(messages.release_delivery_lease, **key)
        raise
    # At once, and not with the event: should that be put off, it is not sent again.
    database.in_transaction(messages.mark_sent, **key, now=services.clock())
