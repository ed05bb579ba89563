"""Alerts about refunds: raise and resolve them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.alerts import kinds
from marketplace.alerts.operations import raise_alert, resolve_alert
from marketplace.payments.models import Refund

_TITLES = {
    kinds.REFUND_STUCK: "A refund needs finance",
    kinds.REFUND_REFUSED: "The gateway refused a refund",
    kinds.REFUND_SENT_TWICE: "A refund was paid twice",
    kinds.REFUND_ID_DIFFERS: "The gateway has a refund twice",
    kinds.REFUND_CAME_BACK: "A refund failed after it was sent",
    kinds.REFUND_AMOUNT_DIFFERS: "The gateway tells of another amount of a refund",
}
# What is over once a refund is sent, credited, or tried anew; that money moved twice, or may, is not.
_RESOLVED_BY_PROGRESS = (
    kinds.REFUND_STUCK,
    kinds.REFUND_REFUSED,
    kinds.REFUND_UNKNOWN,
    kinds.REFUND_AMOUNT_DIFFERS,
    kinds.REFUND_CAME_BACK,
)


def _refund_subject(refund_id: UUID) -> str:
    return f"refund:{refund_id}"


def raise_refund_alert(
    session: Session, identifier: str, refund: Refund, facts: Mapping[str, Any], *, now: datetime
) -> None:
    """Raise an alert about a locked refund.

    :param facts: added to the refund's own
    """
    raise_alert(
        session,
        identifier=identifier,
        subject=_refund_subject(refund.id),
        title=_TITLES[identifier],
        facts={
            "refundId": refund.id,
            "orderId": refund.order_id,
            "amountMinor": refund.amount_minor,
            "attempt": refund.attempt,
            "status": refund.status,
            **facts,
        },
        now=now,
    )


def resolve_duplicate_refund_alert(session: Session, *, refund_id: UUID, now: datetime) -> None:
    """Resolve that a refund was paid twice."""
    resolve_alert(
        session,
        identifier=kinds.REFUND_SENT_TWICE,
        subject=_refund_subject(refund_id),
        note="The money came back to the gateway.",
        now=now,
    )


def raise_missing_refund_alert(
    session: Session, *, refund_id: UUID, attempt: int, reference: str, now: datetime
) -> None:
    """Raise that the gateway does not know a refund that it accepted.

    :param reference: the charge's
    """
    raise_alert(
        session,
        identifier=kinds.REFUND_UNKNOWN,
        subject=_refund_subject(refund_id),
        title="The gateway does not know a refund",
        facts={"refundId": refund_id, "attempt": attempt, "reference": reference},
        now=now,
    )


def resolve_missing_refund_alert(session: Session, *, refund_id: UUID, now: datetime) -> None:
    """Resolve that the gateway did not know a refund."""
    resolve_alert(
        session,
        identifier=kinds.REFUND_UNKNOWN,
        subject=_refund_subject(refund_id),
        note="The gateway knows the refund.",
        now=now,
    )


def resolve_refund_alerts(session: Session, *, refund_id: UUID, status: str, now: datetime) -> None:
    """Resolve what was amiss with a refund that is sent, credited or tried again.

    :param status: what it is now
    """
    resolve_alert(
        session,
        identifier=_RESOLVED_BY_PROGRESS,
        subject=_refund_subject(refund_id),
        note=f"The refund is {status}.",
        now=now,
    )
