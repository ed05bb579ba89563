"""The context of a request: ids, times, caller, page and database session."""

import ipaddress
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import structlog
from flask import Flask, Response, current_app, g, request
from sqlalchemy.orm import Session

from blueprints.http.contract import Contract
from blueprints.http.uploads import UploadedFile
from marketplace.audit.operations import Act
from marketplace.identity.queries import Caller
from marketplace.infra.cache import CacheLookup, RateLimitWindow
from marketplace.infra.waits.limits import declared_wait_seconds
from marketplace.kernel.clock import system_clock
from marketplace.kernel.errors import UnauthorizedError
from marketplace.kernel.ids import parse_uuid
from marketplace.kernel.paging import PageRequest, TableRequest
from marketplace.kernel.signals import RECORDER
from marketplace.kernel.tracing import span
from marketplace.services import Services

_log = structlog.get_logger("access")
# Clients can invent methods, and each method of a route is a series of the metrics.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_MAX_CORRELATION_LENGTH = 128
_MAX_USER_AGENT_LENGTH = 256


@dataclass(slots=True)
class Context:
    """A request and the response: caller, time, page, and the session that the edge opened for the view."""

    services: Services
    request_id: UUID
    now: datetime
    started_at_seconds: float
    path: str
    contract: Contract | None = None
    caller: Caller | None = None
    token_user_id: UUID | None = None  # the user of a verified token, also if the database cannot say more
    token_expires_at: float = 0.0  # in seconds since 1970; 0 without a token
    signed_in_at: float | None = None  # in seconds since 1970; none if the token does not say
    requested_page: PageRequest | None = None
    requested_table: TableRequest | None = None
    open_session: Session | None = None
    cursor_listing_key: str = ""  # the collection and filters that cursors are valid for
    # The round trip that counts the request also looks up this content.
    content_key: str = ""
    content_tags: Sequence[str] = ()
    cache_lookup: CacheLookup | None = None
    returnable_window: RateLimitWindow | None = None  # a refused request returns its slot to this window
    rate_limit_headers: dict[str, str] = field(default_factory=dict)  # empty until the request is counted
    headers: dict[str, str] = field(default_factory=dict)
    open_files: list[UploadedFile] = field(default_factory=list)

    @property
    def session(self) -> Session:
        """The session of the request's only transaction. Phased routes have no such session."""
        if self.open_session is None:
            raise RuntimeError("a phased route opens its own transactions")
        return self.open_session

    @property
    def media_base_url(self) -> str:
        """The base URL of pictures."""
        return self.services.settings.media_base_url

    @property
    def user(self) -> Caller:
        """The caller of a route that requires a token.

        :raises UnauthorizedError: the caller is anonymous
        """
        if self.caller is None:
            raise UnauthorizedError
        return self.caller

    @property
    def act(self) -> Act:
        """The caller's act for the audit trail: role, time, user, address and user agent.

        :raises UnauthorizedError: the caller is anonymous
        """
        agent = request.headers.get("User-Agent")
        return Act(
            role=self.user.staff_role or self.user.role,
            now=self.now,
            user_id=self.user.id,
            ip_address=client_subnet(),
            user_agent=agent[:_MAX_USER_AGENT_LENGTH] if agent else None,
            request_id=self.request_id,
        )

    @property
    def page(self) -> PageRequest:
        """The requested page of a route with a query paged by cursor."""
        if self.requested_page is None:
            raise RuntimeError("the route's query is not paged")
        return self.requested_page

    @property
    def table(self) -> TableRequest:
        """The requested page of a route with a table's query."""
        if self.requested_table is None:
            raise RuntimeError("the route's query is not a table's")
        return self.requested_table

    def transaction(self) -> AbstractContextManager[Session]:
        """Open a transaction of a phased route."""
        return self.services.database.transaction()


@dataclass(frozen=True)
class FinalPhase:
    """The work of a phased view's last transaction, in which the edge also completes the idempotency key."""

    apply: Callable[[Session], Any]


@dataclass(frozen=True)
class WithStatus:
    """A view's result with one of the contract's further statuses."""

    value: Any
    status: int


def current_context() -> Context:
    """Return the context of the current request.

    If the context could not be built, the response to that error still needs a context. The new context has a new
    request id and the time of this process, because the services may be the cause.
    """
    try:
        context: Context = g.context
    except AttributeError:
        services = current_app.extensions["marketplace"]
        g.context = context = Context(services, uuid4(), system_clock(), time.perf_counter(), _sent_path())
    return context


def correlation_id() -> str:
    """Return the client's correlation id, or the request id if the client sent no valid id."""
    header = request.headers.get("x-correlation-id", "")
    if header and len(header) <= _MAX_CORRELATION_LENGTH and header.isascii() and header.isprintable():
        return header
    return str(current_context().request_id)


def client_ip() -> str:
    """Return the client's address, trusting ``X-Forwarded-For`` only as far as our own proxies wrote the header.

    Each trusted proxy appends the address of the previous hop. Entries further left come from the client and may be
    forged.
    """
    hops = current_context().services.settings.trusted_proxy_hops
    forwarded = request.headers.get("X-Forwarded-For", "").split(",") if hops else []
    chain = [part.strip() for part in forwarded if part.strip()]
    return chain[-min(hops, len(chain))] if chain else request.environ.get("REMOTE_ADDR") or "unknown"


def client_subnet() -> str:
    """Return the address that a client is counted by: an IPv4 address, or the /64 network of an IPv6 address."""
    address = client_ip()
    if ":" not in address:
        return address
    try:
        ipv6 = ipaddress.IPv6Address(address)
    except ValueError:
        return address
    if ipv6.ipv4_mapped is not None:
        # All IPv4 clients of an IPv6 socket would share one /64 network.
        return str(ipv6.ipv4_mapped)
    # A client usually controls the whole /64 network of an IPv6 address.
    return str(ipaddress.IPv6Network((int(ipv6), 64), strict=False))


def _sent_path() -> str:
    """Return the request's path as the client sent it, decoded."""
    if "marketplace.versioned" in request.environ:
        return f"/api/v1/{request.path.removeprefix('/api/')}"
    return request.path


def _route_name() -> str:
    """Return the method and the template of the path, never the path: paths have ids."""
    rule = request.url_rule.rule if request.url_rule is not None else "unknown"
    return f"{request.method if request.method in _METHODS else 'OTHER'} {rule}"


def register(app: Flask, services: Services) -> None:
    """Create a context for each request, and log each response."""

    @app.before_request
    def start() -> None:
        header = request.headers.get("x-request-id")
        request_id = (parse_uuid(header, version=4) if header else None) or uuid4()
        path = _sent_path()
        g.context = Context(
            services=services,
            request_id=request_id,
            now=services.clock(),
            started_at_seconds=time.perf_counter(),
            path=path,
        )
        structlog.contextvars.bind_contextvars(requestId=str(request_id), path=path, method=request.method)
        g.span_context = span(_route_name(), kind="server", marketplace__request_id=str(request_id))
        g.span = g.span_context.__enter__()

    @app.after_request
    def finish(response: Response) -> Response:
        context = current_context()
        response.headers.add("X-Request-ID", str(context.request_id))
        seconds = time.perf_counter() - context.started_at_seconds
        RECORDER.observe("http", f"{_route_name()} {response.status_code // 100}xx", seconds)
        g.span.set_attribute("http.response.status_code", response.status_code)
        _log.info(
            "request served",
            status=response.status_code,
            durationMs=round(seconds * 1000, 2),
            **({"userId": context.caller.id} if context.caller else {}),
        )
        return response

    @app.teardown_request
    def forget(_error: BaseException | None) -> None:
        structlog.contextvars.clear_contextvars()
        declared_wait_seconds.set(None)
        if "context" in g:
            for file in current_context().open_files:
                file.content.close()
        if "span_context" in g:
            g.span_context.__exit__(None, None, None)
