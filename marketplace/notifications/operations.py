"""Telling people: here alone the feed is written, and a cause is told once."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.notifications.models import Notification


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
