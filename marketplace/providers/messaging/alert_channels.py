"""Channels for alerts: a chat with an incoming webhook, and e-mail to each recipient."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Protocol

from marketplace.infra.circuit_breaker import CircuitBreaker
from marketplace.infra.settings import Settings
from marketplace.kernel.clock import system_clock
from marketplace.providers.client import ProviderClient, ProviderRefusedError
from marketplace.providers.messaging.mail_server import MailServer

CHAT, EMAIL = "chat", "email"
# The kinds of channels. Each e-mail recipient is a separate channel, so that a retry reaches only that recipient.
CHANNELS = (CHAT, EMAIL)

_TIMEOUT_SECONDS = 10.0
_MARKUP_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


@dataclass(frozen=True)
class AlertMessage:
    """An alert message. ``message_id`` is the same for each attempt. ``text`` can have several lines."""

    message_id: str
    headline: str
    text: str


class AlertChannel(Protocol):
    """A channel for alerts of at least ``minimum_severity``."""

    minimum_severity: str

    def send(self, message: AlertMessage) -> None:
        """Send a message.

        :raises ProviderRefusedError: the server refused the message
        :raises ProviderUnavailableError: the message could not be sent, or the outcome is unknown
        """


class ChatChannel:
    """An incoming webhook that accepts ``{"text": ...}``, as in Slack, Mattermost and Rocket.Chat."""

    def __init__(self, settings: Settings) -> None:
        self.minimum_severity = settings.alert_chat_severity
        self._client = ProviderClient("chat", settings.alert_chat_url, timeout_seconds=_TIMEOUT_SECONDS)

    def send(self, message: AlertMessage) -> None:
        """Post a message to the chat.

        :raises ProviderRefusedError: the chat refused the message, for example because the webhook was removed
        :raises ProviderUnavailableError: no response in time
        """
        text = f"*{message.headline}*\n{message.text}".translate(_MARKUP_ESCAPES)
        self._client.post_without_reply("", {"text": text})


class EmailChannel:
    """An e-mail recipient, reached through a mail submission server."""

    def __init__(self, settings: Settings, *, recipient: str) -> None:
        """Create the channel of a recipient.

        :param recipient: an address in ``settings.alert_email_to``; the mail's To header lists all addresses
        """
        self.minimum_severity = settings.alert_email_severity
        self._recipient = recipient
        self._all_recipients = settings.alert_email_to
        self._sender = settings.alert_sender
        self._server = MailServer(settings.smtp_url)

    def send(self, message: AlertMessage) -> None:
        """Send a message to the recipient.

        :raises ProviderRefusedError: the server refused this recipient or this mail
        :raises ProviderUnavailableError: the server is unavailable, refused the session or asks for a later attempt
        """
        self._server.send(self._compose_mail(message), sender=self._sender, recipient=self._recipient)

    def _compose_mail(self, message: AlertMessage) -> EmailMessage:
        mail = EmailMessage()
        mail["From"] = self._sender
        mail["To"] = ", ".join(self._all_recipients)
        mail["Subject"] = " ".join(message.headline.split())
        mail["Date"] = format_datetime(system_clock())
        # The id is the same for each attempt, so that mail programs hide duplicates.
        mail["Message-ID"] = f"<{message.message_id}@{self._sender.rpartition('@')[2]}>"
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(message.text)
        return mail


def email_channel_name(address: str) -> str:
    """Return the name of an e-mail recipient's channel, which does not reveal the address.

    :param address: an address in ``settings.alert_email_to``
    """
    return f"{EMAIL}:{hashlib.sha256(address.lower().encode()).hexdigest()[:12]}"


def channel_kind(name: str) -> str:
    """Return the kind of a channel, a value of ``CHANNELS``."""
    return name.partition(":")[0]


def alert_circuit_breakers() -> Mapping[str, CircuitBreaker]:
    """Create a circuit breaker for each kind of channel, because all recipients share one mail server."""
    return {kind: CircuitBreaker(response_errors=(ProviderRefusedError,)) for kind in CHANNELS}


def make_alert_channels(settings: Settings) -> Mapping[str, AlertChannel]:
    """Create the configured channels by name: the chat, and a channel for each e-mail recipient."""
    chats: dict[str, AlertChannel] = {CHAT: ChatChannel(settings)} if settings.alert_chat_url else {}
    return chats | {
        email_channel_name(address): EmailChannel(settings, recipient=address)
        for address in settings.alert_email_to
    }
