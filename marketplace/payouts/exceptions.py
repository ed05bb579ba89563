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

_INSERT = Statement(
    insert(PayoutException)
    .on_conflict_do_nothing(index_elements=["gateway_transfer_id", "outcome"])
    .returning(PayoutException.id),
    columns=("gateway_transfer_id", "reference", "outcome", "amount_minor", "currency", "created_at"),
)


def log_exception(
    session: Session, *, told: GatewayTransfer, outcome: Literal["failed", "reversed"], now: datetime
) -> None:
    """This function will log that a transfer failed or came back, and alert whoever is on call, once for each."""
    _log(
        session,
        told,
        outcome,
        identifier=kinds.PAYOUT_EXCEPTION,
        title="A transfer failed or came back",
        now=now,
    )


def log_unexpected(session: Session, *, told: GatewayTransfer, now: datetime) -> None:
    """This function will log that money left which this service did not send, and alert whoever is on call, once."""
    _log(
        session,
        told,
        "unexpected",
        identifier=kinds.TRANSFER_UNKNOWN,
        title="The gateway made a transfer that is none of ours",
        now=now,
    )


def _log(
    session: Session, told: GatewayTransfer, outcome: str, *, identifier: str, title: str, now: datetime
) -> None:
    row = _INSERT.first(
        session,
        gateway_transfer_id=told.id,
        reference=told.reference,
        outcome=outcome,
        amount_minor=told.amount_minor,
        currency=told.currency,
        created_at=now,
    )
    if row is None:
        return
    raise_alert(
        session,
        identifier=identifier,
        # Ours, not the gateway's number: an alert would take that for a number of somebody's.
        subject=f"payout-exception:{row['id']}",
        title=title,
        facts={
            "payoutExceptionId": row["id"],
            "reference": told.reference,
            "outcome": outcome,
            "amountMinor": told.amount_minor,
            "currency": told.currency,
        },
        now=now,
    )
