"""Response caching with entity tags. All processes share the cached content, and only one process computes a miss."""

import contextlib
import hashlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson
from flask import Response, request

from blueprints.http import request_parsing
from blueprints.http.context import Context
from blueprints.http.contract import Contract
from blueprints.http.envelope import JSON_TYPE, envelope
from blueprints.http.fields import CursorQuery
from marketplace.infra.cache import Cache, CacheDownError, CacheLookup
from marketplace.kernel.signals import RECORDER

_MAX_WAIT_SECONDS = 2.0
_POLL_SECONDS = 0.02
# The form of issued cursors. A cursor in any other form is parsed with the other parameters and refused later.
_CURSOR_PARAMETER = re.compile(rb"cursor=([A-Za-z0-9_-]{1,1024})")
_SEPARATOR = b"\n"  # orjson writes no line breaks


@dataclass(frozen=True, slots=True)
class CacheableRequest:
    """Normalized parameters of a request to a cached route.

    :param content_key: key of the content, made of the route, the path values, and the parameters with defaults
    :param query: parameters as loaded by the schema. Requests share this mapping, so change only a copy
    """

    content_key: str
    query: Mapping[str, Any]


def parse_cacheable_request(contract: Contract, path: Mapping[str, Any]) -> CacheableRequest:
    """Read the parameters of a request to a cached route.

    Requests that differ only in the parameters' order, explicit defaults or the case of ids get the same key.

    :raises ValidationError: parameters are invalid; ``invalid_params`` lists each fault
    """
    query_string = request.query_string
    if isinstance(contract.query, CursorQuery):
        # Only the cursor differs between pages. Parsing the other parameters alone keeps one entry in the LRU cache.
        parts = query_string.split(b"&")
        cursors = [match for match in map(_CURSOR_PARAMETER.fullmatch, parts) if match]
        if len(cursors) == 1:
            shared = b"&".join(part for part in parts if not _CURSOR_PARAMETER.fullmatch(part))
            first_page = _parse_query(contract, tuple(path.items()), shared)
            if first_page.query["cursor"] is None:
                cursor = cursors[0][1].decode()
                return CacheableRequest(
                    f"{first_page.content_key}:{cursor}", {**first_page.query, "cursor": cursor}
                )
    return _parse_query(contract, tuple(path.items()), query_string)


# Most requests repeat, and parsing costs more than a look-up.
@lru_cache(maxsize=1024)
def _parse_query(
    contract: Contract, path: tuple[tuple[str, Any], ...], query_string: bytes
) -> CacheableRequest:
    query = request_parsing.load_query(contract.query, query_string)
    arguments = orjson.dumps([path, query], option=orjson.OPT_SORT_KEYS).decode()
    return CacheableRequest(f"{contract.path}:{arguments}", query)


def get_or_compute_content(
    context: Context,
    *,
    key: str,
    lookup: CacheLookup | None,
    ttl_seconds: int,
    compute: Callable[[], tuple[bytes, bytes]],
) -> bytes:
    """Return a route's content from the cache, or compute and store the content.

    If several processes miss at once, one process computes the content. The others wait for at most two seconds, then
    compute the content themselves. Without a cache, every request computes the content.

    :param lookup: result of the cache look-up; None if the cache is unavailable
    :param compute: returns data and paging as JSON
    :return: entity tag, paging and data, separated by line breaks
    """
    if lookup is None:
        return _pack_content(*compute())
    RECORDER.count("cache", "miss" if lookup.content is None else "hit")
    if lookup.content is not None:
        return lookup.content
    cache = context.services.cache
    waited_for = None if lookup.must_compute else _wait_for_content(cache, key, lookup.version)
    if waited_for is not None:
        return waited_for
    content = _pack_content(*_compute_or_release(cache, key, lookup, compute))
    with contextlib.suppress(CacheDownError):
        cache.store(content_key=key, version=lookup.version, content=content, ttl_seconds=ttl_seconds)
    return content


def compute_shared(
    context: Context, *, key: str, tags: Sequence[str], ttl_seconds: int, compute: Callable[[], bytes]
) -> bytes:
    """Return content for a view without contract from the cache, or compute and store the content.

    :param key: the key of the content, which no route has
    :param tags: dependencies of the content
    """
    lookup = None
    with contextlib.suppress(CacheDownError):
        lookup = context.services.cache.look_up(window=None, content_key=key, tags=tags)
    content = get_or_compute_content(
        context, key=key, lookup=lookup, ttl_seconds=ttl_seconds, compute=lambda: (compute(), b"")
    )
    return content.split(_SEPARATOR, 2)[2]


def _wait_for_content(cache: Cache, key: str, version: str) -> bytes | None:
    """Wait while another process computes the content.

    :return: the content; None if the computation failed or took too long, or if the cache is unavailable
    """
    deadline = time.monotonic() + _MAX_WAIT_SECONDS
    with contextlib.suppress(CacheDownError):
        while time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
            content, awaited = cache.poll(content_key=key, version=version)
            if content is not None or not awaited:
                return content
    return None


def _compute_or_release(
    cache: Cache, key: str, lookup: CacheLookup, compute: Callable[[], tuple[bytes, bytes]]
) -> tuple[bytes, bytes]:
    """Compute the content. After an error, release the lease, so that other requests do not wait in vain."""
    try:
        return compute()
    except Exception:
        if lookup.must_compute:
            with contextlib.suppress(CacheDownError):
                cache.release_compute_lease(content_key=key, version=lookup.version)
        raise


def build_cached_response(context: Context, *, content: bytes, ttl_seconds: int) -> Response:
    """Build the response with cached content, or a 304 response if the client has the same content."""
    tag, paging, data = content.split(_SEPARATOR, 2)
    etag = tag.decode()
    headers = {"ETag": f'W/"{etag}"', "Cache-Control": f"public, max-age={ttl_seconds}"}
    if "If-None-Match" in request.headers and request.if_none_match.contains_weak(etag):
        return Response(status=304, headers=headers)
    body = envelope(data=data, paging=paging, request_id=str(context.request_id), now=context.now)
    return Response(body, headers=headers, content_type=JSON_TYPE)


def _pack_content(data: bytes, paging: bytes) -> bytes:
    tag = hashlib.blake2b(paging + _SEPARATOR + data, digest_size=16).hexdigest().encode()
    return _SEPARATOR.join((tag, paging, data))
