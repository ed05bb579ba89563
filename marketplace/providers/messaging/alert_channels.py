"""Channels for alerts: a chat with an incoming webhook, and e-mail to each recipient."""

import contextlib
import hashlib
import smtplib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Protocol
from urllib.parse import unquote, urlsplit

import structlog

from marketplace.infra.circuit_breaker import CircuitBreaker
from marketplace.infra.settings import Settings
from marketplace.kernel.clock import system_clock
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.providers.client import ProviderClient, ProviderRefusedError

_log = structlog.get_logger(__name__)

CHAT, EMAIL = "chat", "email"
# The kinds of channels. Each e-mail recipient is a separate channel, so that a retry reaches only that recipient.
CHANNELS = (CHAT, EMAIL)

# Per connection and per server response. Sending a mail takes about ten responses.
_TIMEOUT_SECONDS = 10.0
_MAIL_SERVER_NAME = "mail server"
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
    """An e-mail recipient, reached through a mail submission server.

    ``smtps://`` uses TLS from the start. ``smtp://`` uses STARTTLS if the server offers STARTTLS. A password is never
    sent without encryption.
    """

    def __init__(self, settings: Settings, *, recipient: str) -> None:
        """Create the channel of a recipient.

        :param recipient: an address in ``settings.alert_email_to``; the mail's To header lists all addresses
        """
        server = urlsplit(settings.smtp_url)
        self.minimum_severity = settings.alert_email_severity
        self._recipient = recipient
        self._all_recipients = settings.alert_email_to
        self._sender = settings.alert_sender
        self._tls = server.scheme == "smtps"
        self._host = server.hostname or ""
        self._port = server.port or (465 if self._tls else 587)  # the ports of mail submission
        self._user, self._password = unquote(server.username or ""), unquote(server.password or "")

    def send(self, message: AlertMessage) -> None:
        """Send a message to the recipient.

        :raises ProviderRefusedError: the server refused this recipient or this mail
        :raises ProviderUnavailableError: the server is unavailable or refused the session
        """
        # Error messages of the server can contain addresses, so errors do not chain to the cause.
        try:
            connection = self._connect()
            try:
                self._log_in(connection)
                connection.send_message(self._compose_mail(message), self._sender, [self._recipient])
                # The server has accepted the mail. An error on QUIT must not cause a second mail.
                with contextlib.suppress(smtplib.SMTPException, OSError):
                    connection.quit()
            finally:
                connection.close()
        except smtplib.SMTPRecipientsRefused as error:
            [(status, _)] = error.recipients.values()
            raise _mail_refused_error(status) from None
        except smtplib.SMTPDataError as error:
            raise _mail_refused_error(error.smtp_code) from None
        except (smtplib.SMTPException, OSError) as error:
            _log.warning("provider unavailable", provider=_MAIL_SERVER_NAME, reason=type(error).__name__)
            raise ProviderUnavailableError("The mail server did not accept the message.") from None

    def _connect(self) -> smtplib.SMTP:
        # Without an explicit name, smtplib looks up the host name, which can be slow.
        name = self._sender.rpartition("@")[2]
        if self._tls:
            context = ssl.create_default_context()
            return smtplib.SMTP_SSL(self._host, self._port, name, timeout=_TIMEOUT_SECONDS, context=context)
        return smtplib.SMTP(self._host, self._port, name, timeout=_TIMEOUT_SECONDS)

    def _log_in(self, connection: smtplib.SMTP) -> None:
        connection.ehlo()
        encrypted = self._tls
        if not encrypted and connection.has_extn("starttls"):
            connection.starttls(context=ssl.create_default_context())
            connection.ehlo()
            encrypted = True
        if self._user:
            if not encrypted:
                raise smtplib.SMTPNotSupportedError("no password without encryption")
            connection.login(self._user, self._password)

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


def _mail_refused_error(status: int) -> ProviderRefusedError:
    _log.warning("mail refused", status=status)
    return ProviderRefusedError(_MAIL_SERVER_NAME, status, "")


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
