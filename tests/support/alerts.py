"""Alerts for tests: staff with permissions, raised alerts and queued messages."""

from typing import Any
from uuid import uuid4

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.alerts.operations import SEND_ALERT_TOPIC
from marketplace.identity.queries import Caller
from tests.support.purchases import make_person


def unique_subject() -> str:
    """Return a unique subject."""
    return f"refund:{uuid4()}"


def alerts_about(session: Session, subject: str) -> list[dict[str, Any]]:
    """List the alerts about a subject, oldest first."""
    rows = session.execute(
        text("SELECT * FROM alerts WHERE subject = :subject ORDER BY id"), {"subject": subject}
    )
    return [dict(row) for row in rows.mappings()]


def open_about(session: Session, subject: str) -> dict[str, str]:
    """Map the identifier of each open alert about a subject to the severity."""
    return {
        row["identifier"]: row["severity"]
        for row in alerts_about(session, subject)
        if row["resolved_at"] is None
    }


def messages_of(session: Session, alert_id: Any) -> list[tuple[str, str]]:
    """List channel and event of an alert's outbox messages, oldest first."""
    rows = session.execute(
        text(
            "SELECT payload ->> 'channel', payload ->> 'event' FROM outbox_events"
            " WHERE topic = :topic AND payload ->> 'alertId' = :id ORDER BY id"
        ),
        {"topic": SEND_ALERT_TOPIC, "id": str(alert_id)},
    )
    return [(channel, event) for channel, event in rows]


def make_staff(session: Session, staff_role: str, *permissions: str) -> Caller:
    """Create a staff member with these permissions."""
    person = make_person(session, role="staff", staff_role=staff_role)
    return Caller(
        id=person.id,
        email=None,
        role="staff",
        staff_role=staff_role,
        permissions=frozenset(permissions),
        account_status="active",
        campus_id=None,
        aal="aal1",
    )
