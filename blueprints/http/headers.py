"""Headers of every response: rate limits, caching, security and CORS."""

from flask import Flask, Response, request

from blueprints.http.context import current_context
from marketplace.infra.settings import Settings

_API_CSP = "default-src 'none'; frame-ancestors 'none'"
_PAGE_CSP = (
    "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; object-src 'none';"
    " base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_ALLOWED_HEADERS = (
    "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, X-Correlation-ID, X-Request-ID"
)
_EXPOSED_HEADERS = (
    "ETag, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, Retry-After, X-Cache-Lookup, X-Request-ID"
)


def register(app: Flask, settings: Settings) -> None:
    """Set the headers of every response."""
    origins = frozenset(settings.cors_origins)
    always = [
        ("X-Content-Type-Options", "nosniff"),
        ("X-Frame-Options", "DENY"),
        ("Referrer-Policy", "no-referrer"),
    ]
    if settings.public_base_url.startswith("https://"):
        always.append(("Strict-Transport-Security", "max-age=31536000; includeSubDomains"))
    page_headers = [*always, ("Content-Security-Policy", _PAGE_CSP)]
    api_headers = [*always, ("Content-Security-Policy", _API_CSP)]

    @app.after_request
    def set_headers(response: Response) -> Response:
        headers = response.headers
        context = current_context()
        # Werkzeug's extend() and update() take twice as long as add() for each header.
        for name, value in context.rate_limit_headers.items():
            headers.add(name, value)
        for name, value in context.headers.items():
            headers[name] = value
        if "Cache-Control" not in headers:
            headers.add("Cache-Control", "no-store")
        is_page = headers.get("Content-Type", "").startswith("text/html")
        for name, value in page_headers if is_page else api_headers:
            headers.add(name, value)
        if origins:
            _add_cors_headers(response, origins)
        return response


def _add_cors_headers(response: Response, origins: frozenset[str]) -> None:
    response.vary.add("Origin")
    origin = request.headers.get("Origin")
    if origin not in origins or origin is None:
        return
    headers = {"Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": _EXPOSED_HEADERS}
    if request.method == "OPTIONS":
        headers |= {
            "Access-Control-Allow-Methods": response.headers.get("Allow", ""),
            "Access-Control-Allow-Headers": _ALLOWED_HEADERS,
            "Access-Control-Max-Age": "600",
        }
    response.headers.update(headers)
