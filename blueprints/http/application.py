"""The Flask application that serves the areas' blueprints."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from wsgiref.types import WSGIEnvironment

from flask import Flask

from blueprints.http import (
    context,
    cors,
    documentation,
    headers,
    limits,
    problems,
    request_parsing,
)
from blueprints.http.endpoint import ContractBlueprint
from blueprints.http.pages import views as pages
from blueprints.http.server import unread_bodies
from marketplace.services import Services

_BLUEPRINTS_DIRECTORY = Path(__file__).parents[1]
# Views without contract that are not rate-limited. The others count on the caller's tier.
_UNLIMITED_VIEWS = frozenset({"static", "openapi_document", "documentation_page", "documentation_asset"})
_VERSIONED_PREFIX = "/api/v1/"


class Application(Flask):
    """Flask application that serves ``/api/v1/...`` as ``/api/...`` and has no coroutines."""

    def ensure_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Return a view or hook unchanged. Flask would inspect each for coroutines at every request."""
        return func

    def wsgi_app(self, environ: WSGIEnvironment, start_response: Callable[..., Any]) -> Any:
        """Serve a request, without the version segment of the path."""
        path = environ.get("PATH_INFO", "")
        if path.startswith(_VERSIONED_PREFIX):
            environ["marketplace.versioned"] = True
            environ["PATH_INFO"] = "/api/" + path[len(_VERSIONED_PREFIX) :]
        response = super().wsgi_app(environ, start_response)
        if "gunicorn.socket" in environ and (
            environ.get("CONTENT_LENGTH") or "HTTP_TRANSFER_ENCODING" in environ
        ):
            unread_bodies.drain(
                environ["wsgi.input"],
                environ["gunicorn.socket"],
                pace=unread_bodies.PATIENT if environ["wsgi.multithread"] else unread_bodies.QUICK,
            )
        return response


def build_app(services: Services, areas: Sequence[ContractBlueprint]) -> Application:
    """Build the application that serves the areas."""
    app = Application(
        "marketplace",
        template_folder=str(_BLUEPRINTS_DIRECTORY / "templates"),
        static_folder=str(_BLUEPRINTS_DIRECTORY / "static"),
    )
    app.config["MAX_CONTENT_LENGTH"] = request_parsing.MAX_BODY_BYTES + 1  # see request_parsing.read_body
    # A redirect to the path without double slashes would take its host from the request.
    app.url_map.merge_slashes = False
    app.extensions["marketplace"] = services
    context.register(app, services)
    headers.register(app, services.settings)
    cors.register(app, services.settings)
    documentation.register(app, areas, base_url=services.settings.public_base_url)
    pages.register(app)
    problems.register(app, render_missing_page=pages.render_missing_page)
    for area in areas:
        app.register_blueprint(area)
    limits.RateLimits(services).install(app, unlimited_views=_UNLIMITED_VIEWS)
    return app
