"""Alerts about payouts in transit: raise and resolve them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.alerts.kinds import AlertIdentifier
from marketplace.alerts.operations import raise_alert, resolve_alert
from marketplace.payouts.accounting.postings import Payout
from marketplace.providers.gateway.payloads import GatewayTransfer

_TITLES = {
    "TRANSFER_DIFFERS": "The gateway tells of another amount of a payout",
    "TRANSFER_SENT_AFTER_ALL": "A payout was sent after all",
    "TRANSFER_UNSETTLED": "It is unclear what became of a payout",
    "TRANSFER_WANTS_OTP": "Transfers wait for a one-time password",
    "PAYOUT_FUNDS_SHORT": "The gateway's balance does not suffice for payouts",
    "PAYOUTS_REFUSED": "The gateway takes no payouts",
}
# Alerts that a payout's final status resolves.
_RESOLVED_BY_FINAL_STATUS: tuple[AlertIdentifier, ...] = ("TRANSFER_DIFFERS", "TRANSFER_UNSETTLED")
# Alerts that are resolved when the gateway accepts payouts of a batch, and when all of them are final.
_RESOLVED_BY_ACCEPTANCE: tuple[AlertIdentifier, ...] = ("PAYOUT_FUNDS_SHORT", "PAYOUTS_REFUSED")
_RESOLVED_BY_BATCH_END: tuple[AlertIdentifier, ...] = ("TRANSFER_WANTS_OTP", *_RESOLVED_BY_ACCEPTANCE)


def batch_subject(batch_id: UUID) -> str:
    """Name a batch as the subject of an alert."""
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

    :param reported: the transfer as the gateway reports it, if the alert is about that
    :param facts: further facts
    """
    payout_facts = {
        "payoutId": payout.id,
        "batchId": payout.batch_id,
        "reference": payout.reference,
        "amountMinor": payout.amount_minor,
        "status": payout.status,
    }
    if reported is not None:
        payout_facts |= {
            "toldStatus": reported.status,
            "toldMinor": reported.amount_minor,
            "toldCurrency": reported.currency,
        }
    raise_alert(
        session,
        identifier=identifier,
        subject=f"payout:{payout.id}",
        title=_TITLES[identifier],
        facts=payout_facts | dict(facts or {}),
        now=now,
    )


def raise_batch_alert(
    session: Session, identifier: AlertIdentifier, *, batch_id: UUID, facts: Mapping[str, Any], now: datetime
) -> None:
    """Raise an alert about a batch whose payouts are not sent.

    :param facts: beside the batch's id
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
    """Resolve the alerts about a payout that has a final status now."""
    resolve_alert(
        session,
        identifier=_RESOLVED_BY_FINAL_STATUS,
        subject=f"payout:{payout.id}",
        note=f"The payout is {status}.",
        now=now,
    )


def resolve_accepted_batch_alerts(session: Session, *, batch_id: UUID, now: datetime) -> None:
    """Resolve the alerts about refused payouts: the gateway accepts payouts of the batch again."""
    note = "The gateway took payouts of the batch."
    resolve_alert(
        session, identifier=_RESOLVED_BY_ACCEPTANCE, subject=batch_subject(batch_id), note=note, now=now
    )


def resolve_idle_batch_alerts(session: Session, *, batch_id: UUID, now: datetime) -> None:
    """Resolve the alerts about refused payouts: no payout of the batch waits for the gateway."""
    note = "None of the batch's payouts waits for the gateway any more."
    resolve_alert(
        session, identifier=_RESOLVED_BY_ACCEPTANCE, subject=batch_subject(batch_id), note=note, now=now
    )


def resolve_finished_batch_alerts(session: Session, *, batch_id: UUID, now: datetime) -> None:
    """Resolve the alerts about a batch whose payouts all have a final status."""
    note = "All payouts of the batch are settled."
    resolve_alert(
        session, identifier=_RESOLVED_BY_BATCH_END, subject=batch_subject(batch_id), note=note, now=now
    )
