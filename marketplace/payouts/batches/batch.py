"""A batch's row: locked first of all, looked at for who may decide on it and what it pays, moved, and audited."""

import hashlib
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.infra.db import Statement
from marketplace.kernel.errors import ConflictError, ConflictOfInterestError, NotFoundError

_LOCK_BATCH = Statement(
    text(
        """
        SELECT id, status, staged_by, content_hash, approved_hash FROM payout_batches
        WHERE id = :batch_id FOR NO KEY UPDATE
        """
    )
)
_SELECT_PAYMENT_TO_OFFICER = Statement(
    text(
        """
        SELECT id FROM payout_transfer_intents
        WHERE batch_id = :batch_id AND user_id = :officer_id AND status <> 'cancelled' LIMIT 1
        """
    )
)
_COUNT_PENDING_PAYMENTS = Statement(
    text(
        """
        SELECT count(*) AS payments FROM payout_transfer_intents WHERE batch_id = :batch_id AND status = 'pending'
        """
    )
)
_UPDATE_BATCH_STATUS = Statement(
    text(
        """
        UPDATE payout_batches SET status = :status, approved_hash = :approved_hash, approved_at = :approved_at,
            revision = revision + 1, updated_at = :now
        WHERE id = :batch_id
        """
    )
)
# The payee's account of today, not the one of the staging: whoever changes it changes what the batch pays.
_SELECT_FINGERPRINT_ROWS = Statement(
    text(
        """
        SELECT i.id::text, i.user_id::text, i.vendor_id::text, i.amount_minor, a.id::text, a.bank_code,
            a.account_number, a.recipient_code
        FROM payout_transfer_intents i
            LEFT JOIN payout_accounts a ON a.user_id = i.user_id AND a.replaced_at IS NULL
        WHERE i.batch_id = :batch_id AND i.status <> 'cancelled'
        ORDER BY i.id
        """
    )
)


class EmptyBatchError(ConflictError):
    """The batch has no payouts."""

    reason = "batch-empty"


def lock_batch(session: Session, *, batch_id: UUID) -> dict[str, Any]:
    """Lock a batch: the first of what is locked, before its payments and then balances.

    :return: its row
    :raises NotFoundError: there is no such batch
    """
    row = _LOCK_BATCH.first(session, batch_id=batch_id)
    if row is None:
        raise NotFoundError("There is no such batch.")
    return row


def ensure_officer_is_not_payee(session: Session, batch_id: UUID, officer_id: UUID) -> None:
    """Refuse an officer who would decide on money of their own.

    :raises ConflictOfInterestError: the batch pays the officer
    """
    if _SELECT_PAYMENT_TO_OFFICER.first(session, batch_id=batch_id, officer_id=officer_id) is not None:
        raise ConflictOfInterestError("You are paid by this batch: other officers have to decide on it.")


def ensure_has_pending_payments(session: Session, batch_id: UUID) -> int:
    """Tell how many payments of a batch wait to be sent.

    :raises EmptyBatchError: there are none
    """
    payments: int = _COUNT_PENDING_PAYMENTS.one(session, batch_id=batch_id)["payments"]
    if not payments:
        raise EmptyBatchError("The batch would pay nobody: reject it.")
    return payments


def compute_fingerprint(session: Session, *, batch_id: UUID) -> str:
    """Give the SHA-256 of what a batch pays: each payment, its payee, amount and bank account.

    It is over the batch's id and, by the payment's id, a JSON array of each payment's id, user, vendor, kobo, and
    the payee's current account by id, bank, number and recipient at the gateway.

    :param batch_id: the batch; the caller holds its lock where it matters that nothing changes
    :return: 64 lowercase hexadecimal digits
    """
    digest = hashlib.sha256(orjson.dumps(str(batch_id)))
    for row in _SELECT_FINGERPRINT_ROWS.tuples(session, batch_id=batch_id):
        digest.update(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
    return digest.hexdigest()


def update_batch_status(
    session: Session, batch_id: UUID, status: str, *, approved_hash: str | None, now: datetime
) -> None:
    """Write the status that a transition led to; the caller holds the batch's lock.

    :param approved_hash: what two officers have approved, if they have
    """
    _UPDATE_BATCH_STATUS.run(
        session,
        batch_id=batch_id,
        status=status,
        approved_hash=approved_hash,
        approved_at=now if approved_hash else None,
        now=now,
    )


def audit_batch_action(
    session: Session,
    act: Act,
    action: str,
    batch: dict[str, Any],
    after: dict[str, Any],
) -> None:
    """Audit what was done to a batch.

    :param action: the action, such as ``approve``
    :param batch: its row as it was
    :param after: what it is now
    """
    record_audit_entry(
        session,
        act=act,
        action=f"payout_batch.{action}",
        target_type="payout_batch",
        target_id=str(batch["id"]),
        before={"status": batch["status"]},
        after=after,
    )
