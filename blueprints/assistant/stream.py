"""Responses of the assistant's stream: server-sent events of an answer."""

import contextlib
import select
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from uuid import UUID

import orjson
from flask import Response

from marketplace.assistant.answers import Answer, StreamEvent

THREAD_HEADER = "X-Thread-ID"
# A client that reads nothing for this time is disconnected.
_WRITE_SECONDS = 10.0
_KEEP_ALIVE = b": keep-alive\n\n"


class AnswerBody:
    """The body of a response with an answer. The server calls ``close`` also after the client went away."""

    def __init__(self, answer: Answer, connection: Any) -> None:
        """Prepare the body.

        :param connection: the client's socket, or none in tests without a server
        """
        self._answer = answer
        self._connection = connection
        self._timeout = connection.gettimeout() if connection is not None else None
        self._chunks = self._render()

    def __iter__(self) -> Iterator[bytes]:
        return self._chunks

    def _render(self) -> Iterator[bytes]:
        yield b": connected\n\n"
        for event in self._answer.events():
            self._limit_write()
            yield _KEEP_ALIVE if event is None else render_event(event)

    def _limit_write(self) -> None:
        if self._connection is not None:
            self._connection.settimeout(min(_WRITE_SECONDS, self._answer.seconds_left + 0.1))

    def close(self) -> None:
        """End the answer."""
        self._answer.close()
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.settimeout(self._timeout)


def stream_response(body: AnswerBody | Sequence[bytes], *, thread_id: UUID) -> Response:
    """Return the response with server-sent events."""
    response = Response(body, content_type="text/event-stream")
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Accel-Buffering"] = "no"
    response.headers[THREAD_HEADER] = str(thread_id)
    return response


def render_event(event: StreamEvent) -> bytes:
    """Render an event."""
    data = orjson.dumps(event.data).decode()
    return f"id: {event.id}\nevent: {event.name}\ndata: {data}\n\n".encode()


def reader_check(connection: Any) -> Callable[[], bool]:
    """Return a function that tells whether the client has closed the connection."""
    if connection is None:
        return lambda: False

    def is_gone() -> bool:
        try:
            readable, _, _ = select.select([connection], [], [], 0)
            # A closed connection is readable and has no data. A client may also send its next request early.
            return bool(readable) and connection.recv(1, socket.MSG_PEEK) == b""
        except (OSError, ValueError):
            return True

    return is_gone
