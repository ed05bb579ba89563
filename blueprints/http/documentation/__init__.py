"""The API's documentation: the OpenAPI document and the page for browsing."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import cast

import flask_swagger_ui
from flask import Flask, Response, render_template, request, send_from_directory

from blueprints.http.documentation.document import DocumentedArea, build_document
from blueprints.http.envelope import dump_json

# The package has the page's scripts and styles. Its own blueprint is not used.
_ASSETS = Path(flask_swagger_ui.__file__).with_name("dist")
_DOCUMENT_SECONDS = 300  # how long clients may use the OpenAPI document without asking again


def register(app: Flask, areas: Sequence[DocumentedArea], *, base_url: str) -> None:
    """Serve the areas' OpenAPI document at /openapi.json and the documentation page at /docs.

    :param base_url: public address of the service
    """

    # Most processes never serve the document, so it is built on demand.
    @cache
    def render_document() -> bytes:
        return dump_json(build_document(app, areas, base_url=base_url))

    @app.get("/openapi.json")
    def openapi_document() -> Response:
        """Return the OpenAPI document, or a 304 response if the client has the same document."""
        response = Response(render_document(), content_type="application/json")
        response.headers["Cache-Control"] = f"public, max-age={_DOCUMENT_SECONDS}"
        response.add_etag()
        return cast(Response, response.make_conditional(request))

    @app.get("/docs")
    def documentation_page() -> Response:
        """Return the documentation page."""
        return Response(render_template("docs.html"), content_type="text/html; charset=utf-8")

    @app.get("/docs/assets/<path:name>")
    def documentation_asset(name: str) -> Response:
        """Serve the scripts and styles of the documentation page."""
        return send_from_directory(_ASSETS, name, max_age=3600)
