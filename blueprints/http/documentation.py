"""The API's documentation: the OpenAPI document and the page for browsing."""

from collections.abc import Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol, cast

from flask import Flask, Response, render_template, request, send_from_directory
from flask_smorest import Api
from marshmallow import INCLUDE, Schema, fields
from swagger_ui_bundle import swagger_ui_path

from blueprints.http import examples, texts
from blueprints.http.contract import Contract
from blueprints.http.envelope import API_VERSION, dump_json
from blueprints.http.field_docs import doc
from blueprints.http.problems import PROBLEM_TYPE
from marketplace.kernel.errors import CATALOG, MarketplaceError

_DOCUMENT_SECONDS = 300  # how long clients may use the OpenAPI document without asking again


class InvalidParamSchema(Schema):
    """An invalid field or parameter of a request."""

    name = fields.String(
        required=True,
        metadata=doc(
            "Name of the field or parameter, with a path such as `items[0].quantity`.", "items[0].quantity"
        ),
    )
    reason = fields.String(required=True, metadata=doc("Fault and remedy.", "Must be at least 1."))


class ProblemSchema(Schema):
    """Problem details of an error. Some errors have further members, such as ``attemptsLeft`` or ``holds``."""

    class Meta:
        """Accept further members."""

        unknown = INCLUDE

    type = fields.Url(
        required=True,
        metadata=doc("URL of a page about the `code`.", "http://127.0.0.1:8000/errors/validation-failed"),
    )
    title = fields.String(required=True, metadata=doc("Summary of the `code`.", "Validation Failed"))
    status = fields.Integer(required=True, metadata=doc("HTTP status.", 422))
    detail = fields.String(
        required=True,
        metadata=doc(
            "Explanation of this refusal, in at most two sentences.",
            "items[0].quantity is invalid. See invalid_params.",
        ),
    )
    instance = fields.String(required=True, metadata=doc("Path of the request.", "/api/orders"))
    code = fields.String(
        required=True,
        metadata=doc("Kind of problem. Several refusals can share a code.", "VALIDATION_FAILED"),
    )
    reason = fields.String(
        metadata=doc("Cause of a refusal by a business rule; absent for others.", "price-changed")
    )
    request_id = fields.UUID(required=True, data_key="requestId")
    timestamp = fields.AwareDateTime(required=True)
    invalid_params = fields.List(
        fields.Nested(InvalidParamSchema),
        metadata=doc("Invalid fields and parameters; absent for other problems."),
    )
    correlation_id = fields.String(
        data_key="correlationId",
        metadata=doc(
            "Id of the report of an unexpected error; absent below status 500. Quote the id to support.",
            "3f2b7c1e-9a64-4d0f-8e57-1c2d3e4f5a6b",
        ),
    )


def error_status(error: type[MarketplaceError]) -> int:
    """Return the HTTP status of an error class."""
    return CATALOG[error.code].status


def error_meaning(error: type[MarketplaceError]) -> str:
    """Return the first sentence of an error class's docstring, on one line."""
    return f"{' '.join((error.__doc__ or '').split()).split('. ')[0].rstrip('.')}."


def describe_refusals(contract: Contract) -> dict[int, dict[str, Any]]:
    """Describe a route's errors that have a reason.

    :return: OpenAPI responses by HTTP status
    """
    by_status = groupby(sorted(contract.errors, key=error_status), key=error_status)
    return {status: _describe_response(list(errors)) for status, errors in by_status}


def _describe_response(errors: list[type[MarketplaceError]]) -> dict[str, Any]:
    reasons = {
        "type": "object",
        "properties": {"reason": {"type": "string", "enum": [e.reason for e in errors]}},
    }
    return {
        "description": "\n".join(f"- `{error.reason}`: {error_meaning(error)}" for error in errors),
        "content": {PROBLEM_TYPE: {"schema": {"allOf": [ProblemSchema, reasons]}}},
    }


class DocumentedApi(Api):  # type: ignore[misc]
    """flask-smorest's Api, used for documentation only. The module ``problems`` answers errors."""

    ERROR_SCHEMA = ProblemSchema

    def _register_responses(self) -> None:
        """Describe error responses as problem details."""
        examples.describe_fields(self)
        for name in ("UNPROCESSABLE_ENTITY", "UNPROCESSABLE_CONTENT", self.DEFAULT_ERROR_RESPONSE_NAME):
            content = {PROBLEM_TYPE: {"schema": self.ERROR_SCHEMA}}
            response = {"description": "Problem details", "content": content}
            self.spec.components.response(name, response, lazy=True)

    def _register_pagination_header(self) -> None:
        """Describe no pagination header, because pages are described by ``meta``."""

    def _register_error_handlers(self) -> None:
        """Register no error handlers, because ``problems`` handles all errors."""


class DescribableArea(Protocol):
    """A blueprint that adds its routes to an OpenAPI document."""

    contracts: list[Contract]

    def describe(self, api: Api, app: Flask) -> None:
        """Add the routes to the document."""


def register(app: Flask, areas: Sequence[DescribableArea]) -> None:
    """Serve the areas' OpenAPI document at /openapi.json and the documentation page at /docs."""
    app.config.update(
        API_TITLE="Campus Marketplace",
        API_VERSION=API_VERSION,
        OPENAPI_VERSION="3.0.3",
        API_SPEC_OPTIONS={"info": {"description": texts.API_INTRODUCTION.strip()}},
    )
    api = DocumentedApi(app)
    api.spec.components.security_scheme("bearer", {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"})

    @cache
    def render_document() -> bytes:
        for area in areas:
            area.describe(api, app)
        contracts = [contract for area in areas for contract in area.contracts]
        document = api.spec.to_dict()
        examples.add_examples(document, contracts)
        return dump_json(document)

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
        return send_from_directory(Path(swagger_ui_path), name, max_age=3600)
