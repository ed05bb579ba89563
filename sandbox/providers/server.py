"""The server of all simulated providers, in one process and on one port."""

import json
import socket
import threading
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.wrappers import Response
from werkzeug.wsgi import ClosingIterator

from marketplace.kernel.clock import Clock, system_clock
from marketplace.kernel.origins import AllowedOrigins
from sandbox.providers.ai.app import create_app as create_ai_app
from sandbox.providers.ai.context import Provider as AiProvider
from sandbox.providers.chat.app import create_app as create_chat_app
from sandbox.providers.chat.context import Chat
from sandbox.providers.gateway.app import create_app as create_gateway_app
from sandbox.providers.gateway.clockwork import Clockwork
from sandbox.providers.gateway.context import (
    DEFAULT_HANG_SECONDS,
    DEFAULT_RETRY_SCALE,
    DEFAULT_SETTLE_SECONDS,
    DEFAULT_WEBHOOK_TIMEOUT_SECONDS,
    FeeBearer,
    Gateway,
    GatewaySettings,
)
from sandbox.providers.identity.app import create_app as create_identity_app
from sandbox.providers.identity.context import Identity
from sandbox.providers.inbox.app import create_app as create_inbox_app
from sandbox.providers.inbox.context import Inbox
from sandbox.providers.inbox.mail import MailServer
from sandbox.providers.inbox.service_account import make_service_account, process_key
from sandbox.providers.scale import SCALE_FOLDER, create_app as create_scale_app
from sandbox.providers.sms.app import create_app as create_sms_app
from sandbox.providers.sms.context import SmsGateway
from sandbox.providers.store import Store

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

GATEWAY_SCHEMA_VERSION = 1
IDENTITY_SCHEMA_VERSION = 1
DEFAULT_AUDIENCE = "campus-marketplace"
DEFAULT_PUBLIC_BASE_URL = "http://127.0.0.1:8000"
WEBHOOK_PATH = "/api/payments/webhook"
MESSAGING_WEBHOOK_PATH = "/api/whatsapp/webhook"

# Far more than 50 concurrent clients. A higher number indicates a mistake, which the limit makes visible.
MAXIMUM_REQUESTS_AT_ONCE = 256
LISTEN_BACKLOG = 256
# An idle connection occupies a thread, so it is closed after this time.
IDLE_CONNECTION_SECONDS = 15
# Interval of the checks for a stop. Ten checks a second cost nothing measurable.
STOP_POLL_SECONDS = 0.1
# Maximum wait of a stop for responses in progress.
DRAIN_SECONDS = 10.0

log = structlog.stdlib.get_logger(__name__)


class PortUnavailableError(OSError):
    """The server cannot listen on the address. The message names the address and the reason."""


class RequestHandler(WSGIRequestHandler):
    """Werkzeug's request handler with a limit on idle connections and one debug log line per request."""

    timeout = IDLE_CONNECTION_SECONDS
    protocol_version = "HTTP/1.1"

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log a request without its query string, which may contain confidential values."""
        path = self.path.partition("?")[0]
        log.debug("sandbox request served", method=self.command, path=path, status=str(code), size=str(size))

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 - named by the base class
        """Log a message of the base class, such as a broken connection."""
        log.debug("sandbox connection", kind=type, detail=message % args if args else message)


class InFlight:
    """A limit on concurrent requests, and a counter that lets a stop wait for the last request."""

    def __init__(self, application: "WSGIApplication") -> None:
        self._application = application
        self._changed = threading.Condition()
        self._count = 0

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Serve a request."""
        with self._changed:
            if self._count >= MAXIMUM_REQUESTS_AT_ONCE:
                return Response("Too many concurrent requests\n", status=503)(environ, start_response)
            self._count += 1
        try:
            answer = self._application(environ, start_response)
        except BaseException:
            self._end()
            raise
        # The server closes the response after the last byte or after the client's disconnect.
        return ClosingIterator(answer, self._end)

    def _end(self) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def wait_until_idle(self, timeout_seconds: float) -> bool:
        """Wait for the requests in progress, and return whether all have ended."""
        with self._changed:
            return self._changed.wait_for(lambda: self._count == 0, timeout=timeout_seconds)


def open_socket(host: str, port: int) -> socket.socket:
    """Open a listening socket.

    :param port: 0 means any free port
    :raises PortUnavailableError: the address is taken, not permitted, or not on this machine
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        # A restart need not wait for lingering connections of the previous run.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(LISTEN_BACKLOG)
    except OSError as error:
        listener.close()
        reason = error.strerror or str(error)
        raise PortUnavailableError(f"cannot listen on {host}:{port}: {reason}") from error
    return listener


class ProvidersServer:
    """The server of the simulated providers, run in threads by ``start`` and ``stop`` or ``with``."""

    def __init__(
        self,
        host: str,
        port: int,
        data: Path,
        *,
        secret_key: str,
        gateway_name: str = "gateway",
        webhook_url: str | None = None,
        public_base_url: str = DEFAULT_PUBLIC_BASE_URL,
        public_url: str | None = None,
        audience: str = DEFAULT_AUDIENCE,
        fee_bearer: FeeBearer = "platform",
        retry_scale: float = DEFAULT_RETRY_SCALE,
        settle_seconds: float = DEFAULT_SETTLE_SECONDS,
        hang_seconds: float = DEFAULT_HANG_SECONDS,
        webhook_timeout_seconds: float = DEFAULT_WEBHOOK_TIMEOUT_SECONDS,
        identity_admin_key: str = "",
        ai_key: str = "",
        sms_key: str = "",
        fcm_credentials: str = "",
        messaging_token: str = "",
        messaging_secret: str = "",
        functions_key: str = "",
        mail_port: int = 0,
        cors_origins: tuple[str, ...] = (),
        clock: Clock = system_clock,
    ) -> None:
        """Listen on the address and open the database files. Serving begins with ``start``.

        :param port: 0 means any free port
        :param data: directory of the two database files, created when missing
        :param webhook_url: destination of events, by default the webhook of ``public_base_url``
        :param public_base_url: address of the application that uses the providers
        :param identity_admin_key: the key of the identity provider's administration; empty refuses every request
        :param ai_key: the AI provider's API key; empty means that no key is needed
        :param sms_key: the SMS gateway's API key; empty means that any key is accepted
        :param fcm_credentials: the JSON key of a service account for native push; empty generates a key
        :param messaging_token: the messaging provider's access token; empty means that any token is accepted
        :param messaging_secret: the secret that signs receipts; empty means unsigned receipts
        :param functions_key: the key of the application's functions, which receive replies by e-mail
        :param mail_port: the port of the mail server; 0 means any free port
        :param cors_origins: origins of the browser pages that may call the identity provider
        :param public_url: the providers' address for clients, if a proxy is in front
        :raises PortUnavailableError: the server cannot listen on the address
        :raises InvalidSettingsError: a setting is missing or out of range
        :raises StoreVersionError: the database files have another version
        """
        self._stopping = threading.Event()
        self._clockwork = Clockwork()
        self._socket = open_socket(host, port)
        self.host, self.port = host, int(self._socket.getsockname()[1])
        shown_host = f"[{host}]" if ":" in host else host
        self.url = (public_url or f"http://{shown_host}:{self.port}").rstrip("/")
        self.gateway_url = f"{self.url}/gateway"
        self.identity_issuer = f"{self.url}/identity"
        self.ai_url = f"{self.url}/ai"
        self.chat_url = f"{self.url}/chat"
        self.sms_url = f"{self.url}/sms"
        self.scale_url = f"{self.url}/scale/workers"
        self.chat = Chat(hang_seconds=hang_seconds, stopping=self._stopping)
        self.ai = AiProvider(key=ai_key, hang_seconds=hang_seconds, stopping=self._stopping)
        self.sms = SmsGateway(key=sms_key, hang_seconds=hang_seconds, stopping=self._stopping)
        self.inbox_url = f"{self.url}/inbox"
        self.fcm_credentials = fcm_credentials or make_service_account(
            f"{self.inbox_url}/fcm/token", key=process_key()
        )
        self.inbox = Inbox(
            hang_seconds=hang_seconds,
            stopping=self._stopping,
            service_account=json.loads(self.fcm_credentials),
            access_token=messaging_token,
            receipts_url=f"{public_base_url.rstrip('/')}{MESSAGING_WEBHOOK_PATH}",
            app_secret=messaging_secret,
            functions_url=f"{public_base_url.rstrip('/')}/functions/v1",
            functions_key=functions_key,
            url=self.inbox_url,
        )
        self._mail_server = MailServer(self.inbox, host=host, port=mail_port)
        self.smtp_url = f"smtp://{shown_host}:{self._mail_server.port}"
        self._stores: list[Store] = []
        self._thread: threading.Thread | None = None
        try:
            settings = GatewaySettings(
                name=gateway_name,
                secret_key=secret_key,
                webhook_url=webhook_url or f"{public_base_url.rstrip('/')}{WEBHOOK_PATH}",
                public_url=self.gateway_url,
                fee_bearer=fee_bearer,
                retry_scale=retry_scale,
                settle_seconds=settle_seconds,
                hang_seconds=hang_seconds,
                webhook_timeout_seconds=webhook_timeout_seconds,
            )
            self.gateway = Gateway(
                settings=settings,
                store=self._open_store(data, "gateway", GATEWAY_SCHEMA_VERSION),
                clock=clock,
                wake=self._clockwork.wake,
                stopping=self._stopping,
            )
            self.identity = Identity(
                issuer=self.identity_issuer,
                audience=audience,
                application_url=public_base_url,
                store=self._open_store(data, "identity", IDENTITY_SCHEMA_VERSION),
                clock=clock,
                allowed_origins=AllowedOrigins(cors_origins),
                admin_key=identity_admin_key,
            )
            self._in_flight = InFlight(
                DispatcherMiddleware(
                    _root,
                    {
                        "/gateway": create_gateway_app(self.gateway),
                        "/identity": create_identity_app(self.identity),
                        "/ai": create_ai_app(self.ai),
                        "/chat": create_chat_app(self.chat),
                        "/sms": create_sms_app(self.sms),
                        "/inbox": create_inbox_app(self.inbox, self.sms),
                        "/scale": create_scale_app(data / SCALE_FOLDER),
                    },
                )
            )
            self._server = make_server(
                host,
                self.port,
                self._in_flight,
                threaded=True,
                request_handler=RequestHandler,
                fd=self._socket.fileno(),
            )
        except BaseException:
            self._close()
            raise

    def _open_store(self, data: Path, name: str, version: int) -> Store:
        schema = files(f"sandbox.providers.{name}").joinpath("schema.sql").read_text(encoding="utf-8")
        store = Store(data / f"{name}.sqlite3", schema=schema, version=version)
        self._stores.append(store)
        return store

    def _close(self) -> None:
        self._socket.close()
        self._mail_server.stop()
        for store in self._stores:
            store.close()

    def start(self) -> None:
        """Serve in a thread, and deliver pending events of an earlier run."""
        self._clockwork.start(self.gateway)
        self._mail_server.start()
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": STOP_POLL_SECONDS},
            name="sandbox-providers",
            daemon=True,
        )
        self._thread.start()

    def stop(self) -> None:
        """Refuse new requests, finish the requests in progress, and close the database files."""
        # This ends calls that hang on purpose.
        self._stopping.set()
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
        if not self._in_flight.wait_until_idle(DRAIN_SECONDS):
            log.warning("sandbox requests aborted", waited_seconds=DRAIN_SECONDS)
        self._clockwork.stop()
        self._server.server_close()
        self._close()

    def __enter__(self) -> "ProvidersServer":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _root(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
    """Answer requests outside the providers, such as health checks of the process."""
    alive = environ.get("PATH_INFO") in ("/", "/health")
    response = Response(
        "ok\n" if alive else "not found\n", status=200 if alive else 404, mimetype="text/plain"
    )
    return response(environ, start_response)
