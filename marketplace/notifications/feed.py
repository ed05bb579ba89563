"""The notification feed of a user: pages, the number of unread notifications, and reading."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import bindparam, func, select, update
from sqlalchemy.orm import Session

from marketplace.infra.live_events import LiveEvent
from marketplace.infra.sql.statements import Prepared
from marketplace.kernel.errors import found
from marketplace.kernel.paging import Page, PageRequest, page_of
from marketplace.notifications import texts
from marketplace.notifications.models import Notification

# A badge shows no larger number, and counting more rows would take longer.
MAX_UNREAD_COUNT = 100
# Ids are ordered by time, so the first page starts after the largest id.
_AFTER_ALL_IDS = UUID(int=2**128 - 1)


@dataclass(frozen=True)
class FeedItem:
    """A notification in the feed of its user."""

    id: UUID
    type: str
    title: str
    body: str
    link: str | None
    created_at: datetime
    read_at: datetime | None


_COLUMNS = tuple(getattr(Notification, name) for name in FeedItem.__dataclass_fields__)
# A notification to a former contact is sent to that contact only.
_IN_FEED = (Notification.user_id == bindparam("user_id"), Notification.former_contact_id.is_(None))
_PAGE = (
    select(*_COLUMNS)
    .where(*_IN_FEED, Notification.id < bindparam("before"))
    .order_by(Notification.id.desc())
    .limit(bindparam("limit"))
)
_SELECT_PAGE = Prepared(_PAGE, row=FeedItem)
_SELECT_UNREAD_PAGE = Prepared(_PAGE.where(Notification.read_at.is_(None)), row=FeedItem)


def list_feed(session: Session, *, user_id: UUID, unread: bool, page: PageRequest) -> Page:
    """List the notifications of a user, the newest first, with the number of unread notifications.

    :param unread: leave out read notifications
    """
    [before] = page.after("id")
    statement = _SELECT_UNREAD_PAGE if unread else _SELECT_PAGE
    position = _AFTER_ALL_IDS if before is None else UUID(before)
    items = statement.all(session, user_id=user_id, before=position, limit=page.limit + 1)
    listed = page_of(items, request=page, position_of=lambda item: [str(item.id)])
    listed.extra_meta["unread_count"] = count_unread(session, user_id=user_id)
    return listed


# Ids are ordered by the start of their transactions, and a transaction that started earlier can commit later.
_OVERLAP_MILLISECONDS = 10_000
MAX_MISSED = 100
_SELECT_MISSED = (
    select(*_COLUMNS)
    .where(*_IN_FEED, Notification.id > bindparam("after"), Notification.id != bindparam("last_seen_id"))
    .order_by(Notification.id)
    .limit(MAX_MISSED + 1)
)


def list_missed(session: Session, *, user_id: UUID, last_seen_id: UUID) -> list[LiveEvent]:
    """List the notifications since a notification, the oldest first, as live events.

    Notifications from shortly before are included, so a client can receive a notification twice.

    :param last_seen_id: the last notification that the client received, a UUID of version 7
    :return: at most one more than ``MAX_MISSED``
    """
    # The first 48 bits of an id are its time in milliseconds.
    after = UUID(int=max(last_seen_id.int - (_OVERLAP_MILLISECONDS << 80), 0))
    rows = session.execute(
        _SELECT_MISSED, {"user_id": user_id, "after": after, "last_seen_id": last_seen_id}
    ).mappings()
    return [live_event_of(FeedItem(**row), user_id=user_id) for row in rows]


def live_event_of(item: FeedItem, *, user_id: UUID) -> LiveEvent:
    """Return the live event of a notification, with the members of the API's notification."""
    return LiveEvent(
        user_id,
        "notification",
        {
            "id": item.id,
            "type": item.type,
            "title": item.title,
            "body": item.body,
            "link": item.link,
            "createdAt": item.created_at,
            "readAt": item.read_at,
        },
        id=str(item.id),
    )


_COUNT_UNREAD = Prepared(
    select(func.count()).select_from(
        select(Notification.id)
        .where(*_IN_FEED, Notification.read_at.is_(None))
        .limit(MAX_UNREAD_COUNT)
        .subquery()
    )
)


def count_unread(session: Session, *, user_id: UUID) -> int:
    """Count the unread notifications of a user, up to ``MAX_UNREAD_COUNT``."""
    return int(_COUNT_UNREAD.scalar(session, user_id=user_id))


def mark_read(session: Session, *, user_id: UUID, notification_id: UUID, now: datetime) -> FeedItem:
    """Mark a notification as read. A repeated call keeps the first time.

    :raises NotFoundError: the feed of the user has no such notification
    """
    row = session.execute(
        update(Notification)
        .where(
            Notification.id == notification_id,
            Notification.user_id == user_id,
            Notification.former_contact_id.is_(None),
        )
        .values(read_at=func.coalesce(Notification.read_at, now))
        .returning(*_COLUMNS)
    ).first()
    return FeedItem(**found(row, texts.NOTIFICATION_NOT_FOUND)._mapping)


def mark_all_read(session: Session, *, user_id: UUID, up_to_id: UUID | None, now: datetime) -> int:
    """Mark the unread notifications of a user as read, and return the number of unread notifications that are left.

    :param up_to_id: the newest notification that the client shows, so that later ones stay unread; none marks all
    """
    condition = [] if up_to_id is None else [Notification.id <= up_to_id]
    session.execute(
        update(Notification)
        .where(
            Notification.user_id == user_id,
            Notification.former_contact_id.is_(None),
            Notification.read_at.is_(None),
            *condition,
        )
        .values(read_at=now)
    )
    return count_unread(session, user_id=user_id)
