"""Alerts as staff and operators read them."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.alerts.kinds import ALERT_KINDS
from marketplace.alerts.operations import SEND_ALERT_TOPIC
from marketplace.infra.db import Row, Statement
from marketplace.kernel import queues
from marketplace.kernel.clock import iso
from marketplace.kernel.errors import NotFoundError
from marketplace.kernel.paging import Page, PageRequest, page_of

OPEN, RESOLVED = "open", "resolved"
STATES = (OPEN, RESOLVED)
ALL = "all"

_ALERT_COLUMNS = """
    SELECT a.id, a.identifier, a.severity, a.subject, a.title, a.facts, a.latest_facts AS "latestFacts",
        a.occurrences, CASE WHEN a.resolved_at IS NULL THEN 'open' ELSE 'resolved' END AS state,
        a.raised_at AS "raisedAt", a.last_raised_at AS "lastRaisedAt", a.resolved_at AS "resolvedAt",
        a.resolution, a.resolved_by AS "resolvedBy", a.note
    FROM alerts a
"""


# What is open is few among many: it has an index of its own, which is used where the condition is in its words.
def _build_listing(state: str) -> Statement[Row]:
    return Statement(
        text(
            f"""
            {_ALERT_COLUMNS} WHERE {state}
                AND (CAST(:severity AS text) IS NULL OR a.severity = :severity)
                AND (CAST(:identifier AS text) IS NULL OR a.identifier = :identifier)
                AND (CAST(:last_at AS timestamptz) IS NULL
                    OR (a.raised_at, a.id) < (CAST(:last_at AS timestamptz), CAST(:last_id AS uuid)))
            ORDER BY a.raised_at DESC, a.id DESC LIMIT :most
            """  # our own words
        )
    )


_SELECT_ALERTS_BY_STATE = {
    ALL: _build_listing("true"),
    OPEN: _build_listing("a.resolved_at IS NULL"),
    RESOLVED: _build_listing("a.resolved_at IS NOT NULL"),
}
_SELECT_ALERT = Statement(text(f"{_ALERT_COLUMNS} WHERE a.id = :alert_id"))
_SELECT_DELIVERIES = Statement(
    text(
        """
        SELECT channel, event, sent_at AS "sentAt" FROM alert_messages
        WHERE alert_id = :alert_id ORDER BY sending_until, channel
        """
    )
)
# What a channel has not taken yet, and what was given up; each half has an index of its own.
_UNSENT_MESSAGES = """
    SELECT id, payload ->> 'channel' AS channel, payload ->> 'event' AS event, attempts,
        last_error AS "lastError", due_at AS "dueAt", failed_at AS "failedAt"
    FROM outbox_events
    WHERE queue = :queue AND topic = :topic AND payload ->> 'alertId' = CAST(:alert_id AS text)
"""
_SELECT_UNSENT_MESSAGES = Statement(
    text(
        f"""
        {_UNSENT_MESSAGES} AND done_at IS NULL AND failed_at IS NULL
        UNION ALL {_UNSENT_MESSAGES} AND failed_at IS NOT NULL
        ORDER BY id
        """  # our own words
    )
)
_SELECT_OPEN_SUBJECTS = Statement(
    text("SELECT subject FROM alerts WHERE identifier = :identifier AND resolved_at IS NULL")
)


@dataclass(frozen=True)
class AlertFilters:
    """Which alerts are wanted: of ``STATES`` or all; none for any severity and any identifier."""

    state: str = ALL
    severity: str | None = None
    identifier: str | None = None


def list_alerts(session: Session, *, filters: AlertFilters, page: PageRequest) -> Page:
    """List alerts, the latest first.

    :param filters: which
    :param page: which page; its position is the last row's time and id
    """
    last_at, last_id = page.after("time", "id")
    rows = _SELECT_ALERTS_BY_STATE[filters.state].all(
        session,
        severity=filters.severity,
        identifier=filters.identifier,
        last_at=last_at,
        last_id=last_id,
        most=page.limit + 1,
    )
    return page_of(
        [_add_kind_texts(row) for row in rows],
        request=page,
        position_of=lambda row: [iso(row["raisedAt"]), str(row["id"])],
    )


def fetch_alert(session: Session, *, alert_id: UUID) -> dict[str, Any]:
    """Give an alert.

    :raises NotFoundError: there is none of that id
    """
    row = _SELECT_ALERT.first(session, alert_id=alert_id)
    if row is None:
        raise NotFoundError("There is no such alert.")
    return _add_kind_texts(row)


def fetch_alert_with_messages(session: Session, *, alert_id: UUID) -> dict[str, Any]:
    """Give an alert, with what was told of it on which channel, and what was not.

    :return: besides, ``messages`` that were sent or are being sent, and those ``waiting`` to be, with how often each
        was tried, what it failed at (the error's name alone), and when it is tried again or was given up
    :raises NotFoundError: there is none of that id
    """
    waiting = _SELECT_UNSENT_MESSAGES.all(
        session, queue=queues.NOTIFICATIONS, topic=SEND_ALERT_TOPIC, alert_id=str(alert_id)
    )
    return fetch_alert(session, alert_id=alert_id) | {
        "messages": _SELECT_DELIVERIES.all(session, alert_id=alert_id),
        "waiting": waiting,
    }


def list_open_subjects(session: Session, *, identifier: str) -> set[str]:
    """Give the subjects that a kind of alert is open about."""
    return {row["subject"] for row in _SELECT_OPEN_SUBJECTS.all(session, identifier=identifier)}


def _add_kind_texts(row: dict[str, Any]) -> dict[str, Any]:
    """Add what the table of kinds says; one that it has no more is told without."""
    kind = ALERT_KINDS.get(row["identifier"])
    row["meaning"] = kind.meaning if kind else None
    row["firstStep"] = kind.first_step if kind else None
    return row
