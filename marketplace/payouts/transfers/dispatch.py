"""The beginning of a dispatch: what two officers have approved is sent as they approved it, or not at all."""

from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.operations import AuditActor
from marketplace.identity.queries import Caller
from marketplace.infra.db import Statement
from marketplace.kernel.clock import iso
from marketplace.kernel.errors import ConflictError
from marketplace.payouts import states
from marketplace.payouts.batches.batch import lock_batch, move, record_act, refuse_payee, require_payments
from marketplace.payouts.batches.fingerprint import content_hash
from marketplace.payouts.payees.holds import holds_of_payouts
from marketplace.payouts.transfers import submit
from marketplace.platform.halts import require_running

_DISPATCH = Statement(
    text(
        """
        UPDATE payout_batches SET status = :status, dispatched_by = :officer_id, dispatched_at = :now,
            revision = revision + 1, updated_at = :now
        WHERE id = :batch_id
        """
    )
)

_PAYEES = Statement(
    text(
        """
        SELECT id, user_id, vendor_id FROM payout_transfer_intents
        WHERE batch_id = :batch_id AND status = 'pending'
        """
    )
)


# Each payment's reference is there before anything is sent, and is never another.
_REFER = Statement(
    text(
        """
        WITH referred AS (
            INSERT INTO payout_transfers (intent_id, status, created_at, updated_at)
            SELECT id, :status, :now, :now FROM payout_transfer_intents
            WHERE batch_id = :batch_id AND status = 'pending' ORDER BY id
            RETURNING intent_id
        )
        SELECT coalesce(sum(i.amount_minor), 0)::bigint AS amount_minor
        FROM referred r JOIN payout_transfer_intents i ON i.id = r.intent_id
        """
    )
)


class ChangedSinceApprovalError(ConflictError):
    """The batch is not any more what was approved; it is staged again, and takes two approvals anew."""

    keeps_changes: ClassVar[bool] = True


class OnHoldError(ConflictError):
    """Nothing may be paid to a payee at the moment."""


def dispatch(
    session: Session, *, batch_id: UUID, officer: Caller, actor: AuditActor, now: datetime
) -> dict[str, Any]:
    """Let a batch go: each payment gets its reference, and a worker sends them.

    :param officer: who sends it; not a payee
    :param actor: the same, for the audit
    :return: the batch's id and status, how many payments there are to send, and kobo in all
    :raises ConflictError: as ``begin_dispatch``
    """
    payments = begin_dispatch(session, batch_id=batch_id, officer=officer, actor=actor, now=now)
    total = _REFER.one(session, batch_id=batch_id, status=states.INTENT.initial, now=now)["amount_minor"]
    submit.enqueue_sending(session, batch_id=batch_id, due_at=now)
    return {"batchId": batch_id, "status": states.DISPATCHING, "payments": payments, "amountMinor": total}


def begin_dispatch(
    session: Session, *, batch_id: UUID, officer: Caller, actor: AuditActor, now: datetime
) -> int:
    """Begin to send a batch: it pays what two officers have approved, or nothing.

    The caller hands the sending on in the same transaction. A batch that changed since it was approved is staged
    again by the refusal.

    :param officer: who sends it; not a payee
    :param actor: the same, for the audit
    :return: how many payments there are to send
    :raises NotFoundError: there is no such batch
    :raises ForbiddenError: the officer is a payee
    :raises PayoutsHaltedError: payouts stand still
    :raises IllegalTransitionError: it is not approved, or is being sent already
    :raises ChangedSinceApprovalError: it changed since; the refusal has changes to keep
    :raises OnHoldError: nothing may be paid to one of the payees now
    :raises EmptyBatchError: it pays nobody
    """
    batch = lock_batch(session, batch_id=batch_id)
    refuse_payee(session, batch_id, officer)
    require_running(session)
    status = states.BATCH.target(batch["status"], "dispatch")
    content = content_hash(session, batch_id=batch_id)
    if content != batch["approved_hash"]:
        reopened = states.BATCH.target(batch["status"], "reopen")
        move(session, batch_id, reopened, approved_hash=None, now=now)
        record_act(session, actor, "reopen", batch, {"status": reopened, "contentHash": content}, now=now)
        raise ChangedSinceApprovalError(
            "The batch changed since it was approved: it is staged again. Two officers approve it as it is now, or"
            " take out what they do not want to pay."
        )
    payments = require_payments(session, batch_id)
    _refuse_held(session, batch_id, now=now)
    _DISPATCH.run(session, batch_id=batch_id, status=status, officer_id=officer.id, now=now)
    record_act(session, actor, "dispatch", batch, {"status": status, "payments": payments}, now=now)
    return payments


def _refuse_held(session: Session, batch_id: UUID, *, now: datetime) -> None:
    found = holds_of_payouts(session, payouts=_PAYEES.all(session, batch_id=batch_id), now=now)
    held = [holds for holds in found.values() if holds]
    if not held:
        return
    ends = [hold.until for holds in held for hold in holds]
    latest = max((end for end in ends if end is not None), default=None)
    when = f" until {iso(latest)}" if latest is not None and None not in ends else ""
    raise OnHoldError(
        f"Payees on hold{when}: {len(held)}. The batch says who and why. Send it when that is over, or"
        " take those payments out and have two officers approve the rest."
    )
