"""Descriptions of operations: a route's contract in the form of OpenAPI."""

import inspect
import re
from collections.abc import Callable
from typing import Any

from apispec import APISpec

from blueprints.http.contract import (
    Contract,
    Idempotency,
    RateLimitTier,
    RouteLimit,
    SharedLimit,
    TokenPolicy,
    Upload,
)
from blueprints.http.documentation import texts
from blueprints.http.documentation.converter import SchemaConverter
from blueprints.http.documentation.responses import ResponseDescriber
from blueprints.http.fields import ExpectedRevision, camel_case
from blueprints.http.idempotency import IDEMPOTENCY_KEY_HEADER
from blueprints.http.request_parsing import AcceptsBareArray

_PATH_PARAMETER = re.compile(r"<(?:(\w+):)?(\w+)>")
_UUID_V4_PATTERN = "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-4[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$"
_REVISION_PATTERN = r'^(\*|[0-9]{1,18}|(W/)?"[0-9]{1,18}")$'
_SECURITY: dict[TokenPolicy, list[dict[str, list[str]]]] = {
    TokenPolicy.NONE: [],
    TokenPolicy.FUNCTION: [{"functionsKey": []}, {"webhookSignature": []}],
    TokenPolicy.IGNORED_IF_INVALID: [],
    TokenPolicy.CHECKED_IF_GIVEN: [{}, {"bearer": []}],
    TokenPolicy.REQUIRED: [{"bearer": []}],
}


def documented_path(contract: Contract) -> str:
    """Return a route's path in the document, such as ``/api/orders/{orderId}``."""
    return _PATH_PARAMETER.sub(lambda found: f"{{{camel_case(found[2])}}}", contract.path)


def documented_limit(contract: Contract) -> str:
    """Return a route's rate limit in words, such as ``10/minute``."""
    if isinstance(contract.limit, RouteLimit):
        return contract.limit.quota
    if contract.limit is SharedLimit.MERCHANT_TIER:
        return f"merchant tier, {RateLimitTier.MERCHANT.value}"
    tier: str = contract.limit.value
    return tier


class OperationDescriber:
    """Descriptions of a document's operations. Parameters that operations share become components."""

    def __init__(self, spec: APISpec, converter: SchemaConverter, base_url: str) -> None:
        self._spec = spec
        self._converter = converter
        self._responses = ResponseDescriber(spec, converter, base_url)
        for component, required in (("RequiredIdempotencyKey", True), ("IdempotencyKey", False)):
            self._add_header(component, IDEMPOTENCY_KEY_HEADER, pattern=_UUID_V4_PATTERN, required=required)
        self._add_header("IfNoneMatch", "If-None-Match")
        self._add_header("IfMatch", "If-Match", pattern=_REVISION_PATTERN)

    def _add_header(
        self, component: str, name: str, *, pattern: str | None = None, required: bool = False
    ) -> None:
        schema = {"type": "string"} | ({"pattern": pattern} if pattern else {})
        described = {"name": name, "required": required, "schema": schema}
        self._spec.components.parameter(component, "header", described)

    def add_operation(self, contract: Contract, view: Callable[..., Any], *, tag: str) -> None:
        """Add a route to the document."""
        summary, _, further = inspect.cleandoc(view.__doc__ or "").partition("\n")
        access = texts.ACCESS.format(access=contract.access.name, limit=documented_limit(contract))
        if contract.cache_seconds:
            access += texts.CACHED.format(seconds=contract.cache_seconds)
        operation: dict[str, Any] = {
            "operationId": contract.operation_id,
            "tags": [tag],
            "summary": summary,
            "description": f"{further.strip()}\n\n{access}".strip(),
            "security": _SECURITY[contract.access.token],
            "parameters": self._describe_parameters(contract),
            "responses": self._responses.describe_responses(contract),
        }
        if contract.deprecation is not None:
            operation["deprecated"] = True
            operation["x-sunset"] = contract.deprecation.sunset.isoformat()
        body = _describe_body(contract, self._converter)
        if body is not None:
            operation["requestBody"] = body
        self._spec.path(path=documented_path(contract), operations={contract.method.lower(): operation})

    def _describe_parameters(self, contract: Contract) -> list[Any]:
        choices = dict(contract.choices)
        parameters: list[Any] = []
        for kind, name in _PATH_PARAMETER.findall(contract.path):
            described = {"in": "path", "name": camel_case(name), "required": True}
            if name in choices:
                described["schema"] = self._converter.refer_to_enumeration(choices[name])
            elif kind == "uuid":
                described["schema"] = {"type": "string", "format": "uuid"}
            else:
                described["schema"] = {"type": "string"}
                if name.endswith("_id"):
                    described["description"] = texts.PARAMETER_SLUG.format(resource=name.removesuffix("_id"))
            parameters.append(described)
        if contract.query is not None:
            parameters.append({"in": "query", "schema": contract.query})
        if contract.idempotency is Idempotency.REQUIRED:
            parameters.append("RequiredIdempotencyKey")
        elif contract.idempotency is Idempotency.OPTIONAL:
            parameters.append("IdempotencyKey")
        if contract.cache_seconds:
            parameters.append("IfNoneMatch")
        if isinstance(contract.body, ExpectedRevision):
            parameters.append("IfMatch")
        return parameters


def _describe_body(contract: Contract, converter: SchemaConverter) -> dict[str, Any] | None:
    if contract.upload is not None:
        return _describe_upload(contract.upload, converter)
    if contract.body is None:
        return None
    schema: Any = contract.body
    if isinstance(contract.body, AcceptsBareArray):
        schema = {"oneOf": [contract.body, contract.body.bare_array_schema]}
    # A missing body is read as an empty object.
    is_required = bool(contract.body.validate({}))
    return {"required": is_required, "content": {"application/json": {"schema": schema}}}


def _describe_upload(upload: Upload, converter: SchemaConverter) -> dict[str, Any]:
    file = {
        "type": "string",
        "format": "binary",
        "description": f"At most {upload.max_bytes // (1024 * 1024)} MB, of type {' or '.join(upload.accepts)}.",
    }
    form = converter.schema2jsonschema(upload.form) if upload.form else {}
    schema = {
        "type": "object",
        "properties": {upload.field: file} | form.get("properties", {}),
        "required": [upload.field, *form.get("required", ())],
        "additionalProperties": False,
    }
    # The part's encoding lists no content types, because the declared type of a part is ignored.
    return {"required": True, "content": {"multipart/form-data": {"schema": schema}}}
