"""Alerts about refunds: raise and resolve them."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.alerts import kinds
from marketplace.alerts.operations import raise_alert, resolve_alert
from marketplace.payments.models import Refund
from marketplace.providers.gateway.payloads import GatewayRefund

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


def _refund_facts(refund: Refund) -> dict[str, Any]:
    return {
        "refundId": refund.id,
        "orderId": refund.order_id,
        "amountMinor": refund.amount_minor,
        "attempt": refund.attempt,
        "status": refund.status,
    }


def raise_failed_refund_alert(
    session: Session, refund: Refund, *, status: str, refusal_status: int | None, now: datetime
) -> None:
    """Raise that a refund failed, or needs something of somebody.

    :param refund: locked
    :param status: what it is now
    :param refusal_status: the HTTP status with which the gateway refused to send it, if it did
    """
    refusal_facts = {} if refusal_status is None else {"refusedWith": refusal_status}
    raise_alert(
        session,
        identifier=kinds.REFUND_STUCK if refusal_status is None else kinds.REFUND_REFUSED,
        subject=_refund_subject(refund.id),
        title="A refund needs finance" if refusal_status is None else "The gateway refused a refund",
        facts=_refund_facts(refund) | {"status": status} | refusal_facts,
        now=now,
    )


def raise_duplicate_refund_alert(
    session: Session, refund: Refund, *, sent_attempt: int, now: datetime
) -> None:
    """Raise that the gateway sent a refund which went another way already.

    :param refund: locked
    :param sent_attempt: which try the gateway says that it sent
    """
    raise_alert(
        session,
        identifier=kinds.REFUND_SENT_TWICE,
        subject=_refund_subject(refund.id),
        title="A refund was paid twice",
        facts=_refund_facts(refund) | {"sentAtTry": sent_attempt},
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


def raise_refund_id_mismatch_alert(
    session: Session, refund: Refund, *, reported: GatewayRefund, now: datetime
) -> None:
    """Raise that the gateway has our note of a refund under another id than it told us."""
    raise_alert(
        session,
        identifier=kinds.REFUND_ID_DIFFERS,
        subject=_refund_subject(refund.id),
        title="The gateway has a refund twice",
        facts=_refund_facts(refund) | {"toldId": reported.id, "toldStatus": reported.status},
        now=now,
    )


def raise_returned_refund_alert(session: Session, refund: Refund, *, now: datetime) -> None:
    """Raise that a refund failed after the gateway had said that it was sent."""
    raise_alert(
        session,
        identifier=kinds.REFUND_CAME_BACK,
        subject=_refund_subject(refund.id),
        title="A refund failed after it was sent",
        facts=_refund_facts(refund),
        now=now,
    )


def raise_refund_amount_mismatch_alert(
    session: Session, refund: Refund, *, reported: GatewayRefund, now: datetime
) -> None:
    """Raise that the gateway tells of another amount than a refund has."""
    raise_alert(
        session,
        identifier=kinds.REFUND_AMOUNT_DIFFERS,
        subject=_refund_subject(refund.id),
        title="The gateway tells of another amount of a refund",
        facts=_refund_facts(refund) | {"toldMinor": reported.amount_minor, "toldStatus": reported.status},
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
