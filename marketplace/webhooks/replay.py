"""Replaying events that failed, and rehearsing that first.

A replay is one more try, made at once. It works, or it leaves the event as it was, with what it failed at.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NoReturn
from uuid import UUID

import structlog
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.infra import outbox
from marketplace.infra.db import Database, Statement, is_transient
from marketplace.kernel.errors import ConflictError, NotFoundError, ServiceUnavailableError
from marketplace.payments.charges.apply import UnknownReferenceError
from marketplace.providers.gateway.fields import MalformedGatewayDataError
from marketplace.webhooks import dead_letters, inbox
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
    """What a replay did, or would do.

    :param before: the event's status until then
    :param after: and from then on; the same where it failed, or changed nothing
    :param outcome: of ``OUTCOMES``
    :param error: what it failed at
    :param changes: None where the event was not applied
    """

    before: str
    after: str
    outcome: str
    error: str | None = None
    changes: Changes | None = None


@dataclass(eq=False)
class _DryRunRollbackError(Exception):
    """Ends a rehearsal's transaction, so that it is rolled back."""

    result: ReplayResult


def dry_run_event(database: Database, *, inbox_id: UUID, fee_bearer: str, now: datetime) -> ReplayResult:
    """Replay an event and roll all of it back, to show what a replay would do.

    Nobody is told of anything and no provider is called: both would follow the commit that never comes.

    :param fee_bearer: ``platform`` or ``customer``
    :raises NotFoundError: there is no event of that id
    :raises EventInProgressError: somebody has it just now
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
    """Try an event once more in the caller's transaction, and have that audited.

    One that is over, since it was processed or ignored, stays as it is: it has had its effect.

    :param committed: reads what is committed, by a connection of its own
    :param fee_bearer: ``platform`` or ``customer``
    :raises NotFoundError: there is no event of that id
    :raises EventInProgressError: somebody has it just now
    """
    delivery = _lock_delivery(session, inbox_id)
    result = _attempt_replay(session, committed, delivery=delivery, fee_bearer=fee_bearer, now=act.now)
    if result.outcome == FAILED:
        delivery.last_error = result.error or ""
        if result.before == "dead" and delivery.finished_at is not None:
            # An event that is not dead has its tries left: an operator's try is not counted among them.
            delivery.attempts += 1
            # Behind the events that were not replayed since they died, also by a clock that is a moment behind.
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
        raise NotFoundError("There is no such webhook event.")
    raise EventInProgressError(
        "The event is being processed just now. Look at it again in a moment.",
        retry_after_seconds=_RETRY_AFTER_SECONDS,
    )


# A violation that the commit would find is found here.
_CHECK_CONSTRAINTS_NOW = Statement(text("SET CONSTRAINTS ALL IMMEDIATE"))
_CHECK_CONSTRAINTS_AT_COMMIT = Statement(text("SET CONSTRAINTS ALL DEFERRED"))


def _attempt_replay(
    session: Session, committed: Session, *, delivery: InboxEvent, fee_bearer: str, now: datetime
) -> ReplayResult:
    """Try an event in a savepoint, so that what fails leaves nothing."""
    before = delivery.status
    if before in _FINAL_STATUSES:
        return ReplayResult(before, before, UNCHANGED)
    try:
        with session.begin_nested():
            # The savepoint is not set before the session's connection is asked for, which statements don't do.
            session.connection()
            recorder = ChangeRecorder(session, committed, body=delivery.body)
            result = inbox.apply_event(
                session,
                delivery=delivery,
                fee_bearer=fee_bearer,
                # The worker's own tries are still to come, unless it is dead.
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
        # The whole transaction is to be tried again, or can't be.
        if is_transient(error) or isinstance(error, ServiceUnavailableError):
            raise
        _log.exception("webhook replay failed", inboxId=str(delivery.id))
        return ReplayResult(before, before, FAILED, inbox.describe_error(error))
