"""Devices that receive push notifications: register, list and remove.

A token or subscription belongs to one account at a time, the latest that registered the device.
"""

import base64
import binascii
import ipaddress
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import orjson
from cryptography.hazmat.primitives.asymmetric import ec
from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.identity.operations import lock_profile
from marketplace.kernel.errors import NotFoundError, ValidationError
from marketplace.notifications import texts
from marketplace.notifications.models import UserDevice

WEB_PUSH, FCM = "web_push", "fcm"
KINDS = (WEB_PUSH, FCM)
MAX_DEVICES = 20
MAX_ENDPOINT_LENGTH = 2_048
# A point of the curve P-256 without compression: the byte 4 and two coordinates of 32 bytes (RFC 8291, section 3.1).
_POINT_BYTES = 65
_AUTH_BYTES = 16


@dataclass(frozen=True)
class WebPushSubscription:
    """A subscription of a browser: the address of the push service, and the keys that encrypt messages.

    :ivar p256dh: the public key of the browser, in base64url
    :ivar auth: the secret of the browser, in base64url
    """

    endpoint: str
    p256dh: str
    auth: str

    def check(self, *, local_push_url: str) -> None:
        """Check the address and the keys.

        :param local_push_url: as in ``register_device``
        :raises ValidationError: a field is faulty
        """
        is_local = bool(local_push_url) and self.endpoint.startswith(f"{local_push_url}/")
        if not is_local and not _is_public_https_url(self.endpoint):
            raise ValidationError.of("subscription.endpoint", texts.INVALID_ENDPOINT)
        point = _decode(self.p256dh)
        if point is None or len(point) != _POINT_BYTES or not _is_on_curve(point):
            raise ValidationError.of("subscription.keys.p256dh", texts.INVALID_P256DH)
        secret = _decode(self.auth)
        if secret is None or len(secret) != _AUTH_BYTES:
            raise ValidationError.of("subscription.keys.auth", texts.INVALID_AUTH)


def register_device(
    session: Session,
    *,
    user_id: UUID,
    name: str | None,
    subscription: WebPushSubscription | None,
    token: str | None,
    now: datetime,
    local_push_url: str = "",
) -> tuple[UserDevice, bool]:
    """Register a device for push notifications. A known device moves to this account.

    The oldest device of an account makes room for the device that exceeds ``MAX_DEVICES``.

    :param name: label of the device
    :param subscription: of a browser; none for a native app
    :param token: of a native app (Firebase Cloud Messaging); none for a browser
    :param local_push_url: the base URL of a push service that need not be public, for development
    :return: the device, and whether the device is new to this account
    :raises ValidationError: the subscription is faulty
    """
    # One account at a time, so that concurrent registrations keep the limit.
    lock_profile(session, user_id=user_id)
    if subscription is not None:
        subscription.check(local_push_url=local_push_url)
        kind, identity, host = WEB_PUSH, subscription.endpoint, urlsplit(subscription.endpoint).hostname
        content = orjson.dumps(vars(subscription)).decode()
    elif token is not None:
        kind, identity, host, content = FCM, token, None, token
    else:
        raise ValueError("a device needs a subscription or a token")
    values: dict[str, Any] = {
        "user_id": user_id,
        "kind": kind,
        "name": name,
        "host": host,
        "token": content,
        "last_seen_at": now,
    }
    index = f"{kind}:{identity}"
    known = session.scalar(
        select(UserDevice.id).where(UserDevice.token_index == index, UserDevice.user_id == user_id)
    )
    device_id = session.scalar(
        insert(UserDevice)
        .values(**values, token_index=index, created_at=now)
        .on_conflict_do_update(
            index_elements=("token_index",),
            set_=values | ({} if known else {"created_at": now}),
        )
        .returning(UserDevice.id)
    )
    surplus = (
        select(UserDevice.id)
        .where(UserDevice.user_id == user_id)
        .order_by(UserDevice.last_seen_at.desc(), UserDevice.id.desc())
        .offset(MAX_DEVICES)
    )
    session.execute(delete(UserDevice).where(UserDevice.id.in_(surplus)))
    return session.get_one(UserDevice, device_id, populate_existing=True), known is None


def list_devices(session: Session, *, user_id: UUID) -> list[UserDevice]:
    """List a person's devices, the latest seen first. There are at most ``MAX_DEVICES``."""
    rows = session.scalars(
        select(UserDevice)
        .where(UserDevice.user_id == user_id)
        .order_by(UserDevice.last_seen_at.desc(), UserDevice.id.desc())
    )
    return list(rows)


def remove_device(session: Session, *, user_id: UUID, device_id: UUID) -> None:
    """Remove a person's device, which then receives no push notifications.

    :raises NotFoundError: the person has no such device
    """
    removed = session.scalar(
        delete(UserDevice)
        .where(UserDevice.id == device_id, UserDevice.user_id == user_id)
        .returning(UserDevice.id)
    )
    if removed is None:
        raise NotFoundError(texts.DEVICE_NOT_FOUND)


def _is_public_https_url(url: str) -> bool:
    """Return whether a URL leads to a public host by HTTPS.

    The service will send requests to this address, so names and addresses of internal hosts are refused.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    host = parts.hostname or ""
    if parts.scheme != "https" or port not in (None, 443) or parts.username is not None or parts.fragment:
        return False
    labels = host.rstrip(".").split(".")
    if len(labels) < 2 or labels[-1] in _INTERNAL_DOMAINS or not labels[-1].isalpha():
        return False
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return all(label and len(label) <= 63 for label in labels) and len(host) <= 253 and host.isascii()
    return False


_INTERNAL_DOMAINS = frozenset(
    {"localhost", "local", "internal", "intranet", "lan", "home", "corp", "arpa", "onion"}
)


def _decode(text: str) -> bytes | None:
    """Decode base64url with or without padding; none for other texts."""
    stripped = text.rstrip("=")
    try:
        return base64.b64decode(stripped + "=" * (-len(stripped) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None


def _is_on_curve(point: bytes) -> bool:
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    except ValueError:
        return False
    return True
