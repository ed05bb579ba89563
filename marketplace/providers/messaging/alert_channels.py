"""The channels on which alerts reach people: a chat, by its incoming webhook, and e-mail to each receiver."""

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
# The kinds that there are. Each receiver of e-mail is a channel by itself, so that one who is refused is tried again
# alone.
CHANNELS = (CHAT, EMAIL)

# For a connection and for each answer of a server; a mail takes some ten answers.
_TIMEOUT_SECONDS = 10.0
_MAIL_SERVER_NAME = "mail server"
_MARKUP_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


@dataclass(frozen=True)
class AlertMessage:
    """What somebody is told. ``name`` is the same for each try to tell it; ``text`` is of several lines."""

    message_id: str
    headline: str
    text: str


class AlertChannel(Protocol):
    """A way to reach people; ``least_severity`` is the least that it is used for."""

    minimum_severity: str

    def send(self, message: AlertMessage) -> None:
        """Send a message.

        :raises ProviderRefusedError: the other end refuses it
        :raises ProviderUnavailableError: it could not be sent, or may not have been
        """


class ChatChannel:
    """An incoming webhook that takes ``{"text": ...}``, as Slack's, Mattermost's and Rocket.Chat's do."""

    def __init__(self, settings: Settings) -> None:
        self.minimum_severity = settings.alert_chat_severity
        self._client = ProviderClient("chat", settings.alert_chat_url, timeout_seconds=_TIMEOUT_SECONDS)

    def send(self, message: AlertMessage) -> None:
        """Post a message to the chat.

        :raises ProviderRefusedError: the chat refuses it, for instance because the webhook was taken away
        :raises ProviderUnavailableError: no answer in time
        """
        text = f"*{message.headline}*\n{message.text}".translate(_MARKUP_ESCAPES)
        self._client.post_without_reply("", {"text": text})


class EmailChannel:
    """A receiver of e-mail, by a mail server that takes mail for submission.

    With ``smtps://`` all is encrypted, with ``smtp://`` from STARTTLS on, where the server offers it. A password
    is never sent in the clear.
    """

    def __init__(self, settings: Settings, *, recipient: str) -> None:
        """Make the channel of one receiver.

        :param recipient: whose, of ``settings.alert_email_to``; the mail names all of them
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
        """Send a message to its receiver.

        :raises ProviderRefusedError: the server refuses this receiver, or this mail, for now or for good
        :raises ProviderUnavailableError: the server could not be reached, or lets us send nothing
        """
        # What the server says may name addresses.
        try:
            connection = self._connect()
            try:
                self._log_in(connection)
                connection.send_message(self._compose_mail(message), self._sender, [self._recipient])
                # It is taken: whatever is answered to a farewell, it must not be sent again.
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
            raise ProviderUnavailableError("The mail server did not take the message.") from None

    def _connect(self) -> smtplib.SMTP:
        # Named, since the machine's own name would be looked up, which may take long.
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
        # The same for each try, so that a mail program shows one that came twice once.
        mail["Message-ID"] = f"<{message.message_id}@{self._sender.rpartition('@')[2]}>"
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(message.text)
        return mail


def _mail_refused_error(status: int) -> ProviderRefusedError:
    _log.warning("mail refused", status=status)
    return ProviderRefusedError(_MAIL_SERVER_NAME, status, "")


def email_channel_name(address: str) -> str:
    """Name the channel of a receiver of e-mail, without telling who that is.

    :param address: of ``settings.alert_email_to``
    """
    return f"{EMAIL}:{hashlib.sha256(address.lower().encode()).hexdigest()[:12]}"


def channel_kind(name: str) -> str:
    """Tell of which of ``CHANNELS`` a channel is."""
    return name.partition(":")[0]


def alert_circuit_breakers() -> Mapping[str, CircuitBreaker]:
    """Make a circuit breaker for each kind of channel, since one server takes the mail for all receivers."""
    return {kind: CircuitBreaker(response_errors=(ProviderRefusedError,)) for kind in CHANNELS}


def make_alert_channels(settings: Settings) -> Mapping[str, AlertChannel]:
    """Make the channels that are configured, by name: one for each whom they reach."""
    chats: dict[str, AlertChannel] = {CHAT: ChatChannel(settings)} if settings.alert_chat_url else {}
    return chats | {
        email_channel_name(address): EmailChannel(settings, recipient=address)
        for address in settings.alert_email_to
    }
