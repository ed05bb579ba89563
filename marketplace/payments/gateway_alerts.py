"""Alerts about the availability and the secret key of the payment gateway."""

from datetime import datetime

from sqlalchemy.orm import Session

from marketplace.alerts.operations import raise_alert, resolve_alert
from marketplace.payments import texts

GATEWAY_SUBJECT = "payment gateway"


def raise_gateway_unreachable_alert(session: Session, *, waiting_since: datetime, now: datetime) -> None:
    """Raise an alert about a gateway that does not respond.

    :param waiting_since: expiry of the order that has waited longest for a response
    """
    raise_alert(
        session,
        identifier="GATEWAY_UNREACHABLE",
        subject=GATEWAY_SUBJECT,
        title=texts.ALERT_GATEWAY_UNREACHABLE,
        facts={"waitingSince": waiting_since},
        now=now,
    )


def resolve_gateway_unreachable_alert(session: Session, *, now: datetime) -> None:
    """Resolve the alert about an unresponsive gateway."""
    resolve_alert(
        session,
        identifier="GATEWAY_UNREACHABLE",
        subject=GATEWAY_SUBJECT,
        note=texts.ALERT_GATEWAY_UNREACHABLE_RESOLVED,
        now=now,
    )


def raise_gateway_key_refused_alert(session: Session, *, status: int, now: datetime) -> None:
    """Raise an alert about a gateway that rejects our secret key.

    :param status: HTTP status of the gateway's response
    """
    raise_alert(
        session,
        identifier="GATEWAY_KEY_REFUSED",
        subject=GATEWAY_SUBJECT,
        title=texts.ALERT_GATEWAY_KEY_REFUSED,
        facts={"status": status},
        now=now,
    )


def resolve_gateway_key_refused_alert(session: Session, *, now: datetime) -> None:
    """Resolve the alert about a rejected secret key."""
    resolve_alert(
        session,
        identifier="GATEWAY_KEY_REFUSED",
        subject=GATEWAY_SUBJECT,
        note=texts.ALERT_GATEWAY_KEY_REFUSED_RESOLVED,
        now=now,
    )
