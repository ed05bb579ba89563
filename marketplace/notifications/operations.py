"""Telling people: one function writes the feed, and a cause is told once."""

from datetime import datetime
from uuid import UUID

from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.notifications.models import Notification

_INSERT = Statement(
    insert(Notification)
    .on_conflict_do_nothing(index_elements=("user_id", "cause"))
    .returning(Notification.id),
    columns=("user_id", "type", "title", "body", "link", "cause", "created_at"),
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
) -> UUID | None:
    """This function will write a row of somebody's feed, in the transaction of what they are told of.

    :param user_id: whom to tell
    :param type: what kind of news it is, such as ``product_held``
    :param title: a few words
    :param body: a sentence or two; no secret stands in it
    :param link: where it leads to, a path of the application, if anywhere
    :param cause: names what happened, such as ``product.reject:<id>:<revision>``; a second telling of the
        same cause does nothing
    :param now: when
    :return: the notification's id, or none if this person was told of this cause before
    """
    row = _INSERT.first(
        session,
        user_id=user_id,
        type=type,
        title=title,
        body=body,
        link=link,
        cause=cause,
        created_at=now,
    )
    return row["id"] if row else None
