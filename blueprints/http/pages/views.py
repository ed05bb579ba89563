"""Pages for people: the start page, the pages about errors, and the page of an unknown path."""

from flask import Flask, Response, render_template

from blueprints.http import auth
from blueprints.http.context import current_context
from blueprints.http.pages import error_help
from blueprints.http.problems import error_slug, is_browser, render_problem
from marketplace.kernel.errors import CATALOG, MarketplaceError, NotFoundError

HTML_TYPE = "text/html; charset=utf-8"
# Addresses that the start page links to, if they exist.
_PLACES = {
    "/docs": ("Documentation", "Every operation, with a form to try requests."),
    "/openapi.json": ("OpenAPI document", "For code generators and API clients."),
    "/errors": ("Errors", "Every error code with its cause and cure."),
    "/admin": ("Staff pages", "For officers of the marketplace."),
    "/status": ("Status", "Which parts of the marketplace work."),
    "/api/status": ("Status for programs", "The state of every component, as JSON."),
    "/health/ready": ("Readiness", "Whether this process can serve requests, as JSON."),
}


def register(app: Flask) -> None:
    """Serve the start page and the pages about errors."""

    @app.get("/")
    def start_page() -> Response:
        """Return the page that explains the service. API clients get the problem of an unknown path."""
        auth.admit_to_path_without_contract(current_context())
        if not is_browser():
            raise NotFoundError
        rules = {rule.rule for rule in app.url_map.iter_rules()}
        places = {path: place for path, place in _PLACES.items() if path in rules}
        return _render("start.html", places=places)

    @app.get("/errors")
    def error_list_page() -> Response:
        """Return the page that lists all error codes."""
        auth.admit_to_path_without_contract(current_context())
        slugs = {error_slug(code): (code, entry) for code, entry in CATALOG.items()}
        return _render("errors.html", slugs=slugs)

    @app.get("/errors/<slug>")
    def error_page(slug: str) -> Response:
        """Return the page that explains an error code."""
        auth.admit_to_path_without_contract(current_context())
        codes = {error_slug(code): code for code in CATALOG}
        if slug not in codes:
            if is_browser():
                return render_missing_page()
            raise NotFoundError("This error code does not exist.")
        code = codes[slug]
        return _render(
            "error.html",
            code=code,
            entry=CATALOG[code],
            help=error_help.HELP[code],
            example=_render_example(code),
        )


def render_missing_page() -> Response:
    """Render the page of an unknown path."""
    return _render("missing.html", status=404, request_id=current_context().request_id)


def _render(template: str, status: int = 200, **values: object) -> Response:
    response = Response(render_template(template, **values), status=status, content_type=HTML_TYPE)
    response.vary.add("Accept")
    return response


def _render_example(code: str) -> str:
    """Render an example of a problem, indented for reading."""
    example = error_help.HELP[code]
    error_class: type[MarketplaceError] = type("Example", (MarketplaceError,), {"code": code})
    error = error_class(example.detail, invalid_params=example.invalid_params, extensions=example.extensions)
    return render_problem(
        error,
        base_url=current_context().services.settings.public_base_url,
        path=example.path,
        request_id=error_help.REQUEST_ID,
        now=error_help.OCCURRED_AT,
        correlation_id=error_help.REQUEST_ID if error.status >= 500 else None,
        indented=True,
    ).decode()
