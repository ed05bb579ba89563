"""The floors: the minimum cost of a request on this machine. Served as ``bench.floors:app``.

Floors are bare WSGI functions that do only the indispensable work. Floors have no routing, tokens, limits,
checks or logs. A file (BENCH_FLOORS_FILE) describes the floors: see ``describe``.
"""

import hashlib
import hmac
import json
import os
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any
from wsgiref.types import StartResponse

import orjson
import psycopg2
import redis
from flask import Flask

from blueprints.catalog.products.schemas import ProductCard
from blueprints.http.reply_renderer import compile_renderer
from marketplace.catalog.browse.listing import build_card

Environ = dict[str, Any]

CONTENT_KEY = "bench:content"
QUEUE_KEY = "bench:queue"
_INSERT_EVENT = "INSERT INTO webhook_inbox (provider, body) VALUES ('gateway', %s) RETURNING id"
_SELECT_PRODUCT = "SELECT * FROM products WHERE id = %s"

_flask = Flask("floor")
_render_cards = compile_renderer(ProductCard(many=True))


@_flask.get("/flask")
def _empty() -> str:
    return "{}"


def describe(*, statements: dict[str, Any], published_keys: bytes) -> str:
    """Serialize the description that the floors are started with.

    :param statements: objects by floor, with these members:

    - ``prepared``: statements sent once per connection
    - ``statements``: statements of each call, with ``%(name)s`` for a value
    - ``shape``: ``cards`` or ``rows``
    - ``captures``: index of the statement that returns ``new_id`` for later statements, or None

    :param published_keys: the identity provider's key set
    """
    return json.dumps({"statements": statements, "keys": published_keys.decode()})


@cache
def _description() -> dict[str, Any]:
    described: dict[str, Any] = json.loads(Path(os.environ["BENCH_FLOORS_FILE"]).read_text(encoding="utf-8"))
    return described


@cache
def _cursor() -> Any:
    """Connect at the first request, thus after the fork. Each process serves one request at a time."""
    connection = psycopg2.connect(os.environ["DATABASE_URL"], connect_timeout=5)
    connection.autocommit = True
    cursor = connection.cursor()
    floors = _description()["statements"].values()
    for statement in dict.fromkeys(text for floor in floors for text in floor["prepared"]):
        cursor.execute(statement)
    return cursor


@cache
def _cache() -> redis.Redis:
    return redis.Redis.from_url(os.environ["REDIS_URL"], socket_timeout=5)


def app(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Serve a floor. The path is the floor's name, and the query string holds its values."""
    path = environ["PATH_INFO"]
    if path == "/flask":
        return _flask(environ, start_response)
    content = _SERVED[path](environ)
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(content)))])
    return [content]


def _constant(_environ: Environ) -> bytes:
    return b"{}"


def _keys(_environ: Environ) -> bytes:
    keys: str = _description()["keys"]
    return keys.encode()


def _from_cache(_environ: Environ) -> bytes:
    content = _cache().get(CONTENT_KEY)
    assert isinstance(content, bytes), "the content is not in the cache"
    return content


def _one_row(environ: Environ) -> bytes:
    cursor = _cursor()
    cursor.execute(_SELECT_PRODUCT, (environ["QUERY_STRING"],))
    return orjson.dumps(
        dict(zip([column.name for column in cursor.description], cursor.fetchone(), strict=True))
    )


def _ingest(environ: Environ) -> bytes:
    body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
    secret = os.environ["GATEWAY_SECRET_KEY"].encode()
    expected = hmac.digest(secret, body, hashlib.sha512).hex()
    if not hmac.compare_digest(expected, environ["HTTP_X_GATEWAY_SIGNATURE"]):
        raise ValueError("wrong signature")
    cursor = _cursor()
    cursor.execute(_INSERT_EVENT, (body,))
    _cache().lpush(QUEUE_KEY, orjson.dumps({"id": cursor.fetchone()[0]}))
    return b'{"received":true}'


def _statements(environ: Environ) -> bytes:
    query = environ["QUERY_STRING"].split("&")
    floor = _description()["statements"][query[0]]
    values = dict(pair.split("=", 1) for pair in query[1:])
    cursor, rows = _cursor(), []
    for number, statement in enumerate(floor["statements"]):
        cursor.execute(statement % values)
        if cursor.description is not None:
            rows = cursor.fetchall()
        if number == floor["captures"]:
            values["new_id"] = rows[0][0]
    data = _render_cards(map(build_card, rows)) if floor["shape"] == "cards" else rows
    # Coordinates are Decimal.
    return orjson.dumps(
        {"success": True, "data": data, "meta": {"limit": 20, "has_more": True}}, default=float
    )


_SERVED: dict[str, Callable[[Environ], bytes]] = {
    "/constant": _constant,
    "/keys": _keys,
    "/cache": _from_cache,
    "/row": _one_row,
    "/ingest": _ingest,
    "/statements": _statements,
}
