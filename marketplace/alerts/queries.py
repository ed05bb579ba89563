"""Queries of alerts for staff and operators."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import ColumnElement, CompoundSelect, Select, select, true, tuple_, union_all
from sqlalchemy.orm import Session

from marketplace.alerts.kinds import AlertIdentifier
from marketplace.alerts.models import Alert, AlertDelivery
from marketplace.alerts.operations import SEND_ALERT_TOPIC
from marketplace.infra.outbox import OutboxEvent
from marketplace.kernel import queues
from marketplace.kernel.clock import iso
from marketplace.kernel.errors import found
from marketplace.kernel.paging import Page, PageRequest, page_of

OPEN, RESOLVED = "open", "resolved"
STATES = (OPEN, RESOLVED)
ALL = "all"
_STATE_CONDITIONS: dict[str, ColumnElement[bool]] = {
    ALL: true(),
    OPEN: Alert.resolved_at.is_(None),
    RESOLVED: Alert.resolved_at.is_not(None),
}


def list_alerts(
    session: Session,
    *,
    page: PageRequest,
    state: str = ALL,
    severity: str | None = None,
    identifier: str | None = None,
) -> Page:
    """List alerts, the latest first.

    :param page: a position holds the last row's time and id
    :param state: one of ``STATES``, or ``ALL``
    :param severity: none for any severity
    :param identifier: none for any kind of alert
    """
    return page_of(
        list(session.scalars(_select_alerts(page, state, severity, identifier))),
        request=page,
        position_of=lambda alert: [iso(alert.raised_at), str(alert.id)],
    )


def _select_alerts(
    page: PageRequest, state: str, severity: str | None = None, identifier: str | None = None
) -> Select[Alert]:
    last_at, last_id = page.after("time", "id")
    filter_values = {"severity": severity, "identifier": identifier}
    conditions = [_STATE_CONDITIONS[state]]
    if last_at is not None:
        conditions.append(
            tuple_(Alert.raised_at, Alert.id) < (datetime.fromisoformat(last_at), UUID(last_id))
        )
    return (
        select(Alert)
        .where(*conditions)
        .filter_by(**{name: value for name, value in filter_values.items() if value is not None})
        .order_by(Alert.raised_at.desc(), Alert.id.desc())
        .limit(page.limit + 1)
    )


def fetch_alert(session: Session, *, alert_id: UUID) -> Alert:
    """Fetch an alert.

    :raises NotFoundError: no alert has the id
    """
    return found(session.get(Alert, alert_id, populate_existing=True), "Alert not found.")


def list_deliveries(session: Session, *, alert_id: UUID) -> Sequence[AlertDelivery]:
    """List the deliveries of an alert that were sent or are being sent."""
    return session.scalars(
        select(AlertDelivery)
        .where(AlertDelivery.alert_id == alert_id)
        .order_by(AlertDelivery.sending_until, AlertDelivery.channel)
    ).all()


def list_unsent_messages(session: Session, *, alert_id: UUID) -> Sequence[OutboxEvent]:
    """List the unsent messages of an alert, including those that failed permanently."""
    return session.scalars(select(OutboxEvent).from_statement(_select_unsent_messages(alert_id))).all()


def _select_unsent_messages(alert_id: UUID) -> CompoundSelect[OutboxEvent]:
    messages = select(OutboxEvent).where(
        OutboxEvent.queue == queues.NOTIFICATIONS,
        OutboxEvent.topic == SEND_ALERT_TOPIC,
        OutboxEvent.payload["alertId"].astext == str(alert_id),
    )
    # Each half of the union uses a different index.
    waiting = messages.where(OutboxEvent.done_at.is_(None), OutboxEvent.failed_at.is_(None))
    return union_all(waiting, messages.where(OutboxEvent.failed_at.is_not(None))).order_by("id")


def list_open_subjects(session: Session, *, identifier: AlertIdentifier) -> set[str]:
    """List the subjects of a kind's open alerts."""
    return set(session.scalars(_select_open_subjects(identifier)))


def _select_open_subjects(identifier: AlertIdentifier) -> Select[str]:
    return select(Alert.subject).where(Alert.identifier == identifier, Alert.resolved_at.is_(None))
