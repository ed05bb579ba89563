"""Responses of live streams: server-sent events of notifications and chat messages."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import orjson
from flask import Response, request

from marketplace.infra.live_events import END, LiveEvent
from marketplace.notifications import feed
from marketplace.notifications.live_streams import LiveStream

_RETRY_MILLISECONDS = 3_000
# A client that reads nothing for this time is disconnected.
_WRITE_SECONDS = 20.0
_KEEP_ALIVE = b": keep-alive\n\n"
_RELOAD = b"event: reload\ndata: {}\n\n"


def stream_response(stream: LiveStream, missed: Sequence[LiveEvent]) -> Response:
    """Return the response of an open stream, which closes the stream at its end.

    :param missed: the events to send first; more than ``feed.MAX_MISSED`` become one ``reload``
    """
    response = Response(_StreamBody(stream, missed), content_type="text/event-stream")
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Accel-Buffering"] = "no"
    return response


class _StreamBody:
    """The body of the response. The server calls ``close`` also after the client went away."""

    def __init__(self, stream: LiveStream, missed: Sequence[LiveEvent]) -> None:
        self._stream = stream
        self._chunks = _chunks(stream, missed)
        self._restore_timeout = _limit_writes(request.environ)

    def __iter__(self) -> Iterator[bytes]:
        return self._chunks

    def close(self) -> None:
        """Release the stream's places."""
        self._stream.close()
        self._restore_timeout()


def _chunks(stream: LiveStream, missed: Sequence[LiveEvent]) -> Iterator[bytes]:
    yield f"retry: {_RETRY_MILLISECONDS}\n: connected\n\n".encode()
    if len(missed) > feed.MAX_MISSED:
        yield _RELOAD
        missed = ()
    for live_event in missed:
        yield _render(live_event)
    for received in stream.events():
        yield _KEEP_ALIVE if received is None else _render(received)
    yield _render(LiveEvent(stream.user_id, END, {"reason": stream.end_reason}))


def _render(live_event: LiveEvent) -> bytes:
    lines = [f"id: {live_event.id}"] if live_event.id else []
    lines += [
        f"event: {live_event.name}",
        f"data: {orjson.dumps(live_event.data, option=orjson.OPT_UTC_Z).decode()}",
    ]
    return "\n".join([*lines, "", ""]).encode()


def _limit_writes(environ: dict[str, Any]) -> Callable[[], None]:
    """Limit the time of each write to the client, and return the function that removes the limit."""
    connection = environ.get("gunicorn.socket")
    if connection is None:
        return lambda: None
    before = connection.gettimeout()
    connection.settimeout(_WRITE_SECONDS)

    def restore() -> None:
        with contextlib.suppress(OSError):
            connection.settimeout(before)

    return restore
