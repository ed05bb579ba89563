"""Paging: requested pages and the cursors of responses."""

from typing import Any

import marshmallow
import orjson
from flask import request

from blueprints.http.context import Context
from blueprints.http.envelope import CursorMetaSchema, MetaSchema, OffsetMetaSchema, OffsetOrCursorMetaSchema
from blueprints.http.fields import CursorQuery, OffsetOrCursorQuery, OffsetQuery, snake_case
from marketplace.kernel.cursor import InvalidCursorError, decode_cursor, encode_cursor
from marketplace.kernel.paging import (
    Page,
    PageRequest,
    TablePage,
    TableRequest,
    UnknownCursorError,
)


def read_requested_page(context: Context, schema: marshmallow.Schema, query: dict[str, Any]) -> None:
    """Set the requested page on the context.

    :param query: loaded parameters. Page, limit, cursor, sort and order are removed
    :raises UnknownCursorError: the cursor was altered, or belongs to another listing or other filters
    """
    if isinstance(schema, CursorQuery):
        limit, cursor = query.pop("limit"), query.pop("cursor")
        context.requested_page = PageRequest(limit, _decode_position(context, query, cursor))
    elif isinstance(schema, OffsetQuery):
        number, limit, cursor = query.pop("page", None), query.pop("limit"), query.pop("cursor", None)
        position = _decode_position(context, query, cursor)
        context.requested_table = TableRequest(
            number=None if cursor else number or 1,
            limit=limit,
            sort=snake_case(query.pop("sort")),
            descending=query.pop("order") == "desc",
            position=position,
        )


def _decode_position(context: Context, filters: dict[str, Any], cursor: str | None) -> list[Any] | None:
    # A cursor is valid for one collection (concrete path), one set of filters and one caller. All callers share the
    # pages of cached routes.
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
    """Return the fields of ``meta`` for a page."""
    return {"limit": page.limit} | _next_page_meta(context, page.next_position) | page.extra_meta


def table_meta(context: Context, page: TablePage) -> dict[str, Any]:
    """Return the fields of ``meta`` for a page of a table."""
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
    """Return the schema of ``meta`` for a route with the given query schema."""
    for paged, meta in (
        (CursorQuery, CursorMetaSchema),
        (OffsetOrCursorQuery, OffsetOrCursorMetaSchema),
        (OffsetQuery, OffsetMetaSchema),
    ):
        if isinstance(query, paged):
            return meta
    return MetaSchema
