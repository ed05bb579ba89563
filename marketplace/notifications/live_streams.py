"""Live streams of people: limits, and the delivery of events to the streams of this process."""

import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Protocol
from uuid import UUID, uuid4

import structlog

from marketplace.infra.cache import Cache, CacheDownError, Script, Subscription
from marketplace.infra.live_events import CHANNEL, END, LiveEvent, decode, encode
from marketplace.kernel.errors import ServiceUnavailableError
from marketplace.notifications import texts

MAX_STREAMS_PER_PERSON = 3
MAX_STREAMS_PER_PROCESS = 500
KEEP_ALIVE_SECONDS = 15.0
# A stream without keep-alive for this time belongs to a process that died.
_STALE_MILLISECONDS = 60_000
# A client that reads slower than this number of events is disconnected.
_MAX_PENDING_EVENTS = 200
_POLL_SECONDS = 1.0
_RETRY_SECONDS = 5

_log = structlog.get_logger(__name__)


class EndReason(StrEnum):
    """The reason for the end of a stream."""

    REPLACED = "replaced"
    TOO_SLOW = "too_slow"
    INTERRUPTED = "interrupted"
    TOKEN_EXPIRED = "token_expired"  # noqa: S105 - a reason, not a secret
    ACCOUNT_CHANGED = "account_changed"


class TooManyStreamsError(ServiceUnavailableError):
    """This process serves its maximum number of event streams."""

    reason = "too-many-streams"


# A member of the set is a stream: the padded time of its start and its id. The score is the last sign of life.
_ADD_STREAM = Script(
    """
    local key, member, now, stale, limit = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
    redis.call('ZREMRANGEBYSCORE', key, '-inf', now - stale)
    redis.call('ZADD', key, now, member)
    redis.call('PEXPIRE', key, stale)
    local members = redis.call('ZRANGE', key, 0, -1)
    table.sort(members)
    local replaced = {}
    for position = 1, #members - limit do
        redis.call('ZREM', key, members[position])
        replaced[position] = members[position]
    end
    return replaced
    """
)
_KEEP_STREAM = Script(
    """
    if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
    redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
    return 1
    """
)
_REMOVE_STREAM = Script("return redis.call('ZREM', KEYS[1], ARGV[1])")


def stream_key(user_id: UUID) -> str:
    """Return the cache key of a person's open streams."""
    return f"m2:streams:{user_id}"


class LiveReceiver(Protocol):
    """A stream of this process that belongs to a person."""

    user_id: UUID
    member: str

    def put(self, live_event: LiveEvent) -> None:
        """Receive an event of the person."""

    def end(self, reason: EndReason) -> None:
        """End the stream."""


class LiveStream:
    """An open stream of a person. Iterate over ``events`` in one thread."""

    def __init__(self, streams: "LiveStreams", user_id: UUID, *, expires_at: float) -> None:
        """Create a stream that ``LiveStreams.open`` registers.

        :param expires_at: the end of the stream, in seconds since 1970
        """
        self.user_id = user_id
        self.member = f"{int(time.time() * 1000):015d}:{uuid4()}"
        self.end_reason: EndReason | None = None
        self._streams = streams
        self._expires_at = expires_at
        self._pending: queue.Queue[LiveEvent | None] = queue.Queue(_MAX_PENDING_EVENTS)

    def put(self, live_event: LiveEvent) -> None:
        """Add an event. A stream whose client does not keep up ends."""
        try:
            self._pending.put_nowait(live_event)
        except queue.Full:
            self.end(EndReason.TOO_SLOW)

    def end(self, reason: EndReason) -> None:
        """End the stream after the pending events."""
        if self.end_reason is None:
            self.end_reason = reason
            try:
                self._pending.put_nowait(None)
            except queue.Full:
                # The reader sees the reason after the next event.
                return

    def events(self) -> Iterator[LiveEvent | None]:
        """Yield events until the stream ends, and none for each keep-alive."""
        kept_at = time.monotonic()
        while self.end_reason is None:
            remaining = self._expires_at - time.time()
            if remaining <= 0:
                self.end(EndReason.TOKEN_EXPIRED)
                return
            due = kept_at + KEEP_ALIVE_SECONDS - time.monotonic()
            if due <= 0:
                if not self._streams.keep(self):
                    self.end(EndReason.REPLACED)
                    return
                kept_at = time.monotonic()
                yield None
                continue
            try:
                live_event = self._pending.get(timeout=min(due, remaining))
            except queue.Empty:
                continue
            if live_event is not None:
                yield live_event

    def close(self) -> None:
        """Release the places of the stream. A second call does nothing."""
        self._streams.remove(self)


class LiveStreams:
    """The streams of this process, with one subscription for all of them.

    The subscription opens with the first stream. If the subscription breaks, all streams end, so that no client waits
    for events that cannot arrive.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._by_user: defaultdict[UUID, set[LiveReceiver]] = defaultdict(set)
        self._count = 0
        self._lock = threading.Lock()
        self._receiver: threading.Thread | None = None
        self._is_stopping: Callable[[], bool] = lambda: False

    @property
    def count(self) -> int:
        """The number of open streams in this process."""
        return self._count

    def stop_when(self, is_stopping: Callable[[], bool]) -> None:
        """Set the condition that ends all streams. The receiver checks the condition every second."""
        self._is_stopping = is_stopping

    def open(self, user_id: UUID, *, expires_at: float) -> LiveStream:
        """Open a stream. The oldest stream of a person beyond the limit ends. Close the stream after use.

        :param expires_at: the end of the token, in seconds since 1970
        :raises TooManyStreamsError: this process has no free place
        :raises ServiceUnavailableError: the cache is down, so no event would arrive
        """
        stream = LiveStream(self, user_id, expires_at=expires_at)
        self.attach(stream)
        try:
            replaced = self._cache.run(
                _ADD_STREAM,
                [stream_key(user_id)],
                stream.member,
                _now_milliseconds(),
                _STALE_MILLISECONDS,
                MAX_STREAMS_PER_PERSON,
            )
            if replaced:
                ends = [
                    LiveEvent(user_id, END, {"reason": EndReason.REPLACED, "stream": member.decode()})
                    for member in replaced
                ]
                self._cache.publish(CHANNEL, [encode(end) for end in ends])
        except CacheDownError as error:
            self.detach(stream)
            raise _unavailable() from error
        return stream

    def attach(self, receiver: LiveReceiver) -> None:
        """Deliver the events of a person to a receiver, until ``detach``.

        :raises TooManyStreamsError: this process has no free place
        :raises ServiceUnavailableError: the cache is down, so no event would arrive
        """
        with self._lock:
            if self._count >= MAX_STREAMS_PER_PROCESS:
                raise TooManyStreamsError(texts.TOO_MANY_STREAMS, retry_after_seconds=_RETRY_SECONDS)
            self._subscribe()
            self._by_user[receiver.user_id].add(receiver)
            self._count += 1

    def keep(self, stream: LiveStream) -> bool:
        """Record a sign of life, and return whether the stream still has its place.

        While the cache is down, the stream keeps its place: the receiver ends the streams of a broken subscription.
        """
        try:
            return bool(
                self._cache.run(
                    _KEEP_STREAM,
                    [stream_key(stream.user_id)],
                    stream.member,
                    _now_milliseconds(),
                    _STALE_MILLISECONDS,
                )
            )
        except CacheDownError:
            return True

    def remove(self, stream: LiveStream) -> None:
        """Release the places of a stream."""
        if self.detach(stream):
            try:
                self._cache.run(_REMOVE_STREAM, [stream_key(stream.user_id)], stream.member)
            except CacheDownError:
                _log.info("place of a stream not released")

    def detach(self, receiver: LiveReceiver) -> bool:
        """Release the receiver's place in this process, and return whether the receiver had a place."""
        with self._lock:
            receivers = self._by_user.get(receiver.user_id, set())
            if receiver not in receivers:
                return False
            receivers.remove(receiver)
            if not receivers:
                del self._by_user[receiver.user_id]
            self._count -= 1
            return True

    def _subscribe(self) -> None:
        """Start to receive events. The caller holds the lock."""
        if self._receiver is not None:
            return
        try:
            subscription = self._cache.subscribe(CHANNEL)
        except CacheDownError as error:
            raise _unavailable() from error
        self._receiver = threading.Thread(
            target=self._receive, args=(subscription,), name="live events", daemon=True
        )
        self._receiver.start()

    def _receive(self, subscription: Subscription) -> None:
        """Deliver events until no stream is open, the process stops, or the subscription breaks."""
        try:
            while not self._is_stopping():
                content = subscription.next_message(_POLL_SECONDS)
                if content is not None:
                    self._deliver(decode(content))
                elif self._count == 0:
                    break
        except CacheDownError:
            _log.warning("subscription to live events lost", streams=self._count)
        finally:
            with self._lock:
                self._receiver = None
                for streams in self._by_user.values():
                    for stream in streams:
                        stream.end(EndReason.INTERRUPTED)
            subscription.close()

    def _deliver(self, live_event: LiveEvent) -> None:
        with self._lock:
            streams = list(self._by_user.get(live_event.user_id, ()))
        for stream in streams:
            if live_event.name != END:
                stream.put(live_event)
            elif live_event.data.get("stream") in (None, stream.member):
                stream.end(EndReason(live_event.data["reason"]))


def _now_milliseconds() -> int:
    return int(time.time() * 1000)


def _unavailable() -> ServiceUnavailableError:
    return ServiceUnavailableError(texts.EVENTS_UNAVAILABLE, retry_after_seconds=_RETRY_SECONDS)
