"""The API's documentation: the OpenAPI document and the page for browsing."""

from collections.abc import Sequence
from functools import cache
from typing import cast
from urllib.parse import urlsplit

from flask import Flask, Response, render_template, request, send_from_directory

from blueprints.http.context import current_context
from blueprints.http.documentation.document import DocumentedArea, build_document
from blueprints.http.envelope import dump_json
from blueprints.http.pages.views import HTML_TYPE

_DOCUMENT_SECONDS = 300  # how long clients may use the OpenAPI document without asking again
_ASSET_SECONDS = 3600


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
        # The proxy would add the compression to a strong tag, and not find the tag again.
        response.add_etag(weak=True)
        return cast(Response, response.make_conditional(request))

    @app.get("/docs")
    def documentation_page() -> Response:
        """Return the documentation page."""
        settings = current_context().services.settings
        # Personas exist only in the embedded stack. Elsewhere the page must not fetch from another origin.
        issuer = settings.identity_issuer if settings.environment == "embedded" else ""
        page = Response(render_template("docs.html", issuer=issuer), content_type=HTML_TYPE)
        page.headers["Content-Security-Policy"] = _csp(issuer)
        return page

    @app.get("/docs/assets/<path:name>")
    def documentation_asset(name: str) -> Response:
        """Serve the library of the documentation page."""
        return send_from_directory(f"{app.static_folder}/scalar", name, max_age=_ASSET_SECONDS)


def _csp(issuer: str) -> str:
    """Return the page's policy. The library sets inline styles; scripts and data come from this origin only.

    :param issuer: URL of the sandbox's identity provider, from which the page fetches tokens; may be empty
    """
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(issuer)) if issuer else ""
    return (
        f"default-src 'none'; script-src 'self'; connect-src 'self' {origin}; img-src 'self' data:; font-src 'self';"
        " style-src 'self' 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
        " report-uri /api/csp-report"
    ).replace(" ;", ";")
