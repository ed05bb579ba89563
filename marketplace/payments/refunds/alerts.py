"""Alerts about refunds: raise and resolve them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.alerts.kinds import AlertIdentifier
from marketplace.alerts.operations import raise_alert, resolve_alert
from marketplace.payments.models import Refund

_TITLES = {
    "REFUND_STUCK": "A refund needs finance",
    "REFUND_REFUSED": "The gateway refused a refund",
    "REFUND_SENT_TWICE": "A refund was paid twice",
    "REFUND_ID_DIFFERS": "The gateway has a refund twice",
    "REFUND_CAME_BACK": "A refund failed after it was sent",
    "REFUND_AMOUNT_DIFFERS": "The gateway tells of another amount of a refund",
}
# What is over once a refund is sent, credited, or tried anew; that money moved twice, or may, is not.
_RESOLVED_BY_PROGRESS: tuple[AlertIdentifier, ...] = (
    "REFUND_STUCK",
    "REFUND_REFUSED",
    "REFUND_UNKNOWN",
    "REFUND_AMOUNT_DIFFERS",
    "REFUND_CAME_BACK",
)


def raise_refund_alert(
    session: Session, identifier: AlertIdentifier, refund: Refund, facts: Mapping[str, Any], *, now: datetime
) -> None:
    """Raise an alert about a locked refund.

    :param facts: added to the refund's own
    """
    raise_alert(
        session,
        identifier=identifier,
        subject=f"refund:{refund.id}",
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


def raise_missing_refund_alert(
    session: Session, *, refund_id: UUID, attempt: int, reference: str, now: datetime
) -> None:
    """Raise that the gateway does not know a refund that it accepted.

    :param reference: the charge's
    """
    raise_alert(
        session,
        identifier="REFUND_UNKNOWN",
        subject=f"refund:{refund_id}",
        title="The gateway does not know a refund",
        facts={"refundId": refund_id, "attempt": attempt, "reference": reference},
        now=now,
    )


def resolve_refund_alerts(
    session: Session,
    *,
    refund_id: UUID,
    note: str,
    now: datetime,
    identifiers: AlertIdentifier | Sequence[AlertIdentifier] = _RESOLVED_BY_PROGRESS,
) -> None:
    """Resolve alerts about a refund.

    :param identifiers: without it, those of a refund that is sent, credited or tried again
    """
    resolve_alert(session, identifier=identifiers, subject=f"refund:{refund_id}", note=note, now=now)
