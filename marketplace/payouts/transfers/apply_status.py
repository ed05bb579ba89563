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
from marketplace.payouts.transfers import alerts, exceptions, notifications
from marketplace.providers.gateway.payloads import GatewayTransfer

_log = structlog.get_logger(__name__)

_OVER = (states.SUCCESS, states.FAILED, states.REVERSED)

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
_LOCK = Statement(
    text(
        """
        SELECT i.id, i.batch_id, i.user_id, i.vendor_id, i.account_id, i.amount_minor, i.status,
            t.reference, t.gateway_transfer_id, t.fee_minor, t.attempts, t.times_returned, t.ask_at, t.sent_at,
            t.updated_at, a.account_number, a.replaced_at IS NOT NULL AS account_replaced
        FROM payout_transfers t JOIN payout_transfer_intents i ON i.id = t.intent_id
            JOIN payout_accounts a ON a.id = i.account_id
        WHERE t.reference = :reference FOR NO KEY UPDATE OF i, t
        """
    )
)
# The transfer keeps its status when it fails or comes back, as specified: the payout carries it.
_MOVE = Statement(
    text(
        """
        WITH moved AS (
            UPDATE payout_transfer_intents SET status = :status, failure_reason = :reason, updated_at = :now,
                stalled_at = CASE WHEN :over THEN NULL ELSE stalled_at END
            WHERE id = :id
        )
        UPDATE payout_transfers SET updated_at = :now, fee_minor = fee_minor + :fee_minor,
            status = CASE WHEN :status = ANY(ARRAY['failed', 'reversed']) THEN status ELSE :status END,
            gateway_transfer_id = coalesce(gateway_transfer_id, :gateway_transfer_id),
            transfer_code = coalesce(transfer_code, :transfer_code),
            times_returned = times_returned + :returned,
            ask_at = CASE WHEN :over THEN NULL ELSE ask_at END
        WHERE reference = :reference
        """
    )
)
_LEFT = Statement(
    text(
        """
        SELECT EXISTS (SELECT FROM payout_transfer_intents
            WHERE batch_id = :batch_id AND status IN ('pending', 'submitted', 'unknown')) AS found
        """
    )
)
_FAILURES = Statement(
    text(
        """
        SELECT EXISTS (SELECT FROM payout_transfer_intents
            WHERE batch_id = :batch_id AND status IN ('failed', 'reversed')) AS found
        """
    )
)
_STATUS_OF_BATCH = Statement(text("SELECT status FROM payout_batches WHERE id = :batch_id"))
_MOVE_BATCH = Statement(
    text(
        """
        UPDATE payout_batches SET status = :status, finished_at = coalesce(finished_at, :now), updated_at = :now,
            revision = revision + 1
        WHERE id = :batch_id
        """
    )
)


class NotOursError(Exception):
    """No payout has the reference."""


def lock(session: Session, *, reference: str) -> dict[str, Any]:
    """Lock a payout with its transfer, its batch before it.

    :param reference: the transfer's
    :return: the payout and its transfer
    :raises NotOursError: there is none
    """
    _LOCK_BATCH.run(session, reference=reference)
    row = _LOCK.first(session, reference=reference)
    if row is None:
        raise NotOursError(reference)
    return row


def contradicts(status: str, told: GatewayTransfer) -> bool:
    """Tell whether an event says otherwise than what is settled, being older perhaps.

    That what had succeeded was reversed contradicts nothing; neither does what did not reach its account either way.

    :param status: the payout's
    """
    if told.succeeded:
        return status in (states.FAILED, states.REVERSED)
    return told.failed and status == states.SUCCESS


def settle(session: Session, row: dict[str, Any], told: GatewayTransfer, *, now: datetime) -> str:
    """Take in what the gateway says of a payout: book it, tell its payee, finish its batch.

    The caller sees to it that the word is no older than what it changes.

    :param row: the payout with its transfer, as ``lock`` gives it
    :param told: the gateway's word
    :param now: when
    :return: the payout's status
    """
    before: str = row["status"]
    if (told.amount_minor, told.currency) != (row["amount_minor"], money.CURRENCY):
        alerts.raise_of_payout(session, kinds.TRANSFER_DIFFERS, row, told=told, now=now)
        return before
    if told.wants_otp and before not in _OVER:
        facts = {"reference": row["reference"]}
        alerts.raise_of_batch(
            session, kinds.TRANSFER_WANTS_OTP, batch_id=row["batch_id"], facts=facts, now=now
        )
    trigger = _trigger_of(before, told)
    if not states.INTENT.allows(before, trigger):
        return before
    status = states.INTENT.target(before, trigger)
    _move(session, row, told, status, now=now)
    if status == states.SUCCESS:
        _succeed(session, row, told, now=now)
    elif status in (states.FAILED, states.REVERSED):
        _come_back(session, row, told, status, now=now)
    if status in _OVER:
        finish_batch(session, batch_id=row["batch_id"], now=now)
    _log.info("payout settled", payoutId=str(row["id"]), before=before, status=status)
    return status


def refuse(
    session: Session,
    row: dict[str, Any],
    *,
    refused_with: int | None,
    reason: str = notifications.REFUSED,
    now: datetime,
) -> None:
    """Give a payout up that the gateway refused to send: nothing of it ever left.

    :param row: the payout with its transfer, as ``lock`` gives it
    :param refused_with: the HTTP status of the refusal; none where there is no such account, or nobody refused it
    :param reason: what its payee is told, one of ``news``
    :param now: when
    """
    _log.warning("payout given up", payoutId=str(row["id"]), refusedWith=refused_with)
    # The gateway has no number for what it refused: the reference stands for it.
    told = GatewayTransfer(
        row["reference"], row["reference"], row["amount_minor"], money.CURRENCY, status="rejected"
    )
    status = states.INTENT.target(row["status"], "fail")
    _move(session, row, told, status, reason=reason, now=now)
    _come_back(session, row, told, status, reason=reason, now=now)
    finish_batch(session, batch_id=row["batch_id"], now=now)


def take_back(session: Session, row: dict[str, Any], *, fee_minor: int, now: datetime) -> None:
    """Book that a payout was not paid which had been settled as paid, as officers found out.

    :param row: the payout with its transfer, as ``lock`` gives it; it is a success
    :param fee_minor: kobo of what the gateway had kept for it that it holds again, too
    :param now: when
    """
    told = GatewayTransfer(
        row["gateway_transfer_id"] or row["reference"],
        row["reference"],
        row["amount_minor"],
        money.CURRENCY,
        status="reversed",
    )
    status = states.INTENT.target(row["status"], "reverse")
    _log.warning("payout taken back", payoutId=str(row["id"]))
    _move(session, row, told, status, reason=notifications.NOT_PAID, fee_back_minor=fee_minor, now=now)
    _come_back(session, row, told, status, reason=notifications.NOT_PAID, fee_back_minor=fee_minor, now=now)
    finish_batch(session, batch_id=row["batch_id"], now=now)


def _trigger_of(status: str, told: GatewayTransfer) -> str:
    """Tell what the gateway's word means for a payout of a status."""
    if told.succeeded:
        return "turn-out-sent" if status in (states.FAILED, states.REVERSED) else "succeed"
    if told.reversed or (told.failed and status == states.SUCCESS):
        return "reverse"
    return "fail" if told.failed else "submit"


def _move(
    session: Session,
    row: dict[str, Any],
    told: GatewayTransfer,
    status: str,
    *,
    reason: str | None = None,
    fee_back_minor: int = 0,
    now: datetime,
) -> None:
    if status in (states.FAILED, states.REVERSED):
        reason = reason or _reason_of(status)
    _MOVE.run(
        session,
        id=row["id"],
        reference=row["reference"],
        status=status,
        reason=reason,
        over=status in _OVER,
        fee_minor=told.fee_minor if status == states.SUCCESS else -fee_back_minor,
        gateway_transfer_id=None if told.id in ("", row["reference"]) else told.id,
        transfer_code=told.transfer_code or None,
        returned=int(status in (states.FAILED, states.REVERSED)),
        now=now,
    )


def _reason_of(status: str) -> str:
    return notifications.REVERSED if status == states.REVERSED else notifications.FAILED


def _succeed(session: Session, row: dict[str, Any], told: GatewayTransfer, *, now: datetime) -> None:
    if row["status"] in (states.FAILED, states.REVERSED):
        owed_minor = postings.book_sent_after_all(session, row, fee_minor=told.fee_minor, now=now)
        notifications.sent_after_all(session, row, owed_minor=owed_minor, now=now)
        alerts.raise_of_payout(session, kinds.TRANSFER_SENT_AFTER_ALL, row, told=told, now=now)
    else:
        postings.book_sent(session, row, fee_minor=told.fee_minor, now=now)
        notifications.sent(session, row, now=now)
    alerts.settled(session, row, status=states.SUCCESS, now=now)


def _come_back(
    session: Session,
    row: dict[str, Any],
    told: GatewayTransfer,
    status: str,
    *,
    reason: str | None = None,
    fee_back_minor: int = 0,
    now: datetime,
) -> None:
    if row["status"] == states.SUCCESS:
        postings.book_reversed(session, row, fee_minor=fee_back_minor, now=now)
    else:
        postings.book_returned(session, row, now=now)
    notifications.came_back(
        session, row, reason=reason or _reason_of(status), number=row["times_returned"] + 1, now=now
    )
    alerts.settled(session, row, status=status, now=now)
    exceptions.log_exception(
        session, told=told, outcome="reversed" if status == states.REVERSED else "failed", now=now
    )


def finish_batch(session: Session, *, batch_id: Any, now: datetime) -> None:
    """End a batch all of whose payouts are settled, or judge one anew that had ended.

    :param batch_id: its row is locked
    :param now: when
    """
    status = _STATUS_OF_BATCH.one(session, batch_id=batch_id)["status"]
    if _LEFT.one(session, batch_id=batch_id)["found"]:
        return
    trigger = "fail-in-part" if _FAILURES.one(session, batch_id=batch_id)["found"] else "complete"
    if not states.BATCH.allows(status, trigger):
        return
    _MOVE_BATCH.run(session, batch_id=batch_id, status=states.BATCH.target(status, trigger), now=now)
    alerts.batch_over(session, batch_id=batch_id, now=now)
