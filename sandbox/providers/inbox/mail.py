"""A mail server that accepts e-mails for the inbox, by the part of SMTP that mail submission needs (RFC 5321)."""

import contextlib
import re
import socketserver
import threading
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from sandbox.providers.inbox.context import Inbox, Outcome

_REPLIES: dict[Outcome, str] = {
    "error": "451 Requested action aborted: local error in processing",
    "limited": "450 Requested mail action not taken: too many mails",
    "refused": "550 Requested action not taken: mailbox unavailable",
}
# Headers without which mail providers refuse or hide a mail.
_REQUIRED_HEADERS = ("From", "To", "Subject", "Date", "Message-ID")
_ADDRESS = re.compile(r"<([^<>\s]+@[^<>\s]+)>")
_IDLE_SECONDS = 30
_MAX_LINE_BYTES = 2_048
_MAX_MAIL_BYTES = 1_000_000
_POLL_SECONDS = 0.1


class MailServer(socketserver.ThreadingTCPServer):
    """The mail server. It listens from the construction on, and serves from ``start``."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, inbox: Inbox, *, host: str, port: int) -> None:
        """Listen on an address.

        :param port: 0 means any free port
        """
        self.inbox = inbox
        self._thread: threading.Thread | None = None
        super().__init__((host, port), MailSession)
        self.port = int(self.server_address[1])

    def start(self) -> None:
        """Serve in a thread."""
        self._thread = threading.Thread(
            target=self.serve_forever, args=(_POLL_SECONDS,), name="sandbox-mail", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop serving, and close the socket."""
        if self._thread is not None:
            self.shutdown()
            self._thread.join()
        self.server_close()

    def handle_error(self, *_: Any) -> None:
        """Ignore clients that disconnect, because a disconnect is no failure of the server."""


class MailSession(socketserver.StreamRequestHandler):
    """A connection of a client."""

    timeout = _IDLE_SECONDS
    server: MailServer

    def setup(self) -> None:
        """Start a session without a mail."""
        super().setup()
        self._recipients: list[str] = []

    def finish(self) -> None:
        """Close the connection, also if the client has gone."""
        with contextlib.suppress(OSError):
            super().finish()

    def handle(self) -> None:
        """Answer commands until the client ends the session."""
        self._reply("220 inbox.sandbox ESMTP")
        while line := self.rfile.readline(_MAX_LINE_BYTES):
            command = line.decode("utf-8", "replace").strip()
            word = command.partition(" ")[0].upper()
            if word == "QUIT":
                self._reply("221 Bye")
                return
            self._answer(word, command)

    def _reply(self, *lines: str) -> None:
        self.wfile.write("".join(f"{line}\r\n" for line in lines).encode())

    def _answer(self, word: str, command: str) -> None:
        if word == "EHLO":
            self._reply("250-inbox.sandbox", "250-8BITMIME", "250 SMTPUTF8")
        elif word in ("HELO", "MAIL", "RSET", "NOOP"):
            self._recipients = []
            self._reply("250 OK")
        elif word == "RCPT":
            address = _ADDRESS.search(command)
            if address:
                self._recipients.append(address[1])
            self._reply("250 OK" if address else "501 Syntax: RCPT TO:<address>")
        elif word == "DATA" and self._recipients:
            self._reply("354 End data with <CR><LF>.<CR><LF>")
            self._reply(self._receive())
        else:
            self._reply("503 Bad sequence of commands" if word == "DATA" else "502 Command not implemented")

    def _receive(self) -> str:
        """Read a mail, and return the reply: of the planned outcome, of a faulty mail, or of an accepted mail."""
        lines = []
        size = 0
        while (line := self.rfile.readline(_MAX_MAIL_BYTES)) not in (b".\r\n", b""):
            size += len(line)
            lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
        inbox = self.server.inbox
        outcome = inbox.take_outcome("email")
        if outcome in _REPLIES:
            return _REPLIES[outcome]
        if outcome == "timeout":
            inbox.stopping.wait(inbox.hang_seconds)
            return _REPLIES["error"]
        if size > _MAX_MAIL_BYTES:
            return "552 Message size exceeds the limit"
        mail = message_from_bytes(b"".join(lines), policy=policy.default)
        missing = [name for name in _REQUIRED_HEADERS if not mail[name]]
        if missing:
            return f"550 Missing headers: {', '.join(missing)}"
        for recipient in self._recipients:
            inbox.keep("email", recipient, _content(mail))
        if outcome == "lost":  # the mail is accepted, but the reply comes too late
            inbox.stopping.wait(inbox.hang_seconds)
        return "250 OK"


def _content(mail: EmailMessage) -> dict[str, Any]:
    parts = {part.get_content_type(): part.get_content() for part in mail.walk() if not part.is_multipart()}
    return {
        "subject": str(mail["Subject"]),
        "messageId": str(mail["Message-ID"]),
        "replyTo": str(mail["Reply-To"] or ""),
        "listUnsubscribe": str(mail["List-Unsubscribe"] or ""),
        "listUnsubscribePost": str(mail["List-Unsubscribe-Post"] or ""),
        "text": parts.get("text/plain", ""),
        "html": parts.get("text/html", ""),
    }
