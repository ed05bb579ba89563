"""Files in: a multipart body read as it comes, within bounds, into a file without a name."""

import hashlib
import tempfile
from collections import Counter
from dataclasses import dataclass
from typing import IO

from flask import request
from werkzeug.sansio.multipart import Data, Epilogue, Event, Field, File, MultipartDecoder, NeedData

from blueprints.http.contract import Upload
from blueprints.http.request_parsing import build_validation_error
from marketplace.kernel.errors import (
    InvalidParam,
    MalformedBodyError,
    PayloadTooLargeError,
    ServiceUnavailableError,
    UnsupportedMediaTypeError,
)

_CHUNK_BYTES = 64 * 1024
# What may stand around the file: boundaries, the headers of parts, fields that are refused by their names.
_OVERHEAD_BYTES = 16 * 1024
_MAX_PARTS = 16
# A part's headers are read whole before they are looked at; the file itself passes through by chunks.
_MAX_PART_HEADER_BYTES = 2 * _CHUNK_BYTES
_MAX_BOUNDARY_LENGTH = 70  # RFC 2046


@dataclass(frozen=True)
class UploadedFile:
    """A file that was sent: on disk, without a name, gone when the request ends.

    What the client says of its name and type is not kept: the content tells.
    """

    content: IO[bytes]
    size: int
    sha256: str


def receive_file(upload: Upload) -> UploadedFile:
    """Read the file of a multipart body.

    :param upload: the field that it comes in, and its bound
    :return: the file; the caller closes it
    :raises PayloadTooLargeError: it is larger; where the length is declared, nothing is read
    :raises UnsupportedMediaTypeError: the body is not multipart/form-data, or compressed
    :raises MalformedBodyError: it says so but is not
    :raises ValidationError: the field is missing, or there twice or no file; or there are other fields
    """
    boundary = _read_boundary()
    limit = upload.max_bytes + _OVERHEAD_BYTES
    if request.content_length is not None and request.content_length > limit:
        raise _file_too_large_error(upload)
    request.max_content_length = limit
    content = tempfile.TemporaryFile()  # noqa: SIM115 - closed below, or by the caller
    try:
        decoder = MultipartDecoder(
            boundary, max_form_memory_size=_MAX_PART_HEADER_BYTES, max_parts=_MAX_PARTS
        )
        return _MultipartReader(upload, content).read(decoder)
    except ValueError as error:
        # The decoder's word for what is not multipart; a name that is not UTF-8 is one as well.
        content.close()
        raise MalformedBodyError("The body is not multipart/form-data as its boundary says.") from error
    except BaseException:
        content.close()
        raise


def _read_boundary() -> bytes:
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise UnsupportedMediaTypeError("The body must not be compressed.")
    if request.mimetype != "multipart/form-data":
        raise UnsupportedMediaTypeError("The body must be multipart/form-data with a file.")
    boundary = request.mimetype_params.get("boundary", "")
    if not boundary.isascii() or not 1 <= len(boundary) <= _MAX_BOUNDARY_LENGTH:
        raise MalformedBodyError("The Content-Type names no boundary.")
    return boundary.encode()


def _file_too_large_error(upload: Upload) -> PayloadTooLargeError:
    return PayloadTooLargeError(f"The file may have {upload.max_bytes // (1024 * 1024)} MB at most.")


class _MultipartReader:
    """Reads one body: writes the file, and remembers what else there was."""

    def __init__(self, upload: Upload, content: IO[bytes]) -> None:
        self._upload = upload
        self._content = content
        self._hash = hashlib.sha256()
        self._size = 0
        self._names: Counter[str] = Counter()
        self._is_file = False
        self._writing = False

    def read(self, decoder: MultipartDecoder) -> UploadedFile:
        """Read to the end, then refuse what was not as described."""
        while True:
            event = decoder.next_event()
            if isinstance(event, Epilogue):
                break
            if isinstance(event, NeedData):
                decoder.receive_data(request.stream.read(_CHUNK_BYTES) or None)
            else:
                self._handle_event(event)
        self._ensure_valid()
        self._content.flush()
        return UploadedFile(self._content, self._size, self._hash.hexdigest())

    def _handle_event(self, event: Event) -> None:
        if isinstance(event, Field | File):
            name = event.name or ""
            self._names[name] += 1
            self._writing = name == self._upload.field and self._names[name] == 1
            if self._writing:
                self._is_file = isinstance(event, File)
        elif isinstance(event, Data) and self._writing and self._is_file:
            self._write(event.data)

    def _write(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._upload.max_bytes:
            raise _file_too_large_error(self._upload)
        self._hash.update(data)
        try:
            self._content.write(data)
        except OSError as error:
            raise ServiceUnavailableError("There is no room for the file.", retry_after_seconds=30) from error

    def _ensure_valid(self) -> None:
        field = self._upload.field
        faults = [InvalidParam(name, "Unknown field.") for name in self._names if name != field]
        if not self._names[field]:
            faults.insert(0, InvalidParam(field, "Missing data for required field."))
        elif self._names[field] > 1:
            faults.insert(0, InvalidParam(field, "was given more than once"))
        elif not self._is_file:
            faults.insert(0, InvalidParam(field, "Must be a file: a part with a file name."))
        if faults:
            raise build_validation_error(faults)
