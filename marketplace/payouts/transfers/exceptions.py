"""Transfers that failed, came back, or are none of ours: logged once each, raised, and resolved by finance."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.alerts import kinds
from marketplace.alerts.operations import lock_alert, raise_alert, resolve_alert
from marketplace.audit.operations import Act, record_audit_entry
from marketplace.infra.db import Statement
from marketplace.kernel.errors import ConflictError, ConflictOfInterestError, NotFoundError
from marketplace.payouts.models import PayoutException
from marketplace.providers.gateway.payloads import GatewayTransfer

_INSERT_EXCEPTION = Statement(
    insert(PayoutException)
    .on_conflict_do_nothing(index_elements=["gateway_transfer_id", "outcome"])
    .returning(PayoutException.id),
    columns=("gateway_transfer_id", "reference", "outcome", "amount_minor", "currency", "created_at"),
)

_LOCK_EXCEPTION = Statement(
    text(
        """
        SELECT e.id, e.outcome, e.reference, e.resolved_at, i.user_id AS payee_id FROM payout_exceptions e
            LEFT JOIN payout_transfers t ON t.reference = e.reference
            LEFT JOIN payout_transfer_intents i ON i.id = t.intent_id
        WHERE e.id = :exception_id FOR NO KEY UPDATE OF e
        """
    )
)
_RESOLVE_EXCEPTION = Statement(
    text(
        """
        UPDATE payout_exceptions SET resolved_at = :now, resolved_by = :officer_id, resolution_note = :note
        WHERE id = :exception_id
        """
    )
)
_SELECT_OPEN_UNRECOGNIZED_FAILURE = Statement(
    text(
        """
        SELECT 1 FROM payout_exceptions e WHERE e.resolved_at IS NULL AND e.outcome IN ('failed', 'reversed')
            AND NOT EXISTS (SELECT 1 FROM payout_transfers t WHERE t.reference = e.reference)
        LIMIT 1
        """
    )
)
# Whoever shares the gateway's account with us may have any number of transfers fail.
UNRECOGNIZED_FAILURES_SUBJECT = "gateway-transfers"
_RESOLVED_NOTE = "Finance has seen to it."


class PayoutExceptionAlreadyResolvedError(ConflictError):
    """An officer has already resolved the payout exception."""

    reason = "payout-exception-already-resolved"


def log_failed_payout(
    session: Session, *, transfer: GatewayTransfer, outcome: Literal["failed", "reversed"], now: datetime
) -> None:
    """Log that a payout failed or came back, and alert whoever is on call, once for each."""
    _insert_and_alert(
        session,
        transfer,
        outcome,
        identifier=kinds.PAYOUT_EXCEPTION,
        title="A transfer failed or came back",
        now=now,
    )


def log_unrecognized_failure(
    session: Session, *, transfer: GatewayTransfer, outcome: Literal["failed", "reversed"], now: datetime
) -> None:
    """Log that a transfer which is none of ours failed or came back: one alert for all of them."""
    _insert_and_alert(
        session,
        transfer,
        outcome,
        identifier=kinds.TRANSFER_UNKNOWN_FAILED,
        title="A transfer that is none of ours failed or came back",
        subject=UNRECOGNIZED_FAILURES_SUBJECT,
        now=now,
    )


def log_unrecognized_transfer(session: Session, *, transfer: GatewayTransfer, now: datetime) -> None:
    """Log that money left which this service did not send, and alert whoever is on call, once."""
    _insert_and_alert(
        session,
        transfer,
        "unexpected",
        identifier=kinds.TRANSFER_UNKNOWN,
        title="The gateway made a transfer that is none of ours",
        now=now,
    )


def _insert_and_alert(
    session: Session,
    transfer: GatewayTransfer,
    outcome: str,
    *,
    identifier: str,
    title: str,
    subject: str | None = None,
    now: datetime,
) -> None:
    row = _INSERT_EXCEPTION.first(
        session,
        gateway_transfer_id=transfer.id,
        reference=transfer.reference,
        outcome=outcome,
        amount_minor=transfer.amount_minor,
        currency=transfer.currency,
        created_at=now,
    )
    if row is None:
        return
    raise_alert(
        session,
        identifier=identifier,
        # Ours, not the gateway's number: an alert would take that for a number of somebody's.
        subject=subject or _exception_subject(row["id"]),
        title=title,
        facts={
            "payoutExceptionId": row["id"],
            "reference": transfer.reference,
            "outcome": outcome,
            "amountMinor": transfer.amount_minor,
            "currency": transfer.currency,
        },
        now=now,
    )


def resolve_exception(session: Session, *, exception_id: UUID, note: str, act: Act) -> dict[str, Any]:
    """Note what an officer did about a transfer that went wrong.

    It moves no money: that was booked when it went wrong.

    :param note: what was done
    :return: its id, status and note
    :raises NotFoundError: there is no such exception
    :raises ConflictOfInterestError: it was the officer's own payout
    :raises PayoutExceptionAlreadyResolvedError: an officer has seen to it already
    """
    row = _LOCK_EXCEPTION.first(session, exception_id=exception_id)
    if row is None:
        raise NotFoundError("There is no such exception.")
    if row["payee_id"] == act.person_id:
        raise ConflictOfInterestError("It was your own payout: another officer has to see to it.")
    if row["resolved_at"] is not None:
        raise PayoutExceptionAlreadyResolvedError("The exception is resolved already.")
    _RESOLVE_EXCEPTION.run(
        session, exception_id=exception_id, officer_id=act.person_id, note=note, now=act.now
    )
    resolve_alert(
        session,
        identifier=(kinds.PAYOUT_EXCEPTION, kinds.TRANSFER_UNKNOWN),
        subject=_exception_subject(exception_id),
        note=_RESOLVED_NOTE,
        now=act.now,
    )
    if row["payee_id"] is None:
        _resolve_if_no_unrecognized_left(session, now=act.now)
    record_audit_entry(
        session,
        act=act,
        action="payout_exception.resolve",
        target_type="payout_exception",
        target_id=str(exception_id),
        before={"status": "open"},
        after={"status": "resolved", "outcome": row["outcome"], "reference": row["reference"], "note": note},
    )
    return {"id": exception_id, "status": "resolved", "resolutionNote": note, "resolvedAt": act.now}


def _resolve_if_no_unrecognized_left(session: Session, *, now: datetime) -> None:
    alert_key = {"identifier": kinds.TRANSFER_UNKNOWN_FAILED, "subject": UNRECOGNIZED_FAILURES_SUBJECT}
    if lock_alert(session, **alert_key) and _SELECT_OPEN_UNRECOGNIZED_FAILURE.first(session) is None:
        resolve_alert(session, **alert_key, note=_RESOLVED_NOTE, now=now)


def _exception_subject(exception_id: UUID) -> str:
    return f"payout-exception:{exception_id}"
