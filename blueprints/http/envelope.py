"""JSON responses. The success envelope is spliced around data that is already serialized."""

from datetime import datetime
from functools import lru_cache
from typing import Any

import orjson
from marshmallow import Schema, fields

from marketplace.kernel.clock import iso

API_VERSION = "1.0"
JSON_TYPE = "application/json; charset=utf-8"
_JSON_OPTIONS = orjson.OPT_UTC_Z | orjson.OPT_NAIVE_UTC


def dump_json(value: Any, *, indented: bool = False) -> bytes:
    """Serialize dicts, lists, scalars, UUIDs and times as JSON."""
    return orjson.dumps(value, option=_JSON_OPTIONS | orjson.OPT_INDENT_2 if indented else _JSON_OPTIONS)


def envelope(*, data: bytes, paging: bytes, request_id: str, now: datetime) -> bytes:
    """Wrap data in the success envelope.

    :param data: JSON
    :param paging: further members of ``meta`` as JSON without the enclosing braces; may be empty
    """
    meta = f'{{"timestamp":"{iso(now)}","version":"{API_VERSION}","requestId":"{request_id}"'.encode()
    further_meta = b"," + paging if paging else b""
    return b'{"success":true,"data":' + data + b',"meta":' + meta + further_meta + b"}}"


def dump_members(meta: dict[str, Any]) -> bytes:
    """Serialize a dict as JSON without the enclosing braces, such as ``"limit":20,"has_more":false``."""
    return dump_json(meta)[1:-1]


class MetaSchema(Schema):
    """The ``meta`` of every success envelope."""

    timestamp = fields.AwareDateTime(required=True)
    version = fields.String(required=True)
    requestId = fields.UUID(required=True)  # noqa: N815 - the field's name on the wire


class CursorMetaSchema(MetaSchema):
    """The ``meta`` of a collection paged by cursor."""

    limit = fields.Integer(required=True)
    has_more = fields.Boolean(required=True)
    next_cursor = fields.String(required=True, allow_none=True)


class OffsetMetaSchema(MetaSchema):
    """The ``meta`` of a table paged by number."""

    page = fields.Integer(required=True)
    limit = fields.Integer(required=True)
    total = fields.Integer(required=True)
    total_pages = fields.Integer(required=True)


class OffsetOrCursorMetaSchema(CursorMetaSchema):
    """The ``meta`` of a table paged by number or by cursor. Pages by cursor have no page number."""

    page = fields.Integer()
    total = fields.Integer(required=True)
    total_pages = fields.Integer()


_ENVELOPE_FORMS = {CursorMetaSchema: "Page", OffsetMetaSchema: "Table", OffsetOrCursorMetaSchema: "Table"}


@lru_cache(maxsize=1024)
def envelope_schema(reply: type[Schema], *, many: bool, meta: type[MetaSchema]) -> type[Schema]:
    """Create the schema that documents a reply's envelope, once for each reply.

    :param reply: schema of ``data``
    :param many: whether ``data`` is a list
    :param meta: schema of ``meta``
    """
    # Each kind of envelope needs a class name of its own, because the OpenAPI document identifies schemas by name.
    if meta is MetaSchema:
        form = "List" if many else ""
    else:
        form = _ENVELOPE_FORMS.get(meta) or meta.__name__.removesuffix("Schema").removesuffix("Meta")
    return type(
        f"{reply.__name__}{form}Envelope",
        (Schema,),
        {
            "success": fields.Boolean(required=True),
            "data": fields.Nested(reply, many=many, required=True),
            "meta": fields.Nested(meta, required=True),
        },
    )
