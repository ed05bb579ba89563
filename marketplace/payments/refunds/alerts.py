"""Alerts about refunds: raise and resolve them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.alerts.kinds import AlertIdentifier
from marketplace.alerts.operations import raise_alert, resolve_alert
from marketplace.payments import texts
from marketplace.payments.models import Refund

_TITLES = {
    "REFUND_STUCK": texts.ALERT_REFUND_STUCK,
    "REFUND_REFUSED": texts.ALERT_REFUND_REFUSED,
    "REFUND_SENT_TWICE": texts.ALERT_REFUND_SENT_TWICE,
    "REFUND_ID_DIFFERS": texts.ALERT_REFUND_ID_DIFFERS,
    "REFUND_CAME_BACK": texts.ALERT_REFUND_CAME_BACK,
    "REFUND_AMOUNT_DIFFERS": texts.ALERT_REFUND_AMOUNT_DIFFERS,
}
# Sending, crediting or retrying a refund resolves these alerts. Alerts about duplicate payments stay open.
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

    :param facts: added to the facts about the refund
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
    """Raise an alert about an accepted refund that the gateway does not know any more.

    :param reference: the payment reference of the refunded charge
    """
    raise_alert(
        session,
        identifier="REFUND_UNKNOWN",
        subject=f"refund:{refund_id}",
        title=texts.ALERT_REFUND_UNKNOWN,
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

    :param identifiers: by default the alerts that sending, crediting or retrying the refund resolves
    """
    resolve_alert(session, identifier=identifiers, subject=f"refund:{refund_id}", note=note, now=now)
