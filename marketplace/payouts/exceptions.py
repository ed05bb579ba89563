"""What the gateway tells of transfers that this service did not expect."""

from datetime import datetime
from typing import Literal

from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.alerts import kinds
from marketplace.alerts.operations import raise_alert
from marketplace.infra.db import Statement
from marketplace.payouts.models import PayoutException
from marketplace.providers.gateway_events import GatewayTransfer

_LOG = Statement(
    insert(PayoutException).on_conflict_do_nothing(index_elements=["gateway_transfer_id", "outcome"]),
    columns=("gateway_transfer_id", "reference", "outcome", "amount_minor", "currency", "created_at"),
)


def log_exception(
    session: Session, *, told: GatewayTransfer, outcome: Literal["failed", "reversed"], now: datetime
) -> None:
    """This function will log that a transfer failed or came back, and alert whoever is on call, once for each."""
    logged = _LOG.run(
        session,
        gateway_transfer_id=told.id,
        reference=told.reference,
        outcome=outcome,
        amount_minor=told.amount_minor,
        currency=told.currency,
        created_at=now,
    )
    if logged:
        raise_alert(
            session,
            identifier=kinds.PAYOUT_EXCEPTION,
            subject=f"transfer:{told.reference}",
            title="A transfer failed or came back",
            facts=_facts(told) | {"outcome": outcome},
            now=now,
        )


def note_unknown_success(session: Session, *, told: GatewayTransfer, now: datetime) -> None:
    """This function will alert that money left which this service did not send: it makes no transfers yet."""
    raise_alert(
        session,
        identifier=kinds.TRANSFER_UNKNOWN,
        subject=f"transfer:{told.reference}",
        title="The gateway made a transfer that is none of ours",
        facts=_facts(told),
        now=now,
    )


def _facts(told: GatewayTransfer) -> dict[str, object]:
    return {
        "transferId": told.id,
        "reference": told.reference,
        "amountMinor": told.amount_minor,
        "currency": told.currency,
    }
