"""Push messages to native apps through Firebase Cloud Messaging, HTTP v1.

https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages
"""

import threading
from typing import Any

import orjson
import urllib3
from google.auth.exceptions import GoogleAuthError
from google.auth.transport.urllib3 import Request
from google.oauth2.service_account import Credentials

from marketplace.infra.settings import Settings
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.providers import texts
from marketplace.providers.client import ProviderClient

_TIMEOUT_SECONDS = 5.0
_SCOPE = "https://www.googleapis.com/auth/firebase.messaging"
_NAME = "native push service"


class FcmClient:
    """A client of Firebase Cloud Messaging. The access token is fetched at first use and refreshed in time."""

    def __init__(self, settings: Settings) -> None:
        account: dict[str, Any] = orjson.loads(settings.fcm_credentials)
        self._project = account["project_id"]
        self._credentials: Any = Credentials.from_service_account_info(  # type: ignore[no-untyped-call]
            account, scopes=[_SCOPE]
        )
        self._transport = Request(  # type: ignore[no-untyped-call]
            urllib3.PoolManager(timeout=_TIMEOUT_SECONDS, retries=False)
        )
        self._client = ProviderClient(_NAME, settings.fcm_url, timeout_seconds=_TIMEOUT_SECONDS)
        self._lock = threading.Lock()

    def send(
        self,
        *,
        token: str,
        title: str,
        body: str,
        data: dict[str, str],
        ttl_seconds: int,
        tag: str,
        is_urgent: bool,
    ) -> str:
        """Send a message to a device.

        :param data: further members for the app
        :param tag: a shown notification with the same tag is replaced
        :return: the provider's id of the message
        :raises ProviderRefusedError: the provider refused the message, with the status 404 for an unregistered device
        :raises ProviderUnavailableError: no confirmation
        """
        reply = self._client.post(
            f"/v1/projects/{self._project}/messages:send",
            {
                "message": {
                    "token": token,
                    "notification": {"title": title, "body": body},
                    "data": data,
                    "android": {
                        "ttl": f"{ttl_seconds}s",
                        "priority": "HIGH" if is_urgent else "NORMAL",
                        "notification": {"tag": tag},
                    },
                    "apns": {"headers": {"apns-collapse-id": tag}},
                }
            },
            headers={"Authorization": f"Bearer {self._access_token()}"},
        )
        name = reply.get("name") if isinstance(reply, dict) else None
        if not isinstance(name, str):
            raise ProviderUnavailableError(texts.PROVIDER_UNAVAILABLE.format(provider=_NAME))
        return name

    def _access_token(self) -> str:
        with self._lock:
            if not self._credentials.valid:
                try:
                    self._credentials.refresh(self._transport)
                except GoogleAuthError:
                    # The error's text can contain the provider's response.
                    error = ProviderUnavailableError(texts.PROVIDER_UNAVAILABLE.format(provider=_NAME))
                    error.may_have_happened = False
                    raise error from None
            return str(self._credentials.token)
