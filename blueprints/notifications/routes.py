"""Routes of the notification feed."""

from typing import Any
from uuid import UUID

from flask import Response, request

from blueprints.http import (
    AUTHENTICATED,
    AUTHENTICATED_ANY_STATUS,
    PUBLIC,
    Context,
    ContractBlueprint,
    SharedLimit,
)
from blueprints.notifications.schemas import (
    FeedMeta,
    FeedQuery,
    MarkAllRead,
    NotificationView,
    UnreadNotifications,
    Unsubscribed,
    UnsubscribeQuery,
)
from blueprints.notifications.stream import stream_response
from marketplace.infra.live_events import LiveEvent
from marketplace.kernel.errors import ServiceUnavailableError, ValidationError
from marketplace.kernel.ids import parse_uuid
from marketplace.kernel.paging import Page
from marketplace.notifications import feed, texts
from marketplace.notifications.live_streams import TooManyStreamsError
from marketplace.notifications.unsubscribe import unsubscribe

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


@area.post(
    "/unsubscribe",
    auth=PUBLIC,
    limit="30/minute",
    query=UnsubscribeQuery,
    reply=Unsubscribed,
)
def unsubscribe_from_emails(ctx: Context, query: dict[str, Any]) -> dict[str, Any]:
    """Turn off e-mails of a kind, by the token of a link in an e-mail (RFC 8058). A second call changes nothing."""
    kind = unsubscribe(ctx.session, token=query["token"], key=ctx.services.settings.cursor_key)
    return {"kind": kind, "email": False}


@area.get(
    "/stream",
    auth=AUTHENTICATED,
    limit="30/minute",
    phased=True,
    enveloped=False,
    event_stream=True,
    raises=(TooManyStreamsError, ServiceUnavailableError),
)
def stream_events(ctx: Context) -> Response:
    """Stream your notifications and chat events live, as server-sent events.

    Events: `notification` (as in the list), `message` and `read` (a conversation changed), `reload` (more was missed
    than the stream repeats: read the lists), `end` with a `reason`, after which the stream closes. A fourth stream
    of a person ends the oldest. After an interruption, connect again with `Last-Event-ID` to receive the
    notifications that you missed. A notification can arrive twice: compare the ids.
    """
    last_id = request.headers.get("Last-Event-ID", "")
    last_seen = parse_uuid(last_id) if last_id else None
    if last_id and last_seen is None:
        raise ValidationError.of("Last-Event-ID", texts.INVALID_LAST_EVENT_ID)
    # The stream opens before the missed notifications are read, so that no notification falls between.
    stream = ctx.services.live_streams.open(ctx.user.id, expires_at=ctx.token_expires_at)
    missed: list[LiveEvent] = []
    try:
        if last_seen is not None:
            with ctx.services.database.reading() as session:
                missed = feed.list_missed(session, user_id=ctx.user.id, last_seen_id=last_seen)
    except BaseException:
        stream.close()
        raise
    return stream_response(stream, missed)
