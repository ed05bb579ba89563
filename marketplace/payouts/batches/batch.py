"""A batch's row: locked first of all, looked at for who may decide on it, moved, and audited."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.infra.db import Statement
from marketplace.kernel.errors import ConflictError, ForbiddenError, NotFoundError

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


class EmptyBatchError(ConflictError):
    """The batch pays nobody."""


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

    :raises ForbiddenError: the batch pays the officer
    """
    if _SELECT_PAYMENT_TO_OFFICER.first(session, batch_id=batch_id, officer_id=officer_id) is not None:
        raise ForbiddenError("You are paid by this batch: other officers have to decide on it.")


def ensure_has_pending_payments(session: Session, batch_id: UUID) -> int:
    """Tell how many payments of a batch wait to be sent.

    :raises EmptyBatchError: there are none
    """
    payments: int = _COUNT_PENDING_PAYMENTS.one(session, batch_id=batch_id)["payments"]
    if not payments:
        raise EmptyBatchError("The batch would pay nobody: reject it.")
    return payments


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
