"""Messages about alerts for chat and e-mail, sent once on each channel."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import delete, select, text, update
from sqlalchemy.orm import Session

from marketplace.alerts import operations, texts
from marketplace.alerts.kinds import ALERT_KINDS, RESPONSE_MINUTES, SEVERITIES
from marketplace.alerts.models import Alert, AlertDelivery
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.errors import ConflictError
from marketplace.kernel.redaction import redact_text
from marketplace.providers.messaging.alert_channels import AlertMessage

_MAX_FACTS_CHARACTERS = 1_500


class DeliveryInProgressError(ConflictError):
    """Another worker is sending the alert's message."""

    reason = "delivery-in-progress"


def is_severe_enough(channel_severity: str, severity: str) -> bool:
    """Return whether a channel receives alerts of a severity.

    :param channel_severity: the minimum severity of the channel
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
    """Lease the delivery of a message.

    Commit the lease before you send the message.

    :param event: ``raised`` or ``resolved``
    :return: false if the message was already sent
    :raises DeliveryInProgressError: another worker has the lease
    """
    key = {"alert_id": alert_id, "channel": channel, "event": event}
    # The lease is longer than a delivery takes: an expired lease belongs to a dead worker.
    if _LEASE_DELIVERY.first(session, **key, now=now, until=now + timedelta(minutes=3)) is not None:
        return True
    if session.scalar(select(AlertDelivery.sent_at).filter_by(**key)) is None:
        raise DeliveryInProgressError("Another worker is sending the message.")
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
    """Compose the message about an alert.

    :param event: ``raised`` or ``resolved``
    """
    is_resolution = event == operations.RESOLVED
    headline = texts.RESOLVED_HEADLINE if is_resolution else texts.RAISED_HEADLINE
    lines = [
        texts.SUBJECT_LINE.format(subject=alert.subject),
        texts.FACTS_LINE.format(facts=_format_facts(alert.latest_facts)),
    ]
    if is_resolution:
        lines += [_resolution_line(alert), _occurrences_line(alert)]
    else:
        kind = ALERT_KINDS.get(alert.identifier)
        lines += [
            texts.RAISED_LINE.format(
                raised_at=_format_time(alert.raised_at), minutes=RESPONSE_MINUTES[alert.severity]
            ),
            texts.MEANING_LINE.format(meaning=alert.meaning),
            texts.FIRST_STEP_LINE.format(first_step=alert.first_step),
        ]
        if kind is not None:
            lines.append(texts.RESOLUTION_LINE.format(resolution=kind.resolution_rule))
        if alert.resolved_at is not None:
            lines.append(f"{texts.ALREADY_RESOLVED_LINE} {_resolution_line(alert)}")
    lines.append(texts.DETAILS_LINE.format(alert_id=alert.id))
    return AlertMessage(
        message_id=f"{alert.id}.{event}",
        headline=headline.format(severity=alert.severity, identifier=alert.identifier, title=alert.title),
        text="\n".join(lines),
    )


_RESOLUTION_LINES = {
    "rule": texts.RESOLVED_BY_RULE_LINE,
    "officer": texts.RESOLVED_BY_OFFICER_LINE,
    "operator": texts.RESOLVED_BY_OPERATOR_LINE,
}


def _resolution_line(alert: Alert) -> str:
    # The note was written by a person, and may contain secrets or personal data.
    return _RESOLUTION_LINES[alert.resolution or ""].format(
        resolved_at=_format_time(alert.resolved_at), note=redact_text(alert.note or "")
    )


def _occurrences_line(alert: Alert) -> str:
    raised_at = _format_time(alert.raised_at)
    if alert.occurrences == 1:
        return texts.RAISED_ONCE_LINE.format(raised_at=raised_at)
    return texts.RAISED_OFTEN_LINE.format(times=alert.occurrences, raised_at=raised_at)


def _format_time(moment: datetime | None) -> str:
    return "" if moment is None else moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def _format_facts(facts: dict[str, Any]) -> str:
    text = ", ".join(
        f"{name} {value if isinstance(value, str | int) else orjson.dumps(value).decode()}"
        for name, value in facts.items()
    )
    return text if len(text) <= _MAX_FACTS_CHARACTERS else f"{text[:_MAX_FACTS_CHARACTERS]}…"
