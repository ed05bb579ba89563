"""Alerts about quarantined charges: raise and resolve them."""

from datetime import datetime
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.alerts.operations import raise_alert, resolve_alert
from marketplace.payments.charges.charge_context import ChargeContext


def raise_quarantined_charge_alert(
    session: Session, context: ChargeContext, *, quarantined_charge_id: UUID, reason: str, now: datetime
) -> None:
    """Raise that a charge is held back.

    :param quarantined_charge_id: of its row
    :param reason: why
    """
    raise_alert(
        session,
        identifier="CHARGE_QUARANTINED",
        subject=f"quarantine:{quarantined_charge_id}",
        title="A charge is held back",
        facts={
            "quarantineId": quarantined_charge_id,
            "reason": reason,
            "reference": context.intent.reference,
            "amountMinor": context.charge.amount_minor,
            "dueMinor": context.due_minor,
            "currency": context.charge.currency,
            "orderIds": [order.id for order in context.orders],
        },
        now=now,
    )


def resolve_quarantined_charge_alert(
    session: Session, *, quarantined_charge_id: UUID, action: str, now: datetime
) -> None:
    """Resolve that a charge is held back: finance has decided on it.

    :param action: what was decided
    """
    resolve_alert(
        session,
        identifier="CHARGE_QUARANTINED",
        subject=f"quarantine:{quarantined_charge_id}",
        note=f"Finance decided: {action}.",
        now=now,
    )
