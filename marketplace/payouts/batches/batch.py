"""A batch's row: lock it, check who may decide on it and what it pays, change its status, and audit the change."""

import hashlib
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.infra.db import Statement
from marketplace.kernel.errors import ConflictError, ConflictOfInterestError, NotFoundError
from marketplace.payouts import states
from marketplace.payouts.models import PayoutBatch, PayoutTransferIntent


class EmptyBatchError(ConflictError):
    """The batch has no payouts."""

    reason = "batch-empty"


def lock_batch(session: Session, *, batch_id: UUID) -> PayoutBatch:
    """Lock a batch. Its payouts and then balances are locked after it.

    :raises NotFoundError: the batch does not exist
    """
    batch = session.get(PayoutBatch, batch_id, with_for_update={"key_share": True}, populate_existing=True)
    if batch is None:
        raise NotFoundError("There is no such batch.")
    return batch


def ensure_officer_is_not_payee(session: Session, batch_id: UUID, officer_id: UUID) -> None:
    """Refuse an officer who is a payee of the batch.

    :raises ConflictOfInterestError: the batch pays the officer
    """
    payments = select(PayoutTransferIntent.id).where(
        PayoutTransferIntent.batch_id == batch_id,
        PayoutTransferIntent.user_id == officer_id,
        PayoutTransferIntent.status != states.CANCELLED,
    )
    if session.scalar(payments.limit(1)) is not None:
        raise ConflictOfInterestError("You are paid by this batch: other officers have to decide on it.")


def ensure_has_pending_payments(session: Session, batch_id: UUID) -> int:
    """Count a batch's pending payments.

    :raises EmptyBatchError: there are none
    """
    payments = session.scalar(
        select(func.count(PayoutTransferIntent.id)).where(
            PayoutTransferIntent.batch_id == batch_id, PayoutTransferIntent.status == states.PENDING
        )
    )
    if not payments:
        raise EmptyBatchError("The batch would pay nobody: reject it.")
    return payments


# The payee's current account, not that of the staging: a payee who replaces it changes what the batch pays.
_SELECT_FINGERPRINT_ROWS = Statement(
    text(
        """
        SELECT i.id::text, i.user_id::text, i.vendor_id::text, i.amount_minor, a.id::text, a.bank_code,
            encode(a.account_number_index, 'hex'), a.recipient_code
        FROM payout_transfer_intents i
            LEFT JOIN payout_accounts a ON a.user_id = i.user_id AND a.replaced_at IS NULL
        WHERE i.batch_id = :batch_id AND i.status <> 'cancelled'
        ORDER BY i.id
        """
    )
)


def compute_fingerprint(session: Session, *, batch_id: UUID) -> str:
    """Compute the SHA-256 of what a batch pays: each payment with its payee, amount and bank account.

    The hash is over the batch's id and a JSON array of each payment, in the order of ids: the payment's id, user,
    vendor and kobo, and the id, bank, number and recipient code of the payee's current account. The blind index stands
    for the number, so that the hash does not reveal it.

    :param batch_id: locked by the caller, where nothing may change meanwhile
    :return: 64 lowercase hexadecimal digits
    """
    digest = hashlib.sha256(orjson.dumps(str(batch_id)))
    for row in _SELECT_FINGERPRINT_ROWS.tuples(session, batch_id=batch_id):
        digest.update(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
    return digest.hexdigest()


def change_status(batch: PayoutBatch, status: str, *, now: datetime) -> None:
    """Write the status that a transition led to; the caller holds the batch's lock."""
    batch.status, batch.updated_at, batch.revision = status, now, batch.revision + 1


def set_approval(batch: PayoutBatch, status: str, *, approved_hash: str | None, now: datetime) -> None:
    """Approve a locked batch, or withdraw its approval.

    :param approved_hash: the fingerprint that two officers have approved, if they have
    """
    batch.approved_hash, batch.approved_at = approved_hash, now if approved_hash else None
    change_status(batch, status, now=now)


def audit_batch_action(
    session: Session, act: Act, action: str, batch_id: UUID, *, status_before: str, after: dict[str, Any]
) -> None:
    """Record an action on a batch in the audit log.

    :param action: such as ``approve``
    """
    record_audit_entry(
        session,
        act=act,
        action=f"payout_batch.{action}",
        target_type="payout_batch",
        target_id=str(batch_id),
        before={"status": status_before},
        after=after,
    )
