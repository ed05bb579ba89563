"""What of payouts on their way somebody must see to: each alert of theirs, raised and resolved here."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.alerts import kinds
from marketplace.alerts.operations import raise_alert, resolve_alert
from marketplace.providers.gateway.payloads import GatewayTransfer

_TITLES = {
    kinds.TRANSFER_DIFFERS: "The gateway tells of another amount of a payout",
    kinds.TRANSFER_SENT_AFTER_ALL: "A payout was sent after all",
    kinds.TRANSFER_UNSETTLED: "It is unclear what became of a payout",
    kinds.TRANSFER_WANTS_OTP: "Transfers wait for a one-time password",
    kinds.PAYOUT_FUNDS_SHORT: "The gateway's balance does not suffice for payouts",
    kinds.PAYOUTS_REFUSED: "The gateway takes no payouts",
}
# What is over once a payout is.
_RESOLVED_BY_FINAL_STATUS = (kinds.TRANSFER_DIFFERS, kinds.TRANSFER_UNSETTLED)
# What is over once the gateway takes payouts of a batch, and once all of them are settled.
_RESOLVED_BY_ACCEPTANCE = (kinds.PAYOUT_FUNDS_SHORT, kinds.PAYOUTS_REFUSED)
_RESOLVED_BY_BATCH_END = (kinds.TRANSFER_WANTS_OTP, *_RESOLVED_BY_ACCEPTANCE)


def batch_subject(batch_id: UUID) -> str:
    """Name a batch as what an alert is about."""
    return f"payout-batch:{batch_id}"


def _payout_subject(row: dict[str, Any]) -> str:
    return f"payout:{row['id']}"


def raise_payout_alert(
    session: Session,
    identifier: str,
    row: dict[str, Any],
    *,
    reported: GatewayTransfer | None = None,
    facts: Mapping[str, Any] | None = None,
    now: datetime,
) -> None:
    """Raise an alert about a payout.

    :param identifier: the kind of the alert
    :param row: the payout with its transfer, locked
    :param reported: what the gateway tells of it, if that is what is raised
    :param facts: more of them
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
    payout_facts = {
        "payoutId": row["id"],
        "batchId": row["batch_id"],
        "reference": row["reference"],
        "amountMinor": row["amount_minor"],
        "status": row["status"],
    }
    raise_alert(
        session,
        identifier=identifier,
        subject=_payout_subject(row),
        title=_TITLES[identifier],
        facts={**payout_facts, **reported_facts, **(facts or {})},
        now=now,
    )


def raise_batch_alert(
    session: Session, identifier: str, *, batch_id: UUID, facts: Mapping[str, Any], now: datetime
) -> None:
    """Raise that payouts of a batch do not go out as they should.

    :param identifier: the kind of the alert
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


def resolve_payout_alerts(session: Session, row: dict[str, Any], *, status: str, now: datetime) -> None:
    """Resolve what was unclear about a payout that is settled.

    :param row: the payout with its transfer, locked
    :param status: what it is now
    """
    resolve_alert(
        session,
        identifier=_RESOLVED_BY_FINAL_STATUS,
        subject=_payout_subject(row),
        note=f"The payout is {status}.",
        now=now,
    )


def resolve_accepted_batch_alerts(session: Session, *, batch_id: UUID, now: datetime) -> None:
    """Resolve that the gateway takes none of a batch's payouts, whatever the reason was."""
    note = "The gateway took payouts of the batch."
    resolve_alert(
        session, identifier=_RESOLVED_BY_ACCEPTANCE, subject=batch_subject(batch_id), note=note, now=now
    )


def resolve_idle_batch_alerts(session: Session, *, batch_id: UUID, now: datetime) -> None:
    """Resolve that the gateway takes none of a batch's payouts: there is none that it could take."""
    note = "None of the batch's payouts waits for the gateway any more."
    resolve_alert(
        session, identifier=_RESOLVED_BY_ACCEPTANCE, subject=batch_subject(batch_id), note=note, now=now
    )


def resolve_finished_batch_alerts(session: Session, *, batch_id: UUID, now: datetime) -> None:
    """Resolve what a batch waited for that is settled."""
    note = "All payouts of the batch are settled."
    resolve_alert(
        session, identifier=_RESOLVED_BY_BATCH_END, subject=batch_subject(batch_id), note=note, now=now
    )
