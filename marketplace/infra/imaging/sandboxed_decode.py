"""Sandboxed decoding: each picture is decoded in a separate process with limits and without secrets.

At worst, a hostile file crashes its decoding process. A web worker can serve other requests while that process runs.
"""

import io
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import IO, Any

import structlog

from marketplace.infra import texts
from marketplace.infra.imaging.formats import (
    HEADER_BYTES,
    Picture,
    PictureFormat,
    Rendition,
    UnacceptablePictureError,
    detect_format,
)
from marketplace.kernel.errors import ServiceUnavailableError, UnsupportedMediaTypeError, ValidationError

_log = structlog.get_logger(__name__)
_DECODE_CPU_SECONDS = 0.9  # CPU time; the largest accepted picture needs a third
_MAX_ADDRESS_SPACE = 512 * 1024 * 1024  # bytes
# Wall-clock time. The process also limits its CPU time, but CPU time passes slowly on a busy machine.
_WORKER_TIMEOUT_SECONDS = 20.0
# Per web process, because decoding is the most expensive work of any request.
_worker_slots = threading.BoundedSemaphore(2)
_QUEUE_TIMEOUT_SECONDS = 10.0


class DecodeWorkerFailedError(Exception):
    """The decoding process failed because of a bug in this service. The log contains the end of stderr."""


def re_encode(file: IO[bytes], *, name: str, sizes: Sequence[int]) -> Picture:
    """Re-encode a picture in a separate process.

    :param file: an open file with a file descriptor; always read from the start
    :param name: the request's name for the file, for error messages
    :param sizes: longest sides in pixels, ascending
    :raises UnsupportedMediaTypeError: the file is not a JPEG, PNG, WebP or GIF
    :raises ValidationError: the picture is damaged or exceeds a limit
    :raises ServiceUnavailableError: too many pictures are in progress, or the process timed out
    :raises DecodeWorkerFailedError: the process failed because of a bug in this service
    """
    file.flush()
    head = os.pread(file.fileno(), HEADER_BYTES, 0)
    if not head:
        raise ValidationError.of(name, texts.PICTURE_EMPTY_FILE)
    kind = detect_format(head)
    if kind is None:
        raise UnsupportedMediaTypeError(texts.PICTURE_UNSUPPORTED_FORMAT.format(field=name))
    if not _worker_slots.acquire(timeout=_QUEUE_TIMEOUT_SECONDS):
        raise ServiceUnavailableError(texts.PICTURES_QUEUE_FULL, retry_after_seconds=5)
    try:
        return _run_decode_worker(file, kind, sizes)
    except UnacceptablePictureError as error:
        raise ValidationError.of(name, str(error)) from error
    finally:
        _worker_slots.release()


def decode_worker_command(kind: PictureFormat, sizes: Sequence[int]) -> list[str]:
    """Return the command line of the decoding process."""
    return [
        *(sys.executable, "-I", "-m", "marketplace.infra.imaging.decode_worker"),
        *(kind.name, ",".join(map(str, sizes)), str(_DECODE_CPU_SECONDS), str(_MAX_ADDRESS_SPACE)),
    ]


def _run_decode_worker(file: IO[bytes], kind: PictureFormat, sizes: Sequence[int]) -> Picture:
    started = time.perf_counter()
    # The child process shares the file descriptor and its position.
    os.lseek(file.fileno(), 0, os.SEEK_SET)
    with subprocess.Popen(  # noqa: S603 - our own module; nothing of the request is in the arguments
        decode_worker_command(kind, sizes),
        stdin=file,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"LANG": "C.UTF-8"},
    ) as process:
        try:
            out, errors = process.communicate(timeout=_WORKER_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired as error:
            process.kill()
            raise ServiceUnavailableError(texts.PICTURE_TIMED_OUT, retry_after_seconds=5) from error
    _log.info(
        "picture process ended",
        status=process.returncode,
        format=kind.name,
        durationMs=round((time.perf_counter() - started) * 1000, 1),
    )
    if process.returncode < 0:
        # A signal ended the process: the timer's signal or a crash.
        raise UnacceptablePictureError(texts.PICTURE_TOO_COMPLEX)
    if process.returncode or not out:
        _log.error("picture process failed", error=errors[-2000:].decode(errors="replace"))
        raise DecodeWorkerFailedError(f"exit status {process.returncode}")
    return _parse_worker_output(out, kind)


def _parse_worker_output(out: bytes, kind: PictureFormat) -> Picture:
    stream = io.BytesIO(out)
    answer: dict[str, Any] = json.loads(stream.readline())
    if "refused" in answer:
        raise UnacceptablePictureError(answer["refused"])
    renditions = [
        Rendition(name, content_type, width, height, stream.read(length))
        for name, content_type, width, height, length in answer["renditions"]
    ]
    return Picture(kind, answer["width"], answer["height"], renditions)
