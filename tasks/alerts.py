"""Tasks of alerts: send a message about an alert to each channel.

A slow channel blocks at most one thread of a worker. Other messages of that channel are postponed immediately.
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
    """Send a message about an alert to the matching channels that have not received the message.

    Each channel's delivery is recorded separately. A failed channel does not affect other channels, and a retry sends
    to the failed channels only.
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
    """Send an alert's message to a channel, unless already sent."""
    key: dict[str, Any] = {"alert_id": alert.id, "channel": channel_name, "event": event}
    database = services.database
    if not database.in_transaction(messages.lease_delivery, **key, now=services.clock()):
        return
    try:
        services.alert_channels[channel_name].send(messages.compose_message(alert, event=event))
    except Exception:
        database.in_transaction(messages.release_delivery_lease, **key)
        raise
    # Commit immediately: if the event is postponed later, the message must not be sent again.
    database.in_transaction(messages.mark_sent, **key, now=services.clock())
