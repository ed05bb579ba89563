"""Payouts settled by the gateway's word, which comes by its events and by asking, any number of times in any order.

Locked are the batch, then the payout with its transfer; the books' balances come last. What is told once more changes
nothing. An event that contradicts what is settled may be older than that, so it is a reason to ask; what the gateway
answers then counts, as long as nothing happened to the payout meanwhile.
"""

from datetime import datetime
from typing import Any

import structlog
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.alerts import kinds
from marketplace.infra.db import Statement
from marketplace.kernel import money
from marketplace.payouts import states
from marketplace.payouts.accounting import postings
from marketplace.payouts.models import ACCOUNT_NUMBER
from marketplace.payouts.transfers import alerts, exceptions, notifications
from marketplace.providers.gateway.payloads import GatewayTransfer

_log = structlog.get_logger(__name__)

_FINAL_STATUSES = (states.SUCCESS, states.FAILED, states.REVERSED)

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
    text(
        """
        SELECT i.id, i.batch_id, i.user_id, i.vendor_id, i.account_id, i.amount_minor, i.status,
            t.reference, t.gateway_transfer_id, t.fee_minor, t.attempts, t.times_returned, t.ask_at, t.sent_at,
            t.updated_at, a.account_number, a.replaced_at IS NOT NULL AS account_replaced
        FROM payout_transfers t JOIN payout_transfer_intents i ON i.id = t.intent_id
            JOIN payout_accounts a ON a.id = i.account_id
        WHERE t.reference = :reference FOR NO KEY UPDATE OF i, t
        """
    ),
    encrypted={"account_number": ACCOUNT_NUMBER},
)
# The transfer keeps its status when it fails or comes back, as specified: the payout carries it.
_UPDATE_STATUS = Statement(
    text(
        """
        WITH moved AS (
            UPDATE payout_transfer_intents SET status = :status, failure_reason = :reason, updated_at = :now,
                stalled_at = CASE WHEN :is_final THEN NULL ELSE stalled_at END
            WHERE id = :id
        )
        UPDATE payout_transfers SET updated_at = :now, fee_minor = fee_minor + :fee_minor,
            status = CASE WHEN :status = ANY(ARRAY['failed', 'reversed']) THEN status ELSE :status END,
            gateway_transfer_id = coalesce(gateway_transfer_id, :gateway_transfer_id),
            transfer_code = coalesce(transfer_code, :transfer_code),
            times_returned = times_returned + :returned,
            ask_at = CASE WHEN :is_final THEN NULL ELSE ask_at END
        WHERE reference = :reference
        """
    )
)
_HAS_PAYOUTS_IN_TRANSIT = Statement(
    text(
        """
        SELECT EXISTS (SELECT FROM payout_transfer_intents
            WHERE batch_id = :batch_id AND status IN ('pending', 'submitted', 'unknown')) AS found
        """
    )
)
_HAS_FAILED_PAYOUTS = Statement(
    text(
        """
        SELECT EXISTS (SELECT FROM payout_transfer_intents
            WHERE batch_id = :batch_id AND status IN ('failed', 'reversed')) AS found
        """
    )
)
_SELECT_BATCH_STATUS = Statement(text("SELECT status FROM payout_batches WHERE id = :batch_id"))
_UPDATE_BATCH_STATUS = Statement(
    text(
        """
        UPDATE payout_batches SET status = :status, finished_at = coalesce(finished_at, :now), updated_at = :now,
            revision = revision + 1
        WHERE id = :batch_id
        """
    )
)


class UnknownTransferError(Exception):
    """No payout has the reference."""


def lock_payout(session: Session, *, reference: str) -> dict[str, Any]:
    """Lock a payout with its transfer, its batch before it.

    :param reference: the transfer's
    :return: the payout and its transfer
    :raises UnknownTransferError: there is none
    """
    _LOCK_BATCH.run(session, reference=reference)
    row = _LOCK_PAYOUT.first(session, reference=reference)
    if row is None:
        raise UnknownTransferError(reference)
    return row


def contradicts_final_status(status: str, reported: GatewayTransfer) -> bool:
    """Tell whether an event says otherwise than what is settled, being older perhaps.

    That what had succeeded was reversed contradicts nothing; neither does what did not reach its account either way.

    :param status: the payout's
    """
    if reported.succeeded:
        return status in (states.FAILED, states.REVERSED)
    return reported.failed and status == states.SUCCESS


def apply_gateway_status(
    session: Session, row: dict[str, Any], reported: GatewayTransfer, *, now: datetime
) -> str:
    """Take in what the gateway says of a payout: book it, tell its payee, finish its batch.

    The caller sees to it that the word is no older than what it changes.

    :param row: the payout with its transfer, as ``lock_payout`` gives it
    :param reported: the gateway's word
    :param now: when
    :return: the payout's status
    """
    before: str = row["status"]
    if (reported.amount_minor, reported.currency) != (row["amount_minor"], money.CURRENCY):
        alerts.raise_payout_alert(session, kinds.TRANSFER_DIFFERS, row, reported=reported, now=now)
        return before
    if reported.awaits_otp and before not in _FINAL_STATUSES:
        facts = {"reference": row["reference"]}
        alerts.raise_batch_alert(
            session, kinds.TRANSFER_WANTS_OTP, batch_id=row["batch_id"], facts=facts, now=now
        )
    trigger = _choose_trigger(before, reported)
    if not states.PAYOUT.allows(before, trigger):
        return before
    status = states.PAYOUT.target(before, trigger)
    _update_status(session, row, reported, status, now=now)
    if status == states.SUCCESS:
        _apply_success(session, row, reported, now=now)
    elif status in (states.FAILED, states.REVERSED):
        _apply_return(session, row, reported, status, now=now)
    if status in _FINAL_STATUSES:
        refresh_batch_status(session, batch_id=row["batch_id"], now=now)
    _log.info("payout settled", payoutId=str(row["id"]), before=before, status=status)
    return status


def mark_rejected(
    session: Session,
    row: dict[str, Any],
    *,
    refusal_status: int | None,
    reason: str = notifications.ACCOUNT_NOT_PAYABLE,
    now: datetime,
) -> None:
    """Give a payout up that the gateway refused to send: nothing of it ever left.

    :param row: the payout with its transfer, as ``lock_payout`` gives it
    :param refusal_status: the HTTP status of the refusal; none where there is no such account, or nobody refused it
    :param reason: what its payee is told, one of ``notifications``
    :param now: when
    """
    _log.warning("payout given up", payoutId=str(row["id"]), refusedWith=refusal_status)
    # The gateway has no number for what it refused: the reference stands for it.
    reported = GatewayTransfer(
        row["reference"], row["reference"], row["amount_minor"], money.CURRENCY, status="rejected"
    )
    status = states.PAYOUT.target(row["status"], "fail")
    _update_status(session, row, reported, status, reason=reason, now=now)
    _apply_return(session, row, reported, status, reason=reason, now=now)
    refresh_batch_status(session, batch_id=row["batch_id"], now=now)


def reverse_success(session: Session, row: dict[str, Any], *, fee_minor: int, now: datetime) -> None:
    """Book that a payout was not paid which had been settled as paid, as officers found out.

    :param row: the payout with its transfer, as ``lock_payout`` gives it; it is a success
    :param fee_minor: kobo of what the gateway had kept for it that it holds again, too
    :param now: when
    """
    reported = GatewayTransfer(
        row["gateway_transfer_id"] or row["reference"],
        row["reference"],
        row["amount_minor"],
        money.CURRENCY,
        status="reversed",
    )
    status = states.PAYOUT.target(row["status"], "reverse")
    _log.warning("payout taken back", payoutId=str(row["id"]))
    _update_status(
        session, row, reported, status, reason=notifications.NEVER_MADE, returned_fee_minor=fee_minor, now=now
    )
    _apply_return(
        session, row, reported, status, reason=notifications.NEVER_MADE, returned_fee_minor=fee_minor, now=now
    )
    refresh_batch_status(session, batch_id=row["batch_id"], now=now)


def _choose_trigger(status: str, reported: GatewayTransfer) -> str:
    """Tell what the gateway's word means for a payout of a status."""
    if reported.succeeded:
        return "turn-out-sent" if status in (states.FAILED, states.REVERSED) else "succeed"
    if reported.reversed or (reported.failed and status == states.SUCCESS):
        return "reverse"
    return "fail" if reported.failed else "submit"


def _update_status(
    session: Session,
    row: dict[str, Any],
    reported: GatewayTransfer,
    status: str,
    *,
    reason: str | None = None,
    returned_fee_minor: int = 0,
    now: datetime,
) -> None:
    if status in (states.FAILED, states.REVERSED):
        reason = reason or _default_reason(status)
    _UPDATE_STATUS.run(
        session,
        id=row["id"],
        reference=row["reference"],
        status=status,
        reason=reason,
        is_final=status in _FINAL_STATUSES,
        fee_minor=reported.fee_minor if status == states.SUCCESS else -returned_fee_minor,
        gateway_transfer_id=None if reported.id in ("", row["reference"]) else reported.id,
        transfer_code=reported.transfer_code or None,
        returned=int(status in (states.FAILED, states.REVERSED)),
        now=now,
    )


def _default_reason(status: str) -> str:
    return notifications.REVERSED if status == states.REVERSED else notifications.FAILED


def _apply_success(
    session: Session, row: dict[str, Any], reported: GatewayTransfer, *, now: datetime
) -> None:
    if row["status"] in (states.FAILED, states.REVERSED):
        owed_minor = postings.post_payout_sent_after_all(session, row, fee_minor=reported.fee_minor, now=now)
        notifications.notify_payout_sent_after_all(session, row, owed_minor=owed_minor, now=now)
        alerts.raise_payout_alert(session, kinds.TRANSFER_SENT_AFTER_ALL, row, reported=reported, now=now)
    else:
        postings.post_payout_sent(session, row, fee_minor=reported.fee_minor, now=now)
        notifications.notify_payout_sent(session, row, now=now)
    alerts.resolve_payout_alerts(session, row, status=states.SUCCESS, now=now)


def _apply_return(
    session: Session,
    row: dict[str, Any],
    reported: GatewayTransfer,
    status: str,
    *,
    reason: str | None = None,
    returned_fee_minor: int = 0,
    now: datetime,
) -> None:
    if row["status"] == states.SUCCESS:
        postings.post_payout_reversed(session, row, fee_minor=returned_fee_minor, now=now)
    else:
        postings.post_payout_returned(session, row, now=now)
    notifications.notify_payout_returned(
        session,
        row,
        reason=reason or _default_reason(status),
        times_returned=row["times_returned"] + 1,
        now=now,
    )
    alerts.resolve_payout_alerts(session, row, status=status, now=now)
    exceptions.log_failed_payout(
        session, transfer=reported, outcome="reversed" if status == states.REVERSED else "failed", now=now
    )


def refresh_batch_status(session: Session, *, batch_id: Any, now: datetime) -> None:
    """End a batch all of whose payouts are settled, or judge one anew that had ended.

    :param batch_id: its row is locked
    :param now: when
    """
    status = _SELECT_BATCH_STATUS.one(session, batch_id=batch_id)["status"]
    if _HAS_PAYOUTS_IN_TRANSIT.one(session, batch_id=batch_id)["found"]:
        return
    trigger = "fail-in-part" if _HAS_FAILED_PAYOUTS.one(session, batch_id=batch_id)["found"] else "complete"
    if not states.BATCH.allows(status, trigger):
        return
    _UPDATE_BATCH_STATUS.run(session, batch_id=batch_id, status=states.BATCH.target(status, trigger), now=now)
    alerts.resolve_finished_batch_alerts(session, batch_id=batch_id, now=now)
