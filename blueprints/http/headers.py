"""Headers of every response: rate limits, caching and security."""

from flask import Flask, Response

from blueprints.http import limits
from blueprints.http.context import current_context
from marketplace.infra.settings import Settings

_API_CSP = "default-src 'none'; frame-ancestors 'none'"
# Pages are plain HTML with a style sheet. The documentation page has a policy of its own.
_PAGE_CSP = (
    "default-src 'none'; img-src 'self'; style-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'; report-uri /api/csp-report"
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
        for name, value in always:
            headers.add(name, value)
        if "Content-Security-Policy" not in headers:
            is_page = headers.get("Content-Type", "").startswith("text/html")
            headers.add("Content-Security-Policy", _PAGE_CSP if is_page else _API_CSP)
        return response
