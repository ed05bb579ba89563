"""The SMS gateway, through Termii's API: send a message, and fetch the balance.

The API has no idempotency key. After an unknown outcome, a repeated call can send a second message.
"""

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from marketplace.infra.settings import Settings
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.providers import texts
from marketplace.providers.client import ProviderClient

_TIMEOUT_SECONDS = 4.0
_CURRENCY = "NGN"
_NAME = "SMS gateway"


@dataclass(frozen=True)
class SentSms:
    """A message that the gateway accepted, with the gateway's id of the message."""

    message_id: str


class SmsGateway:
    """A client of the SMS gateway."""

    def __init__(self, settings: Settings) -> None:
        self._key = settings.sms_api_key
        self._sender = settings.sms_sender_id
        self._channel = settings.sms_channel
        self._client = ProviderClient(_NAME, settings.sms_url, timeout_seconds=_TIMEOUT_SECONDS)

    def send(self, *, phone: str, text: str) -> SentSms:
        """Send a message once.

        :param phone: in international format
        :raises ProviderRefusedError: the gateway refused the message and sent nothing
        :raises ProviderUnavailableError: no valid response in time; the outcome is unknown
        """
        reply = self._client.post(
            "/api/sms/send",
            {
                "api_key": self._key,
                "to": phone.removeprefix("+"),
                "from": self._sender,
                "sms": text,
                "type": "plain",
                "channel": self._channel,
            },
        )
        message_id = _member(reply, "message_id")
        if _member(reply, "code") != "ok" or not isinstance(message_id, str) or not message_id:
            raise _invalid_reply_error()
        return SentSms(message_id)

    def fetch_balance(self) -> int:
        """Fetch the balance of the account in kobo.

        :raises ProviderRefusedError: the gateway refused the credentials
        :raises ProviderUnavailableError: no valid response in time, or a balance in another currency
        """
        try:
            reply = self._client.get("/api/get-balance", params={"api_key": self._key})
        except ProviderUnavailableError as error:
            # The cause can name the URL, which contains the key.
            raise ProviderUnavailableError(error.detail) from None
        try:
            naira = Decimal(str(_member(reply, "balance")))
        except InvalidOperation as error:
            raise _invalid_reply_error() from error
        if _member(reply, "currency") != _CURRENCY or not naira.is_finite():
            raise _invalid_reply_error()
        return int(naira * 100)


def _member(reply: Any, name: str) -> Any:
    return reply.get(name) if isinstance(reply, dict) else None


def _invalid_reply_error() -> ProviderUnavailableError:
    return ProviderUnavailableError(texts.PROVIDER_UNAVAILABLE.format(provider=_NAME))
