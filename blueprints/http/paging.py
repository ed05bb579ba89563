"""Paging: what clients ask with, and the cursors that they are given."""

from typing import Any

import orjson
from flask import request

from blueprints.http.fields import Schema, Text, WholeParameter
from blueprints.http.tracing import Exchange
from marketplace.kernel.cursor import InvalidCursorError, decode_cursor, encode_cursor
from marketplace.kernel.errors import ValidationError
from marketplace.kernel.paging import DEFAULT_LIMIT, MAX_LIMIT, Page, PageRequest


class CursorQuery(Schema):
    """The parameters of a collection that is paged by cursor."""

    limit = WholeParameter(low=1, high=MAX_LIMIT, load_default=DEFAULT_LIMIT)
    cursor = Text(most=1024, load_default=None)


def page_request(exchange: Exchange, query: dict[str, Any]) -> PageRequest:
    """This function will read the page that a client asks for.

    :param exchange: the request
    :param query: loaded by a schema of ``CursorQuery``; ``limit`` and ``cursor`` are taken out of it
    :raises ValidationError: the cursor was altered, or is another listing's or other filters'
    """
    limit, cursor = query.pop("limit"), query.pop("cursor")
    exchange.listing = _listing(exchange, query)
    if cursor is None:
        return PageRequest(limit)
    try:
        position = decode_cursor(_key(exchange), listing=exchange.listing, cursor=cursor)
    except InvalidCursorError as error:
        raise ValidationError.of("cursor", "Is not a cursor of this listing with these filters.") from error
    return PageRequest(limit, position)


def page_meta(exchange: Exchange, page: Page) -> dict[str, Any]:
    """This function will give the fields of ``meta`` that a page carries."""
    more = page.next_position is not None
    cursor = None
    if page.next_position is not None:
        cursor = encode_cursor(_key(exchange), listing=exchange.listing, position=page.next_position)
    return {"limit": page.limit, "has_more": more, "next_cursor": cursor} | page.extra_meta


def _key(exchange: Exchange) -> bytes:
    return exchange.services.settings.cursor_key.encode()


def _listing(exchange: Exchange, filters: dict[str, Any]) -> str:
    """A cursor is good for one caller, one collection (concrete path) and one set of filters."""
    caller = (
        str(exchange.caller.id)
        if exchange.caller and exchange.contract and not exchange.contract.cache_seconds
        else ""
    )
    return orjson.dumps([request.path, caller, filters], option=orjson.OPT_SORT_KEYS).decode()
