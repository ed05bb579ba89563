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


# Characters of the GSM 7-bit alphabet (3GPP TS 23.038); those after the blank take two places.
_GSM_CHARACTERS = frozenset(
    " !\"#%&'()*+,-./0123456789:;<=>?@$_\n\rABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    "\u00a1\u00a3\u00a4\u00a5\u00a7\u00bf\u00c4\u00c5\u00c6\u00c7\u00c9\u00d1\u00d6\u00d8\u00dc\u00df"
    "\u00e0\u00e4\u00e5\u00e6\u00e8\u00e9\u00ec\u00f1\u00f2\u00f6\u00f8\u00f9\u00fc"
    "\u0393\u0394\u0398\u039b\u039e\u03a0\u03a3\u03a6\u03a8\u03a9"
)
_GSM_EXTENSION = frozenset("^{}\\[~]|\u20ac")


def count_parts(text: str) -> int:
    """Return the number of parts of an SMS: 160 places, or 153 in each of several parts; 70 and 67 with Unicode."""
    if all(character in _GSM_CHARACTERS or character in _GSM_EXTENSION for character in text):
        length, single, part = len(text) + sum(character in _GSM_EXTENSION for character in text), 160, 153
    else:
        length, single, part = len(text.encode("utf-16-be")) // 2, 70, 67
    return 1 if length <= single else -(-length // part)


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
