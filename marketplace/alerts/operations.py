"""Raise and resolve alerts in the transaction of the cause.

The alert, the log line and the messages to the channels are committed with the cause, or not at all. The outbox sends
the messages. A rule resolves an alert when the condition no longer holds.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import orjson
import structlog
from sqlalchemy import ColumnElement, delete, text, update
from sqlalchemy.orm import Session

from marketplace.alerts.kinds import ALERT_KINDS, AlertIdentifier, Severity
from marketplace.alerts.models import Alert, AlertDelivery
from marketplace.audit.operations import Act, record_audit_entry
from marketplace.identity.permissions import MANAGE_PLATFORM
from marketplace.identity.queries import Caller
from marketplace.infra import outbox
from marketplace.infra.sql.statements import Json, Statement
from marketplace.kernel import queues
from marketplace.kernel.errors import ConflictError, PermissionRequiredError, found
from marketplace.kernel.redaction import redact, redact_text
from marketplace.providers.messaging.alert_channels import CHANNELS

_log = structlog.get_logger(__name__)

SEND_ALERT_TOPIC = "alert.send"
RAISED, RESOLVED = "raised", "resolved"

MAX_NOTE_LENGTH = 500
_MAX_TEXT_LENGTH = 300
_MAX_ITEMS = 25


class AlertAlreadyResolvedError(ConflictError):
    """The alert is already resolved. If the cause occurs again, a new alert is raised."""

    reason = "alert-already-resolved"


# A repeat waits for a concurrent transaction on the same alert, then increments the alert's count or opens a new alert.
_UPSERT_ALERT = Statement(
    text(
        """
        INSERT INTO alerts (identifier, severity, subject, title, facts, latest_facts, raised_at, last_raised_at)
        VALUES (:identifier, :severity, :subject, :title, :facts, :facts, :now, :now)
        ON CONFLICT (identifier, subject) WHERE resolved_at IS NULL DO UPDATE SET
            occurrences = alerts.occurrences + 1, severity = least(alerts.severity, excluded.severity),
            latest_facts = excluded.latest_facts,
            last_raised_at = greatest(alerts.last_raised_at, excluded.last_raised_at)
        RETURNING new.id, new.severity, new.occurrences, old.severity AS severity_before
        """
    )
)


def raise_alert(
    session: Session,
    *,
    identifier: AlertIdentifier,
    subject: str,
    title: str,
    facts: Mapping[str, Any],
    now: datetime,
    severity: Severity | None = None,
) -> UUID:
    """Raise an alert in the transaction of the cause, or increment the count of the open alert.

    A repeat keeps the first facts and updates the latest facts. If a repeat is more severe, channels that have not sent
    the alert yet get a message. After a resolution, the same cause raises a new alert.

    The alert's row stays locked until the transaction ends: take all other locks first.

    :param subject: the thing concerned, such as ``refund:<id>``; ids, no personal data
    :param title: the incident in a few words, the same each time
    :param facts: ids, counts and amounts; personal data and secrets are redacted, long values are cut
    :param severity: none for the kind's default
    :return: the alert's id
    :raises KeyError: the kind does not exist
    """
    kind = ALERT_KINDS[identifier]
    redacted_facts = redact_facts(facts)
    redacted_subject = redact_text(subject)[:_MAX_TEXT_LENGTH]
    row = _UPSERT_ALERT.one(
        session,
        identifier=identifier,
        severity=severity or kind.severity,
        subject=redacted_subject,
        title=redact_text(title)[:_MAX_TEXT_LENGTH],
        facts=Json(redacted_facts),
        now=now,
    )
    alert_id: UUID = row["id"]
    if row["severity"] != row["severity_before"]:
        # A channel that has sent the alert before does not send it again: see ``lease_delivery``.
        _enqueue_messages(session, alert_id, RAISED, now=now)
    outbox.after_commit(
        session,
        lambda: _log.error(
            "alert raised",
            severity=row["severity"],
            identifier=identifier,
            subject=redacted_subject,
            alertId=str(alert_id),
            occurrences=row["occurrences"],
            facts=redacted_facts,
        ),
    )
    return alert_id


def redact_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Redact facts and cut long values, for storage and messages."""
    redacted: dict[str, Any] = _truncate(redact(dict(facts)))
    size = len(orjson.dumps(redacted, default=str))
    return redacted if size <= 8192 else {"cutBytes": size}


def _truncate(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_MAX_TEXT_LENGTH]
    if isinstance(value, list):
        return [_truncate(item) for item in value[:_MAX_ITEMS]]
    if isinstance(value, dict):
        return {name: _truncate(item) for name, item in list(value.items())[:_MAX_ITEMS]}
    return value


def repeat_messages(session: Session, *, alert_id: UUID, now: datetime) -> None:
    """Send the messages about an open alert again, because the condition still holds."""
    session.execute(
        delete(AlertDelivery).where(
            AlertDelivery.alert_id == alert_id,
            AlertDelivery.event == RAISED,
            AlertDelivery.sent_at.is_not(None),
        )
    )
    _enqueue_messages(session, alert_id, RAISED, now=now)


_LOCK_OPEN_ALERT = Statement(
    text(
        """
        SELECT id FROM alerts WHERE identifier = :identifier AND subject = :subject AND resolved_at IS NULL
        FOR NO KEY UPDATE
        """
    )
)


def lock_alert(session: Session, *, identifier: AlertIdentifier, subject: str) -> bool:
    """Lock the open alert about a subject, before a rule checks that the condition is gone.

    A concurrent repeat either commits first and is visible then, or waits and raises a new alert.

    :param subject: as in ``raise_alert``
    :return: whether an alert is open
    """
    row = _LOCK_OPEN_ALERT.first(
        session, identifier=identifier, subject=redact_text(subject)[:_MAX_TEXT_LENGTH]
    )
    return row is not None


def resolve_alert(
    session: Session,
    *,
    identifier: AlertIdentifier | Sequence[AlertIdentifier],
    subject: str,
    note: str,
    now: datetime,
) -> bool:
    """Resolve the open alerts about a subject after the condition is gone.

    :param subject: as in ``raise_alert``
    :param note: the reason, in the same words each time
    :return: whether an alert was open
    """
    matching = (
        Alert.identifier.in_([identifier] if isinstance(identifier, str) else identifier),
        Alert.subject == redact_text(subject)[:_MAX_TEXT_LENGTH],
    )
    return _resolve_open_alerts(session, matching, note=note, now=now) > 0


def resolve_alerts_except(
    session: Session, *, identifier: AlertIdentifier, subjects: Sequence[str], note: str, now: datetime
) -> int:
    """Resolve the open alerts of a kind, except alerts about the given subjects.

    Rules that check all subjects use this function.

    :param subjects: the subjects whose condition still holds
    :param note: the reason, in the same words each time
    :return: the number of resolved alerts
    """
    matching = (
        Alert.identifier == identifier,
        Alert.subject.not_in([redact_text(subject)[:_MAX_TEXT_LENGTH] for subject in subjects]),
    )
    return _resolve_open_alerts(session, matching, note=note, now=now)


def _resolve_open_alerts(
    session: Session, matching: Iterable[ColumnElement[bool]], *, note: str, now: datetime
) -> int:
    """Resolve open alerts for a rule and return their number."""
    resolved = session.execute(
        update(Alert)
        .where(*matching, Alert.resolved_at.is_(None))
        .values(resolved_at=now, resolution="rule", note=note)
        .returning(Alert.id, Alert.identifier, Alert.subject)
    ).all()
    for alert_id, identifier, subject in resolved:
        _announce_resolved(session, alert_id, identifier, subject, resolved_by="rule", now=now)
    return len(resolved)


def resolve_manually(
    session: Session,
    *,
    alert_id: UUID,
    note: str,
    act: Act,
    officer: Caller | None = None,
) -> None:
    """Resolve an alert for an officer, or for an operator at the command line, and audit the resolution.

    :param note: the action that was taken
    :param officer: none for the operator
    :raises NotFoundError: the alert does not exist
    :raises PermissionRequiredError: the officer lacks the permission of the alert's kind
    :raises AlertAlreadyResolvedError: the alert is resolved
    """
    alert = found(
        session.get(Alert, alert_id, with_for_update={"key_share": True}, populate_existing=True),
        "Alert not found.",
    )
    # Platform staff resolve alerts of kinds that no longer exist.
    kind = ALERT_KINDS.get(alert.identifier)
    permission = kind.permission if kind else MANAGE_PLATFORM
    if officer is not None and not officer.has_permission(permission):
        raise PermissionRequiredError(f"Resolving {alert.identifier} requires the permission {permission}.")
    if alert.resolved_at is not None:
        raise AlertAlreadyResolvedError("The alert is already resolved.")
    alert.resolved_at, alert.note = act.now, note
    alert.resolution, alert.resolved_by = ("officer", officer.id) if officer else ("operator", None)
    _announce_resolved(session, alert_id, alert.identifier, alert.subject, resolved_by=act.role, now=act.now)
    record_audit_entry(
        session,
        act=act,
        action="alert.resolve",
        target_type="alert",
        target_id=str(alert_id),
        before={"state": "open"},
        after={"state": "resolved", "identifier": alert.identifier, "subject": alert.subject, "note": note},
    )


def _announce_resolved(
    session: Session, alert_id: UUID, identifier: str, subject: str, *, resolved_by: str, now: datetime
) -> None:
    _enqueue_messages(session, alert_id, RESOLVED, now=now)
    outbox.after_commit(
        session,
        partial(
            _log.info,
            "alert resolved",
            by=resolved_by,
            identifier=identifier,
            subject=subject,
            alertId=str(alert_id),
        ),
    )


def _enqueue_messages(session: Session, alert_id: UUID, event: str, *, now: datetime) -> None:
    # Each channel has a separate message: a channel that is down must not delay the other.
    for channel in CHANNELS:
        outbox.enqueue(
            session,
            queue=queues.NOTIFICATIONS,
            topic=SEND_ALERT_TOPIC,
            payload={"alertId": str(alert_id), "channel": channel, "event": event},
            due_at=now,
        )
