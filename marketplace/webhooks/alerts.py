"""Dead letters as somebody must see to them: one alert for each type of event, however many die."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.alerts.operations import lock_alert, raise_alert, resolve_alert
from marketplace.kernel.redaction import redact_text
from marketplace.webhooks.models import DeadLetterWebhook

UNREADABLE = "unreadable"


def _alert_subject(provider: str, event_type: str | None) -> str:
    # The type is the sender's word; an alert's subject is redacted, and is looked up as it is stored.
    return redact_text(f"{provider}:{event_type or UNREADABLE}")


def raise_dead_letter_alert(
    session: Session, *, provider: str, event_type: str | None, facts: Mapping[str, Any], now: datetime
) -> None:
    """Raise that an event was given up.

    :param provider: whose event
    :param event_type: none for one that can't be read
    :param facts: its row, how often it was tried, and its last error
    """
    raise_alert(
        session,
        identifier="WEBHOOK_DEAD",
        subject=_alert_subject(provider, event_type),
        title="A webhook event is dead",
        facts=facts,
        now=now,
    )


def resolve_if_none_dead(session: Session, *, provider: str, event_type: str | None, now: datetime) -> None:
    """Resolve that events of a type are dead, when the last of them was replayed.

    :param provider: whose event
    :param event_type: none for those that could not be read
    """
    subject = _alert_subject(provider, event_type)
    if not lock_alert(session, identifier="WEBHOOK_DEAD", subject=subject):
        return
    dead = select(DeadLetterWebhook.id).where(
        DeadLetterWebhook.provider == provider,
        DeadLetterWebhook.event_type.is_not_distinct_from(event_type),
        DeadLetterWebhook.replayed_at.is_(None),
    )
    if session.scalar(dead.limit(1)) is None:
        resolve_alert(
            session,
            identifier="WEBHOOK_DEAD",
            subject=subject,
            note="No event of the type is dead any more.",
            now=now,
        )
