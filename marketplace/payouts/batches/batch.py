"""A batch's row: locked first of all, looked at for who may decide on it, moved, and audited."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.operations import AuditActor, record
from marketplace.identity.queries import Caller
from marketplace.infra.db import Statement
from marketplace.kernel.errors import ConflictError, ForbiddenError, NotFoundError

_LOCK = Statement(
    text(
        """
        SELECT id, status, staged_by, content_hash, approved_hash FROM payout_batches
        WHERE id = :batch_id FOR NO KEY UPDATE
        """
    )
)
_IS_PAID = Statement(
    text(
        """
        SELECT id FROM payout_transfer_intents
        WHERE batch_id = :batch_id AND user_id = :officer_id AND status <> 'cancelled' LIMIT 1
        """
    )
)
_PAYS = Statement(
    text(
        """
        SELECT count(*) AS payments FROM payout_transfer_intents WHERE batch_id = :batch_id AND status = 'pending'
        """
    )
)
_MOVE = Statement(
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
    row = _LOCK.first(session, batch_id=batch_id)
    if row is None:
        raise NotFoundError("There is no such batch.")
    return row


def refuse_payee(session: Session, batch_id: UUID, officer: Caller) -> None:
    """Refuse an officer who would decide on money of their own.

    :raises ForbiddenError: the batch pays the officer
    """
    if _IS_PAID.first(session, batch_id=batch_id, officer_id=officer.id) is not None:
        raise ForbiddenError("You are paid by this batch: other officers have to decide on it.")


def require_payments(session: Session, batch_id: UUID) -> int:
    """Tell how many payments of a batch wait to be sent.

    :raises EmptyBatchError: there are none
    """
    payments: int = _PAYS.one(session, batch_id=batch_id)["payments"]
    if not payments:
        raise EmptyBatchError("The batch would pay nobody: reject it.")
    return payments


def move(session: Session, batch_id: UUID, status: str, *, approved_hash: str | None, now: datetime) -> None:
    """Write the status that a transition led to; the caller holds the batch's lock.

    :param approved_hash: what two officers have approved, if they have
    """
    _MOVE.run(
        session,
        batch_id=batch_id,
        status=status,
        approved_hash=approved_hash,
        approved_at=now if approved_hash else None,
        now=now,
    )


def record_act(
    session: Session,
    actor: AuditActor,
    act: str,
    batch: dict[str, Any],
    after: dict[str, Any],
    *,
    now: datetime,
) -> None:
    """Audit what was done to a batch.

    :param act: what, such as ``approve``
    :param batch: its row as it was
    :param after: what it is now
    """
    record(
        session,
        actor=actor,
        action=f"payout_batch.{act}",
        target_type="payout_batch",
        target_id=str(batch["id"]),
        before={"status": batch["status"]},
        after=after,
        now=now,
    )
