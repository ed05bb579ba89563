"""Push messages to browsers: encrypted by RFC 8291, with a VAPID token by RFC 8292."""

import time
from urllib.parse import urlsplit

from marketplace.infra.settings import Settings
from marketplace.providers.client import ProviderClient

_TIMEOUT_SECONDS = 5.0
_TOKEN_SECONDS = 12 * 3600
_NAME = "push service"


class WebPushClient:
    """A client of the browsers' push services."""

    def __init__(self, settings: Settings) -> None:
        """Read the VAPID key, and import the library, which only processes that send need."""
        from py_vapid import Vapid02  # noqa: PLC0415 - imports much

        self._vapid = Vapid02.from_raw(settings.vapid_private_key.encode())
        self._contact = settings.vapid_contact or f"mailto:{settings.mail_sender}"
        self._client = ProviderClient(_NAME, "", timeout_seconds=_TIMEOUT_SECONDS)

    def send(
        self,
        *,
        endpoint: str,
        p256dh: str,
        auth: str,
        content: bytes,
        ttl_seconds: int,
        topic: str,
        is_urgent: bool,
    ) -> None:
        """Send a message to a browser.

        :param content: at most 3,993 bytes (RFC 8291, section 4)
        :param ttl_seconds: the time for which the push service keeps the message for a device that is offline
        :param topic: a waiting message with the same topic is replaced; at most 32 characters of base64url
        :raises ProviderRefusedError: the push service refused the message, with the status 404 or 410 for an ended
            subscription
        :raises ProviderUnavailableError: no confirmation
        """
        from pywebpush import WebPusher  # noqa: PLC0415 - imports much

        origin = urlsplit(endpoint)
        encrypted = WebPusher({"endpoint": endpoint, "keys": {"p256dh": p256dh, "auth": auth}}).encode(
            content, content_encoding="aes128gcm"
        )
        token = self._vapid.sign(
            {
                "sub": self._contact,
                "aud": f"{origin.scheme}://{origin.netloc}",
                "exp": int(time.time()) + _TOKEN_SECONDS,
            }
        )
        self._client.post_content(
            endpoint,
            bytes(encrypted["body"]),
            headers={
                **token,
                "Content-Type": "application/octet-stream",
                "Content-Encoding": "aes128gcm",
                "TTL": str(ttl_seconds),
                "Topic": topic,
                "Urgency": "high" if is_urgent else "normal",
            },
        )
