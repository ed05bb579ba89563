"""What of payouts on their way somebody must see to: each alert of theirs, raised and resolved here."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.alerts import kinds
from marketplace.alerts.operations import raise_alert, resolve_alert
from marketplace.providers.gateway_events import GatewayTransfer

# What is over once a payout is.
_SETTLED = (kinds.TRANSFER_DIFFERS, kinds.TRANSFER_UNSETTLED)
_OF_BATCH = (kinds.TRANSFER_WANTS_OTP, kinds.PAYOUT_FUNDS_SHORT, kinds.PAYOUTS_REFUSED)


def about_batch(batch_id: UUID) -> str:
    """This function will name a batch as what an alert is about."""
    return f"payout-batch:{batch_id}"


def _about(row: dict[str, Any]) -> str:
    return f"payout:{row['id']}"


def _facts(row: dict[str, Any], told: GatewayTransfer | None = None) -> dict[str, Any]:
    said = {} if told is None else {"toldStatus": told.status, "toldMinor": told.amount_minor}
    return {
        "payoutId": row["id"],
        "batchId": row["batch_id"],
        "reference": row["reference"],
        "amountMinor": row["amount_minor"],
        "status": row["status"],
    } | said


def differs(session: Session, row: dict[str, Any], told: GatewayTransfer, *, now: datetime) -> None:
    """This function will raise that the gateway tells of another amount, or currency, than a payout has.

    :param row: the payout with its transfer, locked
    """
    raise_alert(
        session,
        identifier=kinds.TRANSFER_DIFFERS,
        subject=_about(row),
        title="The gateway tells of another amount of a payout",
        facts=_facts(row, told) | {"toldCurrency": told.currency},
        now=now,
    )


def sent_after_all(session: Session, row: dict[str, Any], told: GatewayTransfer, *, now: datetime) -> None:
    """This function will raise that the gateway sent a payout whose money its payee has back already.

    :param row: the payout with its transfer, locked
    """
    raise_alert(
        session,
        identifier=kinds.TRANSFER_SENT_AFTER_ALL,
        subject=_about(row),
        title="A payout was sent after all",
        facts=_facts(row, told),
        now=now,
    )


def settled(session: Session, row: dict[str, Any], *, status: str, now: datetime) -> None:
    """This function will resolve what was unclear about a payout that is settled.

    :param row: the payout with its transfer, locked
    :param status: what it is now
    """
    resolve_alert(session, identifier=_SETTLED, subject=_about(row), note=f"The payout is {status}.", now=now)


def unsettled(session: Session, row: dict[str, Any], *, known: bool, now: datetime) -> None:
    """This function will raise that the gateway was asked about a payout for the last time, in vain.

    :param row: the payout with its transfer, locked
    :param known: whether the gateway knows the transfer at all
    """
    raise_alert(
        session,
        identifier=kinds.TRANSFER_UNSETTLED,
        subject=_about(row),
        title="It is unclear what became of a payout",
        facts=_facts(row) | {"knownAtGateway": known},
        now=now,
    )


def wants_otp(session: Session, *, batch_id: UUID, reference: str, now: datetime) -> None:
    """This function will raise that transfers of a batch wait for a one-time password at the gateway.

    :param reference: of one of them
    """
    raise_alert(
        session,
        identifier=kinds.TRANSFER_WANTS_OTP,
        subject=about_batch(batch_id),
        title="Transfers wait for a one-time password",
        facts={"batchId": batch_id, "reference": reference},
        now=now,
    )


def funds_short(session: Session, *, batch_id: UUID, amount_minor: int, now: datetime) -> None:
    """This function will raise that the balance at the gateway does not suffice for a batch.

    :param amount_minor: kobo that were to be sent
    """
    raise_alert(
        session,
        identifier=kinds.PAYOUT_FUNDS_SHORT,
        subject=about_batch(batch_id),
        title="The gateway's balance does not suffice for payouts",
        facts={"batchId": batch_id, "amountMinor": amount_minor},
        now=now,
    )


def unwilling(session: Session, *, batch_id: UUID, refused_with: int, now: datetime) -> None:
    """This function will raise that the gateway takes none of a batch's payouts.

    :param refused_with: the HTTP status of its refusal
    """
    raise_alert(
        session,
        identifier=kinds.PAYOUTS_REFUSED,
        subject=about_batch(batch_id),
        title="The gateway takes no payouts",
        facts={"batchId": batch_id, "refusedWith": refused_with},
        now=now,
    )


def taken(session: Session, *, batch_id: UUID, now: datetime) -> None:
    """This function will resolve that the gateway takes none of a batch's payouts, whatever the reason was."""
    resolve_alert(
        session,
        identifier=(kinds.PAYOUT_FUNDS_SHORT, kinds.PAYOUTS_REFUSED),
        subject=about_batch(batch_id),
        note="The gateway took payouts of the batch.",
        now=now,
    )


def batch_over(session: Session, *, batch_id: UUID, now: datetime) -> None:
    """This function will resolve what a batch waited for that is settled."""
    resolve_alert(
        session,
        identifier=_OF_BATCH,
        subject=about_batch(batch_id),
        note="All payouts of the batch are settled.",
        now=now,
    )
