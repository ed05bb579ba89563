"""Routes of the notification feed."""

from typing import Any
from uuid import UUID

from blueprints.http import AUTHENTICATED_ANY_STATUS, Context, ContractBlueprint, SharedLimit
from blueprints.notifications.schemas import (
    FeedMeta,
    FeedQuery,
    MarkAllRead,
    NotificationView,
    UnreadNotifications,
)
from marketplace.kernel.paging import Page
from marketplace.notifications import feed

area = ContractBlueprint("notifications", "/api/notifications", "Your notifications")


@area.get(
    "",
    auth=AUTHENTICATED_ANY_STATUS,
    limit=SharedLimit.CALLER_TIER,
    query=FeedQuery,
    reply=NotificationView(many=True),
    meta=FeedMeta,
)
def list_notifications(ctx: Context, query: dict[str, Any]) -> Page:
    """List your notifications, the newest first, with the number of unread notifications in `meta.unreadCount`."""
    return feed.list_feed(ctx.session, user_id=ctx.user.id, unread=query["unread"], page=ctx.page)


@area.put(
    "/<uuid:notification_id>/read",
    auth=AUTHENTICATED_ANY_STATUS,
    limit=SharedLimit.CALLER_TIER,
    reply=NotificationView,
)
def mark_notification_read(ctx: Context, notification_id: UUID) -> feed.FeedItem:
    """Mark a notification as read. A repeated call keeps the first time."""
    return feed.mark_read(ctx.session, user_id=ctx.user.id, notification_id=notification_id, now=ctx.now)


@area.post(
    "/read-all",
    auth=AUTHENTICATED_ANY_STATUS,
    limit="60/minute",
    body=MarkAllRead,
    reply=UnreadNotifications,
)
def mark_all_notifications_read(ctx: Context, body: dict[str, Any]) -> dict[str, int]:
    """Mark your notifications as read. Send `upToId` to keep later notifications unread."""
    unread = feed.mark_all_read(ctx.session, user_id=ctx.user.id, up_to_id=body.get("up_to_id"), now=ctx.now)
    return {"unread_count": unread}
