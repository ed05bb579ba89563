"""Bodies of refused requests, which are read to the end before the response is sent.

A connection that is closed with unread bytes is reset, and the client or the proxy would then lose the response. A
client that sends slowly must not occupy a worker either, so every drain has a deadline and a maximum size.
"""

import threading
from contextlib import suppress
from dataclasses import dataclass
from socket import SHUT_RD, socket
from wsgiref.types import InputStream

from gunicorn.http.errors import ParseException

# Much larger than any route accepts. The proxy refuses larger bodies (commands/proxy.py).
MAX_BYTES = 64 * 1024 * 1024
_CHUNK_BYTES = 64 * 1024
# A gevent worker serves 500 connections. The rest stay free for other requests, however many clients send slowly.
_MAX_PATIENT_DRAINS = 100


@dataclass(frozen=True)
class Pace:
    """The patience with a client: seconds for the whole body, and seconds without a single byte."""

    total_seconds: float
    idle_seconds: float


# For sync workers, which serve no other request meanwhile. Their proxy sends bodies of up to 2 MB in one piece.
QUICK = Pace(total_seconds=2, idle_seconds=2)
# For gevent workers: 5 MB at the speed of a slow mobile connection (0.7 Mbit/s).
PATIENT = Pace(total_seconds=60, idle_seconds=5)

_patient_drains = threading.BoundedSemaphore(_MAX_PATIENT_DRAINS)


def drain(body: InputStream, connection: socket, *, pace: Pace) -> None:
    """Read and discard the rest of a request's body.

    :param body: the body that gunicorn reads from the connection
    :param pace: the time-outs. Above 100 patient drains in this process, further drains are quick
    """
    if _is_read(body):
        return
    is_patient = pace is PATIENT and _patient_drains.acquire(blocking=False)
    try:
        _drain(body, connection, pace if is_patient else QUICK)
    finally:
        if is_patient:
            _patient_drains.release()


def _is_read(body: InputStream) -> bool:
    """Return whether the application has read the whole body, as far as gunicorn's reader tells."""
    reader = getattr(body, "reader", None)
    return getattr(reader, "length", None) == 0 or getattr(reader, "parser", body) is None


def _drain(body: InputStream, connection: socket, pace: Pace) -> None:
    # Each socket time-out covers a single byte, so a time-out alone is no deadline.
    deadline = threading.Timer(pace.total_seconds, _stop_reading, [connection])
    deadline.daemon = True
    deadline.start()
    drained = 0
    try:
        with suppress(OSError, ParseException):
            connection.settimeout(pace.idle_seconds)
            while content := body.read(_CHUNK_BYTES):
                drained += len(content)
                if drained >= MAX_BYTES:
                    # The server itself would read on before the connection's next request.
                    _stop_reading(connection)
                    break
    finally:
        deadline.cancel()
        with suppress(OSError):
            connection.settimeout(None)


def _stop_reading(connection: socket) -> None:
    """End the connection's input. A read that waits in another thread ends too."""
    with suppress(OSError):
        connection.shutdown(SHUT_RD)
