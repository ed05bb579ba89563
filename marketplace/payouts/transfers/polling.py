"""Payouts that nothing was heard of: the gateway is asked by their references, for answers and events get lost.

It is asked five minutes after a call began, after an hour, and then each day for five days. What it does not know was
never sent, and is sent then, under the same reference: should the first call still arrive, the two are one transfer.
What may not be sent any more, as its payee is on hold or has another bank account, stays unknown and is asked about.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import structlog
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.alerts import kinds
from marketplace.infra.db import Database, Statement
from marketplace.infra.polling import ensure_unchanged, poll_each
from marketplace.kernel.errors import ConflictError, NotFoundError, ProviderUnavailableError
from marketplace.payments import gateway_alerts
from marketplace.payouts import states
from marketplace.payouts.models import ACCOUNT_NUMBER
from marketplace.payouts.payees.holds import PAYOUTS_HALTED, WaitingPayout, send_blockers
from marketplace.payouts.transfers import alerts, apply_status, submit
from marketplace.payouts.transfers.submit import LeasedPayout, LeasedPayouts
from marketplace.platform.halts import are_payouts_halted
from marketplace.providers.gateway.errors import GatewayKeyRefusedError
from marketplace.providers.gateway.payloads import GatewayTransfer
from marketplace.providers.gateway.transfers import TransferSender

_log = structlog.get_logger(__name__)

# After the call began; ``attempts`` tells how many are behind.
POLL_DELAYS = (
    submit.FIRST_POLL_DELAY,
    timedelta(hours=1),
    *(timedelta(days=day) for day in (1, 2, 3, 4, 5)),
)
# What is behind its schedule, since nobody swept, is not asked about in quick succession.
_MINIMUM_PAUSE = timedelta(minutes=5)
_BATCH_SIZE = 200
# What tells that something happened to a payout.
_CHANGE_MARKERS = ("status", "attempts", "times_returned", "updated_at")
_IN_TRANSIT_STATUSES = (states.PENDING, states.SUBMITTED, states.UNKNOWN)

_SELECT_TRANSFERS = """
    SELECT t.reference, t.attempts, t.times_returned, t.updated_at, i.status, i.batch_id, i.amount_minor,
        i.account_id, a.recipient_code, a.account_name,
        a.account_number, a.bank_code
    FROM payout_transfers t JOIN payout_transfer_intents i ON i.id = t.intent_id
        JOIN payout_accounts a ON a.id = i.account_id
"""
_ENCRYPTED = {"account_number": ACCOUNT_NUMBER}
_SELECT_TRANSFER = Statement(
    text(f"{_SELECT_TRANSFERS} WHERE t.reference = :reference"), encrypted=_ENCRYPTED
)
_SELECT_DUE_TRANSFERS = Statement(
    text(f"{_SELECT_TRANSFERS} WHERE t.ask_at <= :now ORDER BY t.ask_at, t.id LIMIT :limit"),
    encrypted=_ENCRYPTED,
)
# Nobody else will send what is left of them: their event was given up, or found payouts halted.
_LOCK_UNQUEUED_BATCHES = Statement(
    text(
        """
        SELECT b.id FROM payout_batches b
        WHERE b.status = 'dispatching' AND EXISTS (
                SELECT FROM payout_transfer_intents i JOIN payout_transfers t ON t.intent_id = i.id
                WHERE i.batch_id = b.id AND i.status = 'pending' AND t.sent_at IS NULL)
            AND NOT EXISTS (
                SELECT FROM outbox_events e WHERE e.topic = :topic AND e.done_at IS NULL AND e.failed_at IS NULL
                    AND e.payload ->> 'batchId' = CAST(b.id AS text))
        ORDER BY b.id LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED
        """
    )
)
_UPDATE_POLL_SCHEDULE = Statement(
    text(
        """
        UPDATE payout_transfers SET attempts = :attempts, ask_at = :ask_at, updated_at = :now
        WHERE reference = :reference
        """
    )
)
_MARK_UNKNOWN = Statement(
    text(
        """
        WITH lost AS (
            UPDATE payout_transfer_intents SET status = :status, updated_at = :now WHERE id = :id
        )
        UPDATE payout_transfers SET status = :status, updated_at = :now WHERE reference = :reference
        """
    )
)
_MARK_RESUBMITTED = Statement(
    text("UPDATE payout_transfers SET sent_at = :now, updated_at = :now WHERE reference = :reference")
)
_SELECT_REFERENCE = Statement(
    text(
        """
        SELECT t.reference, t.sent_at FROM payout_transfer_intents i
            LEFT JOIN payout_transfers t ON t.intent_id = i.id
        WHERE i.id = :payout_id
        """
    )
)
_RESTART_POLL_SCHEDULE = Statement(
    text(
        """
        UPDATE payout_transfers SET attempts = 0, ask_at = :now, updated_at = :now WHERE reference = :reference
        """
    )
)


class PayoutNotSentError(ConflictError):
    """The payout has not been sent, so the gateway has no status for it."""

    reason = "payout-not-sent"


@dataclass
class TransferPollingResult:
    """What a sweep did: payouts asked about, those settled, those sent again, and batches that were handed on."""

    polled: int = 0
    finalized: int = 0
    resubmitted: int = 0
    batches_enqueued: int = 0
    gateway_unreachable: bool = False


def poll_transfers(database: Database, gateway: TransferSender, *, now: datetime) -> TransferPollingResult:
    """Ask the gateway about payouts whose time has come, at most 200 in a sweep.

    Batches that were dispatched, and whose sending nobody is at, are handed on again.

    :param now: the time
    :return: what was done
    """
    result = TransferPollingResult()
    result.batches_enqueued = database.in_transaction(_enqueue_unqueued_batches, now=now)
    with database.reading() as session:
        due = _SELECT_DUE_TRANSFERS.all(session, now=now, limit=_BATCH_SIZE)

    def apply(row: dict[str, Any], reported: GatewayTransfer | None) -> None:
        status = database.in_transaction(record_status, row, reported, now=now)
        result.finalized += status not in _IN_TRANSIT_STATUSES
        # The gateway does not know the transfer: it was never sent.
        if reported is None and status == states.UNKNOWN:
            result.resubmitted += _resubmit(database, gateway, row, now=now)

    run = poll_each(
        due,
        fetch=lambda row: gateway.fetch_transfer(row["reference"]),
        apply=apply,
        on_unavailable=lambda row, error: database.in_transaction(
            _record_gateway_unreachable, row, error, now=now
        ),
        log_field="reference",
    )
    result.polled, result.gateway_unreachable = run.polled, run.is_provider_down
    return result


def find_transfer(session: Session, *, reference: str) -> dict[str, Any]:
    """Give what is asked about a payout with, and how it stands."""
    return _SELECT_TRANSFER.one(session, reference=reference)


def record_status(
    session: Session, row: dict[str, Any], reported: GatewayTransfer | None, *, now: datetime
) -> str:
    """Take in what the gateway answered about a payout, and say when it is asked again.

    :param row: as it was found, before the gateway was asked
    :param reported: its answer; none if it does not know the reference
    :param now: when
    :return: the payout's status
    :raises ChangedWhilePolledError: the payout changed since it was read
    """
    locked = apply_status.lock_payout(session, reference=row["reference"])
    ensure_unchanged(locked, row, _CHANGE_MARKERS)
    status: str = locked["status"]
    if reported is not None:
        status = apply_status.apply_gateway_status(session, locked, reported, now=now)
    elif states.PAYOUT.allows(status, "lose"):
        status = states.PAYOUT.target(status, "lose")
        _MARK_UNKNOWN.run(session, id=locked["id"], reference=row["reference"], status=status, now=now)
    if status in _IN_TRANSIT_STATUSES:
        _schedule_next_poll(session, locked, known_at_gateway=reported is not None, now=now)
    else:
        # What is settled is asked about when an officer wants it, or an event contradicts it: once.
        attempts = locked["attempts"] + 1
        _UPDATE_POLL_SCHEDULE.run(
            session, reference=row["reference"], attempts=attempts, ask_at=None, now=now
        )
    return status


def restart_polling(session: Session, *, payout_id: UUID, now: datetime) -> dict[str, Any]:
    """Have the gateway asked about a payout again, from the beginning of the schedule.

    :param payout_id: the payout's
    :param now: when
    :return: its id, status and reference
    :raises NotFoundError: there is no such payout
    :raises PayoutNotSentError: its call has not begun: there is nothing to ask about
    """
    transfer = _SELECT_REFERENCE.first(session, payout_id=payout_id)
    if transfer is None:
        raise NotFoundError("There is no such payout.")
    if transfer["sent_at"] is None:
        raise PayoutNotSentError("The payout was not sent yet: there is nothing to ask about.")
    row = apply_status.lock_payout(session, reference=transfer["reference"])
    _RESTART_POLL_SCHEDULE.run(session, reference=row["reference"], now=now)
    return {"id": payout_id, "status": row["status"], "reference": row["reference"]}


def _enqueue_unqueued_batches(session: Session, *, now: datetime) -> int:
    if are_payouts_halted(session):
        return 0
    # Of some all that is left may be kept from being sent, for as long as that takes.
    batch_ids = [
        row["id"] for row in _LOCK_UNQUEUED_BATCHES.all(session, topic=submit.SEND_TOPIC, limit=_BATCH_SIZE)
    ]
    ready = [
        batch_id
        for batch_id in batch_ids
        if submit.has_payouts_to_send_or_void(session, batch_id=batch_id, now=now)
    ]
    for batch_id in ready:
        submit.enqueue_submission(session, batch_id=batch_id, due_at=now)
    return len(ready)


def _resubmit(database: Database, gateway: TransferSender, row: dict[str, Any], *, now: datetime) -> bool:
    """Send a payout that the gateway does not know, unless something keeps it or it was asked for the last time."""
    if not database.in_transaction(_lease_for_resubmission, row["reference"], now=now):
        return False
    payout = LeasedPayout(
        reference=row["reference"],
        **{name: row[name] for name in ("amount_minor", "account_id", "recipient_code")},
        **{name: row[name] for name in ("account_name", "account_number", "bank_code")},
    )
    result = submit.submit_payouts(gateway, [payout])
    # Its answer may be lost again; whatever was certainly not sent stays unknown until it is asked about next.
    result.unsent = []
    leased = LeasedPayouts(row["batch_id"], [payout])
    database.in_transaction(_record_resubmission, leased=leased, result=result, now=now)
    return bool(result.sent)


def _lease_for_resubmission(session: Session, reference: str, *, now: datetime) -> bool:
    row = apply_status.lock_payout(session, reference=reference)
    if row["ask_at"] is None or row["status"] != states.UNKNOWN:
        return False
    blockers = _list_send_blockers(session, row, now=now)
    if blockers:
        _log.info("payout not sent again", reference=reference, reasons=blockers)
        return False
    _MARK_RESUBMITTED.run(session, reference=reference, now=now)
    return True


def _list_send_blockers(session: Session, row: dict[str, Any], *, now: datetime) -> list[str]:
    """Tell what keeps a payout, which is locked, from being sent."""
    waiting = WaitingPayout(row["id"], row["user_id"], row["vendor_id"], row["account_replaced"])
    reasons = send_blockers(session, payouts=[waiting], now=now).get(row["id"], ())
    return [*reasons, *([PAYOUTS_HALTED] if are_payouts_halted(session) else [])]


def _record_resubmission(
    session: Session, *, leased: LeasedPayouts, result: submit.BulkTransferResult, now: datetime
) -> None:
    apply_status.lock_payout(session, reference=leased.claimed[0].reference)
    submit.record_results(session, result=result, now=now)
    submit.raise_alerts(session, leased=leased, result=result, now=now)


def _schedule_next_poll(
    session: Session, row: dict[str, Any], *, known_at_gateway: bool, now: datetime
) -> None:
    """Say when the gateway is asked next about a payout, or raise that it was asked for the last time."""
    attempts = row["attempts"] + 1
    ask_at = None
    if attempts < len(POLL_DELAYS):
        ask_at = max(row["sent_at"] + POLL_DELAYS[attempts], now + _MINIMUM_PAUSE)
    else:
        facts = {
            "knownAtGateway": known_at_gateway,
            "keptFromSending": [] if known_at_gateway else _list_send_blockers(session, row, now=now),
        }
        alerts.raise_payout_alert(session, kinds.TRANSFER_UNSETTLED, row, facts=facts, now=now)
    _UPDATE_POLL_SCHEDULE.run(session, reference=row["reference"], attempts=attempts, ask_at=ask_at, now=now)


def _record_gateway_unreachable(
    session: Session, row: dict[str, Any], error: ProviderUnavailableError, *, now: datetime
) -> None:
    """Note that a payout is unknown of which we can't even ask; it stays due."""
    locked = apply_status.lock_payout(session, reference=row["reference"])
    if locked["status"] == states.PENDING and all(locked[name] == row[name] for name in _CHANGE_MARKERS):
        status = states.PAYOUT.target(locked["status"], "lose")
        _MARK_UNKNOWN.run(session, id=locked["id"], reference=row["reference"], status=status, now=now)
    if isinstance(error, GatewayKeyRefusedError):
        gateway_alerts.raise_gateway_key_refused_alert(session, status=error.refused_status, now=now)
