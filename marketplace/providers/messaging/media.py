"""Files of incoming messages: metadata and content from the Cloud API of the messaging provider.

https://developers.facebook.com/docs/whatsapp/cloud-api/reference/media
"""

import hashlib
import re
from typing import IO
from urllib.parse import urlsplit

from marketplace.infra.settings import Settings
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.providers import texts
from marketplace.providers.client import ProviderClient, ProviderRefusedError

_TIMEOUT_SECONDS = 10.0
_DOWNLOAD_SECONDS = 60.0
_NAME = "messaging provider"
# The access token is sent with the download, so the address must be the provider's.
_MEDIA_DOMAINS = (".fbsbx.com", ".facebook.com", ".whatsapp.net")
_MEDIA_ID = re.compile(r"[A-Za-z0-9_-]{1,128}", re.ASCII)


class MediaTooLargeError(Exception):
    """The file of a message exceeds the limit."""


class MessageMediaClient:
    """A client for the files of incoming messages."""

    def __init__(self, settings: Settings) -> None:
        self._origin = urlsplit(settings.messaging_url)[:2]
        self._client = ProviderClient(
            _NAME,
            settings.messaging_url,
            timeout_seconds=_TIMEOUT_SECONDS,
            headers={"Authorization": f"Bearer {settings.messaging_access_token}"},
        )

    def download(self, media_id: str, *, into: IO[bytes], max_bytes: int) -> None:
        """Download the file of a message.

        :param media_id: from the message; the provider keeps the file for 30 days
        :param into: an empty file
        :raises MediaTooLargeError: the file has more than ``max_bytes`` bytes
        :raises ProviderRefusedError: the provider does not have the file, or no provider is configured
        :raises ProviderUnavailableError: no complete and unchanged file in time
        """
        if not self._origin[1] or not _MEDIA_ID.fullmatch(media_id):
            raise ProviderRefusedError(_NAME, 404, "")
        described = self._client.get(f"/{media_id}")
        url, digest = (described.get(name) for name in ("url", "sha256"))
        if not isinstance(url, str) or not isinstance(digest, str) or not self._is_trusted(url):
            raise _unavailable_error()
        if not self._client.download(url, into=into, max_bytes=max_bytes, seconds=_DOWNLOAD_SECONDS):
            raise MediaTooLargeError
        into.seek(0)
        if hashlib.sha256(into.read()).hexdigest() != digest.lower():
            raise _unavailable_error()

    def _is_trusted(self, url: str) -> bool:
        parts = urlsplit(url)
        host = f".{parts.hostname}"
        return parts[:2] == self._origin or (parts.scheme == "https" and host.endswith(_MEDIA_DOMAINS))


def _unavailable_error() -> ProviderUnavailableError:
    return ProviderUnavailableError(texts.PROVIDER_UNAVAILABLE.format(provider=_NAME))
