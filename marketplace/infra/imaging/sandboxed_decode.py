"""Sandboxed decoding: each uploaded file is decoded in a separate process with limits and without secrets.

At worst, a hostile file crashes its decoding process. A web worker can serve other requests while that process runs.
"""

import io
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

import structlog

from marketplace.infra import texts
from marketplace.infra.imaging.formats import (
    HEADER_BYTES,
    RECORDING_CONTAINERS,
    Picture,
    PictureFormat,
    Recording,
    Rendition,
    UnacceptablePictureError,
    detect_container,
    detect_format,
)
from marketplace.kernel.errors import ServiceUnavailableError, UnsupportedMediaTypeError, ValidationError

_log = structlog.get_logger(__name__)
_DECODE_CPU_SECONDS = 0.9  # CPU time; the largest accepted picture needs a third
_PDF_CPU_SECONDS = 5.0  # CPU time for a document
_RECORDING_CPU_SECONDS = 5.0  # CPU time for an audio or video file
_TOO_COMPLEX = {"PDF": texts.PDF_TOO_COMPLEX, "recording": texts.RECORDING_TOO_COMPLEX}
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
    try:
        with _worker_slot():
            return _parse_worker_output(
                _run_worker(file, decode_worker_command(kind, sizes), kind=kind.name), kind
            )
    except UnacceptablePictureError as error:
        raise ValidationError.of(name, str(error)) from error


def decode_worker_command(kind: PictureFormat, sizes: Sequence[int]) -> list[str]:
    """Return the command line of the decoding process."""
    return [
        *(sys.executable, "-I", "-m", "marketplace.infra.imaging.decode_worker"),
        *(kind.name, ",".join(map(str, sizes)), str(_DECODE_CPU_SECONDS), str(_MAX_ADDRESS_SPACE)),
    ]


def check_pdf(file: IO[bytes], *, name: str) -> None:
    """Check a PDF document in a separate process: well-formed, not encrypted, and without active content.

    :param file: an open file with a file descriptor; always read from the start
    :param name: the request's name for the file, for error messages
    :raises ValidationError: the document cannot be accepted
    :raises ServiceUnavailableError: too many files are in progress, or the process timed out
    :raises DecodeWorkerFailedError: the process failed because of a bug in this service
    """
    command = [
        *(sys.executable, "-I", "-m", "marketplace.infra.imaging.pdf_worker"),
        *(str(_PDF_CPU_SECONDS), str(_MAX_ADDRESS_SPACE)),
    ]
    try:
        with _worker_slot():
            answer: dict[str, Any] = json.loads(_run_worker(file, command, kind="PDF"))
    except UnacceptablePictureError as error:
        raise ValidationError.of(name, str(error)) from error
    if "refused" in answer:
        raise ValidationError.of(name, answer["refused"])


def check_recording(file: IO[bytes], *, name: str) -> Recording:
    """Check an audio or video file in a separate process: container, codecs, size and duration.

    :param file: an open file with a file descriptor; always read from the start
    :param name: the request's name for the file, for error messages
    :raises UnsupportedMediaTypeError: the file is in no supported container
    :raises ValidationError: the file is damaged, too long or too large, or has an unsupported codec
    :raises ServiceUnavailableError: too many files are in progress, or the process timed out
    :raises DecodeWorkerFailedError: the process failed because of a bug in this service
    """
    file.flush()
    container = detect_container(os.pread(file.fileno(), HEADER_BYTES, 0))
    if container is None:
        raise UnsupportedMediaTypeError(texts.RECORDING_UNSUPPORTED_FORMAT.format(field=name))
    command = [
        *(sys.executable, "-I", "-m", "marketplace.infra.imaging.recording_worker"),
        *(container, str(_RECORDING_CPU_SECONDS), str(_MAX_ADDRESS_SPACE)),
    ]
    try:
        with _worker_slot():
            line, _, poster = _run_worker(file, command, kind="recording").partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
    except UnacceptablePictureError as error:
        raise ValidationError.of(name, str(error)) from error
    if "refused" in answer:
        raise ValidationError.of(name, answer["refused"])
    known = RECORDING_CONTAINERS[container]
    is_video = answer["width"] is not None
    if is_video and known.video_type is None:
        raise ValidationError.of(name, texts.RECORDING_CODEC)
    content_type = known.video_type if is_video and known.video_type else known.audio_type
    return Recording(content_type, known.suffix, **answer, poster=poster or None)


@contextmanager
def _worker_slot() -> Iterator[None]:
    if not _worker_slots.acquire(timeout=_QUEUE_TIMEOUT_SECONDS):
        raise ServiceUnavailableError(texts.PICTURES_QUEUE_FULL, retry_after_seconds=5)
    try:
        yield
    finally:
        _worker_slots.release()


def _run_worker(file: IO[bytes], command: Sequence[str], *, kind: str) -> bytes:
    """Run a process on a file and return the output."""
    started = time.perf_counter()
    file.flush()
    # The child process shares the file descriptor and its position.
    os.lseek(file.fileno(), 0, os.SEEK_SET)
    with subprocess.Popen(  # noqa: S603 - our own modules; nothing of the request is in the arguments
        command,
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
        "decoding process ended",
        status=process.returncode,
        format=kind,
        durationMs=round((time.perf_counter() - started) * 1000, 1),
    )
    if process.returncode < 0:
        # A signal ended the process: the timer's signal or a crash.
        raise UnacceptablePictureError(_TOO_COMPLEX.get(kind, texts.PICTURE_TOO_COMPLEX))
    if process.returncode or not out:
        _log.error("decoding process failed", error=errors[-2000:].decode(errors="replace"))
        raise DecodeWorkerFailedError(f"exit status {process.returncode}")
    return out


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
