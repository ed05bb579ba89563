"""The context of a request, for the edge and for views: ids, times, caller, page and session."""

import ipaddress
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import structlog
from flask import Flask, Response, g, request
from sqlalchemy.orm import Session

from blueprints.http.contract import Contract
from blueprints.http.uploads import UploadedFile
from marketplace.audit.operations import Act
from marketplace.identity.queries import Caller
from marketplace.kernel.errors import UnauthorizedError
from marketplace.kernel.ids import parse_uuid
from marketplace.kernel.paging import PageRequest, TableRequest
from marketplace.services import Services

_log = structlog.get_logger("access")
_MAX_CORRELATION_LENGTH = 128
_MAX_USER_AGENT_LENGTH = 256


@dataclass(slots=True)
class Context:
    """A request and its response: caller, time, page, and the session that the edge opened for the view."""

    services: Services
    request_id: UUID
    now: datetime
    started_at_seconds: float
    path: str
    contract: Contract | None = None
    caller: Caller | None = None
    requested_page: PageRequest | None = None
    requested_table: TableRequest | None = None
    open_session: Session | None = None
    cursor_listing_key: str = ""  # names the collection that is paged, for its cursors
    rate_limit_headers: dict[str, str] = field(default_factory=dict)  # empty until the limit is counted
    headers: dict[str, str] = field(default_factory=dict)
    open_files: list[UploadedFile] = field(default_factory=list)

    @property
    def session(self) -> Session:
        """The session of the request's one transaction; phased routes have none."""
        if self.open_session is None:
            raise RuntimeError("a phased route opens its own transactions")
        return self.open_session

    @property
    def media_base_url(self) -> str:
        """The URL below which pictures are read."""
        return self.services.settings.media_base_url

    @property
    def user(self) -> Caller:
        """The caller of a route that requires a token.

        :raises UnauthorizedError: nobody is signed in
        """
        if self.caller is None:
            raise UnauthorizedError
        return self.caller

    @property
    def act(self) -> Act:
        """The caller's act: who acts, in which role, from where and when.

        :raises UnauthorizedError: nobody is signed in
        """
        agent = request.headers.get("User-Agent")
        return Act(
            role=self.user.staff_role or self.user.role,
            now=self.now,
            user_id=self.user.id,
            ip_address=client_subnet(),
            user_agent=agent[:_MAX_USER_AGENT_LENGTH] if agent else None,
        )

    @property
    def page(self) -> PageRequest:
        """The requested page, of a route whose query is paged."""
        if self.requested_page is None:
            raise RuntimeError("the route's query is not paged")
        return self.requested_page

    @property
    def table(self) -> TableRequest:
        """The requested page, of a route whose query is that of a table."""
        if self.requested_table is None:
            raise RuntimeError("the route's query is not a table's")
        return self.requested_table

    def transaction(self) -> AbstractContextManager[Session]:
        """Open one of the transactions of a phased route."""
        return self.services.database.transaction()


@dataclass(frozen=True)
class FinalPhase:
    """The last transaction's work of a phased view; the edge completes the key in that transaction."""

    apply: Callable[[Session], Any]


def current_context() -> Context:
    """Give the scope of the current request."""
    context: Context = g.context
    return context


def correlation_id() -> str:
    """Give the correlation id that the client sent, or else the request id."""
    header = request.headers.get("x-correlation-id", "")
    if header and len(header) <= _MAX_CORRELATION_LENGTH and header.isascii() and header.isprintable():
        return header
    return str(current_context().request_id)


def client_ip() -> str:
    """Tell the address that a request comes from, believing only our own proxies about it.

    Each trusted proxy appended the address that it was called from to ``X-Forwarded-For``; what stands
    further left was written by the client.
    """
    hops = current_context().services.settings.trusted_proxy_hops
    forwarded = request.headers.get("X-Forwarded-For", "").split(",") if hops else []
    chain = [part.strip() for part in forwarded if part.strip()]
    return chain[-min(hops, len(chain))] if chain else request.environ.get("REMOTE_ADDR") or "unknown"


def client_subnet() -> str:
    """Tell by what address a client is counted: one of IPv6 stands for its whole /64."""
    address = client_ip()
    if ":" not in address:
        return address
    try:
        ipv6 = ipaddress.IPv6Address(address)
    except ValueError:
        return address
    if ipv6.ipv4_mapped is not None:
        # An IPv4 client of an IPv6 socket; all of them share one /64.
        return str(ipv6.ipv4_mapped)
    # Whoever has an IPv6 address has a /64 of them.
    return str(ipaddress.IPv6Network((int(ipv6), 64), strict=False))


def register(app: Flask, services: Services) -> None:
    """Have requests begin a scope, and answers end it with one line of log."""

    @app.before_request
    def start() -> None:
        header = request.headers.get("x-request-id")
        request_id = (parse_uuid(header, version=4) if header else None) or uuid4()
        path = request.path
        if "marketplace.versioned" in request.environ:
            path = f"/api/v1/{path.removeprefix('/api/')}"
        g.context = Context(
            services=services,
            request_id=request_id,
            now=services.clock(),
            started_at_seconds=time.perf_counter(),
            path=path,
        )
        structlog.contextvars.bind_contextvars(requestId=str(request_id), path=path, method=request.method)

    @app.after_request
    def finish(response: Response) -> Response:
        context = current_context()
        response.headers.add("X-Request-ID", str(context.request_id))
        _log.info(
            "request served",
            status=response.status_code,
            durationMs=round((time.perf_counter() - context.started_at_seconds) * 1000, 2),
            **({"userId": context.caller.id} if context.caller else {}),
        )
        return response

    @app.teardown_request
    def forget(_error: BaseException | None) -> None:
        structlog.contextvars.clear_contextvars()
        if "context" in g:
            for file in current_context().open_files:
                file.content.close()
