"""Problem details for requests that gunicorn refuses itself, before the application sees them.

gunicorn would answer these with a page of its own. Examples are a URL that is too long and a malformed header.
"""

import time
from contextlib import suppress
from socket import SHUT_WR, socket
from typing import Any
from uuid import uuid4

import structlog
from gunicorn.http import errors as refusals

from blueprints.http import texts
from blueprints.http.problems import PROBLEM_TYPE, InternalError, render_problem
from marketplace.infra.settings import load_settings
from marketplace.kernel.clock import system_clock
from marketplace.kernel.errors import MalformedBodyError, MarketplaceError, ValidationError

_log = structlog.get_logger(__name__)
# Larger than the headers that the proxy passes on.
_MAX_UNREAD_BYTES = 2 * 1024 * 1024
_LINGER_SECONDS = 2.0


class RefusedRequestError(ValidationError):
    """The web server refused a request before the application saw the request."""

    # Attributes instead of the properties of other errors, which read the catalog. Each error sets both.
    status = 400
    title = "Bad Request"

    def __init__(self, status: int, title: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.title = status, title


# Status, title and detail by gunicorn's error.
_REFUSALS = {
    refusals.LimitRequestLine: (414, "URI Too Long", texts.REQUEST_LINE_TOO_LONG),
    refusals.LimitRequestHeaders: (431, "Request Header Fields Too Large", texts.HEADERS_TOO_LARGE),
    refusals.ExpectationFailed: (417, "Expectation Failed", "The Expect header must be `100-continue`."),
    refusals.UnsupportedTransferCoding: (
        501,
        "Not Implemented",
        "The only supported transfer encoding is `chunked`.",
    ),
}


class ProblemWorker:
    """A mixin for gunicorn's worker classes."""

    def handle_error(self, req: Any, client: socket, _address: Any, error: BaseException) -> None:
        """Answer a request that gunicorn or the application could not handle.

        :param req: gunicorn's request; None if the request could not be parsed
        """
        problem = _translate(error)
        if problem.status == 500:
            _log.error("request failed outside the application", exc_info=error)
        else:
            # The error's text quotes the request, which may hold secrets.
            _log.warning("request refused by the web server", failure=type(error).__name__)
        parsed = req or getattr(error, "req", None)
        method, path = getattr(parsed, "method", None), getattr(parsed, "path", None)
        with suppress(OSError):
            client.settimeout(_LINGER_SECONDS)
            client.sendall(_render_response(problem, path=path or "/", with_body=method != "HEAD"))
            client.shutdown(SHUT_WR)
            _read_rest(client)


def _translate(error: BaseException) -> MarketplaceError:
    for kind, refusal in _REFUSALS.items():
        if isinstance(error, kind):
            return RefusedRequestError(*refusal)
    failed_response = (refusals.InvalidResponseHeader, refusals.InvalidResponseHeaderName)
    if isinstance(error, refusals.ParseException) and not isinstance(
        error, (refusals.ConfigurationProblem, *failed_response)
    ):
        return MalformedBodyError(texts.REQUEST_UNREADABLE.format(error="Bad Request"))
    return InternalError(texts.INTERNAL_ERROR)


def _render_response(problem: MarketplaceError, *, path: str, with_body: bool) -> bytes:
    request_id = str(uuid4())
    body = render_problem(
        problem,
        base_url=load_settings().public_base_url,
        path=path,
        request_id=request_id,
        now=system_clock(),
        correlation_id=request_id if problem.status >= 500 else None,
    )
    headers = [
        f"HTTP/1.1 {problem.status} {problem.title}",
        f"Content-Type: {PROBLEM_TYPE}",
        f"Content-Length: {len(body)}",
        f"X-Request-ID: {request_id}",
        "X-Content-Type-Options: nosniff",
        "Cache-Control: no-store",
        "Connection: close",
    ]
    return "\r\n".join([*headers, "", ""]).encode() + (body if with_body else b"")


def _read_rest(client: socket) -> None:
    """Read the rest of the request, because a connection closed with unread bytes would lose the response."""
    deadline = time.monotonic() + _LINGER_SECONDS
    unread = _MAX_UNREAD_BYTES
    while unread > 0 and (remaining := deadline - time.monotonic()) > 0:
        client.settimeout(remaining)
        received = len(client.recv(64 * 1024))
        if not received:
            break
        unread -= received
