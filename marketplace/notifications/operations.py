"""Write notifications, once for each cause, and record the delivery status of messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.infra.live_events import publish_after_commit
from marketplace.infra.sql.statements import Prepared, Statement
from marketplace.notifications.feed import FeedItem, live_event_of
from marketplace.notifications.kinds import KINDS
from marketplace.notifications.models import Notification

# Statuses from first to last. Reports may arrive in any order, and a delivery overrides a failure.
STATUS_ORDER = ("queued", "sending", "sent", "failed", "delivered", "read")
# Statuses that a provider reports. This service itself sets the first two.
PROVIDER_STATUSES = frozenset(STATUS_ORDER[2:])


@dataclass(frozen=True, slots=True)
class NewNotification:
    """A notification to write, with the parameters of ``notify``."""

    user_id: UUID
    type: str
    title: str
    body: str
    link: str | None
    cause: str
    subject_id: UUID | None = None


# Rows are inserted in the order of user ids, so concurrent inserts for the same users cannot deadlock.
_INSERT_NOTIFICATIONS = Prepared(
    text(
        """
        INSERT INTO notifications (user_id, type, title, body, link, cause, subject_id, created_at, deliver_at)
        SELECT user_id, type, title, body, link, cause, subject_id, :now, :now FROM unnest(
            CAST(:users AS uuid[]), CAST(:types AS text[]), CAST(:titles AS text[]), CAST(:bodies AS text[]),
            CAST(:links AS text[]), CAST(:causes AS text[]), CAST(:subjects AS uuid[])
        ) AS new_rows (user_id, type, title, body, link, cause, subject_id)
        ORDER BY user_id, cause
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
        titles=[notification.title for notification in notifications],
        bodies=[notification.body for notification in notifications],
        links=[notification.link for notification in notifications],
        causes=[notification.cause for notification in notifications],
        subjects=[notification.subject_id for notification in notifications],
        now=now,
    )
    for row in rows:
        columns = dict(row)
        user_id = columns.pop("user_id")
        publish_after_commit(session, live_event_of(FeedItem(**columns), user_id=user_id))


_INSERT_NOTIFICATION = Statement(
    insert(Notification)
    .on_conflict_do_nothing(index_elements=("user_id", "cause"))
    .returning(Notification.id),
    columns=(
        "user_id",
        "type",
        "title",
        "body",
        "link",
        "cause",
        "former_contact_id",
        "created_at",
        "deliver_at",
    ),
)


def notify(
    session: Session,
    *,
    user_id: UUID,
    type: str,  # noqa: A002 - the specification's word
    title: str,
    body: str,
    link: str | None,
    cause: str,
    now: datetime,
    former_contact_id: UUID | None = None,
) -> UUID | None:
    """Write a notification for a user, in the transaction of the cause. A task delivers it by the user's channels.

    :param type: a registered kind of notification, such as ``order_paid``
    :param title: a few words
    :param body: a few sentences without secrets
    :param link: a path of the client application
    :param cause: the event, such as ``order:<id>:paid``; a second notification of the same cause is ignored
    :param former_contact_id: the former contact to send to, instead of the feed
    :return: the notification's id; none if the user was already notified of the cause
    """
    _ensure_registered(type)
    notification_id: UUID | None = _INSERT_NOTIFICATION.scalar(
        session,
        user_id=user_id,
        type=type,
        title=title,
        body=body,
        link=link,
        cause=cause,
        former_contact_id=former_contact_id,
        created_at=now,
        deliver_at=now,
    )
    if notification_id is not None and former_contact_id is None:
        item = FeedItem(
            id=notification_id, type=type, title=title, body=body, link=link, created_at=now, read_at=None
        )
        publish_after_commit(session, live_event_of(item, user_id=user_id))
    return notification_id


def _ensure_registered(kind: str) -> None:
    if kind not in KINDS:
        raise LookupError(f"{kind} is not a registered kind of notification")


# An earlier status of a message never undoes a later one.
_UPDATE_STATUS = Statement(
    text(
        """
        WITH found AS (
            SELECT id, status FROM notification_delivery_logs
            WHERE provider_message_id = :provider_message_id FOR NO KEY UPDATE
        ), noted AS (
            UPDATE notification_delivery_logs d SET status = :status, status_at = :at, updated_at = :now,
                error_code = coalesce(:error_code, d.error_code)
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
    status: str,
    error_code: str | None,
    at: datetime,
    now: datetime,
) -> bool | None:
    """Record the status of a message as reported by the provider.

    :param status: one of ``PROVIDER_STATUSES``
    :param error_code: the provider's error code of a failed message
    :param at: the time of the status at the provider
    :return: whether the status changed; none if no message has this id
    """
    row = _UPDATE_STATUS.first(
        session,
        provider_message_id=provider_message_id,
        status=status,
        error_code=error_code,
        at=at,
        now=now,
        order=list(STATUS_ORDER),
    )
    return None if row is None else bool(row["noted"])
