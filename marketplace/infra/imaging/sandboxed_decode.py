"""Pictures are decoded apart: each in a process of its own that is limited in time and memory and knows no secret.

A decoder that is fed hostile bytes then takes, at worst, that process; and a web worker that waits for it may
serve others meanwhile.
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
_DECODE_CPU_SECONDS = 0.9  # of processor time; the largest picture that is taken needs a third of it
_MAX_ADDRESS_SPACE = 512 * 1024 * 1024  # bytes
# Its own limits are of processor time; so much may pass on a machine that has much else to do.
_WORKER_TIMEOUT_SECONDS = 20.0
# In each process of ours: they are what computes most of all that a request sets in motion.
_worker_slots = threading.BoundedSemaphore(2)
_QUEUE_TIMEOUT_SECONDS = 10.0


class DecodeWorkerFailedError(Exception):
    """The process ended with a fault of our own; its last words are in the log."""


def re_encode(file: IO[bytes], *, name: str, sizes: Sequence[int]) -> Picture:
    """Draw a picture anew, in a process of its own.

    :param file: an open file of the system, from its beginning
    :param name: the request's name for the file, which a refusal names
    :param sizes: longest sides in pixels, ascending
    :raises UnsupportedMediaTypeError: it is no JPEG, PNG, WebP or GIF
    :raises ValidationError: it is one that can't be decoded, or not within bounds
    :raises ServiceUnavailableError: too many are at work already, or the machine is too busy
    """
    file.flush()
    head = os.pread(file.fileno(), HEADER_BYTES, 0)
    if not head:
        raise ValidationError.of(name, "The file is empty.")
    kind = detect_format(head)
    if kind is None:
        raise UnsupportedMediaTypeError(
            f"{name}: The file's content is neither JPEG, PNG, WebP nor GIF, whatever its name says."
        )
    if not _worker_slots.acquire(timeout=_QUEUE_TIMEOUT_SECONDS):
        raise ServiceUnavailableError("Too many pictures are being taken in.", retry_after_seconds=5)
    try:
        return _run_decode_worker(file, kind, sizes)
    except UnacceptablePictureError as error:
        raise ValidationError.of(name, str(error)) from error
    finally:
        _worker_slots.release()


def decode_worker_command(kind: PictureFormat, sizes: Sequence[int]) -> list[str]:
    """Give the command of the process that draws a picture anew."""
    return [
        *(sys.executable, "-I", "-m", "marketplace.infra.imaging.decode_worker"),
        *(kind.name, ",".join(map(str, sizes)), str(_DECODE_CPU_SECONDS), str(_MAX_ADDRESS_SPACE)),
    ]


def _run_decode_worker(file: IO[bytes], kind: PictureFormat, sizes: Sequence[int]) -> Picture:
    started = time.perf_counter()
    # The child reads the open file itself, from where the system has it stand.
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
            raise ServiceUnavailableError("The machine is too busy.", retry_after_seconds=5) from error
    _log.info(
        "picture process ended",
        status=process.returncode,
        format=kind.name,
        durationMs=round((time.perf_counter() - started) * 1000, 1),
    )
    if process.returncode < 0:
        # By a signal: its timer's, or that of a crash.
        raise UnacceptablePictureError("The file takes too much to decode.")
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
