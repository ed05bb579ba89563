"""Acquire, complete and release idempotency keys.

A separate transaction acquires the key, so a second request sees at once that the first is in progress. The
transaction of the effect completes the key, so a crash loses both the effect and the response, or neither. After a
crash, the lease expires and another request can take over.

The acquisition commits without waiting for the disk. PostgreSQL writes commits in order, so the next durable commit
makes the lease durable too. A crash of the server can only lose a lease that no later commit followed.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import bindparam, delete, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.idempotency import texts
from marketplace.idempotency.models import RESPONSE_TEXT, IdempotencyKey
from marketplace.infra.sql.statements import Prepared, Statement
from marketplace.kernel.errors import ConflictError, ValidationError

LEASE_SECONDS = 120
_MAX_RETRY_AFTER_SECONDS = 5  # nearly all operations end long before the lease
RETENTION = timedelta(hours=24)


@dataclass(frozen=True)
class KeyScope:
    """The scope of a key: caller, method, path, key and the hash of the body."""

    caller: str
    method: str
    path: str
    key: str
    request_hash: str


@dataclass(frozen=True)
class KeyLease:
    """A lease of a key for 120 seconds. ``claimed_at`` tells the lease from a later lease of the same key."""

    id: UUID
    claimed_at: datetime


@dataclass(frozen=True)
class StoredResponse:
    """The stored response of a completed key, byte for byte."""

    status: int
    content_type: str
    body: bytes


class RequestTakenOverError(ConflictError):
    """The request took too long, and another request with the same Idempotency-Key took over."""

    reason = "request-taken-over"


class RequestInProgressError(ConflictError):
    """Another request with this Idempotency-Key is in progress."""

    reason = "request-in-progress"


class IdempotencyKeyReusedError(ValidationError):
    """The Idempotency-Key was used with another body."""

    reason = "idempotency-key-reused"


_upsert = insert(IdempotencyKey)
_ACQUIRE_KEY = Prepared(
    _upsert.on_conflict_do_update(
        index_elements=["caller", "method", "path", "key"],
        set_={
            "request_hash": _upsert.excluded.request_hash,
            "claimed_at": _upsert.excluded.claimed_at,
            "expires_at": _upsert.excluded.expires_at,
            "completed_at": None,
            "response_status": None,
            "response_type": None,
            "response_text": None,
        },
        where=or_(
            IdempotencyKey.expires_at <= _upsert.excluded.claimed_at,
            IdempotencyKey.completed_at.is_(None) & (IdempotencyKey.claimed_at <= bindparam("stale_before")),
        ),
        # The setting ends with the transaction.
    ).returning(IdempotencyKey.id, func.set_config("synchronous_commit", "off", True)),
    columns=("caller", "method", "path", "key", "request_hash", "claimed_at", "expires_at"),
)


def acquire_key(session: Session, *, scope: KeyScope, now: datetime) -> KeyLease | StoredResponse:
    """Acquire a lease of a key, or return the stored response of a completed key.

    :param session: in autocommit, since the commit does not wait for the disk
    :raises IdempotencyKeyReusedError: the key was used with another body
    :raises RequestInProgressError: a request with the key started less than 120 seconds ago and has not finished
    """
    lease_id = _ACQUIRE_KEY.scalar(
        session,
        **vars(scope),
        claimed_at=now,
        expires_at=now + RETENTION,
        stale_before=now - timedelta(seconds=LEASE_SECONDS),
    )
    if lease_id is not None:
        return KeyLease(id=lease_id, claimed_at=now)
    existing = session.scalar(
        select(IdempotencyKey).filter_by(
            caller=scope.caller, method=scope.method, path=scope.path, key=scope.key
        )
    )
    if existing is None:
        raise RequestInProgressError(texts.REQUEST_JUST_ENDED, retry_after_seconds=1)
    if existing.request_hash != scope.request_hash:
        raise IdempotencyKeyReusedError.of("Idempotency-Key", texts.KEY_REUSED)
    if existing.response_status is None or existing.response_type is None or existing.response_text is None:
        age = (now - existing.claimed_at).total_seconds()
        raise RequestInProgressError(
            texts.REQUEST_IN_PROGRESS,
            retry_after_seconds=max(1, min(_MAX_RETRY_AFTER_SECONDS, int(LEASE_SECONDS - age))),
        )
    return StoredResponse(existing.response_status, existing.response_type, existing.response_text.encode())


_COMPLETE_KEY = Prepared(
    update(IdempotencyKey)
    .where(
        IdempotencyKey.id == bindparam("lease_id"),
        IdempotencyKey.claimed_at == bindparam("lease_time"),
        IdempotencyKey.completed_at.is_(None),
    )
    .values(
        completed_at=bindparam("now"),
        response_status=bindparam("status"),
        response_type=bindparam("content_type"),
        response_text=bindparam("body"),
    ),
    encrypted={"body": RESPONSE_TEXT},
)


def complete_key(session: Session, *, lease: KeyLease, response: StoredResponse, now: datetime) -> None:
    """Store the response of a leased key, in the transaction of the effect.

    :raises RequestTakenOverError: another request took over the lease, so the effect must not be committed
    """
    stored = _COMPLETE_KEY.run(
        session,
        lease_id=lease.id,
        lease_time=lease.claimed_at,
        now=now,
        status=response.status,
        content_type=response.content_type,
        body=response.body.decode(),
    )
    if not stored:
        raise RequestTakenOverError(texts.REQUEST_TAKEN_OVER)


def release_key(session: Session, *, lease: KeyLease) -> None:
    """Release a leased key, so that a retry can succeed, even with another body."""
    session.execute(
        delete(IdempotencyKey).filter_by(id=lease.id, claimed_at=lease.claimed_at, completed_at=None)
    )


_DELETE_EXPIRED_KEYS = Statement(
    delete(IdempotencyKey).where(
        IdempotencyKey.id.in_(
            select(IdempotencyKey.id)
            .where(IdempotencyKey.expires_at <= bindparam("now"))
            .order_by(IdempotencyKey.expires_at)
            .limit(bindparam("limit"))
            .with_for_update(skip_locked=True)
        )
    )
)


def purge_keys(session: Session, *, now: datetime, limit: int) -> int:
    """Delete expired keys.

    :param limit: the maximum number of deletions
    :return: the number of deleted keys
    """
    return _DELETE_EXPIRED_KEYS.run(session, now=now, limit=limit)
