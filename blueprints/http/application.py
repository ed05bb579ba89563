"""The Flask application that serves the areas' blueprints."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from socket import socket
from typing import Any
from wsgiref.types import InputStream, WSGIEnvironment

from flask import Flask
from gunicorn.http.errors import ParseException

from blueprints.http import context, cors, documentation, headers, limits, problems, request_parsing
from blueprints.http.endpoint import ContractBlueprint
from marketplace.services import Services

_BLUEPRINTS_DIRECTORY = Path(__file__).parents[1]
# Views without contract that are not rate-limited. The others count on the caller's tier.
_UNLIMITED_VIEWS = frozenset({"static", "openapi_document", "documentation_page", "documentation_asset"})
_VERSIONED_PREFIX = "/api/v1/"
# Larger than any route accepts. A larger or slower body may end in a reset connection.
_MAX_DISCARDED_BYTES = 8 * 1024 * 1024
_DISCARD_SECONDS = 2.0
_DISCARD_CHUNK_BYTES = 64 * 1024


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
            _discard_unread_body(environ["wsgi.input"], environ["gunicorn.socket"])
        return response


def _discard_unread_body(body: InputStream, connection: socket) -> None:
    """Read the rest of a refused request's body before sending the response.

    A connection that is closed with unread bytes is reset. The client or a proxy would then lose the response.
    """
    deadline = time.monotonic() + _DISCARD_SECONDS
    discarded = 0
    with suppress(OSError, ParseException):
        while discarded < _MAX_DISCARDED_BYTES and (remaining := deadline - time.monotonic()) > 0:
            connection.settimeout(remaining)
            content = body.read(_DISCARD_CHUNK_BYTES)
            if not content:
                break
            discarded += len(content)
    connection.settimeout(None)


def build_app(services: Services, areas: Sequence[ContractBlueprint]) -> Application:
    """Build the application that serves the areas."""
    app = Application(
        "marketplace",
        template_folder=str(_BLUEPRINTS_DIRECTORY / "templates"),
        static_folder=str(_BLUEPRINTS_DIRECTORY / "static"),
    )
    app.config["MAX_CONTENT_LENGTH"] = request_parsing.MAX_BODY_BYTES + 1  # see request_parsing.read_body
    app.extensions["marketplace"] = services
    context.register(app, services)
    headers.register(app, services.settings)
    cors.register(app, services.settings)
    documentation.register(app, areas, base_url=services.settings.public_base_url)
    problems.register(app)
    for area in areas:
        app.register_blueprint(area)
    limits.RateLimits(services).install(app, unlimited_views=_UNLIMITED_VIEWS)
    return app
