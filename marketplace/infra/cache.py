"""The cache: shared content with tags, and the sliding windows of rate limits. It may be down at any time."""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis
import structlog
from sqlalchemy import event
from sqlalchemy.orm import Session

from marketplace.infra.outbox import after_commit
from marketplace.infra.sessions import DROP_STALE_CONTENT_KEY
from marketplace.infra.wire import LeanRedisClient

_log = structlog.get_logger(__name__)

# Changing what a window or a content entry looks like must change this, or old entries are misread.
_PREFIX = "m2:"
_COOL_DOWN_SECONDS = 1.0  # after a failure, requests go without the cache for so long instead of each waiting
_COMPUTE_LEASE_MILLISECONDS = 5_000  # a process that died over computing holds the others up for no longer


class CacheDownError(Exception):
    """The cache did not answer, or failed a moment ago: go on without it."""


class Script:
    """A program that the cache runs whole, with nothing in between."""

    def __init__(self, text: str) -> None:
        """Name a program.

        :param text: in Lua
        """
        self.text = text
        self.digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


_LOOK_UP = Script((Path(__file__).parent / "edge.lua").read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class RateLimitWindow:
    """A sliding window of a rate limit: so many requests per period under a key."""

    key: str
    limit: int
    period_seconds: int


@dataclass(frozen=True, slots=True)
class CacheLookup:
    """What one round trip told; ``must_compute`` says that the caller is the one to compute what is missing."""

    allowed: bool
    used: int
    retry_after_seconds: float
    version: str
    content: bytes | None
    must_compute: bool


class Cache:
    """A Redis-compatible server, with the one script that the edge runs on it."""

    def __init__(self, url: str) -> None:
        self._client = redis.Redis.from_url(
            url,
            socket_connect_timeout=0.25,
            socket_timeout=0.5,
            health_check_interval=0,
        )
        self._lean_client = LeanRedisClient(self._client)
        self._down_until = 0.0
        self._postponed_tags: set[str] = set()

    def look_up(
        self,
        *,
        window: RateLimitWindow | None,
        count_request: bool = True,
        content_key: str = "",
        tags: Sequence[str] = (),
    ) -> CacheLookup:
        """Count a request and fetch cached content in one round trip.

        Content that is missing is leased on the way, so that one process alone computes it. A lease that
        comes to nothing is given back by ``release_compute_lease``, or ends by itself.

        :param window: the rate limit's window, or none not to count
        :param count_request: whether the request is counted; otherwise the window is only looked at
        :param content_key: the content wanted, or empty
        :param tags: what the content depends on; ``drop`` of any of them makes it unfindable
        :return: whether the limit allows the request, how much of it is used, and the content
        :raises CacheDownError: the cache is not to be had
        """
        keys = [
            f"{_PREFIX}w:{window.key}" if window else "",
            f"{_PREFIX}c:{content_key}" if content_key else "",
            *(f"{_PREFIX}t:{tag}" for tag in tags),
        ]
        limit, period = (window.limit, window.period_seconds * 1000) if window else (0, 0)
        allowed, used, frees_in, version, content, must_compute = self.run(
            _LOOK_UP, keys, limit, period, 1 if count_request else 0, _COMPUTE_LEASE_MILLISECONDS
        )
        return CacheLookup(
            bool(allowed), used, max(frees_in, 0) / 1000, version.decode(), content, bool(must_compute)
        )

    def store(self, *, content_key: str, version: str, content: bytes, ttl_seconds: int) -> None:
        """Keep content under the version of its tags that its look-up told.

        A tag dropped meanwhile has another version by now, so that stale content is never found. The cache's
        answer is not waited for: content that was not stored is computed again.

        :raises CacheDownError: the cache is not to be had
        """
        with self:
            self._lean_client.send_without_reply(
                "SET", f"{_PREFIX}c:{content_key}{version}", content, "EX", ttl_seconds
            )

    def poll(self, *, content_key: str, version: str) -> tuple[bytes | None, bool]:
        """Look for content of one version of its tags that somebody else computes.

        :return: the content, if it is there by now, and whether it may still be waited for
        :raises CacheDownError: the cache is not to be had
        """
        key = f"{_PREFIX}c:{content_key}{version}"
        with self:
            content, lease = self._client.mget(key, f"{key}:claim")
        return content if isinstance(content, bytes) else None, lease is not None

    def release_compute_lease(self, *, content_key: str, version: str) -> None:
        """Give back a lease whose content could not be computed.

        :raises CacheDownError: the cache is not to be had
        """
        with self:
            self._client.delete(f"{_PREFIX}c:{content_key}{version}:claim")

    def drop(self, *tags: str) -> None:
        """Make everything that depends on any of these tags unfindable, at once.

        :raises CacheDownError: the cache is not to be had
        """
        with self:
            pipeline = self._client.pipeline(transaction=False)
            for tag in tags:
                pipeline.incr(f"{_PREFIX}t:{tag}")
            pipeline.execute()

    def drop_after_commit(self, tags: Sequence[str]) -> None:
        """Drop tags after the commit that made them stale, which nothing may undo.

        A cache that is down is not waited for: the tags are kept, and dropped before this process next asks it
        for anything. Only if the process ends before that can content be stale, for its time to live.
        """
        try:
            self.drop(*tags)
        except CacheDownError:
            self._postponed_tags.update(tags)
            _log.warning("stale content not dropped yet", tags=list(tags))

    def ping(self) -> None:
        """Ask the cache for a sign of life.

        :raises CacheDownError: the cache is not to be had
        """
        with self:
            self._client.ping()

    def run(self, script: Script, keys: Sequence[str], *arguments: str | int) -> Any:
        """Run a program on the cache, in one round trip.

        Where the connection breaks before the answer came, it may run twice.

        :param script: the program
        :param keys: all that it touches
        :param arguments: what it is told besides
        :return: the answer as the server gave it; texts are bytes
        :raises CacheDownError: the cache is not to be had
        """
        with self:
            try:
                return self._lean_client.send("EVALSHA", script.digest, len(keys), *keys, *arguments)
            except redis.exceptions.NoScriptError:
                # The server was started anew: sent whole, it is known from then on.
                return self._lean_client.send("EVAL", script.text, len(keys), *keys, *arguments)

    def remove(self, key: str) -> None:
        """Remove what a program has kept under a key; the cache's answer is not waited for.

        :raises CacheDownError: the cache is not to be had
        """
        with self:
            self._lean_client.send_without_reply("DEL", key)

    # What every call to the server runs in. It is no generator of contextlib's: those cost more.
    def __enter__(self) -> None:
        if time.monotonic() < self._down_until:
            raise CacheDownError
        if self._postponed_tags:
            tags, self._postponed_tags = self._postponed_tags, set()
            try:
                self.drop(*tags)
            except CacheDownError:
                self._postponed_tags |= tags
                raise

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, redis.RedisError | OSError):
            self.record_failure(error)
            raise CacheDownError from error

    def record_failure(self, error: BaseException) -> None:
        """Note a failure: for a moment nobody waits for the cache."""
        self._down_until = time.monotonic() + _COOL_DOWN_SECONDS
        _log.warning("cache down", error=type(error).__name__)


def drop_cached(session: Session, *tags: str) -> None:
    """Drop cached content as soon as the session's transaction has committed.

    Whoever changes what the public is shown calls it, as often as it likes: all tags of a transaction take
    one round trip together. A transaction that is rolled back drops nothing.

    :param session: of the transaction that makes the content stale
    :param tags: what the content depends on, as the routes that are cached name it
    """
    pending: set[str] | None = session.info.get(_PENDING_TAGS_KEY)
    if pending is None:
        pending = session.info[_PENDING_TAGS_KEY] = set()
        after_commit(session, lambda: _drop_pending_tags(session))
    pending.update(tags)


_PENDING_TAGS_KEY = "stale_tags"


def _drop_pending_tags(session: Session) -> None:
    tags = sorted(session.info.pop(_PENDING_TAGS_KEY, ()))
    drop = session.info.get(DROP_STALE_CONTENT_KEY)
    if drop is not None and tags:
        drop(tags)


@event.listens_for(Session, "after_rollback")
def _discard_pending_tags(session: Session) -> None:
    session.info.pop(_PENDING_TAGS_KEY, None)
