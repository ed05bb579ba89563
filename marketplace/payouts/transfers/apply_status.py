"""Apply the gateway's statuses to payouts. Events and polls may repeat a status and arrive in any order.

Locks are taken in the order batch, payout with transfer, ledger balances. A repeated status changes nothing. An event
that contradicts a final status may be outdated, so the event only starts a poll. The polled status counts, unless the
payout changed meanwhile.
"""

from dataclasses import replace
from datetime import datetime
from uuid import UUID

import structlog
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from marketplace.infra import outbox
from marketplace.infra.sql.statements import Statement
from marketplace.kernel import money, queues
from marketplace.kernel.errors import found
from marketplace.payouts import accounting, states, texts
from marketplace.payouts.batches.decisions import change_status
from marketplace.payouts.models import ACCOUNT_NUMBER, PayoutBatch, PayoutTransfer, PayoutTransferIntent
from marketplace.payouts.transfers import alerts, exceptions, notifications
from marketplace.providers.gateway.payloads import GatewayTransfer

_log = structlog.get_logger(__name__)

POLL_TOPIC = "payout.ask"
_RETURNED_STATUSES = (states.FAILED, states.REVERSED)
_FINAL_STATUSES = (states.SUCCESS, *_RETURNED_STATUSES)


class UnknownTransferError(Exception):
    """No payout has the reference."""


SELECT_PAYOUTS = """
    SELECT t.reference, i.amount_minor, i.account_id, a.recipient_code, a.account_name, a.account_number, a.bank_code,
        i.id, i.user_id, i.vendor_id, i.status, i.batch_id, t.gateway_transfer_id, t.fee_minor, t.attempts,
        t.times_returned, t.ask_at, t.sent_at, t.updated_at, a.replaced_at IS NOT NULL AS account_replaced
    FROM payout_transfers t JOIN payout_transfer_intents i ON i.id = t.intent_id
        JOIN payout_accounts a ON a.id = i.account_id
"""
ENCRYPTED_COLUMNS = {"account_number": ACCOUNT_NUMBER}
_LOCK_BATCH = Statement(
    text(
        """
        SELECT b.id FROM payout_batches b WHERE b.id = (
            SELECT i.batch_id FROM payout_transfers t JOIN payout_transfer_intents i ON i.id = t.intent_id
            WHERE t.reference = :reference)
        FOR NO KEY UPDATE
        """
    )
)
_LOCK_PAYOUT = Statement(
    text(f"{SELECT_PAYOUTS} WHERE t.reference = :reference FOR NO KEY UPDATE OF i, t"),
    row=accounting.Payout,
    encrypted=ENCRYPTED_COLUMNS,
)


def lock_payout(session: Session, *, reference: str) -> accounting.Payout:
    """Lock a payout and the transfer, after the batch.

    :raises UnknownTransferError: no payout has the reference
    """
    _LOCK_BATCH.run(session, reference=reference)
    payout = _LOCK_PAYOUT.first(session, reference=reference)
    if payout is None:
        raise UnknownTransferError(reference)
    return payout


def find_reference(session: Session, *, payout_id: UUID) -> tuple[str, str | None]:
    """Find the status of a payout and, after the dispatch, the reference of the transfer.

    :raises NotFoundError: the payout does not exist
    """
    payout = session.execute(
        select(PayoutTransferIntent.status, PayoutTransfer.reference)
        .outerjoin(PayoutTransfer, PayoutTransfer.intent_id == PayoutTransferIntent.id)
        .where(PayoutTransferIntent.id == payout_id)
    ).first()
    status, reference = found(payout, texts.PAYOUT_NOT_FOUND)
    return status, reference


def contradicts_final_status(status: str, reported: GatewayTransfer) -> bool:
    """Return whether an event contradicts a payout's final status, perhaps because the event is outdated.

    The reversal of a success is no contradiction. A second failure or reversal is no contradiction either.
    """
    if reported.succeeded:
        return status in _RETURNED_STATUSES
    return reported.failed and status == states.SUCCESS


def handle_transfer_event(
    session: Session, *, outcome: str, transfer: GatewayTransfer, now: datetime
) -> None:
    """Handle the gateway's event about a transfer. Unrecognized transfers are logged for finance.

    :param outcome: success, failed or reversed; the event's type overrides the status in the event's data
    """
    reported = replace(transfer, status=outcome)
    try:
        payout = lock_payout(session, reference=reported.reference)
    except UnknownTransferError:
        exceptions.log_unrecognized_transfer(session, transfer=reported, now=now)
        return
    if contradicts_final_status(payout.status, reported):
        _log.warning("event contradicts final payout status", payoutId=str(payout.id), outcome=outcome)
        enqueue_polling(session, reference=reported.reference, now=now)
    else:
        apply_gateway_status(session, payout, reported, now=now)


def enqueue_polling(session: Session, *, reference: str, now: datetime) -> None:
    """Have a worker poll the gateway for a transfer."""
    outbox.enqueue(
        session, queue=queues.WEBHOOKS, topic=POLL_TOPIC, payload={"reference": reference}, due_at=now
    )


def apply_gateway_status(
    session: Session, payout: accounting.Payout, reported: GatewayTransfer, *, now: datetime
) -> str:
    """Apply a reported status to a locked payout: post to the ledger, notify the payee, and update the batch.

    The caller must ensure that the report is not older than the payout's status.

    :return: the payout's status
    """
    before = payout.status
    if (reported.amount_minor, reported.currency) != (payout.amount_minor, money.CURRENCY):
        alerts.raise_payout_alert(session, "TRANSFER_DIFFERS", payout, reported=reported, now=now)
        return before
    if reported.awaits_otp and before not in _FINAL_STATUSES:
        alerts.raise_batch_alert(
            session,
            "TRANSFER_WANTS_OTP",
            batch_id=payout.batch_id,
            facts={"reference": payout.reference},
            now=now,
        )
    trigger = _choose_trigger(before, reported)
    if not states.PAYOUT.allows(before, trigger):
        return before
    status = states.PAYOUT.target(before, trigger)
    if status in _RETURNED_STATUSES:
        reason = texts.FAILED_REVERSED if status == states.REVERSED else texts.FAILED_BY_BANK
        _return_to_payee(session, payout, reported, trigger, reason=reason, now=now)
    elif status == states.SUCCESS:
        _apply_success(session, payout, reported, now=now)
    else:
        _update_status(session, payout, reported, status, now=now)
    _log.info("payout status changed", payoutId=str(payout.id), before=before, status=status)
    return status


def mark_rejected(
    session: Session,
    payout: accounting.Payout,
    *,
    refusal_status: int | None,
    reason: str = texts.FAILED_ACCOUNT_NOT_PAYABLE,
    now: datetime,
) -> None:
    """Fail a locked payout that was never sent: refused by the gateway or voided.

    :param refusal_status: the HTTP status of the refusal; none for an unknown account and for voided payouts
    :param reason: the reason shown to the payee, one of ``texts.FAILED_*``
    """
    _log.warning("payout rejected", payoutId=str(payout.id), refusedWith=refusal_status)
    # The gateway assigns no id to a refused transfer, so the reference serves as the id.
    reported = GatewayTransfer(
        payout.reference, payout.reference, payout.amount_minor, money.CURRENCY, status="rejected"
    )
    _return_to_payee(session, payout, reported, "fail", reason=reason, now=now)


def reverse_success(session: Session, payout: accounting.Payout, *, fee_minor: int, now: datetime) -> None:
    """Reverse a locked successful payout that officers found to be unpaid.

    :param fee_minor: the returned part of the gateway's fee, in kobo
    """
    reported = GatewayTransfer(
        payout.gateway_transfer_id or payout.reference,
        payout.reference,
        payout.amount_minor,
        money.CURRENCY,
        status="reversed",
    )
    _return_to_payee(
        session, payout, reported, "reverse", reason=texts.FAILED_NEVER_MADE, fee_minor=fee_minor, now=now
    )
    _log.warning("payout reversed", payoutId=str(payout.id))


def _choose_trigger(status: str, reported: GatewayTransfer) -> str:
    """Choose the transition of a payout for a reported status."""
    if reported.succeeded:
        return "turn-out-sent" if status in _RETURNED_STATUSES else "succeed"
    if reported.reversed or (reported.failed and status == states.SUCCESS):
        return "reverse"
    return "fail" if reported.failed else "submit"


def _apply_success(
    session: Session, payout: accounting.Payout, reported: GatewayTransfer, *, now: datetime
) -> None:
    fee_minor = reported.fee_minor
    _update_status(session, payout, reported, states.SUCCESS, fee_minor=fee_minor, now=now)
    if payout.status in _RETURNED_STATUSES:
        owed_minor = accounting.post_payout_sent_after_all(session, payout, fee_minor=fee_minor, now=now)
        notifications.notify_payout_sent_after_all(session, payout, owed_minor=owed_minor, now=now)
        alerts.raise_payout_alert(session, "TRANSFER_SENT_AFTER_ALL", payout, reported=reported, now=now)
    else:
        accounting.post_payout_sent(session, payout, fee_minor=fee_minor, now=now)
        notifications.notify_payout_sent(session, payout, now=now)
    alerts.resolve_payout_alerts(session, payout, status=states.SUCCESS, now=now)
    _refresh_batch_status(session, payout.batch_id, now=now)


def _return_to_payee(
    session: Session,
    payout: accounting.Payout,
    reported: GatewayTransfer,
    trigger: str,
    *,
    reason: str,
    fee_minor: int = 0,
    now: datetime,
) -> None:
    """Fail or reverse a payout, and return the amount to the payee's balance."""
    status = states.PAYOUT.target(payout.status, trigger)
    _update_status(session, payout, reported, status, reason=reason, fee_minor=-fee_minor, now=now)
    accounting.post_payout_returned(session, payout, fee_minor=fee_minor, now=now)
    notifications.notify_payout_returned(
        session, payout, reason=reason, times_returned=payout.times_returned + 1, now=now
    )
    alerts.resolve_payout_alerts(session, payout, status=status, now=now)
    exceptions.log_exception(
        session,
        reported,
        "reversed" if status == states.REVERSED else "failed",
        identifier="PAYOUT_EXCEPTION",
        title=texts.ALERT_PAYOUT_EXCEPTION_TITLE,
        now=now,
    )
    _refresh_batch_status(session, payout.batch_id, now=now)


# The specification keeps the transfer's status at a failure or reversal. Only the payout's status changes.
_UPDATE_STATUS = Statement(
    text(
        """
        WITH moved AS (
            UPDATE payout_transfer_intents SET status = :status, failure_reason = :reason, updated_at = :now,
                stalled_at = CASE WHEN :is_final THEN NULL ELSE stalled_at END
            WHERE id = :id
        )
        UPDATE payout_transfers SET updated_at = :now, fee_minor = fee_minor + :fee_minor,
            status = CASE WHEN :returned = 1 THEN status ELSE :status END,
            gateway_transfer_id = coalesce(gateway_transfer_id, :gateway_transfer_id),
            transfer_code = coalesce(transfer_code, :transfer_code),
            times_returned = times_returned + :returned,
            ask_at = CASE WHEN :is_final THEN NULL ELSE ask_at END
        WHERE reference = :reference
        """
    )
)


def _update_status(
    session: Session,
    payout: accounting.Payout,
    reported: GatewayTransfer,
    status: str,
    *,
    reason: str | None = None,
    fee_minor: int = 0,
    now: datetime,
) -> None:
    _UPDATE_STATUS.run(
        session,
        id=payout.id,
        reference=payout.reference,
        status=status,
        reason=reason,
        is_final=status in _FINAL_STATUSES,
        fee_minor=fee_minor,
        gateway_transfer_id=None if reported.id in ("", payout.reference) else reported.id,
        transfer_code=reported.transfer_code or None,
        returned=int(status in _RETURNED_STATUSES),
        now=now,
    )


# The second condition is evaluated only when no payout is in transit.
_SELECT_BATCH_TRIGGER = Statement(
    text(
        """
        SELECT CASE WHEN EXISTS (SELECT FROM payout_transfer_intents
                WHERE batch_id = :batch_id AND status IN ('pending', 'submitted', 'unknown')) THEN NULL
            WHEN EXISTS (SELECT FROM payout_transfer_intents
                WHERE batch_id = :batch_id AND status IN ('failed', 'reversed')) THEN 'fail-in-part'
            ELSE 'complete' END
        """
    )
)


def _refresh_batch_status(session: Session, batch_id: UUID, *, now: datetime) -> None:
    """Finish a locked batch once all payouts are final, or correct the status of a finished batch."""
    trigger = _SELECT_BATCH_TRIGGER.scalar(session, batch_id=batch_id)
    if trigger is None:
        return
    batch = session.get_one(PayoutBatch, batch_id, populate_existing=True)
    if not states.BATCH.allows(batch.status, trigger):
        return
    batch.finished_at = batch.finished_at or now
    change_status(batch, states.BATCH.target(batch.status, trigger), now=now)
    alerts.resolve_batch_alerts(
        session,
        alerts.RESOLVED_BY_BATCH_END,
        batch_id=batch_id,
        note=texts.RESOLVED_BATCH_FINAL,
        now=now,
    )
