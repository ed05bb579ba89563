"""The API's own documentation: the OpenAPI document and a page on it."""

from collections.abc import Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

from flask import Flask, Response, render_template, send_from_directory
from flask_smorest import Api
from marshmallow import INCLUDE, Schema, fields
from swagger_ui_bundle import swagger_ui_path

from blueprints.http import auth
from blueprints.http.context import current_context
from blueprints.http.contract import Contract
from blueprints.http.envelope import API_VERSION, dump_json
from blueprints.http.problems import PROBLEM_TYPE
from marketplace.kernel.errors import CATALOG, MarketplaceError

_INTRODUCTION = """
The backend of a campus marketplace with escrow. Money is integer kobo (fields end in `Minor`); times are
ISO 8601 in UTC. Success comes in an envelope `{success, data, meta}`, errors as `application/problem+json`
whose `code` is explained under `/errors/<slug>`; refusals that share a code differ in `reason`. Everything under
`/api` is also under `/api/v1`.
"""


class InvalidParamSchema(Schema):
    """An invalid field or parameter of a request."""

    name = fields.String(required=True)
    reason = fields.String(required=True)


class ProblemSchema(Schema):
    """Problem details, as every error is answered; some carry more, such as ``attemptsLeft`` or ``holds``."""

    class Meta:
        unknown = INCLUDE

    type = fields.Url(required=True)
    title = fields.String(required=True)
    status = fields.Integer(required=True)
    detail = fields.String(required=True)
    instance = fields.String(required=True)
    code = fields.String(required=True)
    reason = fields.String()
    request_id = fields.UUID(required=True, data_key="requestId")
    timestamp = fields.AwareDateTime(required=True)
    invalid_params = fields.List(fields.Nested(InvalidParamSchema))
    correlation_id = fields.String(data_key="correlationId")


def error_status(error: type[MarketplaceError]) -> int:
    """Give the HTTP status that an error class is answered with."""
    return CATALOG[error.code].status


def error_meaning(error: type[MarketplaceError]) -> str:
    """Give the first sentence of an error class's docstring, in one line."""
    return f"{' '.join((error.__doc__ or '').split()).split('. ')[0].rstrip('.')}."


def describe_refusals(contract: Contract) -> dict[int, dict[str, Any]]:
    """Describe a route's refusals that have a reason.

    :return: OpenAPI's response per status
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
    """flask-smorest's Api for its documentation alone: errors are answered by ``problems``."""

    ERROR_SCHEMA = ProblemSchema

    def _register_responses(self) -> None:
        """Describe errors as what they are: problem details."""
        for name in ("UNPROCESSABLE_ENTITY", "UNPROCESSABLE_CONTENT", self.DEFAULT_ERROR_RESPONSE_NAME):
            content = {PROBLEM_TYPE: {"schema": self.ERROR_SCHEMA}}
            response = {"description": "Problem details", "content": content}
            self.spec.components.response(name, response, lazy=True)

    def _register_error_handlers(self) -> None:
        """Leave errors to the edge."""


class DescribableArea(Protocol):
    """A blueprint that adds its routes to an OpenAPI document."""

    def describe(self, api: Api, app: Flask) -> None:
        """Add the routes to the document."""


def register(app: Flask, areas: Sequence[DescribableArea]) -> None:
    """Serve the areas' OpenAPI document at /openapi.json and its page at /docs."""
    app.config.update(
        API_TITLE="Campus Marketplace",
        API_VERSION=API_VERSION,
        OPENAPI_VERSION="3.0.3",
        API_SPEC_OPTIONS={"info": {"description": _INTRODUCTION.strip()}},
    )
    api = DocumentedApi(app)
    api.spec.components.security_scheme("bearer", {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"})

    @cache
    def render_document() -> bytes:
        for area in areas:
            area.describe(api, app)
        return dump_json(api.spec.to_dict())

    @app.get("/openapi.json")
    def openapi_document() -> Response:
        """Answer the OpenAPI document."""
        auth.admit_to_path_without_contract(current_context())
        return Response(render_document(), content_type="application/json")

    @app.get("/docs")
    def documentation_page() -> Response:
        """Answer the page on the OpenAPI document."""
        auth.admit_to_path_without_contract(current_context())
        return Response(render_template("docs.html"), content_type="text/html; charset=utf-8")

    @app.get("/docs/assets/<path:name>")
    def documentation_asset(name: str) -> Response:
        """Serve the page's scripts and styles."""
        return send_from_directory(Path(swagger_ui_path), name, max_age=3600)
