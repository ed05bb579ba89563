"""Schemas of the notification feed and of devices that receive push notifications."""

from functools import partial
from typing import Any

import marshmallow
from marshmallow import fields, validate, validates_schema

from blueprints.http.envelope import CursorMetaSchema
from blueprints.http.field_docs import PLACED_AT, doc
from blueprints.http.fields import (
    BooleanParameter,
    Choice,
    CursorQuery,
    FullMatch,
    Identified,
    Schema,
    SingleLineText,
    StrictBoolean,
    StrictInteger,
    Timestamp,
    Uuid,
)
from marketplace.identity.preferences import KINDS
from marketplace.kernel import demo_ids
from marketplace.notifications import devices, feed, texts

_EXAMPLE_P256DH = "BNcRdreALRFXTkOOUHK1EtK2wtaz5Ry4YfYCA_0QTpQtUbVlUls0VJXg7A8u-Ts1XbjhazAkj7I99e8QcYP7DkM"
_BASE64URL = "[A-Za-z0-9_-]{1,200}=?=?"
_unread_count = partial(
    StrictInteger,
    minimum=0,
    maximum=feed.MAX_UNREAD_COUNT,
    required=True,
    metadata=doc(f"Number of unread notifications, counted up to {feed.MAX_UNREAD_COUNT}.", 3),
)


class FeedQuery(CursorQuery):
    """The page of the feed."""

    unread = BooleanParameter(
        load_default=False, metadata=doc("True leaves out the notifications that you have read.", True)
    )


class FeedMeta(CursorMetaSchema):
    """The ``meta`` of the feed."""

    unread_count = _unread_count(data_key="unreadCount")


class NotificationView(Identified):
    """A notification. The text never contains a delivery PIN."""

    example_id = demo_ids.NOTIFICATION

    type = fields.String(
        required=True,
        metadata=doc("Kind of the notification. More kinds can follow: show title and body.", "order_paid"),
    )
    title = fields.String(required=True, metadata=doc("A few words.", "Payment received"))
    body = fields.String(
        required=True,
        metadata=doc("A few sentences.", "Your payment for order CM-1042 is held until delivery."),
    )
    link = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("Path in the client application; null without one.", f"/orders/{demo_ids.ORDER}"),
    )
    created_at = Timestamp(required=True)
    read_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Time of the first reading; null while unread.", None)
    )


class MarkAllRead(Schema):
    """The notifications to mark."""

    up_to_id = Uuid(
        metadata=doc("Newest notification that you show. Without it, all are marked.", demo_ids.NOTIFICATION)
    )


class UnreadNotifications(Schema):
    """The notifications that stay unread."""

    unread_count = _unread_count()


class UnsubscribeQuery(Schema):
    """The token of a link in an e-mail."""

    token = fields.String(
        required=True,
        validate=validate.Length(max=400),
        metadata=doc("Token of the link.", "WyIwMTkzIiwiZmF2b3JpdGVzIl0.7u2Jx1"),
    )


class Unsubscribed(Schema):
    """The preference that is off now."""

    kind = Choice(*KINDS, required=True, metadata=doc("Kind of the messages.", "favorites"))
    email = StrictBoolean(required=True, metadata=doc("False: no e-mails of this kind.", False))


class SubscriptionKeys(Schema):
    """The keys of a browser's subscription, in base64url."""

    p256dh = fields.String(
        required=True,
        validate=FullMatch(_BASE64URL, error="Must be base64url."),
        metadata=doc("Public key of the curve P-256, 65 bytes.", _EXAMPLE_P256DH),
    )
    auth = fields.String(
        required=True,
        validate=FullMatch(_BASE64URL, error="Must be base64url."),
        metadata=doc("Secret of 16 bytes.", "tBHItJI5svbpez7KI4CCXg"),
    )


class Subscription(Schema):
    """A browser's subscription, as `PushSubscription.toJSON()` returns it."""

    endpoint = fields.String(
        required=True,
        validate=validate.Length(max=devices.MAX_ENDPOINT_LENGTH),
        metadata=doc("URL of the browser's push service.", "https://push.example.com/send/d1Y4bXBsZQ"),
    )
    keys = fields.Nested(SubscriptionKeys, required=True, metadata=doc("Keys that encrypt messages."))


class RegisterDevice(Schema):
    """A device: a browser with a subscription, or a native app with a token."""

    example_omits = frozenset({"token"})

    kind = Choice(
        *devices.KINDS,
        required=True,
        metadata=doc("`web_push` with a subscription, or `fcm` with a token.", devices.WEB_PUSH),
    )
    name = SingleLineText(
        min_length=1, max_length=80, metadata=doc("Label of the device.", "Firefox on Amara\u2019s laptop")
    )
    subscription = fields.Nested(Subscription, metadata=doc("Subscription of a browser."))
    token = fields.String(
        validate=FullMatch(
            "[A-Za-z0-9_:-]{20,4096}",
            error="Must be 20 to 4096 letters, digits, hyphens, underscores and colons.",
        ),
        metadata=doc(
            "Token of a native app (Firebase Cloud Messaging).", "dQw4w9WgXcQ:APA91bHun4MxP5egoKMwt2KZF"
        ),
    )

    @validates_schema
    def check_kind(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Check that the field of the kind is present, and no other."""
        needed, other = (
            ("subscription", "token") if data.get("kind") == devices.WEB_PUSH else ("token", "subscription")
        )
        if data.get(needed) is None or data.get(other) is not None:
            raise marshmallow.ValidationError(texts.SUBSCRIPTION_REQUIRED, needed)


class PushKey(Schema):
    """The key of the server for web push."""

    public_key = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("Public key in base64url; null while web push is not configured.", _EXAMPLE_P256DH),
    )


class DeviceView(Identified):
    """A device without its token."""

    example_id = demo_ids.DEVICE

    kind = Choice(*devices.KINDS, required=True, metadata=doc("Kind of the device.", devices.WEB_PUSH))
    name = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("Label of the device; null without one.", "Firefox on Amara\u2019s laptop"),
    )
    host = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("Host of a browser's push service; null for a native app.", "push.example.com"),
    )
    created_at = Timestamp(required=True)
    last_seen_at = Timestamp(required=True, metadata=doc("Time of the latest registration.", PLACED_AT))
