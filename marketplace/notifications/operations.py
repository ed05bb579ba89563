"""Write notifications, once for each cause, and record the delivery status of messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import orjson
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.live_events import publish_after_commit
from marketplace.infra.sql.statements import Prepared, Statement
from marketplace.notifications.feed import FeedItem, live_event_of
from marketplace.notifications.kinds import KINDS
from marketplace.notifications.phrases import Wording, render, translate

# Statuses from first to last. Reports may arrive in any order, and a delivery overrides a failure.
STATUS_ORDER = ("queued", "sending", "sent", "failed", "delivered", "read")
# Statuses that a provider reports. This service itself sets the first two.
PROVIDER_STATUSES = frozenset(STATUS_ORDER[2:])


@dataclass(frozen=True, slots=True)
class NewNotification:
    """A notification to write, with the parameters of ``notify``."""

    user_id: UUID
    type: str
    title: Wording
    body: Wording
    link: str | None
    cause: str
    subject_id: UUID | None = None


# Rows are inserted in the order of user ids, so concurrent inserts for the same users cannot deadlock.
_INSERT_NOTIFICATIONS = Prepared(
    text(
        """
        INSERT INTO notifications (user_id, type, title, body, link, cause, subject_id, created_at, deliver_at)
        SELECT n.user_id, n.type, coalesce(CAST(n.translations AS jsonb) -> p.language ->> 0, n.title),
            coalesce(CAST(n.translations AS jsonb) -> p.language ->> 1, n.body), n.link, n.cause, n.subject_id,
            :now, :now
        FROM unnest(
            CAST(:users AS uuid[]), CAST(:types AS text[]), CAST(:titles AS text[]), CAST(:bodies AS text[]),
            CAST(:translations AS text[]), CAST(:links AS text[]), CAST(:causes AS text[]),
            CAST(:subjects AS uuid[])
        ) AS n (user_id, type, title, body, translations, link, cause, subject_id)
            JOIN profiles p ON p.id = n.user_id AND p.erased_at IS NULL
        ORDER BY n.user_id, n.cause
        ON CONFLICT (user_id, cause) DO NOTHING
        RETURNING id, user_id, type, title, body, link, created_at, CAST(NULL AS timestamptz) AS read_at
        """
    )
)


def notify_all(session: Session, *, notifications: Sequence[NewNotification], now: datetime) -> None:
    """Write notifications for several users at once, like ``notify``.

    :param notifications: no user has the same cause twice
    """
    for notification in notifications:
        _ensure_registered(notification.type)
    rows = _INSERT_NOTIFICATIONS.all(
        session,
        users=[notification.user_id for notification in notifications],
        types=[notification.type for notification in notifications],
        titles=[render(notification.title) for notification in notifications],
        bodies=[render(notification.body) for notification in notifications],
        translations=[_translations(notification.title, notification.body) for notification in notifications],
        links=[notification.link for notification in notifications],
        causes=[notification.cause for notification in notifications],
        subjects=[notification.subject_id for notification in notifications],
        now=now,
    )
    for row in rows:
        columns = dict(row)
        user_id = columns.pop("user_id")
        publish_after_commit(session, live_event_of(FeedItem(**columns), user_id=user_id))


_INSERT_NOTIFICATION = Prepared(
    text(
        """
        INSERT INTO notifications
            (user_id, type, title, body, link, cause, former_contact_id, created_at, deliver_at)
        SELECT p.id, :type, coalesce(t.translations -> p.language ->> 0, :title),
            coalesce(t.translations -> p.language ->> 1, :body), :link, :cause,
            CAST(:former_contact_id AS uuid), :now, :now
        FROM profiles p CROSS JOIN (SELECT CAST(:translations AS jsonb) AS translations) t
        WHERE p.id = :user_id AND p.erased_at IS NULL
        ON CONFLICT (user_id, cause) DO NOTHING
        RETURNING id, type, title, body, link, created_at, read_at
        """
    ),
    row=FeedItem,
)


def notify(
    session: Session,
    *,
    user_id: UUID,
    type: str,  # noqa: A002 - the specification's word
    title: Wording,
    body: Wording,
    link: str | None,
    cause: str,
    now: datetime,
    former_contact_id: UUID | None = None,
) -> UUID | None:
    """Write a notification for a user, in the transaction of the cause. A task delivers it by the user's channels.

    :param type: a registered kind of notification, such as ``order_paid``
    :param title: a few words; phrases are written in the user's language
    :param body: a few sentences without secrets; phrases are written in the user's language
    :param link: a path of the client application
    :param cause: the event, such as ``order:<id>:paid``; a second notification of the same cause is ignored
    :param former_contact_id: the former contact to send to, instead of the feed
    :return: the notification's id; none if the user was already notified of the cause
    """
    _ensure_registered(type)
    item = _INSERT_NOTIFICATION.first(
        session,
        user_id=user_id,
        type=type,
        title=render(title),
        body=render(body),
        translations=_translations(title, body),
        link=link,
        cause=cause,
        former_contact_id=former_contact_id,
        now=now,
    )
    if item is None:
        return None
    if former_contact_id is None:
        publish_after_commit(session, live_event_of(item, user_id=user_id))
    return item.id


def _translations(title: Wording, body: Wording) -> str | None:
    """Return the translations as JSON, or none for a text that has none."""
    translations = translate(title, body)
    return orjson.dumps(translations).decode() if translations else None


def _ensure_registered(kind: str) -> None:
    if kind not in KINDS:
        raise LookupError(f"{kind} is not a registered kind of notification")


# An earlier status of a message never undoes a later one.
_UPDATE_STATUS = Statement(
    text(
        """
        WITH found AS (
            SELECT id, status FROM notification_delivery_logs
            WHERE provider_message_id = :provider_message_id
                OR id = :delivery_id AND provider_message_id IS NULL
            FOR NO KEY UPDATE
        ), noted AS (
            UPDATE notification_delivery_logs d SET status = :status, status_at = :at, updated_at = :now,
                error_code = coalesce(:error_code, d.error_code),
                provider_message_id = coalesce(d.provider_message_id, :provider_message_id)
            FROM found
            WHERE d.id = found.id
                AND array_position(CAST(:order AS text[]), :status)
                    > array_position(CAST(:order AS text[]), found.status)
            RETURNING d.id
        )
        SELECT EXISTS (SELECT FROM noted) AS noted FROM found
        """
    )
)


def record_delivery_status(
    session: Session,
    *,
    provider_message_id: str,
    delivery_id: UUID | None = None,
    status: str,
    error_code: str | None,
    at: datetime,
    now: datetime,
) -> bool | None:
    """Record the status of a message as reported by the provider.

    :param delivery_id: the attempt that the provider returns, known also if the response to the call was lost
    :param status: one of ``PROVIDER_STATUSES``
    :param error_code: the provider's error code of a failed message
    :param at: the time of the status at the provider
    :return: whether the status changed; none if no message has this id
    """
    row = _UPDATE_STATUS.first(
        session,
        provider_message_id=provider_message_id,
        delivery_id=delivery_id,
        status=status,
        error_code=error_code,
        at=at,
        now=now,
        order=list(STATUS_ORDER),
    )
    return None if row is None else bool(row["noted"])
