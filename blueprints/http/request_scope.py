"""What is known of a request while it is served: its ids, its times, its caller and what its limit says."""

import ipaddress
import time
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID, uuid4

import structlog
from flask import Flask, Response, g, request

from blueprints.http.contract import Contract
from blueprints.http.uploads import UploadedFile
from marketplace.identity.queries import Caller
from marketplace.kernel.ids import parse_uuid
from marketplace.services import Services

_log = structlog.get_logger("access")
_MAX_CORRELATION_LENGTH = 128


@dataclass(frozen=True, slots=True)
class RateLimitStatus:
    """What the limit's headers say of a request."""

    limit: int
    remaining: int
    reset_seconds: int

    def headers(self) -> dict[str, str]:
        """Give the headers that every response of a limited route carries."""
        return {
            "RateLimit-Limit": str(self.limit),
            "RateLimit-Remaining": str(self.remaining),
            "RateLimit-Reset": str(self.reset_seconds),
        }


@dataclass(slots=True)
class RequestScope:
    """One request and its answer."""

    services: Services
    request_id: UUID
    now: datetime
    started_at_seconds: float
    path: str
    contract: Contract | None = None
    caller: Caller | None = None
    rate_limit_status: RateLimitStatus | None = None
    cursor_listing_key: str = ""  # names the collection that is paged, for its cursors
    headers: dict[str, str] = field(default_factory=dict)
    open_files: list[UploadedFile] = field(default_factory=list)

    def close_after_response(self, file: UploadedFile) -> UploadedFile:
        """Hold a file until the answer was made, and close it then."""
        self.open_files.append(file)
        return file


def current_scope() -> RequestScope:
    """Give the scope of the current request."""
    request_scope: RequestScope = g.request_scope
    return request_scope


def correlation_id() -> str:
    """Give the correlation id that the client sent, or else the request id."""
    header = request.headers.get("x-correlation-id", "")
    if header and len(header) <= _MAX_CORRELATION_LENGTH and header.isascii() and header.isprintable():
        return header
    return str(current_scope().request_id)


def client_ip() -> str:
    """Tell the address that a request comes from, believing only our own proxies about it.

    Each trusted proxy appended the address that it was called from to ``X-Forwarded-For``; what stands
    further left was written by the client.
    """
    hops = current_scope().services.settings.trusted_proxy_hops
    address = request.environ.get("REMOTE_ADDR") or "unknown"
    if hops:
        parts = request.headers.get("X-Forwarded-For", "").split(",")
        chain = [part.strip() for part in parts if part.strip()]
        if chain:
            address = chain[-min(hops, len(chain))]
    return address


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
        g.request_scope = RequestScope(
            services=services,
            request_id=request_id,
            now=services.clock(),
            started_at_seconds=time.perf_counter(),
            path=path,
        )
        structlog.contextvars.bind_contextvars(requestId=str(request_id), path=path, method=request.method)

    @app.after_request
    def finish(response: Response) -> Response:
        request_scope = current_scope()
        response.headers.add("X-Request-ID", str(request_scope.request_id))
        _log.info(
            "request served",
            status=response.status_code,
            durationMs=round((time.perf_counter() - request_scope.started_at_seconds) * 1000, 2),
            **({"userId": request_scope.caller.id} if request_scope.caller else {}),
        )
        return response

    @app.teardown_request
    def forget(_error: BaseException | None) -> None:
        structlog.contextvars.clear_contextvars()
        if "request_scope" in g:
            for file in current_scope().open_files:
                file.content.close()
