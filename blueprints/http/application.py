"""The Flask application: the edge around the areas."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from wsgiref.types import WSGIEnvironment

from flask import Flask

from blueprints.http import context, documentation, headers, problems, request_parsing
from blueprints.http.endpoint import ContractBlueprint
from marketplace.services import Services

_BLUEPRINTS_DIRECTORY = Path(__file__).parents[1]
_VERSIONED_PREFIX = "/api/v1/"


class Application(Flask):
    """Flask, knowing that ``/api/v1/...`` is ``/api/...``, and that nothing here is a coroutine."""

    def ensure_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Give a view or hook as it is, where Flask would look into each at every request."""
        return func

    def wsgi_app(self, environ: WSGIEnvironment, start_response: Callable[..., Any]) -> Any:
        """Serve a request, the version segment taken out of its path."""
        path = environ.get("PATH_INFO", "")
        if path.startswith(_VERSIONED_PREFIX):
            environ["marketplace.versioned"] = True
            environ["PATH_INFO"] = "/api/" + path[len(_VERSIONED_PREFIX) :]
        return super().wsgi_app(environ, start_response)


def build_app(services: Services, areas: Sequence[ContractBlueprint]) -> Application:
    """Build the application.

    :param services: what the process shares
    :param areas: the blueprints that it serves
    """
    app = Application(
        "marketplace",
        template_folder=str(_BLUEPRINTS_DIRECTORY / "templates"),
        static_folder=str(_BLUEPRINTS_DIRECTORY / "static"),
    )
    app.config["MAX_CONTENT_LENGTH"] = request_parsing.MAX_BODY_BYTES + 1  # see bodies.read_bytes
    app.extensions["marketplace"] = services
    context.register(app, services)
    headers.register(app, services.settings)
    documentation.register(app, areas)
    problems.register(app)
    for area in areas:
        app.register_blueprint(area)
    return app
