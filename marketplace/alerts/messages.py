"""What people are told of an alert, and that they are told it once on each channel."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import delete, select, text, update
from sqlalchemy.orm import Session

from marketplace.alerts import operations
from marketplace.alerts.kinds import RESPONSE_MINUTES, SEVERITIES
from marketplace.alerts.models import Alert, AlertDelivery
from marketplace.infra.db import Statement
from marketplace.kernel.errors import ConflictError
from marketplace.kernel.redaction import redact_text
from marketplace.providers.messaging.alert_channels import AlertMessage

_MAX_FACTS_CHARACTERS = 1_500


class DeliveryInProgressError(ConflictError):
    """Another worker is sending the alert's message."""

    reason = "delivery-in-progress"


def is_severe_enough(channel_severity: str, severity: str) -> bool:
    """Tell whether a channel is used for alerts of a severity.

    :param channel_severity: the least that it is used for
    """
    return SEVERITIES.index(severity) <= SEVERITIES.index(channel_severity)


_LEASE_DELIVERY = Statement(
    text(
        """
        INSERT INTO alert_messages (alert_id, channel, event, sending_until)
        VALUES (:alert_id, :channel, :event, :until)
        ON CONFLICT (alert_id, channel, event) DO UPDATE SET sending_until = excluded.sending_until
        WHERE alert_messages.sent_at IS NULL AND alert_messages.sending_until <= :now
        RETURNING alert_id
        """
    )
)


def lease_delivery(session: Session, *, alert_id: UUID, channel: str, event: str, now: datetime) -> bool:
    """Lease the delivery of a message; the lease must be committed before the message is sent.

    :param event: ``raised`` or ``resolved``
    :return: false if the message was sent
    :raises DeliveryInProgressError: another worker has the lease
    """
    key = {"alert_id": alert_id, "channel": channel, "event": event}
    # The lease is longer than sending may take: one that ran out was left by a worker that died.
    if _LEASE_DELIVERY.first(session, **key, now=now, until=now + timedelta(minutes=3)) is not None:
        return True
    if session.scalar(select(AlertDelivery.sent_at).filter_by(**key)) is None:
        raise DeliveryInProgressError("The message is being sent.")
    return False


def mark_sent(session: Session, *, alert_id: UUID, channel: str, event: str, now: datetime) -> None:
    """Record that a message was sent."""
    session.execute(
        update(AlertDelivery)
        .filter_by(alert_id=alert_id, channel=channel, event=event, sent_at=None)
        .values(sent_at=now)
    )


def release_delivery_lease(session: Session, *, alert_id: UUID, channel: str, event: str) -> None:
    """Release the lease of a message that could not be sent."""
    session.execute(
        delete(AlertDelivery).filter_by(alert_id=alert_id, channel=channel, event=event, sent_at=None)
    )


def compose_message(alert: Alert, *, event: str) -> AlertMessage:
    """Write what people are told.

    :param event: ``raised`` or ``resolved``
    """
    summary = f"{alert.identifier}: {alert.title}"
    lines = [f"About: {alert.subject}", f"Facts: {_format_facts(alert.latest_facts)}"]
    if event == operations.RESOLVED:
        headline = f"[RESOLVED {alert.severity}] {summary}"
        times = "once" if alert.occurrences == 1 else f"{alert.occurrences} times"
        lines += [
            _resolution_line(alert),
            f"It was raised {times}, first at {_format_time(alert.raised_at)}.",
        ]
    else:
        headline = f"[{alert.severity}] {summary}"
        minutes = RESPONSE_MINUTES[alert.severity]
        lines += [
            f"Raised at {_format_time(alert.raised_at)}; to be looked at within {minutes} minutes.",
            f"What it means: {alert.meaning}",
            f"What to do first: {alert.first_step}",
        ]
        if alert.resolved_at is not None:
            lines.append(f"It is over already. {_resolution_line(alert)}")
    lines.append(f"More: marketplace alerts show {alert.id}")
    return AlertMessage(message_id=f"{alert.id}.{event}", headline=headline, text="\n".join(lines))


def _resolution_line(alert: Alert) -> str:
    by = "by itself" if alert.resolution == "rule" else f"by an {alert.resolution}"
    # What somebody wrote at night is nothing that we have looked through.
    return f"Resolved {by} at {_format_time(alert.resolved_at)}: {redact_text(alert.note or '')}"


def _format_time(moment: datetime | None) -> str:
    return "" if moment is None else moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def _format_facts(facts: dict[str, Any]) -> str:
    text = ", ".join(
        f"{name} {value if isinstance(value, str | int) else orjson.dumps(value).decode()}"
        for name, value in facts.items()
    )
    return text if len(text) <= _MAX_FACTS_CHARACTERS else f"{text[:_MAX_FACTS_CHARACTERS]}…"
