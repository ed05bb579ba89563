"""A mail server for tests: real SMTP over sockets, with STARTTLS or TLS and an optional password."""

import base64
import contextlib
import ipaddress
import socketserver
import ssl
import threading
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

HOST = "127.0.0.1"
USER, PASSWORD = "marketplace", "a p@ss:word"
_IDLE_SECONDS = 20


def make_certificate(directory: Path) -> tuple[Path, Path]:
    """Create a key and a self-signed certificate for 127.0.0.1, and return the files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "mail.test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    key_file, certificate_file = directory / "mail.key", directory / "mail.crt"
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return key_file, certificate_file


class MailServer:
    """A server that accepts mail. ``starttls`` and ``tls`` need a certificate.

    ``fault`` is none or a kind of failure:

    - ``refuse``: answer 450 to every recipient.
    - ``reject``: answer 550 to every mail.
    - ``drop``: disconnect instead of accepting the mail.
    - ``hang``: send nothing until closed.
    - ``sulk``: accept the mail, then refuse QUIT.
    - ``vanish``: accept the mail, then disconnect.

    Recipients with the suffix ``refused`` are refused too.
    """

    def __init__(
        self,
        *,
        certificate: tuple[Path, Path] | None = None,
        tls: bool = False,
        password: bool = False,
    ) -> None:
        self.fault: str | None = None
        self.refused = "@refused.test"
        self.mails: list[EmailMessage] = []
        self.receivers: list[list[str]] = []
        self.encrypted: list[bool] = []
        self.logins: list[tuple[str, str]] = []
        self.commands: list[str] = []
        self.wants_password = password
        self.closing = threading.Event()
        self.context: ssl.SSLContext | None = None
        if certificate:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(certificate[1], certificate[0])
        self.tls = tls
        mail_server = self

        class Handler(_Session):
            server_of_test = mail_server

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, *_: Any) -> None:
                """Ignore clients that disconnect, because a disconnect is no failure of the server."""

        self._server = Server((HOST, 0), Handler)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the server."""
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Session(socketserver.StreamRequestHandler):
    """A connection of a client."""

    server_of_test: MailServer
    timeout = _IDLE_SECONDS

    def setup(self) -> None:
        if self.server_of_test.tls and self.server_of_test.context is not None:
            self.request = self.server_of_test.context.wrap_socket(self.request, server_side=True)
        super().setup()
        self._encrypted = self.server_of_test.tls
        self._authenticated = False
        self._to: list[str] = []

    def handle(self) -> None:
        if self.server_of_test.fault == "hang":
            self.server_of_test.closing.wait(_IDLE_SECONDS)
            return
        self._say("220 mail.test ESMTP")
        while line := self.rfile.readline(2048):
            command = line.decode().strip()
            self.server_of_test.commands.append(command.split(" ", 1)[0].upper())
            if not self._answer(command):
                return

    def finish(self) -> None:
        with contextlib.suppress(OSError):  # the client may be gone
            super().finish()
        # The server must close sockets wrapped for TLS.
        self.connection.close()

    def _say(self, *lines: str) -> None:
        for line in lines:
            self.wfile.write(f"{line}\r\n".encode())
        self.wfile.flush()

    def _answer(self, command: str) -> bool:
        """Answer a command and return whether the connection continues."""
        word = command.split(" ", 1)[0].upper()
        server = self.server_of_test
        if word == "EHLO":
            self._greet()
        elif word == "STARTTLS" and server.context is not None:
            self._say("220 go ahead")
            self._encrypt(server.context)
        elif word == "AUTH":
            self._log_in(command)
        elif word == "MAIL":
            self._to = []
            allowed = self._authenticated or not server.wants_password
            self._say("250 ok" if allowed else "530 log in first")
        elif word == "RCPT":
            self._take_receiver(command)
        elif word == "DATA":
            return self._take_mail()
        elif word == "QUIT":
            if server.fault != "vanish":
                self._say("451 not now" if server.fault == "sulk" else "221 bye")
            return False
        else:
            self._say("250 ok" if word in ("NOOP", "RSET") else "502 not known")
        return True

    def _greet(self) -> None:
        offers = ["mail.test", "8BITMIME", "SMTPUTF8"]
        if self.server_of_test.context is not None and not self._encrypted:
            offers.append("STARTTLS")
        if self.server_of_test.wants_password:
            offers.append("AUTH PLAIN")
        self._say(*(f"250-{offer}" for offer in offers[:-1]), f"250 {offers[-1]}")

    def _encrypt(self, context: ssl.SSLContext) -> None:
        self.rfile.close()
        self.wfile.close()
        self.request = self.connection = context.wrap_socket(self.connection, server_side=True)
        self.rfile = self.connection.makefile("rb", self.rbufsize)
        self.wfile = self.connection.makefile("wb")
        self._encrypted = True

    def _log_in(self, command: str) -> None:
        _, user, password = base64.b64decode(command.split(" ")[2]).decode().split("\0")
        self.server_of_test.logins.append((user, password))
        self._authenticated = (user, password) == (USER, PASSWORD)
        self._say("235 welcome" if self._authenticated else "535 wrong password")

    def _take_receiver(self, command: str) -> None:
        address = command.partition("<")[2].partition(">")[0]
        if self.server_of_test.fault == "refuse" or address.endswith(self.server_of_test.refused):
            self._say("450 not now")
        else:
            self._to.append(address)
            self._say("250 ok")

    def _take_mail(self) -> bool:
        self._say("354 go ahead")
        content = b""
        while not content.endswith(b"\r\n.\r\n"):
            line = self.rfile.readline()
            if not line:
                return False
            content += line
        server = self.server_of_test
        if server.fault == "drop":
            return False
        if server.fault == "reject":
            self._say("550 not this one")
            return True
        mail = message_from_bytes(content[:-3].replace(b"\r\n..", b"\r\n."), policy=policy.default)
        assert isinstance(mail, EmailMessage)
        server.mails.append(mail)
        server.receivers.append(self._to)
        server.encrypted.append(self._encrypted)
        self._say("250 queued")
        return True
