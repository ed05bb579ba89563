"""Submit payouts to the gateway in bulk, each under a reference that is committed before the first call.

A worker leases payouts and records the start of the call. The call runs without an open transaction. The worker then
records the results and enqueues the next payouts. After a crash, leased payouts are not resubmitted blindly. Instead,
``polling`` first polls the gateway by reference. The gateway treats a repeated reference as the same transfer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

import structlog
from sqlalchemy import text, update
from sqlalchemy.orm import Session

from marketplace.infra import outbox
from marketplace.infra.sql.statements import Statement
from marketplace.kernel import queues
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.payments import gateway_alerts
from marketplace.payouts import states, texts
from marketplace.payouts.accounting import OutgoingTransfer
from marketplace.payouts.models import ACCOUNT_NUMBER, PayoutTransfer
from marketplace.payouts.payees.holds import WaitingPayout, send_blockers
from marketplace.payouts.transfers import alerts, apply_status
from marketplace.providers.gateway.client import GatewayKeyRefusedError
from marketplace.providers.gateway.payloads import GatewayTransfer
from marketplace.providers.gateway.transfers import (
    MAX_BULK_TRANSFERS,
    InsufficientGatewayBalanceError,
    TransferGateway,
    TransferInstruction,
    TransferRefusedError,
)

_log = structlog.get_logger(__name__)

SEND_TOPIC = "payout.send"
# Pause after a lost response, and while the gateway accepts no payouts.
RETRY_PAUSE = timedelta(minutes=5)
# Events usually arrive before the first poll, and the call has ended by then.
FIRST_POLL_DELAY = timedelta(minutes=5)
TRANSFER_REASON = "Campus Marketplace payout"


@dataclass(frozen=True)
class LeasedPayouts:
    """Leased payouts of a batch. The start of the call is recorded."""

    batch_id: UUID
    claimed: Sequence[OutgoingTransfer]


@dataclass
class BulkTransferResult:
    """Results of a submission, by transfer reference.

    :ivar sent: accepted transfers as reported by the gateway
    :ivar rejected: permanently refused transfers with the HTTP status; none if the bank account does not exist
    :ivar rejected_all_status: the HTTP status if the gateway refused every transfer, so no single payout is the cause
    :ivar funds_short: whether the gateway refused the call because its balance is too low
    :ivar key_refusal_status: the HTTP status if the gateway refused the secret key
    :ivar unconfirmed: transfers without a response, possibly sent
    :ivar unsent: transfers that were certainly not sent and may be retried
    :ivar recipients: new recipient codes by bank account id
    :ivar unknown_recipients: recipient codes refused as unknown, by transfer reference
    """

    sent: dict[str, GatewayTransfer] = field(default_factory=dict)
    rejected: dict[str, int | None] = field(default_factory=dict)
    unconfirmed: list[str] = field(default_factory=list)
    unsent: list[str] = field(default_factory=list)
    recipients: dict[UUID, str] = field(default_factory=dict)
    unknown_recipients: dict[str, str] = field(default_factory=dict)
    rejected_all_status: int | None = None
    funds_short: bool = False
    key_refusal_status: int | None = None


def enqueue_submission(session: Session, *, batch_id: UUID, due_at: datetime) -> None:
    """Enqueue the submission of a batch's next payouts."""
    outbox.enqueue(
        session,
        queue=queues.WEBHOOKS,
        topic=SEND_TOPIC,
        payload={"batchId": str(batch_id)},
        due_at=due_at,
    )


_SELECT_WAITING_PAYOUTS = Statement(
    text(
        """
        SELECT i.id, i.user_id, i.vendor_id, a.replaced_at IS NOT NULL AS account_replaced
        FROM payout_transfer_intents i JOIN payout_transfers t ON t.intent_id = i.id
            JOIN payout_accounts a ON a.id = i.account_id
        WHERE i.batch_id = :batch_id AND i.status = 'pending' AND t.sent_at IS NULL
        """
    ),
    row=WaitingPayout,
)
# Concurrent workers lease different payouts. During a halt no payout is leased.
_LEASE_PAYOUTS = Statement(
    text(
        """
        WITH picked AS MATERIALIZED (
            SELECT i.id, i.amount_minor, i.account_id FROM payout_transfer_intents i
                JOIN payout_transfers t ON t.intent_id = i.id
            WHERE i.batch_id = :batch_id AND i.status = 'pending' AND t.sent_at IS NULL AND i.id <> ALL(:blocked_ids)
                AND NOT EXISTS (SELECT FROM payout_halts WHERE resumed_at IS NULL)
            ORDER BY i.id LIMIT :limit FOR NO KEY UPDATE OF i, t SKIP LOCKED
        )
        UPDATE payout_transfers t SET sent_at = :now, ask_at = :ask_at, updated_at = :now
        FROM picked p JOIN payout_accounts a ON a.id = p.account_id
        WHERE t.intent_id = p.id
        RETURNING t.reference, p.amount_minor, p.account_id, a.recipient_code, a.account_name, a.account_number,
            a.bank_code
        """
    ),
    row=OutgoingTransfer,
    encrypted={"account_number": ACCOUNT_NUMBER},
)


def lease_payouts(session: Session, *, batch_id: UUID, now: datetime) -> LeasedPayouts:
    """Lease the next payouts of a batch, and record the start of the call.

    Leased payouts are polled from then on, even if the caller crashes. No payout is leased during a halt, while the
    payee is on hold, or after a replacement of the bank account. The caller must commit before the call.

    :return: at most as many payouts as the gateway accepts in a call
    """
    waiting = _SELECT_WAITING_PAYOUTS.all(session, batch_id=batch_id)
    leased = _LEASE_PAYOUTS.all(
        session,
        batch_id=batch_id,
        blocked_ids=list(send_blockers(session, payouts=waiting, now=now)),
        limit=MAX_BULK_TRANSFERS,
        now=now,
        ask_at=now + FIRST_POLL_DELAY,
    )
    return LeasedPayouts(batch_id, leased)


def has_sendable_payouts(session: Session, *, batch_id: UUID, now: datetime) -> bool:
    """Return whether a batch has payouts that can be leased now, apart from a halt of all payouts."""
    waiting = _SELECT_WAITING_PAYOUTS.all(session, batch_id=batch_id)
    return len(send_blockers(session, payouts=waiting, now=now)) < len(waiting)


def has_payouts_to_send_or_void(session: Session, *, batch_id: UUID, now: datetime) -> bool:
    """Return whether a batch has payouts that can be leased or voided now."""
    waiting = _SELECT_WAITING_PAYOUTS.all(session, batch_id=batch_id)
    return any(payout.account_replaced for payout in waiting) or has_sendable_payouts(
        session, batch_id=batch_id, now=now
    )


def submit_payouts(gateway: TransferGateway, payouts: Sequence[OutgoingTransfer]) -> BulkTransferResult:
    """Submit leased payouts to the gateway, with a single call if possible.

    Provider errors are not raised but become part of the result.

    :param payouts: with a committed lease; at most as many as the gateway accepts in a call
    :return: the result of each payout
    """
    result = BulkTransferResult()
    try:
        orders = _build_orders(gateway, payouts, result)
        if len(orders) == 1:
            _submit_individually(gateway, orders, result)
        elif orders:
            _submit_in_bulk(gateway, orders, result)
    except GatewayKeyRefusedError as error:
        result.key_refusal_status = error.refused_status
    except InsufficientGatewayBalanceError:
        result.funds_short = True
    handled = result.sent.keys() | result.rejected.keys() | set(result.unconfirmed)
    result.unsent = [payout.reference for payout in payouts if payout.reference not in handled]
    return result


def _build_orders(
    gateway: TransferGateway, payouts: Sequence[OutgoingTransfer], result: BulkTransferResult
) -> list[TransferInstruction]:
    """Build the transfer instructions, and create missing recipients at the gateway."""
    orders = []
    for payout in payouts:
        code = payout.recipient_code or result.recipients.get(payout.account_id)
        if code is None:
            try:
                code = gateway.create_recipient(
                    name=payout.account_name, account_number=payout.account_number, bank_code=payout.bank_code
                )
            except GatewayKeyRefusedError:
                raise
            except ProviderUnavailableError:
                # Further calls would time out as well.
                break
            if code is None:
                result.rejected[payout.reference] = None
                continue
            result.recipients[payout.account_id] = code
        orders.append(TransferInstruction(payout.reference, payout.amount_minor, code, TRANSFER_REASON))
    return orders


def _submit_in_bulk(
    gateway: TransferGateway, orders: Sequence[TransferInstruction], result: BulkTransferResult
) -> None:
    try:
        sent = gateway.send_bulk(orders)
    except TransferRefusedError:
        # A single refused or duplicate transfer makes the gateway refuse the bulk call.
        _submit_individually(gateway, orders, result)
        return
    except GatewayKeyRefusedError:
        raise
    except ProviderUnavailableError:
        sent = []
    result.sent = {transfer.reference: transfer for transfer in sent}
    result.unconfirmed += [order.reference for order in orders if order.reference not in result.sent]


def _submit_individually(
    gateway: TransferGateway, orders: Sequence[TransferInstruction], result: BulkTransferResult
) -> None:
    """Submit payouts individually. Any refusal counts as permanent if the gateway accepts other payouts.

    If the gateway accepts none, the cause may be general and temporary, so the payouts are retried later.
    """
    soft_refusals: dict[str, int] = {}
    for order in orders:
        try:
            result.sent[order.reference] = gateway.send(order)
        except TransferRefusedError as error:
            refusals = result.rejected if error.is_permanent else soft_refusals
            refusals[order.reference] = error.status
            if error.is_permanent:
                result.unknown_recipients[order.reference] = order.recipient_code
        except GatewayKeyRefusedError:
            raise
        except ProviderUnavailableError:
            # Further payouts were not sent, and their calls would time out as well.
            result.unconfirmed.append(order.reference)
            break
    if result.sent:
        result.rejected |= soft_refusals
    elif soft_refusals:
        result.rejected_all_status = next(iter(soft_refusals.values()))


_LOCK_BATCH = Statement(text("SELECT id FROM payout_batches WHERE id = :batch_id FOR NO KEY UPDATE"))


def record_submission(
    session: Session, *, found: LeasedPayouts, answers: BulkTransferResult, now: datetime
) -> None:
    """Record the results of a submission, and enqueue the next payouts of the batch.

    :param found: the leased payouts
    :param answers: the results of the leased payouts
    """
    _LOCK_BATCH.run(session, batch_id=found.batch_id)
    if not found.claimed:
        if not has_sendable_payouts(session, batch_id=found.batch_id, now=now):
            alerts.resolve_batch_alerts(
                session,
                alerts.RESOLVED_BY_ACCEPTANCE,
                batch_id=found.batch_id,
                note=texts.RESOLVED_NOTHING_TO_SEND,
                now=now,
            )
        return
    record_results(session, result=answers, now=now)
    raise_alerts(session, leased=found, result=answers, now=now)
    if answers.sent:
        alerts.resolve_batch_alerts(
            session,
            alerts.RESOLVED_BY_ACCEPTANCE,
            batch_id=found.batch_id,
            note=texts.RESOLVED_PAYOUTS_ACCEPTED,
            now=now,
        )
    awaiting_otp = [reference for reference, reported in answers.sent.items() if reported.awaits_otp]
    if awaiting_otp:
        alerts.raise_batch_alert(
            session,
            "TRANSFER_WANTS_OTP",
            batch_id=found.batch_id,
            facts={"reference": awaiting_otp[0]},
            now=now,
        )
    enqueue_submission(
        session,
        batch_id=found.batch_id,
        due_at=now + RETRY_PAUSE if answers.unconfirmed or answers.unsent else now,
    )


def raise_alerts(
    session: Session, *, leased: LeasedPayouts, result: BulkTransferResult, now: datetime
) -> None:
    """Raise alerts if the gateway's balance is too low or the gateway refuses all payouts of a batch."""
    if result.funds_short:
        alerts.raise_batch_alert(
            session,
            "PAYOUT_FUNDS_SHORT",
            batch_id=leased.batch_id,
            facts={"amountMinor": sum(payout.amount_minor for payout in leased.claimed)},
            now=now,
        )
    if result.rejected_all_status is not None:
        alerts.raise_batch_alert(
            session,
            "PAYOUTS_REFUSED",
            batch_id=leased.batch_id,
            facts={"refusedWith": result.rejected_all_status},
            now=now,
        )


_LOCK_PAYOUTS = Statement(
    text(
        """
        SELECT i.id, t.reference, i.status FROM payout_transfer_intents i
            JOIN payout_transfers t ON t.intent_id = i.id
        WHERE t.reference = ANY(:references) ORDER BY i.id FOR NO KEY UPDATE OF i, t
        """
    )
)
_UPDATE_STATUSES = Statement(
    text(
        """
        WITH given AS (
            SELECT * FROM unnest(CAST(:references AS text[]), CAST(:codes AS text[])) AS g (reference, transfer_code)
        ), moved AS (
            UPDATE payout_transfer_intents i SET status = :status, stalled_at = NULL, updated_at = :now
            FROM given g JOIN payout_transfers t ON t.reference = g.reference WHERE i.id = t.intent_id
        )
        UPDATE payout_transfers t SET status = :status, updated_at = :now,
            transfer_code = coalesce(t.transfer_code, g.transfer_code)
        FROM given g WHERE t.reference = g.reference
        """
    )
)
_SAVE_RECIPIENT_CODES = Statement(
    text(
        """
        UPDATE payout_accounts a SET recipient_code = g.code
        FROM unnest(CAST(:accounts AS uuid[]), CAST(:codes AS text[])) AS g (id, code)
        WHERE a.id = g.id AND a.recipient_code IS NULL
        """
    )
)
# Keeps a code that was renewed meanwhile.
_CLEAR_RECIPIENT_CODES = Statement(
    text(
        """
        UPDATE payout_accounts a SET recipient_code = NULL
        FROM unnest(CAST(:references AS text[]), CAST(:codes AS text[])) AS g (reference, code)
            JOIN payout_transfers t ON t.reference = g.reference
            JOIN payout_transfer_intents i ON i.id = t.intent_id
        WHERE a.id = i.account_id AND a.recipient_code = g.code
        """
    )
)


def record_results(session: Session, *, result: BulkTransferResult, now: datetime) -> None:
    """Record the results of a submission, payout by payout.

    Payouts that an event finalized meanwhile keep the final status.

    :param result: results of payouts of a single batch, locked by the caller
    """
    references = sorted([*result.sent, *result.rejected, *result.unconfirmed])
    statuses = {
        reference: status for _, reference, status in _LOCK_PAYOUTS.tuples(session, references=references)
    }
    if result.recipients:
        _SAVE_RECIPIENT_CODES.run(
            session, accounts=list(result.recipients), codes=list(result.recipients.values())
        )
    if result.unknown_recipients:
        # The next payout creates a new recipient, or finds that the account no longer exists.
        _CLEAR_RECIPIENT_CODES.run(
            session,
            references=list(result.unknown_recipients),
            codes=list(result.unknown_recipients.values()),
        )
    codes = {reference: transfer.transfer_code or None for reference, transfer in result.sent.items()}
    for trigger, target, handled in (
        ("submit", states.SUBMITTED, list(result.sent)),
        ("lose", states.UNKNOWN, result.unconfirmed),
    ):
        allowed = [reference for reference in handled if states.PAYOUT.allows(statuses[reference], trigger)]
        if allowed:
            _UPDATE_STATUSES.run(
                session,
                references=allowed,
                codes=[codes.get(reference) for reference in allowed],
                status=target,
                now=now,
            )
    if result.unsent:
        session.execute(
            update(PayoutTransfer)
            .where(PayoutTransfer.reference.in_(result.unsent))
            .values(sent_at=None, ask_at=None, updated_at=now)
        )
    for reference, refusal_status in result.rejected.items():
        if states.PAYOUT.allows(statuses[reference], "fail"):
            payout = apply_status.lock_payout(session, reference=reference)
            apply_status.mark_rejected(session, payout, refusal_status=refusal_status, now=now)
    if result.key_refusal_status is not None:
        gateway_alerts.raise_gateway_key_refused_alert(session, status=result.key_refusal_status, now=now)
    elif result.sent:
        gateway_alerts.resolve_gateway_key_refused_alert(session, now=now)
