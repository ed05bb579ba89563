"""The cache for content with tags and for sliding windows of rate limits. The cache can be down at any time."""

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

from marketplace.infra.live_events import CHANNEL
from marketplace.infra.outbox import after_commit
from marketplace.infra.sessions import DROP_STALE_CONTENT_KEY
from marketplace.infra.wire import LeanRedisClient

_log = structlog.get_logger(__name__)

# Change the prefix whenever the format of a window or a content entry changes. Otherwise old entries are misread.
_PREFIX = "m2:"
_COOL_DOWN_SECONDS = 1.0  # after a failure, requests skip the cache for this time instead of waiting
_SUBSCRIBE_SECONDS = 1.0
_PING_INTERVAL_SECONDS = 10.0
_COMPUTE_LEASE_MILLISECONDS = 5_000  # the maximum delay by a process that died while computing content


class CacheDownError(Exception):
    """The cache does not respond or failed a moment ago. The caller continues without the cache."""


class Script:
    """A Lua script that the cache runs atomically."""

    def __init__(self, text: str) -> None:
        """Compute the digest of a Lua script."""
        self.text = text
        self.digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


_LOOK_UP = Script((Path(__file__).parent / "edge.lua").read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class RateLimitWindow:
    """A sliding window of a rate limit: a number of requests per period and key."""

    key: str
    limit: int
    period_seconds: int


@dataclass(frozen=True, slots=True)
class CacheLookup:
    """The result of a cache look-up. With ``must_compute``, this caller must compute the missing content.

    ``used`` counts the requests in the window. ``retry_after_seconds`` is the time until the oldest of these requests
    leaves the window. ``version`` identifies the current versions of the content's tags.
    """

    allowed: bool
    used: int
    retry_after_seconds: float
    version: str
    content: bytes | None
    must_compute: bool


class Subscription:
    """A connection that receives the messages of a channel."""

    def __init__(self, client: redis.Redis, channel: str) -> None:
        """Subscribe, and wait for the server's confirmation.

        :raises redis.RedisError: no confirmation
        """
        self._pubsub = client.pubsub()  # type: ignore[no-untyped-call]
        self._heard_at = self._pinged_at = time.monotonic()
        self._pubsub.subscribe(channel)
        if self._pubsub.get_message(timeout=_SUBSCRIBE_SECONDS) is None:
            self.close()
            raise redis.TimeoutError("no confirmation of a subscription")

    def next_message(self, timeout_seconds: float) -> bytes | None:
        """Wait for the next message.

        A silent server is asked for a sign of life, because a dead connection can look idle.

        :return: the message; none if no message arrived in time
        :raises CacheDownError: the connection is broken
        """
        try:
            received = self._pubsub.get_message(timeout=timeout_seconds)
            now = time.monotonic()
            if received is not None:
                self._heard_at = now
                return received["data"] if received["type"] == "message" else None
            if now - self._heard_at > 2 * _PING_INTERVAL_SECONDS:
                raise CacheDownError
            if now - max(self._heard_at, self._pinged_at) > _PING_INTERVAL_SECONDS:
                self._pinged_at = now
                self._pubsub.ping()
        except (redis.RedisError, OSError) as error:
            raise CacheDownError from error
        return None

    def close(self) -> None:
        """Close the connection."""
        self._pubsub.close()


class Cache:
    """A Redis-compatible server that caches content and counts requests."""

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

        The first caller that misses the content receives a lease, so only one process computes the content. Without a
        result, the process calls ``release_compute_lease``, or the lease expires.

        :param window: the rate limit's window; none skips counting
        :param count_request: whether to count the request or only to read the window
        :param content_key: the key of the content; empty skips the look-up
        :param tags: dependencies of the content; ``drop`` of any tag invalidates the content
        :return: the state of the rate limit, and the content
        :raises CacheDownError: the cache is unavailable
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

    def return_slot(self, window: RateLimitWindow) -> None:
        """Remove a counted request from a window. This method does not wait for the response.

        The newest request is removed. A concurrent request may be newer by milliseconds, which changes only the time
        at which its slot becomes free.

        :raises CacheDownError: the cache is unavailable
        """
        with self:
            self._lean_client.send_without_reply("LPOP", f"{_PREFIX}w:{window.key}")

    def remove_window(self, key: str) -> None:
        """Remove the window of a rate limit with all counted requests.

        :raises CacheDownError: the cache is unavailable
        """
        self.remove(f"{_PREFIX}w:{key}")

    def store(self, *, content_key: str, version: str, content: bytes, ttl_seconds: int) -> None:
        """Store content under the version of its tags that the look-up returned.

        Dropping a tag changes the version, so stale content is never found. This method does not wait for the
        cache's response: if the content was not stored, another request computes the content again.

        :raises CacheDownError: the cache is unavailable
        """
        with self:
            self._lean_client.send_without_reply(
                "SET", f"{_PREFIX}c:{content_key}{version}", content, "EX", ttl_seconds
            )

    def poll(self, *, content_key: str, version: str) -> tuple[bytes | None, bool]:
        """Check for content that another process is computing.

        :return: the content or none, and whether the other process still has the lease
        :raises CacheDownError: the cache is unavailable
        """
        key = f"{_PREFIX}c:{content_key}{version}"
        with self:
            content, lease = self._client.mget(key, f"{key}:claim")
        return content if isinstance(content, bytes) else None, lease is not None

    def release_compute_lease(self, *, content_key: str, version: str) -> None:
        """Release a lease after the content could not be computed.

        :raises CacheDownError: the cache is unavailable
        """
        with self:
            self._client.delete(f"{_PREFIX}c:{content_key}{version}:claim")

    def drop(self, *tags: str) -> None:
        """Invalidate all content that depends on any of these tags.

        :raises CacheDownError: the cache is unavailable
        """
        with self:
            pipeline = self._client.pipeline(transaction=False)
            for tag in tags:
                pipeline.incr(f"{_PREFIX}t:{tag}")
            pipeline.execute()

    def drop_after_commit(self, tags: Sequence[str]) -> None:
        """Drop tags after a commit made the content stale. This method never raises, because the commit stands.

        If the cache is down, this process drops the tags before the next call to the cache. If the process ends
        first, content can stay stale for its time to live.
        """
        try:
            self.drop(*tags)
        except CacheDownError:
            self._postponed_tags.update(tags)
            _log.warning("stale content not dropped yet", tags=list(tags))

    def publish(self, channel: str, messages: Sequence[bytes]) -> None:
        """Send messages to all subscribers of a channel, without waiting for the response.

        :raises CacheDownError: the cache is unavailable
        """
        with self:
            for message in messages:
                self._lean_client.send_without_reply("PUBLISH", channel, message)

    def publish_after_commit(self, messages: Sequence[bytes]) -> None:
        """Publish live events of a committed transaction. This method never raises, because the commit stands."""
        try:
            self.publish(CHANNEL, messages)
        except CacheDownError:
            _log.warning("live events lost", count=len(messages))

    def subscribe(self, channel: str) -> Subscription:
        """Subscribe to a channel over a connection of its own.

        :raises CacheDownError: the cache is unavailable
        """
        with self:
            return Subscription(self._client, channel)

    def ping(self) -> None:
        """Check that the cache responds.

        :raises CacheDownError: the cache is unavailable
        """
        with self:
            self._client.ping()

    def run(self, script: Script, keys: Sequence[str], *arguments: str | int) -> Any:
        """Run a script on the cache in one round trip.

        The script can run twice if the connection breaks before the response.

        :param keys: all keys that the script reads or writes
        :return: the server's response, with texts as bytes
        :raises CacheDownError: the cache is unavailable
        """
        with self:
            try:
                return self._lean_client.send("EVALSHA", script.digest, len(keys), *keys, *arguments)
            except redis.exceptions.NoScriptError:
                # The server does not know the script, for example after a restart. EVAL also loads the script.
                return self._lean_client.send("EVAL", script.text, len(keys), *keys, *arguments)

    def remove(self, key: str) -> None:
        """Delete a key without waiting for the response.

        :raises CacheDownError: the cache is unavailable
        """
        with self:
            self._lean_client.send_without_reply("DEL", key)

    # Every call to the server runs in this context. A generator of contextlib would be slower.
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
        """Record a failure, so that calls fail immediately during the cool-down."""
        self._down_until = time.monotonic() + _COOL_DOWN_SECONDS
        _log.warning("cache down", error=type(error).__name__)


def drop_cached(session: Session, *tags: str) -> None:
    """Drop cached content after the session's transaction commits.

    Every change of public content must call this function. All tags of a transaction take one round trip together.
    A rolled-back transaction drops nothing.

    :param tags: dependencies of the content, as named by the cached routes
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
