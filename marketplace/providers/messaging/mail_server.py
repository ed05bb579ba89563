"""Mail submission through an SMTP server."""

import contextlib
import smtplib
import ssl
from email.message import EmailMessage
from urllib.parse import unquote, urlsplit

import structlog

from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.providers.client import ProviderRefusedError

_log = structlog.get_logger(__name__)
# Per connection and per server response. Sending a mail takes about ten responses.
_TIMEOUT_SECONDS = 10.0
_NAME = "mail server"


class MailServer:
    """A mail submission server.

    ``smtps://`` uses TLS from the start. ``smtp://`` uses STARTTLS if the server offers STARTTLS. A password is never
    sent without encryption.
    """

    def __init__(self, url: str) -> None:
        """Set the server.

        :param url: ``smtp://user:password@host:port`` or ``smtps://…``
        """
        server = urlsplit(url)
        self._tls = server.scheme == "smtps"
        self._host = server.hostname or ""
        self._port = server.port or (465 if self._tls else 587)  # the ports of mail submission
        self._user, self._password = unquote(server.username or ""), unquote(server.password or "")

    def send(self, mail: EmailMessage, *, sender: str, recipient: str) -> None:
        """Send a mail to one recipient.

        :raises ProviderRefusedError: the server refused this recipient or this mail. A status below 500 asks for a
            later attempt
        :raises ProviderUnavailableError: the server is unavailable or refused the session; only after the mail's
            content was sent, the mail may have been accepted
        """
        is_handed_over = False
        # Error messages of the server can contain addresses, so errors do not chain to the cause.
        try:
            connection = self._connect(sender.rpartition("@")[2])
            try:
                self._log_in(connection)
                is_handed_over = True
                connection.send_message(mail, sender, [recipient])
                # The server has accepted the mail. An error on QUIT must not cause a second mail.
                with contextlib.suppress(smtplib.SMTPException, OSError):
                    connection.quit()
            finally:
                connection.close()
        except smtplib.SMTPRecipientsRefused as error:
            [(status, _)] = error.recipients.values()
            raise _refused_error(status) from None
        except smtplib.SMTPDataError as error:
            raise _refused_error(error.smtp_code) from None
        except smtplib.SMTPSenderRefused as error:
            raise _unavailable_error(error, may_have_happened=False) from None
        except (smtplib.SMTPException, OSError) as error:
            raise _unavailable_error(error, may_have_happened=is_handed_over) from None

    def _connect(self, name: str) -> smtplib.SMTP:
        # Without an explicit name, smtplib looks up the host name, which can be slow.
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


def _refused_error(status: int) -> ProviderRefusedError:
    _log.warning("mail refused", status=status)
    return ProviderRefusedError(_NAME, status, "")


def _unavailable_error(error: Exception, *, may_have_happened: bool) -> ProviderUnavailableError:
    _log.warning("provider unavailable", provider=_NAME, reason=type(error).__name__)
    unavailable = ProviderUnavailableError("The mail server did not accept the message.")
    unavailable.may_have_happened = may_have_happened
    return unavailable
