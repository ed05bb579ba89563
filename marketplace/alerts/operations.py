"""Raising alerts and resolving them, in the transaction of their cause.

An alert is raised if, and only if, its cause is committed; so is the log line, and so are the messages about it,
which the outbox hands to the channels. A rule that finds its condition gone resolves its alert itself.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import orjson
import structlog
from sqlalchemy import ColumnElement, text, update
from sqlalchemy.orm import Session

from marketplace.alerts.kinds import ALERT_KINDS, AlertIdentifier, Severity
from marketplace.alerts.models import Alert
from marketplace.audit.operations import Act, record_audit_entry
from marketplace.identity.permissions import MANAGE_PLATFORM
from marketplace.identity.queries import Caller
from marketplace.infra import outbox
from marketplace.infra.db import Json, Statement
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
    """The alert is already resolved. If its cause occurs again, a new alert is raised."""

    reason = "alert-already-resolved"


# A repeat waits for whoever raised, or resolves, the same one; then it is counted, or a new one is opened.
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
    """Raise an alert in the transaction of its cause, or count one up that is open.

    While it is open, a repeat leaves the first facts and keeps its own as the latest; nobody is told again, unless
    it is worse than before. Raised after it was resolved, it is a new one. It locks the alert's row until the
    transaction ends, so it comes after all other locks.

    :param session: in a transaction: what is rolled back raises nothing
    :param identifier: of ``ALERT_KINDS``
    :param subject: what it is about, such as ``refund:<id>``; ids, no personal data
    :param title: what happened, in a few words that are the same each time
    :param facts: ids, counts and amounts; what looks personal or secret in them is redacted, long ones are cut
    :param now: when
    :param severity: none for the kind's own
    :return: the alert's id
    :raises KeyError: there is no such kind
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
        # To those who were told when it was less bad, it is not told again: see the claim of a message.
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
    """Give facts as they are stored and sent: redacted, no longer than one reads at night."""
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


_LOCK_OPEN_ALERT = Statement(
    text(
        """
        SELECT id FROM alerts WHERE identifier = :identifier AND subject = :subject AND resolved_at IS NULL
        FOR NO KEY UPDATE
        """
    )
)


def lock_alert(session: Session, *, identifier: AlertIdentifier, subject: str) -> bool:
    """Lock what is open about a subject, for a rule that looks whether its condition is gone.

    Whoever raises it meanwhile has been waited for, and is seen, or waits for us, and raises a new one.

    :param identifier: of ``ALERT_KINDS``
    :param subject: as it was raised with
    :return: whether there is something to resolve
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
    """Resolve what is open about a subject, for a rule whose condition is gone.

    :param identifier: of ``ALERT_KINDS``, one or several
    :param subject: as it was raised with
    :param note: what ended it, in words that are the same each time
    :param now: when
    :return: whether there was something to resolve
    """
    matching = (
        Alert.identifier.in_([identifier] if isinstance(identifier, str) else identifier),
        Alert.subject == redact_text(subject)[:_MAX_TEXT_LENGTH],
    )
    return _resolve_open_alerts(session, matching, note=note, now=now) > 0


def resolve_alerts_except(
    session: Session, *, identifier: AlertIdentifier, subjects: Sequence[str], note: str, now: datetime
) -> int:
    """Resolve what is open of a kind, but for some subjects: for a rule that looks at all.

    :param subjects: those whose condition still holds
    :param note: what ended the others
    :param now: when
    :return: how many there were
    """
    matching = (
        Alert.identifier == identifier,
        Alert.subject.not_in([redact_text(subject)[:_MAX_TEXT_LENGTH] for subject in subjects]),
    )
    return _resolve_open_alerts(session, matching, note=note, now=now)


def _resolve_open_alerts(
    session: Session, matching: Iterable[ColumnElement[bool]], *, note: str, now: datetime
) -> int:
    """Resolve open alerts for a rule, and count them."""
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
    """Resolve an alert for an officer, or for an operator at the command line, and audit it.

    :param note: what was done about it
    :param officer: who; none for the operator
    :raises NotFoundError: there is no such alert
    :raises PermissionRequiredError: the officer lacks the permission that the alert's kind takes
    :raises AlertAlreadyResolvedError: it is resolved
    """
    alert = found(
        session.get(Alert, alert_id, with_for_update={"key_share": True}, populate_existing=True),
        "There is no such alert.",
    )
    # An alert of a kind that no longer exists is the platform's.
    kind = ALERT_KINDS.get(alert.identifier)
    permission = kind.permission if kind else MANAGE_PLATFORM
    if officer is not None and not officer.has_permission(permission):
        raise PermissionRequiredError(f"To resolve {alert.identifier} takes the permission {permission}.")
    if alert.resolved_at is not None:
        raise AlertAlreadyResolvedError("The alert is resolved already.")
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
    # Each channel has a message of its own: one that is down does not hold up the other.
    for channel in CHANNELS:
        outbox.enqueue(
            session,
            queue=queues.NOTIFICATIONS,
            topic=SEND_ALERT_TOPIC,
            payload={"alertId": str(alert_id), "channel": channel, "event": event},
            due_at=now,
        )
