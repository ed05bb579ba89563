"""Exceptions: log failed, reversed and unrecognized transfers once, alert finance, and resolve."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from sqlalchemy import select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.alerts.kinds import AlertIdentifier
from marketplace.alerts.operations import lock_alert, raise_alert, resolve_alert
from marketplace.audit.operations import Act, record_audit_entry
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.errors import ConflictError, ConflictOfInterestError, found
from marketplace.payouts import texts
from marketplace.payouts.models import PayoutException, PayoutTransfer, PayoutTransferIntent
from marketplace.providers.gateway.payloads import GatewayTransfer

# Other users of the gateway's account may cause many failed transfers, so all share a single alert.
UNRECOGNIZED_FAILURES_SUBJECT = "gateway-transfers"


class PayoutExceptionAlreadyResolvedError(ConflictError):
    """An officer has already resolved the payout exception."""

    reason = "payout-exception-already-resolved"


def log_unrecognized_transfer(session: Session, *, transfer: GatewayTransfer, now: datetime) -> None:
    """Log a transfer that this service did not send, and raise an alert, once each."""
    if transfer.failed or transfer.reversed:
        log_exception(
            session,
            transfer,
            "failed" if transfer.failed else "reversed",
            identifier="TRANSFER_UNKNOWN_FAILED",
            title=texts.ALERT_TRANSFER_UNKNOWN_FAILED_TITLE,
            subject=UNRECOGNIZED_FAILURES_SUBJECT,
            now=now,
        )
    else:
        log_exception(
            session,
            transfer,
            "unexpected",
            identifier="TRANSFER_UNKNOWN",
            title=texts.ALERT_TRANSFER_UNKNOWN_TITLE,
            now=now,
        )


_INSERT_EXCEPTION = Statement(
    insert(PayoutException)
    .on_conflict_do_nothing(index_elements=["gateway_transfer_id", "outcome"])
    .returning(PayoutException.id),
    columns=("gateway_transfer_id", "reference", "outcome", "amount_minor", "currency", "created_at"),
)


def log_exception(
    session: Session,
    transfer: GatewayTransfer,
    outcome: Literal["failed", "reversed", "unexpected"],
    *,
    identifier: AlertIdentifier,
    title: str,
    subject: str | None = None,
    now: datetime,
) -> None:
    """Log a failed, reversed or unrecognized transfer, and raise an alert, once each.

    :param subject: the alert's subject; the exception by default
    """
    exception_id = _INSERT_EXCEPTION.scalar(
        session,
        gateway_transfer_id=transfer.id,
        reference=transfer.reference,
        outcome=outcome,
        amount_minor=transfer.amount_minor,
        currency=transfer.currency,
        created_at=now,
    )
    if exception_id is None:
        return
    raise_alert(
        session,
        identifier=identifier,
        # The exception's id, since redaction would treat the gateway's number as personal data.
        subject=subject or f"payout-exception:{exception_id}",
        title=title,
        facts={
            "payoutExceptionId": exception_id,
            "reference": transfer.reference,
            "outcome": outcome,
            "amountMinor": transfer.amount_minor,
            "currency": transfer.currency,
        },
        now=now,
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


def resolve_exception(session: Session, *, exception_id: UUID, note: str, act: Act) -> PayoutException:
    """Resolve an exception with an officer's note. The ledger was updated when the transfer failed.

    :raises NotFoundError: the exception does not exist
    :raises ConflictOfInterestError: the officer is the payee
    :raises PayoutExceptionAlreadyResolvedError: the exception is resolved
    """
    exception = found(
        session.get(
            PayoutException, exception_id, with_for_update={"key_share": True}, populate_existing=True
        ),
        "Payout exception not found.",
    )
    payee_id = session.scalar(
        select(PayoutTransferIntent.user_id)
        .join(PayoutTransfer, PayoutTransfer.intent_id == PayoutTransferIntent.id)
        .where(PayoutTransfer.reference == exception.reference)
    )
    if payee_id == act.person_id:
        raise ConflictOfInterestError(
            "This exception is about your own payout, so another officer must resolve it."
        )
    if exception.resolved_at is not None:
        raise PayoutExceptionAlreadyResolvedError("The exception is already resolved.")
    exception.resolved_at, exception.resolved_by, exception.resolution_note = act.now, act.person_id, note
    resolve_alert(
        session,
        identifier=("PAYOUT_EXCEPTION", "TRANSFER_UNKNOWN"),
        subject=f"payout-exception:{exception_id}",
        note=texts.RESOLVED_BY_FINANCE,
        now=act.now,
    )
    if payee_id is None:
        is_open = lock_alert(
            session, identifier="TRANSFER_UNKNOWN_FAILED", subject=UNRECOGNIZED_FAILURES_SUBJECT
        )
        if is_open and _SELECT_OPEN_UNRECOGNIZED_FAILURE.scalar(session) is None:
            resolve_alert(
                session,
                identifier="TRANSFER_UNKNOWN_FAILED",
                subject=UNRECOGNIZED_FAILURES_SUBJECT,
                note=texts.RESOLVED_BY_FINANCE,
                now=act.now,
            )
    record_audit_entry(
        session,
        act=act,
        action="payout_exception.resolve",
        target_type="payout_exception",
        target_id=str(exception_id),
        before={"status": "open"},
        after={
            "status": "resolved",
            "outcome": exception.outcome,
            "reference": exception.reference,
            "note": note,
        },
    )
    return exception
