"""Bodies and parameters in: read, checked by their schema, every fault named by its path."""

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
# As we show a revision (a number), or as an entity tag, weak or strong, around it.
_REVISION_PATTERN = re.compile(r'(?:W/)?"(\d{1,18})"|(\d{1,18})')


def read_body() -> bytes:
    """Read the request's body as it came.

    :raises PayloadTooLargeError: it is longer than ``MAX_BODY_BYTES``
    :raises MalformedBodyError: it ends before its own length, or its chunks are none
    """
    # A body of untold length (chunked) is cut off by the framework at its limit instead of refused: that
    # limit is one byte more than ours, so that the byte too many shows.
    try:
        raw = request.get_data(cache=True)
    except (OSError, ParseException) as error:
        raise MalformedBodyError(
            "The body can't be read: its sender broke off, or it is not chunked."
        ) from error
    if len(raw) > MAX_BODY_BYTES:
        raise PayloadTooLargeError
    # The server hands on what there is of a body whose sender broke off.
    if len(raw) < (request.content_length or 0):
        raise MalformedBodyError("The body is shorter than its Content-Length.")
    return raw


def read_signed_body() -> bytes:
    """Read a body whose signature is over its bytes as they came.

    :raises UnsupportedMediaTypeError: it is compressed: what would be signed then, nobody says
    :raises PayloadTooLargeError: it is longer than ``MAX_BODY_BYTES``
    """
    _ensure_not_compressed()
    return read_body()


def _ensure_not_compressed() -> None:
    packed = request.headers.get("Content-Encoding", "identity").strip().lower() not in ("identity", "")
    # Chunks are put together by the server, and nothing else is undone.
    if packed or request.headers.get("Transfer-Encoding", "chunked").strip().lower() != "chunked":
        raise UnsupportedMediaTypeError("The body must not be compressed.")


def read_json() -> Any:
    """Read the request's JSON body; a request without body has an empty object.

    :raises PayloadTooLargeError: it is longer than ``MAX_BODY_BYTES``
    :raises UnsupportedMediaTypeError: a body of another type, or one that is compressed
    :raises MalformedBodyError: it is not JSON
    """
    raw = read_body()
    if not raw:
        return {}
    _ensure_not_compressed()
    if not request.is_json:
        raise UnsupportedMediaTypeError("The body must be JSON: Content-Type: application/json.")
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise MalformedBodyError(f"The body is not JSON: {error.msg} at character {error.pos}.") from error


class AcceptsBareArray:
    """Beside a schema: its body may also be an array alone, which stands for one of its fields.

    ``bare_array`` is the field's name on the wire, ``bare_array_schema`` describes the array for OpenAPI.
    """

    bare_array: ClassVar[str]
    bare_array_schema: ClassVar[dict[str, Any]]


def load_body(schema: Schema) -> Any:
    """Read the body and check it against a schema.

    :raises ValidationError: one entry of ``invalid_params`` for each fault
    """
    body = read_json()
    if isinstance(schema, AcceptsBareArray) and isinstance(body, list):
        body = {schema.bare_array: body}
    if not schema.many and not isinstance(body, dict):
        raise ValidationError(
            "The body must be a JSON object.", invalid_params=[InvalidParam("body", "must be an object")]
        )
    return _load_with_schema(schema, body)


def load_query(schema: Schema | None, query_string: bytes | None = None) -> dict[str, Any]:
    """Check the query's parameters against a schema; without one, none are known.

    :param schema: the route's
    :param query_string: the query, or none for that of the current request
    :raises ValidationError: one entry of ``invalid_params`` for each fault
    """
    parameters = request.args if query_string is None else _parse_query(query_string)
    if schema is None and not parameters:
        return {}
    repeated = [
        name for name, values in parameters.lists() if len(values) > 1 and _is_validated(schema, name)
    ]
    if repeated:
        raise build_validation_error([InvalidParam(name, "was given more than once") for name in repeated])
    if schema is None:
        raise build_validation_error([InvalidParam(name, "Unknown field.") for name in parameters])
    loaded: dict[str, Any] = _load_with_schema(schema, parameters.to_dict())
    return loaded


def _is_validated(schema: Schema | None, name: str) -> bool:
    """Tell whether a parameter is looked at: a schema may say that others than its own are not."""
    return (
        schema is None
        or schema.unknown != marshmallow.EXCLUDE
        or name in {field.data_key for field in schema.fields.values()}
    )


def ensure_valid_path_choices(choices: Sequence[tuple[str, Sequence[str]]], path: Mapping[str, Any]) -> None:
    """Check the segments of a path that are one of a few words.

    :param choices: the segments' names, each with its words
    :param path: the values of the path
    :raises ValidationError: one entry of ``invalid_params`` for each fault
    """
    faults = [
        InvalidParam(name, f"Must be one of: {', '.join(words)}.")
        for name, words in choices
        if path[name] not in words
    ]
    if faults:
        raise build_validation_error(faults)


def _parse_query(query_string: bytes) -> MultiDict[str, str]:
    """Read a query as the framework reads a request's own."""
    words = query_string.decode("ascii", errors="replace")
    return MultiDict(parse_qsl(words, keep_blank_values=True, errors="replace"))


def digest_arguments(arguments: Mapping[str, Any]) -> str:
    """Digest the body or file of a request; bodies that say the same have the same digest."""
    sent = arguments["file"].sha256 if "file" in arguments else arguments.get("body")
    canonical = orjson.dumps(sent, option=orjson.OPT_SORT_KEYS, default=str)
    return hashlib.sha256(canonical).hexdigest()


def _load_with_schema(schema: Schema, value: Any) -> Any:
    try:
        return schema.load(value)
    except marshmallow.ValidationError as error:
        messages = error.normalized_messages()  # type: ignore[no-untyped-call]
        raise build_validation_error(list(_flatten_messages(messages))) from error


def build_validation_error(invalid_params: list[InvalidParam]) -> ValidationError:
    """Make the error of a request's faults, as many as are fit to be shown."""
    # A name may be the client's own words, a megabyte of them.
    reported = [
        InvalidParam(item.name[:_MAX_PARAM_NAME_LENGTH], item.reason)
        for item in invalid_params[:_MAX_INVALID_PARAMS]
    ]
    names = ", ".join(item.name for item in reported[:5])
    return ValidationError(
        f"Something is wrong with {names}; invalid_params says what.", invalid_params=reported
    )


def _flatten_messages(messages: Any, path: str = "") -> Iterator[InvalidParam]:
    """Walk marshmallow's nested messages: a list holds messages, a mapping holds fields or indexes."""
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
    """Copy a body without some fields: a transaction that is tried again gets the same body."""
    return {name: value for name, value in body.items() if name not in names}


def expected_revision(body_revision: int | None) -> int | None:
    """Tell which revision a client expects, if it says so.

    :param body_revision: the body's ``revision``, if any
    :return: the revision, or none not to compare: nothing was said, or ``If-Match: *``
    :raises ValidationError: the header is no revision, or says another one than the body
    """
    header = request.headers.get("If-Match")
    if header is None or header.strip() == "*":
        return body_revision
    match = _REVISION_PATTERN.fullmatch(header.strip())
    if match is None:
        raise ValidationError.of("If-Match", "Must be one revision, such as 3.")
    revision = int(match[1] or match[2])
    if body_revision not in (None, revision):
        raise ValidationError.of("If-Match", "Says another revision than the body.")
    return revision
