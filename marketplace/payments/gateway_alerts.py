"""Alerts about the payment gateway itself: raise and resolve them."""

from datetime import datetime

from sqlalchemy.orm import Session

from marketplace.alerts.operations import raise_alert, resolve_alert

GATEWAY_SUBJECT = "payment gateway"


def raise_gateway_unreachable_alert(session: Session, *, waiting_since: datetime, now: datetime) -> None:
    """Raise that the gateway has not answered for minutes.

    :param waiting_since: the expiry of the first order that waits for an answer
    """
    raise_alert(
        session,
        identifier="GATEWAY_UNREACHABLE",
        subject=GATEWAY_SUBJECT,
        title="The payment gateway does not answer",
        facts={"waitingSince": waiting_since},
        now=now,
    )


def resolve_gateway_unreachable_alert(session: Session, *, now: datetime) -> None:
    """Resolve that the gateway does not answer."""
    resolve_alert(
        session,
        identifier="GATEWAY_UNREACHABLE",
        subject=GATEWAY_SUBJECT,
        note="The gateway answers.",
        now=now,
    )


def raise_gateway_key_refused_alert(session: Session, *, status: int, now: datetime) -> None:
    """Raise that the gateway refuses our key.

    :param status: the HTTP status of the refusal
    """
    raise_alert(
        session,
        identifier="GATEWAY_KEY_REFUSED",
        subject=GATEWAY_SUBJECT,
        title="The payment gateway refuses our key",
        facts={"status": status},
        now=now,
    )


def resolve_gateway_key_refused_alert(session: Session, *, now: datetime) -> None:
    """Resolve that the gateway refuses our key."""
    resolve_alert(
        session,
        identifier="GATEWAY_KEY_REFUSED",
        subject=GATEWAY_SUBJECT,
        note="The gateway took what it was told to send.",
        now=now,
    )
