"""Alerts about quarantined charges: raise and resolve them."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.alerts import kinds
from marketplace.alerts.operations import raise_alert, resolve_alert
from marketplace.orders.transitions import LockedOrder
from marketplace.payments.charges.charge_context import ChargeContext


def raise_quarantined_charge_alert(
    session: Session, settled: ChargeContext, *, held_id: UUID, reason: str, now: datetime
) -> None:
    """Raise that a charge is held back.

    :param held_id: of its row
    :param reason: why
    """
    locked: Sequence[LockedOrder] = [*settled.waiting, *settled.over]
    raise_alert(
        session,
        identifier=kinds.CHARGE_QUARANTINED,
        subject=f"quarantine:{held_id}",
        title="A charge is held back",
        facts={
            "quarantineId": held_id,
            "reason": reason,
            "reference": settled.intent.reference,
            "amountMinor": settled.charge.amount_minor,
            "dueMinor": settled.due_minor,
            "currency": settled.charge.currency,
            "orderIds": [order.id for order in locked],
        },
        now=now,
    )


def resolve_quarantined_charge_alert(session: Session, *, held_id: UUID, action: str, now: datetime) -> None:
    """Resolve that a charge is held back: finance has decided on it.

    :param action: what was decided
    """
    resolve_alert(
        session,
        identifier=kinds.CHARGE_QUARANTINED,
        subject=f"quarantine:{held_id}",
        note=f"Finance decided: {action}.",
        now=now,
    )
