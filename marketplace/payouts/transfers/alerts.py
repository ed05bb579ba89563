"""Raise and resolve alerts about payouts in transit."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.alerts.kinds import AlertIdentifier
from marketplace.alerts.operations import raise_alert, resolve_alert
from marketplace.payouts import texts
from marketplace.payouts.accounting import Payout
from marketplace.providers.gateway.payloads import GatewayTransfer

_TITLES = {
    "TRANSFER_DIFFERS": texts.ALERT_TRANSFER_DIFFERS_TITLE,
    "TRANSFER_SENT_AFTER_ALL": texts.ALERT_TRANSFER_SENT_AFTER_ALL_TITLE,
    "TRANSFER_UNSETTLED": texts.ALERT_TRANSFER_UNSETTLED_TITLE,
    "TRANSFER_WANTS_OTP": texts.ALERT_TRANSFER_WANTS_OTP_TITLE,
    "PAYOUT_FUNDS_SHORT": texts.ALERT_PAYOUT_FUNDS_SHORT_TITLE,
    "PAYOUTS_REFUSED": texts.ALERT_PAYOUTS_REFUSED_TITLE,
}
# Alerts resolved when the gateway accepts payouts of a batch, and when all payouts of a batch are final.
RESOLVED_BY_ACCEPTANCE: tuple[AlertIdentifier, ...] = ("PAYOUT_FUNDS_SHORT", "PAYOUTS_REFUSED")
RESOLVED_BY_BATCH_END: tuple[AlertIdentifier, ...] = ("TRANSFER_WANTS_OTP", *RESOLVED_BY_ACCEPTANCE)


def batch_subject(batch_id: UUID) -> str:
    """Format a batch's id as the subject of alerts."""
    return f"payout-batch:{batch_id}"


def raise_payout_alert(
    session: Session,
    identifier: AlertIdentifier,
    payout: Payout,
    *,
    reported: GatewayTransfer | None = None,
    facts: Mapping[str, Any] | None = None,
    now: datetime,
) -> None:
    """Raise an alert about a locked payout.

    :param reported: the gateway's report, if the alert is about a report
    :param facts: added to the facts of the payout and the report
    """
    reported_facts = (
        {}
        if reported is None
        else {
            "toldStatus": reported.status,
            "toldMinor": reported.amount_minor,
            "toldCurrency": reported.currency,
        }
    )
    raise_alert(
        session,
        identifier=identifier,
        subject=f"payout:{payout.id}",
        title=_TITLES[identifier],
        facts={
            "payoutId": payout.id,
            "batchId": payout.batch_id,
            "reference": payout.reference,
            "amountMinor": payout.amount_minor,
            "status": payout.status,
            **reported_facts,
            **(facts or {}),
        },
        now=now,
    )


def raise_batch_alert(
    session: Session, identifier: AlertIdentifier, *, batch_id: UUID, facts: Mapping[str, Any], now: datetime
) -> None:
    """Raise an alert about a batch with payouts that cannot be sent.

    :param facts: added to the batch's id
    """
    raise_alert(
        session,
        identifier=identifier,
        subject=batch_subject(batch_id),
        title=_TITLES[identifier],
        facts={"batchId": batch_id, **facts},
        now=now,
    )


def resolve_payout_alerts(session: Session, payout: Payout, *, status: str, now: datetime) -> None:
    """Resolve the alerts about a payout with a new final status."""
    resolve_alert(
        session,
        identifier=("TRANSFER_DIFFERS", "TRANSFER_UNSETTLED"),
        subject=f"payout:{payout.id}",
        note=texts.RESOLVED_PAYOUT_FINAL.format(status=status),
        now=now,
    )


def resolve_batch_alerts(
    session: Session, identifiers: Sequence[AlertIdentifier], *, batch_id: UUID, note: str, now: datetime
) -> None:
    """Resolve alerts about a batch.

    :param identifiers: ``RESOLVED_BY_ACCEPTANCE`` or ``RESOLVED_BY_BATCH_END``
    """
    resolve_alert(session, identifier=identifiers, subject=batch_subject(batch_id), note=note, now=now)
