"""Alerts about the payment gateway itself: raise and resolve them."""

from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from marketplace.alerts import kinds
from marketplace.alerts.operations import raise_alert, resolve_alert

GATEWAY_SUBJECT = "payment gateway"


def raise_gateway_unreachable_alert(session: Session, *, waiting_since: datetime, now: datetime) -> None:
    """Raise that the gateway has not answered for minutes.

    :param waiting_since: when the time of the first order was over that can't be decided on
    """
    title = "The payment gateway does not answer"
    _raise_gateway_alert(session, kinds.GATEWAY_UNREACHABLE, title, {"waitingSince": waiting_since}, now=now)


def resolve_gateway_unreachable_alert(session: Session, *, now: datetime) -> None:
    """Resolve that the gateway does not answer."""
    _resolve_gateway_alert(session, kinds.GATEWAY_UNREACHABLE, "The gateway answers.", now=now)


def raise_gateway_key_refused_alert(session: Session, *, status: int, now: datetime) -> None:
    """Raise that the gateway refuses our key.

    :param status: the HTTP status of its refusal
    """
    title = "The payment gateway refuses our key"
    _raise_gateway_alert(session, kinds.GATEWAY_KEY_REFUSED, title, {"status": status}, now=now)


def resolve_gateway_key_refused_alert(session: Session, *, now: datetime) -> None:
    """Resolve that the gateway refuses our key."""
    _resolve_gateway_alert(
        session, kinds.GATEWAY_KEY_REFUSED, "The gateway took what it was told to send.", now=now
    )


def _raise_gateway_alert(
    session: Session, identifier: str, title: str, facts: dict[str, Any], *, now: datetime
) -> None:
    raise_alert(session, identifier=identifier, subject=GATEWAY_SUBJECT, title=title, facts=facts, now=now)


def _resolve_gateway_alert(session: Session, identifier: str, note: str, *, now: datetime) -> None:
    resolve_alert(session, identifier=identifier, subject=GATEWAY_SUBJECT, note=note, now=now)
