"""Poll the gateway for transfers without a final status. Events and responses can be lost.

A transfer is polled five minutes after the start of the call, after an hour, and then daily for five days. A transfer
unknown to the gateway was never sent, so it is resubmitted under the same reference. The gateway merges calls with the
same reference, in case the first call still arrives. Payouts that may not be sent now are polled, but not resubmitted.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any
from uuid import UUID

import structlog
from sqlalchemy import text, update
from sqlalchemy.orm import Session

from marketplace.infra.batches import ensure_unchanged, poll_each
from marketplace.infra.db import Database
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.errors import ConflictError, ProviderUnavailableError
from marketplace.payments import gateway_alerts
from marketplace.payouts import states
from marketplace.payouts.accounting import Payout
from marketplace.payouts.models import PayoutTransfer
from marketplace.payouts.payees.holds import PAYOUTS_HALTED, send_blockers
from marketplace.payouts.transfers import alerts, apply_status, submit
from marketplace.platform.halts import are_payouts_halted
from marketplace.providers.gateway.client import GatewayKeyRefusedError
from marketplace.providers.gateway.payloads import GatewayTransfer
from marketplace.providers.gateway.transfers import TransferGateway

_log = structlog.get_logger(__name__)

# Since the start of the call; ``attempts`` counts the polls.
POLL_DELAYS = (
    submit.FIRST_POLL_DELAY,
    timedelta(hours=1),
    *(timedelta(days=day) for day in (1, 2, 3, 4, 5)),
)
# Prevents polls in quick succession when sweeps resume after an outage.
_MINIMUM_PAUSE = timedelta(minutes=5)
_BATCH_SIZE = 200
# Every change of a payout changes at least one of these columns.
_CHANGE_MARKERS = ("status", "attempts", "times_returned", "updated_at")
_IN_TRANSIT_STATUSES = (states.PENDING, states.SUBMITTED, states.UNKNOWN)


class PayoutNotSentError(ConflictError):
    """The payout has not been sent, so the gateway has no status for it."""

    reason = "payout-not-sent"


@dataclass
class TransferPollingResult:
    """Counts of a sweep: polled, finalized and resubmitted payouts, and enqueued batches."""

    polled: int = 0
    finalized: int = 0
    resubmitted: int = 0
    batches_enqueued: int = 0
    gateway_unreachable: bool = False


_SELECT_DUE_PAYOUTS = Statement(
    text(f"{apply_status.SELECT_PAYOUTS} WHERE t.ask_at <= :now ORDER BY t.ask_at, t.id LIMIT :limit"),
    row=Payout,
    encrypted=apply_status.ENCRYPTED_COLUMNS,
)


def poll_transfers(database: Database, gateway: TransferGateway, *, now: datetime) -> TransferPollingResult:
    """Poll the gateway for at most 200 due payouts, and resume dispatched batches without a queued submission."""
    result = TransferPollingResult()
    result.batches_enqueued = database.in_transaction(_enqueue_unqueued_batches, now=now)
    with database.reading() as session:
        due = _SELECT_DUE_PAYOUTS.all(session, now=now, limit=_BATCH_SIZE)

    def apply(payout: Payout, reported: GatewayTransfer | None) -> None:
        status = database.in_transaction(record_status, payout, reported, now=now)
        result.finalized += status not in _IN_TRANSIT_STATUSES
        # A transfer unknown to the gateway was never sent.
        if reported is None and status == states.UNKNOWN:
            result.resubmitted += _resubmit(database, gateway, payout, now=now)

    run = poll_each(
        due,
        fetch=lambda payout: gateway.fetch_transfer(payout.reference),
        apply=apply,
        on_unavailable=lambda payout, error: database.in_transaction(
            _record_gateway_unreachable, payout, error, now=now
        ),
        log_field="reference",
    )
    result.polled, result.gateway_unreachable = run.polled, run.is_provider_down
    return result


_SELECT_PAYOUT = Statement(
    text(f"{apply_status.SELECT_PAYOUTS} WHERE t.reference = :reference"),
    row=Payout,
    encrypted=apply_status.ENCRYPTED_COLUMNS,
)


def find_transfer(session: Session, *, reference: str) -> Payout:
    """Find the payout to poll by the transfer's reference."""
    return _SELECT_PAYOUT.one(session, reference=reference)


def record_status(
    session: Session, polled: Payout, reported: GatewayTransfer | None, *, now: datetime
) -> str:
    """Apply the polled status of a payout, and schedule the next poll.

    :param polled: the payout as read before the poll
    :param reported: the gateway's transfer, if the gateway knows the reference
    :return: the payout's status
    :raises ChangedWhilePolledError: the payout changed during the poll
    """
    payout = apply_status.lock_payout(session, reference=polled.reference)
    ensure_unchanged(payout, polled, _CHANGE_MARKERS)
    status = payout.status
    if reported is not None:
        status = apply_status.apply_gateway_status(session, payout, reported, now=now)
    elif states.PAYOUT.allows(status, "lose"):
        status = _mark_unknown(session, payout, now=now)
    if status in _IN_TRANSIT_STATUSES:
        _schedule_next_poll(session, payout, known_at_gateway=reported is not None, now=now)
    else:
        # A final status is polled again on an officer's request or after a contradicting event.
        _update_transfer(session, payout, attempts=payout.attempts + 1, ask_at=None, updated_at=now)
    return status


def restart_polling(session: Session, *, payout_id: UUID, now: datetime) -> Payout:
    """Restart the polling of a payout from the beginning of the schedule.

    :raises NotFoundError: the payout does not exist
    :raises PayoutNotSentError: the payout was not sent
    """
    _, reference = apply_status.find_reference(session, payout_id=payout_id)
    payout = None if reference is None else apply_status.lock_payout(session, reference=reference)
    if payout is None or payout.sent_at is None:
        raise PayoutNotSentError("The payout has not been sent, so you cannot poll the gateway for it yet.")
    _update_transfer(session, payout, attempts=0, ask_at=now, updated_at=now)
    return payout


# These batches have no queued submission: the event failed for good, or a halt or holds blocked all remaining payouts.
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


def _enqueue_unqueued_batches(session: Session, *, now: datetime) -> int:
    if are_payouts_halted(session):
        return 0
    # All pending payouts of a batch may be on hold.
    ready = [
        batch_id
        for batch_id in _LOCK_UNQUEUED_BATCHES.scalars(session, topic=submit.SEND_TOPIC, limit=_BATCH_SIZE)
        if submit.has_payouts_to_send_or_void(session, batch_id=batch_id, now=now)
    ]
    for batch_id in ready:
        submit.enqueue_submission(session, batch_id=batch_id, due_at=now)
    return len(ready)


def _resubmit(database: Database, gateway: TransferGateway, polled: Payout, *, now: datetime) -> bool:
    """Resubmit a payout unknown to the gateway, unless the payout is blocked or polling has ended."""
    if not database.in_transaction(_lease_for_resubmission, polled.reference, now=now):
        return False
    result = submit.submit_payouts(gateway, [polled])
    # The response may be lost again, so unsent payouts stay unknown until the next poll.
    result.unsent = []
    database.in_transaction(_record_resubmission, polled, result, now=now)
    return bool(result.sent)


def _lease_for_resubmission(session: Session, reference: str, *, now: datetime) -> bool:
    payout = apply_status.lock_payout(session, reference=reference)
    if payout.ask_at is None or payout.status != states.UNKNOWN:
        return False
    blockers = _list_send_blockers(session, payout, now=now)
    if blockers:
        _log.info("payout not resubmitted", reference=reference, reasons=blockers)
        return False
    _update_transfer(session, payout, sent_at=now, updated_at=now)
    return True


def _list_send_blockers(session: Session, payout: Payout, *, now: datetime) -> list[str]:
    """List the reasons that block a locked payout."""
    reasons = send_blockers(session, payouts=[payout], now=now).get(payout.id, ())
    return [*reasons, *([PAYOUTS_HALTED] if are_payouts_halted(session) else [])]


def _record_resubmission(
    session: Session, polled: Payout, result: submit.BulkTransferResult, *, now: datetime
) -> None:
    apply_status.lock_payout(session, reference=polled.reference)
    submit.record_results(session, result=result, now=now)
    submit.raise_alerts(
        session, leased=submit.LeasedPayouts(polled.batch_id, [polled]), result=result, now=now
    )


def _schedule_next_poll(session: Session, payout: Payout, *, known_at_gateway: bool, now: datetime) -> None:
    """Schedule a payout's next poll, or raise an alert after the last poll."""
    attempts = payout.attempts + 1
    ask_at = None
    if attempts < len(POLL_DELAYS):
        ask_at = max((payout.sent_at or now) + POLL_DELAYS[attempts], now + _MINIMUM_PAUSE)
    else:
        facts = {
            "knownAtGateway": known_at_gateway,
            "keptFromSending": [] if known_at_gateway else _list_send_blockers(session, payout, now=now),
        }
        alerts.raise_payout_alert(session, "TRANSFER_UNSETTLED", payout, facts=facts, now=now)
    _update_transfer(session, payout, attempts=attempts, ask_at=ask_at, updated_at=now)


def _update_transfer(session: Session, payout: Payout, **values: Any) -> None:
    session.execute(
        update(PayoutTransfer).where(PayoutTransfer.reference == payout.reference).values(**values)
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


def _mark_unknown(session: Session, payout: Payout, *, now: datetime) -> str:
    status = states.PAYOUT.target(payout.status, "lose")
    _MARK_UNKNOWN.run(session, id=payout.id, reference=payout.reference, status=status, now=now)
    return status


def _record_gateway_unreachable(
    session: Session, polled: Payout, error: ProviderUnavailableError, *, now: datetime
) -> None:
    """Mark a pending payout as unknown if the gateway is unreachable. The poll stays due."""
    payout = apply_status.lock_payout(session, reference=polled.reference)
    markers = attrgetter(*_CHANGE_MARKERS)
    if payout.status == states.PENDING and markers(payout) == markers(polled):
        _mark_unknown(session, payout, now=now)
    if isinstance(error, GatewayKeyRefusedError):
        gateway_alerts.raise_gateway_key_refused_alert(session, status=error.refused_status, now=now)
