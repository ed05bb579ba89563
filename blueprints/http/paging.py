"""Paging: what clients ask with, and the cursors that they are given."""

from typing import Any

import marshmallow
import orjson
from flask import request
from marshmallow import ValidationError as SchemaError, validates_schema

from blueprints.http.context import Context
from blueprints.http.envelope import CursorMetaSchema, MetaSchema, OffsetMetaSchema, OffsetOrCursorMetaSchema
from blueprints.http.fields import Choice, IntegerParameter, Schema, Text
from marketplace.kernel.cursor import InvalidCursorError, decode_cursor, encode_cursor
from marketplace.kernel.paging import (
    DEFAULT_LIMIT,
    DEFAULT_TABLE_LIMIT,
    MAX_LIMIT,
    MAX_PAGE_NUMBER,
    Page,
    PageRequest,
    TablePage,
    TableRequest,
    UnknownCursorError,
)

_MAX_CURSOR_LENGTH = 1024


class CursorQuery(Schema):
    """The parameters of a collection that is paged by cursor."""

    limit = IntegerParameter(minimum=1, maximum=MAX_LIMIT, load_default=DEFAULT_LIMIT)
    cursor = Text(max_length=_MAX_CURSOR_LENGTH, load_default=None)


class OffsetQuery(Schema):
    """The parameters of a table that is paged by number.

    A table names what it may be sorted by, each by its name in the answer:
    ``sort = Choice("createdAt", ..., load_default="createdAt")``.
    """

    page = IntegerParameter(minimum=1, maximum=MAX_PAGE_NUMBER, load_default=1)
    limit = IntegerParameter(minimum=1, maximum=MAX_LIMIT, load_default=DEFAULT_TABLE_LIMIT)
    order = Choice("asc", "desc", load_default="desc")


class OffsetOrCursorQuery(OffsetQuery):
    """The parameters of a table that is paged by number, or by cursor so that nothing is skipped or repeated.

    Every page tells the cursor to go on from; without page and cursor it is the first page by number.
    """

    page = IntegerParameter(minimum=1, maximum=MAX_PAGE_NUMBER)
    cursor = Text(max_length=_MAX_CURSOR_LENGTH, load_default=None)

    @validates_schema
    def check_page_or_cursor(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Refuse a page that is named both ways."""
        if data.get("cursor") is not None and "page" in data:
            raise SchemaError("Is not for a page that is named by its number.", "cursor")


def page_request(context: Context, query: dict[str, Any]) -> PageRequest:
    """Read the page that a client asks for.

    :param context: the request
    :param query: loaded by a schema of ``CursorQuery``; ``limit`` and ``cursor`` are taken out of it
    :raises UnknownCursorError: the cursor was altered, or is another listing's or other filters'
    """
    limit, cursor = query.pop("limit"), query.pop("cursor")
    return PageRequest(limit, _decode_position(context, query, cursor))


def table_request(context: Context, query: dict[str, Any]) -> TableRequest:
    """Read the page of a table that a client asks for.

    :param context: the request
    :param query: loaded by a schema of ``OffsetQuery``; what tells the page and the order is taken out of it
    :raises UnknownCursorError: the cursor was altered, or is another listing's or other filters'
    """
    number, limit, cursor = query.pop("page", None), query.pop("limit"), query.pop("cursor", None)
    position = _decode_position(context, query, cursor)
    return TableRequest(
        number=None if cursor else number or 1,
        limit=limit,
        sort=query.pop("sort"),
        descending=query.pop("order") == "desc",
        position=position,
    )


def _decode_position(context: Context, filters: dict[str, Any], cursor: str | None) -> list[Any] | None:
    # A cursor is good for one caller, one collection (concrete path) and one set of filters.
    caller = (
        str(context.caller.id)
        if context.caller and context.contract and not context.contract.cache_seconds
        else ""
    )
    listing = orjson.dumps([request.path, caller, filters], option=orjson.OPT_SORT_KEYS).decode()
    context.cursor_listing_key = listing
    if cursor is None:
        return None
    try:
        return decode_cursor(context.services.settings.cursor_key.encode(), listing=listing, cursor=cursor)
    except InvalidCursorError as error:
        raise UnknownCursorError from error


def page_meta(context: Context, page: Page) -> dict[str, Any]:
    """Give the fields of ``meta`` that a page carries."""
    return {"limit": page.limit} | _next_page_meta(context, page.next_position) | page.extra_meta


def table_meta(context: Context, page: TablePage) -> dict[str, Any]:
    """Give the fields of ``meta`` that a page of a table carries."""
    number, limit = page.request.number, page.request.limit
    meta: dict[str, Any] = {"limit": limit, "total": page.total}
    if number is not None:
        meta |= {"page": number, "total_pages": -(-page.total // limit)}
    if context.contract and isinstance(context.contract.query, OffsetOrCursorQuery):
        meta |= _next_page_meta(context, page.next_position)
    return meta | page.extra_meta


def _next_page_meta(context: Context, position: list[Any] | None) -> dict[str, Any]:
    cursor = None
    if position is not None:
        cursor = encode_cursor(
            context.services.settings.cursor_key.encode(),
            listing=context.cursor_listing_key,
            position=position,
        )
    return {"has_more": position is not None, "next_cursor": cursor}


def meta_schema_for(query: marshmallow.Schema | None) -> type[MetaSchema]:
    """Give what ``meta`` holds on a route whose parameters are these.

    :param query: the schema of the parameters, or none
    """
    for paged, meta in (
        (CursorQuery, CursorMetaSchema),
        (OffsetOrCursorQuery, OffsetOrCursorMetaSchema),
        (OffsetQuery, OffsetMetaSchema),
    ):
        if isinstance(query, paged):
            return meta
    return MetaSchema
