"""Notifications: the feed is written here alone, each cause once; and the delivery statuses of messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.notifications.models import Notification

# In this order, whatever order they come in. That somebody has it outweighs that a try failed.
STATUS_ORDER = ("queued", "sent", "failed", "delivered", "read")
# What a provider tells; the first is our own.
PROVIDER_STATUSES = frozenset(STATUS_ORDER[1:])


@dataclass(frozen=True, slots=True)
class NewNotification:
    """Something that somebody is told, as ``notify`` takes it."""

    user_id: UUID
    type: str
    title: str
    body: str
    link: str | None
    cause: str


# In the order of their ids, so that two who tell the same people can't wait for each other.
_INSERT_NOTIFICATIONS = Statement(
    text(
        """
        INSERT INTO notifications (user_id, type, title, body, link, cause, created_at)
        SELECT user_id, type, title, body, link, cause, :now FROM unnest(
            CAST(:users AS uuid[]), CAST(:types AS text[]), CAST(:titles AS text[]), CAST(:bodies AS text[]),
            CAST(:links AS text[]), CAST(:causes AS text[])
        ) AS news (user_id, type, title, body, link, cause)
        ORDER BY user_id, cause
        ON CONFLICT (user_id, cause) DO NOTHING
        """
    )
)


def notify_all(session: Session, *, notifications: Sequence[NewNotification], now: datetime) -> None:
    """Write rows of several people's feeds at once, like ``notify``.

    :param notifications: who is told what; none of them is told a cause twice
    :param now: when
    """
    _INSERT_NOTIFICATIONS.run(
        session,
        users=[notification.user_id for notification in notifications],
        types=[notification.type for notification in notifications],
        titles=[notification.title for notification in notifications],
        bodies=[notification.body for notification in notifications],
        links=[notification.link for notification in notifications],
        causes=[notification.cause for notification in notifications],
        now=now,
    )


_INSERT_NOTIFICATION = Statement(
    insert(Notification)
    .on_conflict_do_nothing(index_elements=("user_id", "cause"))
    .returning(Notification.id),
    columns=("user_id", "type", "title", "body", "link", "cause", "former_contact_id", "created_at"),
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
    """Write a row of somebody's feed, in the transaction of what they are told of.

    :param user_id: whom to tell
    :param type: what kind of news it is, such as ``product_held``
    :param title: a few words
    :param body: a sentence or two; no secret stands in it
    :param link: where it leads to, a path of the application, if anywhere
    :param cause: names what happened, such as ``product.reject:<id>:<revision>``; a second telling of the
        same cause does nothing
    :param now: when
    :param former_contact_id: for what goes to where this person could be reached before, and to no feed
    :return: the notification's id, or none if this person was told of this cause before
    """
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
    )
    return notification_id


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
    """Note what a provider tells of a message.

    :param provider_message_id: the provider's id of the message
    :param status: of ``PROVIDER_STATUSES``
    :param error_code: the provider's, of one that failed
    :param at: when it came to that, as the provider says
    :param now: the time
    :return: whether that is news; none if no message of ours has this id
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
