"""Messages through the Cloud API of the messaging provider.

https://developers.facebook.com/docs/whatsapp/cloud-api/guides/send-message-templates
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from marketplace.infra.settings import Settings
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.providers import texts
from marketplace.providers.client import ProviderClient, ProviderRefusedError

_TIMEOUT_SECONDS = 5.0
_NAME = "messaging provider"
# Rate limits and faults of the provider, which it reports with the status 400 or 403.
_TEMPORARY_CODES = frozenset(
    {"1", "2", "4", "80007", "130429", "131000", "131016", "131048", "131056", "133004"}
)
_MAX_PARAMETER_LENGTH = 600
_MAX_TEXT_LENGTH = 4_096


class MessagingClient:
    """A client of the messaging provider."""

    def __init__(self, settings: Settings) -> None:
        self._path = f"/{settings.messaging_phone_id}/messages"
        self._client = ProviderClient(
            _NAME,
            settings.messaging_url,
            timeout_seconds=_TIMEOUT_SECONDS,
            headers={"Authorization": f"Bearer {settings.messaging_access_token}"},
        )

    def send_template(
        self,
        *,
        phone: str,
        template: str,
        language: str,
        parameters: Sequence[str],
        button: str | None,
        delivery_id: UUID,
    ) -> str:
        """Send a template message.

        :param phone: in international format
        :param parameters: the values of the body's placeholders, in order
        :param button: the end of the address of the template's button, if the template has one
        :param delivery_id: returned in receipts
        :return: the provider's id of the message
        :raises ProviderRefusedError: the provider refused the message and sent nothing
        :raises ProviderUnavailableError: no confirmation
        """
        components: list[dict[str, Any]] = [
            {
                "type": "body",
                "parameters": [{"type": "text", "text": _clean(value)} for value in parameters],
            }
        ]
        if button is not None:
            components.append(
                {
                    "type": "button",
                    "sub_type": "url",
                    "index": "0",
                    "parameters": [{"type": "text", "text": button}],
                }
            )
        content = {
            "type": "template",
            "template": {"name": template, "language": {"code": language}, "components": components},
        }
        return self._send(phone, content, delivery_id)

    def send_text(self, *, phone: str, body: str, delivery_id: UUID) -> str:
        """Send a text within 24 hours of the recipient's last message.

        :param phone: in international format, with or without the plus sign
        :param body: at most 4,096 characters; a longer text is cut
        :param delivery_id: returned in receipts
        :return: the provider's id of the message
        :raises ProviderRefusedError: the provider refused the message and sent nothing
        :raises ProviderUnavailableError: no confirmation
        """
        content = {"type": "text", "text": {"body": body[:_MAX_TEXT_LENGTH], "preview_url": False}}
        return self._send(phone, content, delivery_id)

    def _send(self, phone: str, content: dict[str, Any], delivery_id: UUID) -> str:
        try:
            reply = self._client.post(
                self._path,
                {
                    "messaging_product": "whatsapp",
                    "recipient_type": "individual",
                    "to": phone.removeprefix("+"),
                    **content,
                    "biz_opaque_callback_data": str(delivery_id),
                },
            )
        except ProviderRefusedError as error:
            if error.code in _TEMPORARY_CODES:
                unavailable = _unavailable_error()
                unavailable.may_have_happened = False
                raise unavailable from None
            raise
        messages = reply.get("messages") if isinstance(reply, dict) else None
        message_id = messages[0].get("id") if isinstance(messages, list) and messages else None
        if not isinstance(message_id, str):
            raise _unavailable_error()
        return message_id


def _clean(value: str) -> str:
    """Remove line breaks and runs of spaces, which the provider refuses in parameters."""
    return " ".join(value.split())[:_MAX_PARAMETER_LENGTH]


def _unavailable_error() -> ProviderUnavailableError:
    return ProviderUnavailableError(texts.PROVIDER_UNAVAILABLE.format(provider=_NAME))
