"""Request bodies and parameters: reading and validation by schema. Errors name each invalid field by its path."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import parse_qsl

import marshmallow
import orjson
from flask import request
from gunicorn.http.errors import ParseException
from marshmallow import Schema
from werkzeug.datastructures import MultiDict

from blueprints.http import texts
from marketplace.kernel.errors import (
    InvalidParam,
    MalformedBodyError,
    PayloadTooLargeError,
    UnsupportedMediaTypeError,
    ValidationError,
)

MAX_BODY_BYTES = 1024 * 1024
_MAX_INVALID_PARAMS = 50
_MAX_PARAM_NAME_LENGTH = 100
# A revision is a number, alone or in a weak or strong entity tag.
_REVISION_PATTERN = re.compile(r'(?:W/)?"(\d{1,18})"|(\d{1,18})')


def read_body(*, max_bytes: int = MAX_BODY_BYTES) -> bytes:
    """Read the request's body as it was sent.

    :raises PayloadTooLargeError: the body is longer than ``max_bytes``
    :raises MalformedBodyError: the body is shorter than the Content-Length, or the chunks are invalid
    """
    # The framework truncates a chunked body at its limit instead of refusing it. That limit is one byte above ours, so
    # that a longer body is detected.
    request.max_content_length = max_bytes + 1
    try:
        raw = request.get_data(cache=True)
    except (OSError, ParseException) as error:
        raise MalformedBodyError(
            "The body could not be read: the transfer was interrupted or its chunks are invalid."
        ) from error
    if len(raw) > max_bytes:
        raise PayloadTooLargeError
    # The server passes on a truncated body if the client disconnects.
    if len(raw) < (request.content_length or 0):
        raise MalformedBodyError("The body is shorter than its Content-Length.")
    return raw


def read_signed_body() -> bytes:
    """Read a body with a signature over the bytes as sent.

    :raises UnsupportedMediaTypeError: the body is compressed, so the signed form is ambiguous
    :raises PayloadTooLargeError: the body is longer than ``MAX_BODY_BYTES``
    """
    _ensure_not_compressed()
    return read_body()


def _ensure_not_compressed() -> None:
    packed = request.headers.get("Content-Encoding", "identity").strip().lower() not in ("identity", "")
    # The server decodes chunks, but no other transfer encoding.
    if packed or request.headers.get("Transfer-Encoding", "chunked").strip().lower() != "chunked":
        raise UnsupportedMediaTypeError(texts.BODY_COMPRESSED)


def read_json(*, max_bytes: int = MAX_BODY_BYTES) -> Any:
    """Read the request's JSON body. A missing body is an empty object.

    :raises PayloadTooLargeError: the body is longer than ``max_bytes``
    :raises UnsupportedMediaTypeError: the body is compressed or has another content type
    :raises MalformedBodyError: the body is not valid JSON
    """
    raw = read_body(max_bytes=max_bytes)
    if not raw:
        return {}
    _ensure_not_compressed()
    if not request.is_json:
        raise UnsupportedMediaTypeError(
            "The body must be JSON with the header `Content-Type: application/json`."
        )
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise MalformedBodyError(
            f"The body is not valid JSON ({error.msg} at character {error.pos})."
        ) from error


class AcceptsBareArray:
    """A mixin for schemas whose body may also be a bare array, which stands for one field.

    ``bare_array`` is the field's name in JSON. ``bare_array_schema`` describes the array in OpenAPI.
    """

    bare_array: ClassVar[str]
    bare_array_schema: ClassVar[dict[str, Any]]


def load_body(schema: Schema, *, max_bytes: int = MAX_BODY_BYTES) -> Any:
    """Read the body and validate it against a schema.

    :raises PayloadTooLargeError: the body is longer than ``max_bytes``
    :raises ValidationError: the body is invalid; ``invalid_params`` lists each fault
    """
    body = read_json(max_bytes=max_bytes)
    if isinstance(schema, AcceptsBareArray) and isinstance(body, list):
        body = {schema.bare_array: body}
    if not schema.many and not isinstance(body, dict):
        raise ValidationError(
            "The body must be a JSON object.", invalid_params=[InvalidParam("body", "Must be an object.")]
        )
    return _load_with_schema(schema, body)


def load_query(schema: Schema | None, query_string: bytes | None = None) -> dict[str, Any]:
    """Validate the parameters of a query against a schema. Without a schema every parameter is unknown.

    :param query_string: the query; by default that of the current request
    :raises ValidationError: parameters are invalid; ``invalid_params`` lists each fault
    """
    parameters = request.args if query_string is None else _parse_query(query_string)
    if schema is None and not parameters:
        return {}
    repeated = [
        name for name, values in parameters.lists() if len(values) > 1 and _is_validated(schema, name)
    ]
    if repeated:
        raise build_validation_error([InvalidParam(name, "Must be given only once.") for name in repeated])
    if schema is None:
        raise build_validation_error([InvalidParam(name, "Unknown field.") for name in parameters])
    loaded: dict[str, Any] = _load_with_schema(schema, parameters.to_dict())
    return loaded


def _is_validated(schema: Schema | None, name: str) -> bool:
    """Return whether a parameter is validated. A schema may ignore unknown parameters."""
    return (
        schema is None
        or schema.unknown != marshmallow.EXCLUDE
        or name in {field.data_key for field in schema.fields.values()}
    )


def ensure_valid_path_choices(choices: Sequence[tuple[str, Sequence[str]]], path: Mapping[str, Any]) -> None:
    """Check the path segments that accept only certain words.

    :param choices: names of the segments, each with the accepted words
    :raises ValidationError: segments are invalid; ``invalid_params`` lists each fault
    """
    faults = [
        InvalidParam(name, f"Must be one of: {', '.join(words)}.")
        for name, words in choices
        if path[name] not in words
    ]
    if faults:
        raise build_validation_error(faults)


def _parse_query(query_string: bytes) -> MultiDict[str, str]:
    """Parse a query string in the same way as the framework."""
    words = query_string.decode("ascii", errors="replace")
    return MultiDict(parse_qsl(words, keep_blank_values=True, errors="replace"))


def digest_arguments(arguments: Mapping[str, Any]) -> str:
    """Return a digest of a request's body or file. Bodies with equal content have equal digests."""
    sent = arguments["file"].sha256 if "file" in arguments else arguments.get("body")
    canonical = orjson.dumps(sent, option=orjson.OPT_SORT_KEYS, default=str)
    return hashlib.sha256(canonical).hexdigest()


def _load_with_schema(schema: Schema, value: Any) -> Any:
    try:
        return schema.load(value)
    except marshmallow.ValidationError as error:
        messages = error.normalized_messages()  # type: ignore[no-untyped-call]
        raise build_validation_error(list(_flatten_messages(messages))) from error


def find_faults(schema: Schema, value: dict[str, Any]) -> list[InvalidParam]:
    """Validate a value against a schema, and list the faults."""
    return list(_flatten_messages(schema.validate(value)))


def build_validation_error(invalid_params: list[InvalidParam]) -> ValidationError:
    """Build the error for invalid fields and parameters. The number and length of names are limited."""
    # An unknown field's name comes from the client and may be very long.
    reported = [
        InvalidParam(item.name[:_MAX_PARAM_NAME_LENGTH], item.reason)
        for item in invalid_params[:_MAX_INVALID_PARAMS]
    ]
    names = list(dict.fromkeys(item.name for item in reported[:5]))
    if len(names) > 1:
        detail = texts.FIELDS_INVALID.format(names=", ".join(names[:-1]), last_name=names[-1])
    else:
        detail = texts.FIELD_INVALID.format(name="".join(names))
    return ValidationError(detail, invalid_params=reported)


def _flatten_messages(messages: Any, path: str = "") -> Iterator[InvalidParam]:
    """Walk marshmallow's nested messages. A list holds messages; a mapping holds fields or indexes."""
    if isinstance(messages, Mapping):
        for key, inner in messages.items():
            if key == "_schema":
                yield from _flatten_messages(inner, path)
            elif isinstance(key, int):
                yield from _flatten_messages(inner, f"{path}[{key}]")
            else:
                yield from _flatten_messages(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(messages, list):
        for message in messages:
            yield from _flatten_messages(message, path)
    else:
        yield InvalidParam(path or "body", str(messages))


def omit_fields(body: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Copy a body without some fields. The original stays intact for a retry of the transaction."""
    return {name: value for name, value in body.items() if name not in names}


def expected_revision(body_revision: int | None) -> int | None:
    """Return the revision that the client expects, from the If-Match header or the body.

    :param body_revision: the body's ``revision``, if any
    :return: the revision; None if the client sent no revision, so that no check takes place
    :raises ValidationError: the header is not a revision, or differs from the body's revision
    """
    header = request.headers.get("If-Match")
    if header is None or header.strip() == "*":
        return body_revision
    match = _REVISION_PATTERN.fullmatch(header.strip())
    if match is None:
        raise ValidationError.of("If-Match", "Must be a revision, such as 3.")
    revision = int(match[1] or match[2])
    if body_revision not in (None, revision):
        raise ValidationError.of("If-Match", "Must be the same revision as in the body.")
    return revision
