"""Cross-origin requests of browsers (the CORS protocol of the Fetch standard)."""

from flask import Flask, Response, request

from blueprints.http import auth
from blueprints.http.context import current_context
from marketplace.infra.settings import Settings

_ALLOWED_METHODS = "DELETE, GET, HEAD, PATCH, POST, PUT"
_ALLOWED_HEADERS = (
    "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, X-Correlation-ID,"
    " X-Request-ID"
)
_EXPOSED_HEADERS = (
    "ETag, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, Retry-After, X-Cache-Lookup, X-Request-ID, "
    "X-Thread-ID"
)
_PREFLIGHT_SECONDS = 600


def register(app: Flask, settings: Settings) -> None:
    """Answer preflights, and let the pages of the configured origins read responses."""
    origins = settings.allowed_origins

    @app.before_request
    def answer_options() -> Response | None:
        """Answer a preflight of any path. Other OPTIONS requests count on the caller's tier.

        Preflights carry no token. Counted by address, they would use up the quota of a whole campus network.
        """
        if request.method != "OPTIONS":
            return None
        if _is_preflight():
            return Response()
        if request.routing_exception is None:  # the error's handler counts otherwise
            auth.admit_to_path_without_contract(current_context())
        return None

    if not origins:
        return

    @app.after_request
    def set_headers(response: Response) -> Response:
        headers = response.headers
        # Caches must keep the responses for different origins apart.
        headers["Vary"] = f"{headers['Vary']}, Origin" if "Vary" in headers else "Origin"
        origin = request.headers.get("Origin")
        if origin is not None and origin in origins:
            headers["Access-Control-Allow-Origin"] = origin
            if _is_preflight():
                headers["Access-Control-Allow-Methods"] = _ALLOWED_METHODS
                headers["Access-Control-Allow-Headers"] = _ALLOWED_HEADERS
                headers["Access-Control-Max-Age"] = str(_PREFLIGHT_SECONDS)
            else:
                headers["Access-Control-Expose-Headers"] = _EXPOSED_HEADERS
        return response


def _is_preflight() -> bool:
    headers = request.headers
    return request.method == "OPTIONS" and "Origin" in headers and "Access-Control-Request-Method" in headers
