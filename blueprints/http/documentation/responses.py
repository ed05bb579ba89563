"""Descriptions of responses: success, problems by status and code, and headers."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from apispec import APISpec
from marshmallow import EXCLUDE, INCLUDE, Schema, fields

from blueprints.http.contract import Contract, Idempotency, SharedLimit, TokenPolicy
from blueprints.http.csv_export import TRUNCATED_HEADER
from blueprints.http.documentation import texts
from blueprints.http.documentation.converter import SchemaConverter
from blueprints.http.envelope import envelope_schema
from blueprints.http.field_docs import doc
from blueprints.http.fields import Choice
from blueprints.http.problems import PROBLEM_TYPE, InternalError, error_slug
from marketplace.idempotency.operations import RequestInProgressError
from marketplace.kernel.errors import (
    CATALOG,
    MalformedBodyError,
    MarketplaceError,
    NotFoundError,
    PayloadTooLargeError,
    ProviderUnavailableError,
    RateLimitError,
    ServiceUnavailableError,
    TokenExpiredError,
    UnauthorizedError,
    UnsupportedMediaTypeError,
    ValidationError,
)

Errors = Sequence[type[MarketplaceError]]
_RATE_LIMIT_HEADERS = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")
_HEADERS: dict[str, tuple[str, dict[str, Any]]] = {
    "X-Request-ID": (texts.HEADER_REQUEST_ID, {"type": "string", "format": "uuid"}),
    "RateLimit-Limit": (texts.HEADER_LIMIT, {"type": "integer", "minimum": 1}),
    "RateLimit-Remaining": (texts.HEADER_REMAINING, {"type": "integer", "minimum": 0}),
    "RateLimit-Reset": (texts.HEADER_RESET, {"type": "integer", "minimum": 1}),
    "Retry-After": (texts.HEADER_RETRY_AFTER, {"type": "integer", "minimum": 1}),
    "WWW-Authenticate": (texts.HEADER_AUTHENTICATE, {"type": "string", "const": "Bearer"}),
    "ETag": (texts.HEADER_ETAG, {"type": "string"}),
    "Cache-Control": (texts.HEADER_CACHE_CONTROL, {"type": "string"}),
    "X-Cache-Lookup": (texts.HEADER_CACHE_LOOKUP, {"type": "string", "const": "HIT"}),
    "X-Thread-ID": (texts.HEADER_THREAD, {"type": "string", "format": "uuid"}),
    TRUNCATED_HEADER: (texts.HEADER_TRUNCATED, {"type": "string", "const": "true"}),
}
# Before OpenAPI 3.2, the schema of a stream describes an event.
_EVENT = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("id", "event", "data")},
}
# Absent from some responses of a route.
_OPTIONAL_HEADERS = frozenset({"X-Cache-Lookup", TRUNCATED_HEADER})
# Responses that limited routes share, by status. Other combinations of errors are described at the route.
_SHARED: dict[int, tuple[str, Errors]] = {
    400: ("BadRequest", (MalformedBodyError,)),
    401: ("Unauthorized", (UnauthorizedError, TokenExpiredError)),
    404: ("NotFound", (NotFoundError,)),
    413: ("PayloadTooLarge", (PayloadTooLargeError,)),
    415: ("UnsupportedMediaType", (UnsupportedMediaTypeError,)),
    422: ("UnprocessableContent", (ValidationError,)),
    429: ("TooManyRequests", (RateLimitError,)),
    500: ("InternalServerError", (InternalError,)),
    502: ("BadGateway", (ProviderUnavailableError,)),
    503: ("ServiceUnavailable", (ServiceUnavailableError,)),
}


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
    code = Choice(
        *CATALOG,
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
    # A class may have another status than its code.
    return error.status if isinstance(error.status, int) else CATALOG[error.code].status


def error_meaning(error: type[MarketplaceError]) -> str:
    """Return the first sentence of an error class's docstring, on one line."""
    return f"{' '.join((error.__doc__ or '').split()).split('. ')[0].rstrip('.')}."


def documented_errors(contract: Contract) -> list[type[MarketplaceError]]:
    """List all errors that a route can return: of the edge, and those that the contract declares."""
    checks_token = contract.access.token in (TokenPolicy.CHECKED_IF_GIVEN, TokenPolicy.REQUIRED)
    has_body = contract.body is not None or contract.upload is not None
    # Without a schema, any parameter is refused as unknown. Webhook addresses may have any parameters.
    any_query = contract.query is not None and contract.query.unknown == EXCLUDE and not contract.query.fields
    has_input = has_body or contract.idempotency is not Idempotency.NONE or not any_query
    errors = [
        *((MalformedBodyError, PayloadTooLargeError, UnsupportedMediaTypeError) if has_body else ()),
        *((UnauthorizedError, TokenExpiredError) if checks_token else ()),
        *((UnauthorizedError,) if contract.access.token is TokenPolicy.FUNCTION else ()),
        *((NotFoundError,) if "<" in contract.path else ()),
        *((ValidationError,) if has_input or contract.choices else ()),
        *((RateLimitError,) if contract.limit is not SharedLimit.UNLIMITED else ()),
        *((ProviderUnavailableError,) if checks_token or contract.phased else ()),
        InternalError,
        ServiceUnavailableError,
        *contract.errors,
    ]
    return list(dict.fromkeys(errors))


class ResponseDescriber:
    """Descriptions of a document's responses. Headers, examples and common problems become components."""

    def __init__(self, spec: APISpec, converter: SchemaConverter, base_url: str) -> None:
        self._spec = spec
        self._converter = converter
        self._base_url = base_url
        for name, (text, schema) in _HEADERS.items():
            header = {"description": text, "schema": schema}
            spec.components.header(name, header if name in _OPTIONAL_HEADERS else header | {"required": True})
        for status, (name, errors) in _SHARED.items():
            spec.components.response(name, self._describe_problem(status, errors, _RATE_LIMIT_HEADERS))

    def describe_responses(self, contract: Contract) -> dict[str, Any]:
        """Describe all responses of a route, by HTTP status."""
        responses = {str(contract.status): self._describe_success(contract)}
        if contract.cache_seconds:
            headers = self._refer_to_headers("ETag", "Cache-Control", *self._common_headers(contract))
            responses["304"] = {"description": texts.NOT_MODIFIED, "headers": headers}
        by_status = defaultdict(list)
        for error in documented_errors(contract):
            by_status[error_status(error)].append(error)
        for status, errors in sorted(by_status.items()):
            responses[str(status)] = self._refer_to_problem(contract, status, errors)
        for status in contract.further_statuses:
            responses[str(status)] = self._describe_success(contract) | {"description": texts.ALSO_ANSWERED}
        return responses

    def _refer_to_problem(self, contract: Contract, status: int, errors: Errors) -> dict[str, Any]:
        common = self._common_headers(contract)
        name, shared_errors = _SHARED.get(status, ("", ()))
        if tuple(errors) == tuple(shared_errors) and common:
            reference: dict[str, Any] = self._spec.components.get_ref("response", name)
            return reference
        return self._describe_problem(status, errors, common)

    def _common_headers(self, contract: Contract) -> tuple[str, ...]:
        return () if contract.limit is SharedLimit.UNLIMITED else _RATE_LIMIT_HEADERS

    def _refer_to_headers(self, *names: str) -> dict[str, Any]:
        return {name: self._spec.components.get_ref("header", name) for name in (*names, "X-Request-ID")}

    def _describe_problem(self, status: int, errors: Errors, headers: Sequence[str]) -> dict[str, Any]:
        waits = status in (429, 503) or RequestInProgressError in errors
        own = {401: ("WWW-Authenticate",), 429: ("Retry-After",), 503: ("Retry-After",)}
        described = self._refer_to_headers(*headers, *own.get(status, ()))
        if waits and status == 409:
            described["Retry-After"] = {
                "description": texts.HEADER_RETRY_AFTER_IN_PROGRESS,
                "schema": {"type": "integer", "minimum": 1},
            }
        return {
            "description": "\n".join(_describe_error(error) for error in errors),
            "headers": described,
            "content": {
                PROBLEM_TYPE: {
                    "schema": ProblemSchema,
                    "examples": {
                        error.reason or error.code: self._refer_to_example(error) for error in errors
                    },
                }
            },
        }

    def _refer_to_example(self, error: type[MarketplaceError]) -> dict[str, Any]:
        """Return a reference to an error's example, and add the example if it is missing."""
        entry, status = CATALOG[error.code], error_status(error)
        name = error.reason or error.code
        if status != entry.status:
            name = f"{name}-{status}"
        if name not in self._spec.components.examples:
            value = {
                "type": f"{self._base_url}/errors/{error_slug(error.code)}",
                "title": error.title if isinstance(error.title, str) else entry.title,
                "status": status,
                "detail": error_meaning(error),
                "instance": "/api/...",
                "code": error.code,
                "requestId": "e6a5d33a-e98e-41b9-ae95-51fbe0b8a8db",
                "timestamp": "2026-11-21T10:52:01.758301Z",
            }
            if error.reason:
                value["reason"] = error.reason
            if error is ValidationError:
                value["invalid_params"] = [{"name": "items[0].quantity", "reason": "Must be at least 1."}]
            if status >= 500:
                value["correlationId"] = value["requestId"]
            self._spec.components.example(name, {"summary": error_meaning(error), "value": value})
        reference: dict[str, Any] = self._spec.components.get_ref("example", name)
        return reference

    def _describe_success(self, contract: Contract) -> dict[str, Any]:
        content: dict[str, Any] = {}
        if contract.reply is not None:
            schema: Schema | type[Schema] = contract.reply
            if contract.enveloped:
                schema = envelope_schema(type(contract.reply), many=contract.reply.many, meta=contract.meta)
            content["application/json"] = {"schema": schema}
        if contract.plain:
            content["text/plain"] = {"schema": {"type": "string"}}
        if contract.event_stream:
            content["text/event-stream"] = {"schema": _EVENT}
        if contract.csv:
            content["text/csv"] = {"schema": {"type": "string"}}
        if contract.pdf:
            content["application/pdf"] = {"schema": {"type": "string", "format": "binary"}}
        names = [
            *self._common_headers(contract),
            *(("ETag", "Cache-Control") if contract.cache_seconds else ()),
            *(("X-Cache-Lookup",) if contract.idempotency is not Idempotency.NONE else ()),
            *((TRUNCATED_HEADER,) if contract.csv else ()),
            *contract.headers,
        ]
        return {
            "description": texts.SUCCESS[contract.status],
            "headers": self._refer_to_headers(*names),
            "content": content,
        }


def _describe_error(error: type[MarketplaceError]) -> str:
    name = f"`{error.code}`" + (f", `{error.reason}`" if error.reason else "")
    return f"- {name}: {error_meaning(error)}"
