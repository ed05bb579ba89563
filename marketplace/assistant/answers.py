"""Streamed answers: one for each person, with cached events for an interrupted client.

The conversation runs in a greenlet, so that the reader of the events also notices the end of a token, of the account
or of the connection while the provider is silent. No database connection is held while text arrives.
"""

import contextlib
import contextvars
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import gevent
import orjson
import structlog
from gevent.queue import Empty, Queue

from marketplace.assistant import texts
from marketplace.assistant.generation import AnswerText, Generation, ToolCalled
from marketplace.assistant.tools.toolbox import ToolResult
from marketplace.infra.cache import Cache, CacheDownError, Script
from marketplace.infra.live_events import CHANNEL, END, LiveEvent, encode
from marketplace.kernel.clock import iso
from marketplace.kernel.errors import ConflictError, ProviderUnavailableError, ServiceUnavailableError
from marketplace.kernel.signals import RECORDER
from marketplace.notifications.live_streams import EndReason, LiveStreams
from marketplace.providers.client import ProviderRefusedError
from marketplace.providers.language_model import ModelBusyError

MAX_SECONDS = 60.0
# The rest of the time belongs to the last event and a slow reader.
ANSWER_SECONDS = 57.0
KEEP_ALIVE_SECONDS = 15.0
RESUME_MILLISECONDS = 60_000
# Ids of events grow within a thread: those of an answer begin at its number times this.
IDS_PER_MESSAGE = 10_000
_POLL_SECONDS = 0.25
# Events are cached in groups. A process that is killed loses the last group.
_CACHE_SECONDS = 1.0
_SLOT_MILLISECONDS = 15_000
_RENEW_SECONDS = 5.0
# A model that is faster than the reader waits.
_MAX_PENDING_EVENTS = 64
_RETRY_SECONDS = 3

_log = structlog.get_logger(__name__)
_END_CODES = {
    EndReason.REPLACED: "replaced",
    EndReason.TOO_SLOW: "interrupted",
    EndReason.INTERRUPTED: "interrupted",
    EndReason.TOKEN_EXPIRED: "token-expired",
    EndReason.ACCOUNT_CHANGED: "account-changed",
}
_FINAL = ("done", "error")

_ACQUIRE_SLOT = Script("return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0")
_RENEW_SLOT = Script(
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('PEXPIRE', KEYS[1], ARGV[2])"
)
_RELEASE_SLOT = Script(
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('DEL', KEYS[1])"
)
_READ_SLOT = Script("return redis.call('GET', KEYS[1])")
_APPEND_EVENTS = Script(
    """
    for position = 2, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[position]) end
    return redis.call('PEXPIRE', KEYS[1], ARGV[1])
    """
)
_READ_EVENTS = Script("return redis.call('LRANGE', KEYS[1], 0, -1)")


class AnswerInProgressError(ConflictError):
    """The person has another answer in progress."""

    reason = "answer-in-progress"


@dataclass(frozen=True)
class StreamEvent:
    """An event for the client: ``token``, ``tool_call``, ``tool_result``, ``proposal``, ``done`` or ``error``."""

    id: int
    name: str
    data: dict[str, Any]

    @property
    def is_final(self) -> bool:
        """Whether the stream ends with this event."""
        return self.name in _FINAL


class AnswerSlot:
    """The place of a person's only answer, also across processes. The place of a dead process frees itself."""

    def __init__(self, cache: Cache, streams: LiveStreams, user_id: UUID) -> None:
        self.user_id = user_id
        self.member = str(uuid4())
        self.end_reason: EndReason | None = None
        self._cache = cache
        self._streams = streams
        self._renewed_at = time.monotonic()

    def acquire(self) -> None:
        """Take the place.

        :raises AnswerInProgressError: the person has another answer in progress
        :raises ServiceUnavailableError: the cache is down, or the process serves its maximum of streams
        """
        self._streams.attach(self)
        try:
            free = self._cache.run(_ACQUIRE_SLOT, [_slot_key(self.user_id)], self.member, _SLOT_MILLISECONDS)
        except CacheDownError as error:
            self._streams.detach(self)
            raise _unavailable() from error
        if not free:
            self._streams.detach(self)
            raise AnswerInProgressError(texts.STREAM_OPEN)

    def put(self, live_event: LiveEvent) -> None:
        """Ignore notifications."""

    def end(self, reason: EndReason) -> None:
        """End the answer soon."""
        self.end_reason = self.end_reason or reason

    def keep(self) -> None:
        """Renew the place if that is due. While the cache is down, the place stays for a while."""
        if time.monotonic() - self._renewed_at < _RENEW_SECONDS:
            return
        self._renewed_at = time.monotonic()
        try:
            if not self._cache.run(_RENEW_SLOT, [_slot_key(self.user_id)], self.member, _SLOT_MILLISECONDS):
                self.end(EndReason.REPLACED)
        except CacheDownError:
            _log.info("place of an answer not renewed")

    def release(self) -> None:
        """Free the place. A second call does nothing."""
        if not self._streams.detach(self):
            return
        try:
            self._cache.run(_RELEASE_SLOT, [_slot_key(self.user_id)], self.member)
        except CacheDownError:
            _log.info("place of an answer not released")


class Answer:
    """An answer in progress. Iterate over ``events``, then ``close``."""

    def __init__(
        self,
        generation: Generation,
        slot: AnswerSlot,
        cache: Cache,
        *,
        thread_id: UUID,
        message_number: int,
        token_expires_at: float,
        is_reader_gone: Callable[[], bool],
        save: Callable[[Generation, bool], None],
    ) -> None:
        """Prepare an answer in an acquired slot.

        :param message_number: the number of the answer in the thread
        :param token_expires_at: in seconds since 1970
        :param is_reader_gone: tells whether the client has closed the connection
        :param save: stores the text and the usage; the flag tells whether the answer is complete
        """
        self._generation = generation
        self._slot = slot
        self._cache = cache
        self._thread_id = thread_id
        self._message_number = message_number
        self._next_id = message_number * IDS_PER_MESSAGE
        self._token_expires_at = token_expires_at
        self._is_reader_gone = is_reader_gone
        self._save = save
        self._started_at = time.monotonic()
        self._pending: Queue[tuple[str, dict[str, Any]]] = Queue(_MAX_PENDING_EVENTS)
        self._uncached: list[bytes] = []
        self._cached_at = time.monotonic()
        self._is_storing = False
        self._is_stored = False
        self._is_closed = False
        self._has_token = False
        self._producer = gevent.spawn(contextvars.copy_context().run, self._produce)

    @property
    def seconds_left(self) -> float:
        """The seconds until the last byte must have left."""
        return max(0.0, self._started_at + MAX_SECONDS - time.monotonic())

    def events(self) -> Iterator[StreamEvent | None]:
        """Yield the events with the final one, and none for each keep-alive. A reader who left gets no more events."""
        sent_at = checked_at = time.monotonic()
        while True:
            # A write to a closed connection fails late, so the connection is also checked between events.
            if time.monotonic() - checked_at >= _POLL_SECONDS:
                checked_at = time.monotonic()
                if self._is_reader_gone():
                    return
            try:
                name, data = self._pending.get(timeout=_POLL_SECONDS)
            except Empty:
                name, data = "", {}
            code = self._find_end()
            if code is not None:
                name, data = "error", _error(code)
            if name:
                sent_at = time.monotonic()
                event = self._number(name, data)
                if event.is_final:
                    # The client may ask the next question as soon as this event arrives.
                    self.close()
                    yield event
                    return
                yield event
            elif time.monotonic() - sent_at >= KEEP_ALIVE_SECONDS:
                sent_at = time.monotonic()
                yield None
            self._slot.keep()

    def close(self) -> None:
        """End the call at the provider, cache the last events and free the slot. A second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        if not self._is_storing:
            self._producer.kill(timeout=_POLL_SECONDS)
        self._producer.join(timeout=_POLL_SECONDS)
        if not self._is_stored:
            self._store(is_complete=False)
        self._flush()
        self._slot.release()

    def _find_end(self) -> str | None:
        if self._slot.end_reason is not None:
            return _END_CODES[self._slot.end_reason]
        if time.time() >= self._token_expires_at:
            return "token-expired"
        if time.monotonic() - self._started_at >= ANSWER_SECONDS:
            return "timed-out"
        return None

    def _number(self, name: str, data: dict[str, Any]) -> StreamEvent:
        if name in _FINAL:
            data = {**data, "threadId": str(self._thread_id), "messageNumber": self._message_number}
        if name == "token" and not self._has_token:
            self._has_token = True
            RECORDER.observe("first_token", "", time.monotonic() - self._started_at)
        event = StreamEvent(self._next_id, name, {"id": self._next_id, **data})
        self._next_id += 1
        self._uncached.append(orjson.dumps([event.id, event.name, event.data]))
        if event.is_final or time.monotonic() - self._cached_at >= _CACHE_SECONDS:
            self._flush()
        return event

    def _flush(self) -> None:
        """Cache the events since the last call. Without the cache, an interrupted client cannot resume."""
        if not self._uncached:
            return
        events, self._uncached, self._cached_at = self._uncached, [], time.monotonic()
        try:
            self._cache.run(
                _APPEND_EVENTS,
                [_events_key(self._slot.user_id, self._thread_id)],
                RESUME_MILLISECONDS,
                *(event.decode() for event in events),
            )
        except CacheDownError:
            _log.info("events of an answer not cached")

    def _produce(self) -> None:
        """Put the events of the conversation into the queue, and store the answer at the end."""
        code: str | None = None
        with contextlib.closing(self._generation.events()) as events:
            try:
                for event in events:
                    for item in _client_events(event):
                        self._pending.put(item)
            except ModelBusyError:
                code = "model-busy"
            except (ProviderUnavailableError, ProviderRefusedError):
                code = "model-unavailable"
            except Exception:  # noqa: BLE001 - the client must learn of the end
                _log.exception("answer failed")
                code = "internal"
        if not self._store(is_complete=code is None):
            code = code or "internal"
        final = ("done", {"isCut": self._generation.is_cut}) if code is None else ("error", _error(code))
        self._pending.put(final)

    def _store(self, *, is_complete: bool) -> bool:
        """Store the answer once, and return whether the answer is stored."""
        self._is_storing = True
        try:
            self._save(self._generation, is_complete)
        except Exception:  # noqa: BLE001 - the reader has the answer, and needs its end
            _log.exception("answer not stored")
            return False
        self._is_stored = True
        return True


def resume(cache: Cache, *, user_id: UUID, thread_id: UUID, last_id: int) -> list[StreamEvent]:
    """Return the cached events after an event, and end an answer of this person that is still in progress.

    The last event is final: without a cached final event it is the error ``interrupted``.

    :raises ServiceUnavailableError: the cache is down
    """
    try:
        member = cache.run(_READ_SLOT, [_slot_key(user_id)])
        if member is not None:
            reason = {"reason": EndReason.INTERRUPTED, "stream": member.decode()}
            cache.publish(CHANNEL, [encode(LiveEvent(user_id, END, reason))])
        cached = cache.run(_READ_EVENTS, [_events_key(user_id, thread_id)])
    except CacheDownError as error:
        raise _unavailable() from error
    events: list[StreamEvent] = []
    for content in cached:
        event = StreamEvent(*orjson.loads(content))
        # A repeated command of the cache can store an event twice.
        if event.id > (events[-1].id if events else last_id):
            events.append(event)
    if not events or not events[-1].is_final:
        next_id = (events[-1].id if events else last_id) + 1
        data = {"id": next_id, **_error("interrupted"), "threadId": str(thread_id)}
        events.append(StreamEvent(next_id, "error", data))
    return events


def _client_events(event: AnswerText | ToolCalled | ToolResult) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(event, AnswerText):
        yield "token", {"text": event.text}
        return
    call = {"callId": event.call.id, "name": event.call.name}
    if isinstance(event, ToolCalled):
        yield "tool_call", {**call, "arguments": _parsed(event.call.arguments)}
        return
    yield "tool_result", {**call, "ok": not event.is_error, "result": event.content}
    proposal = event.proposal
    if proposal is not None:
        request = {
            "method": proposal.method,
            "path": proposal.path,
            "headers": {"Idempotency-Key": proposal.idempotency_key},
            "body": proposal.body,
        }
        yield (
            "proposal",
            {**call, "summary": proposal.summary, "request": request, "expiresAt": iso(proposal.expires_at)},
        )


def _parsed(arguments: str) -> Any:
    try:
        return orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return {}


def _error(code: str) -> dict[str, Any]:
    return {"code": code, "detail": texts.ERRORS[code]}


def _slot_key(user_id: UUID) -> str:
    return f"m2:assistant:slot:{user_id}"


def _events_key(user_id: UUID, thread_id: UUID) -> str:
    return f"m2:assistant:events:{user_id}:{thread_id}"


def _unavailable() -> ServiceUnavailableError:
    return ServiceUnavailableError(texts.STREAMS_UNAVAILABLE, retry_after_seconds=_RETRY_SECONDS)
