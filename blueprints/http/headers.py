"""Headers of every response: rate limits, caching and security."""

from flask import Flask, Response

from blueprints.http import limits
from blueprints.http.context import current_context
from marketplace.infra.settings import Settings

_API_CSP = "default-src 'none'; frame-ancestors 'none'"
_PAGE_CSP = (
    "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; object-src 'none';"
    " base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


def register(app: Flask, settings: Settings) -> None:
    """Set the headers of every response."""
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
        if 400 <= response.status_code < 500:
            limits.return_slot(context)
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
        return response
