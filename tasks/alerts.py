"""Tasks of alerts: people are told of them, on each channel by a message of its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.alerts import messages, operations, queries
from marketplace.infra.outbox import Handler
from marketplace.services import Services
from tasks.phases import Phased


@dataclass(frozen=True)
class _ToTell:
    """A message about an alert, and the alert as it is now."""

    alert: dict[str, Any]
    channel: str
    event: str

    @property
    def key(self) -> dict[str, Any]:
        return {"alert_id": self.alert["id"], "channel": self.channel, "event": self.event}


def _read(session: Session, payload: dict[str, Any]) -> _ToTell:
    alert = queries.alert(session, alert_id=UUID(payload["alertId"]))
    return _ToTell(alert, payload["channel"], payload["event"])


def _ask(services: Services, found: _ToTell) -> None:
    """Send it, if the channel is there and meant for it, and nobody has."""
    channel = services.alert_channels.get(found.channel)
    if channel is None or not messages.is_for(channel.least_severity, found.alert["severity"]):
        return
    database = services.database
    if not database.in_transaction(messages.claim, **found.key, now=services.clock()):
        return
    try:
        channel.send(messages.compose(found.alert, event=found.event))
    except Exception:
        database.in_transaction(messages.release, **found.key)
        raise
    # At once, and not with the event: should that be put off, it is not sent again.
    database.in_transaction(messages.mark_sent, **found.key, now=services.clock())


def _settle(_session: Session, _found: _ToTell, _answer: None, _now: datetime) -> None:
    """Nothing is left: the event is done."""


HANDLERS: Mapping[str, Handler | Phased[Any, Any]] = {
    operations.SEND_TOPIC: Phased(read=_read, ask=_ask, settle=_settle)
}
