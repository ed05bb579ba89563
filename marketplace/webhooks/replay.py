"""Replay of failed webhook events, and dry runs of replays.

A replay is a single immediate attempt. A failed replay leaves the event's status unchanged and records the error.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NoReturn
from uuid import UUID

import structlog
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.audit.person_keys import unseal_bytes
from marketplace.infra import outbox
from marketplace.infra.db import Database, is_transient
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.errors import ConflictError, NotFoundError, ServiceUnavailableError
from marketplace.payments.charges.apply import UnknownReferenceError
from marketplace.providers.gateway.fields import MalformedGatewayDataError
from marketplace.webhooks import dead_letters, inbox, texts
from marketplace.webhooks.change_recorder import ChangeRecorder, Changes
from marketplace.webhooks.events import PermanentEventError, RetryableEventError
from marketplace.webhooks.models import InboxEvent

_log = structlog.get_logger(__name__)

PROCESSED, IGNORED, UNCHANGED, FAILED = "processed", "ignored", "unchanged", "failed"
OUTCOMES = (PROCESSED, IGNORED, UNCHANGED, FAILED)
_FINAL_STATUSES = frozenset({"processed", "ignored", "duplicate"})
_RETRY_AFTER_SECONDS = 2


class EventInProgressError(ConflictError):
    """A worker or another replay is processing the event."""

    reason = "event-in-progress"


@dataclass(frozen=True)
class ReplayResult:
    """The result of a replay or dry run.

    :param before: the event's status before
    :param after: the event's status after; equal to ``before`` for a failed or unchanged event
    :param outcome: one of ``OUTCOMES``
    :param error: the cause of a failure
    :param changes: None if the event was not applied
    """

    before: str
    after: str
    outcome: str
    error: str | None = None
    changes: Changes | None = None


@dataclass(eq=False)
class _DryRunRollbackError(Exception):
    """The signal that rolls back the transaction of a dry run."""

    result: ReplayResult


def dry_run_event(database: Database, *, inbox_id: UUID, fee_bearer: str, now: datetime) -> ReplayResult:
    """Replay an event and roll back, to show the changes that a replay would make.

    No notification is sent and no provider is called, because both happen after a commit only.

    :param fee_bearer: ``platform`` or ``customer``
    :raises NotFoundError: the event does not exist
    :raises EventInProgressError: a worker or another replay is processing the event
    """

    def attempt(session: Session, committed: Session) -> NoReturn:
        delivery = _lock_delivery(session, inbox_id)
        raise _DryRunRollbackError(
            _attempt_replay(session, committed, delivery=delivery, fee_bearer=fee_bearer, now=now)
        )

    with database.reading() as committed:
        try:
            database.in_transaction(attempt, committed)
        except _DryRunRollbackError as end:
            return end.result


def replay_event(
    session: Session,
    committed: Session,
    *,
    inbox_id: UUID,
    fee_bearer: str,
    act: Act,
) -> ReplayResult:
    """Replay an event in the caller's transaction, and record an audit entry.

    A processed or ignored event stays unchanged.

    :param committed: a session with another connection, which sees committed rows only
    :param fee_bearer: ``platform`` or ``customer``
    :raises NotFoundError: the event does not exist
    :raises EventInProgressError: a worker or another replay is processing the event
    """
    delivery = _lock_delivery(session, inbox_id)
    result = _attempt_replay(session, committed, delivery=delivery, fee_bearer=fee_bearer, now=act.now)
    if result.outcome == FAILED:
        delivery.last_error = result.error or ""
        if result.before == "dead" and delivery.finished_at is not None:
            # Only attempts of dead events count: a replay must not use up the worker's retries.
            delivery.attempts += 1
            # Place the event behind events without a replay, even if this clock is slightly behind.
            delivery.due_at = max(act.now, delivery.finished_at + timedelta(microseconds=1))
        dead_letters.record_failed_replay(
            session, inbox_id=inbox_id, attempts=delivery.attempts, error=delivery.last_error
        )
    elif result.outcome != UNCHANGED:
        dead_letters.record_replay(session, inbox_id=inbox_id, now=act.now)
    record_audit_entry(
        session,
        act=act,
        action="webhook.replay",
        target_type="webhook_inbox",
        target_id=str(inbox_id),
        before={"status": result.before},
        after={"status": result.after, "outcome": result.outcome, "error": result.error},
    )
    log_fields = {"inboxId": str(inbox_id), "outcome": result.outcome, "actor": act.role}
    outbox.after_commit(session, lambda: _log.info("webhook replayed", **log_fields))
    return result


def _lock_delivery(session: Session, inbox_id: UUID) -> InboxEvent:
    by_id = select(InboxEvent).where(InboxEvent.id == inbox_id)
    delivery = session.scalar(by_id.with_for_update(key_share=True, skip_locked=True))
    if delivery is not None:
        return delivery
    if session.scalar(by_id.with_only_columns(InboxEvent.id)) is None:
        raise NotFoundError("Webhook event not found.")
    raise EventInProgressError(texts.EVENT_IN_PROGRESS, retry_after_seconds=_RETRY_AFTER_SECONDS)


# Report violations of deferred constraints now instead of at the commit.
_CHECK_CONSTRAINTS_NOW = Statement(text("SET CONSTRAINTS ALL IMMEDIATE"))
_CHECK_CONSTRAINTS_AT_COMMIT = Statement(text("SET CONSTRAINTS ALL DEFERRED"))


def _attempt_replay(
    session: Session, committed: Session, *, delivery: InboxEvent, fee_bearer: str, now: datetime
) -> ReplayResult:
    """Apply an event in a savepoint, so that a failure leaves no changes."""
    before = delivery.status
    if before in _FINAL_STATUSES:
        return ReplayResult(before, before, UNCHANGED)
    try:
        with session.begin_nested():
            # The savepoint starts only when the session's connection is requested, which `Statement` does not do.
            session.connection()
            body = unseal_bytes(session, delivery.body)
            recorder = ChangeRecorder(session, committed, body=body or b"")
            result = inbox.apply_event(
                session,
                delivery=delivery,
                fee_bearer=fee_bearer,
                # Unless the event is dead, the worker still has retries.
                last_try=before == "dead",
                now=now,
            )
            _CHECK_CONSTRAINTS_NOW.run(session)
            _CHECK_CONSTRAINTS_AT_COMMIT.run(session)
            outcome = PROCESSED if result.status == "processed" else IGNORED
            return ReplayResult(before, result.status, outcome, changes=recorder.collect_changes())
    except (
        PermanentEventError,
        MalformedGatewayDataError,
        UnknownReferenceError,
        RetryableEventError,
    ) as error:
        return ReplayResult(before, before, FAILED, str(error))
    except Exception as error:
        # The caller must retry or abort the whole transaction.
        if is_transient(error) or isinstance(error, ServiceUnavailableError):
            raise
        _log.exception("webhook replay failed", inboxId=str(delivery.id))
        return ReplayResult(before, before, FAILED, inbox.describe_error(error))
