"""File uploads: the file of a multipart body, spooled to disk within size limits."""

import hashlib
import os
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from io import BufferedRandom
from typing import IO, Any

from flask import request
from werkzeug.datastructures import FileStorage, MultiDict
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.formparser import FormDataParser

from blueprints.http import texts
from blueprints.http.contract import Upload
from blueprints.http.fields import Schema
from blueprints.http.request_parsing import build_validation_error, find_faults
from marketplace.kernel.errors import (
    InvalidParam,
    MalformedBodyError,
    PayloadTooLargeError,
    ServiceUnavailableError,
    UnsupportedMediaTypeError,
)

# Allowance for boundaries, headers of parts, and unknown fields that are refused by name.
_OVERHEAD_BYTES = 16 * 1024
_MAX_PARTS = 16
# Limits the headers of a part and fields without a file. Files pass through in chunks.
_MAX_FORM_MEMORY_BYTES = 128 * 1024
_MAX_BOUNDARY_LENGTH = 70  # RFC 2046


@dataclass(frozen=True)
class UploadedFile:
    """An uploaded file on disk, without a name, and the form's other fields. The file ends with the request.

    The client's file name and content type are ignored. The type is detected from the content.
    """

    content: IO[bytes]
    size: int
    sha256: str
    form: dict[str, Any]


def receive_file(upload: Upload) -> UploadedFile:
    """Read the file of a multipart body.

    :return: the file, which the caller must close
    :raises PayloadTooLargeError: the file is too large. If the declared length is too large, nothing is read
    :raises UnsupportedMediaTypeError: the body is compressed or not multipart/form-data
    :raises MalformedBodyError: the body is not valid multipart/form-data
    :raises ValidationError: the field is missing, repeated or not a file, or another field is invalid or unknown
    :raises ServiceUnavailableError: the disk has no space for the file
    """
    _ensure_multipart()
    limit = upload.max_bytes + _OVERHEAD_BYTES
    if request.content_length is not None and request.content_length > limit:
        raise _file_too_large_error(upload)
    request.max_content_length = limit
    spooled: list[BufferedRandom] = []
    with ExitStack() as opened:

        def open_spool(*_facts: Any, **_more_facts: Any) -> BufferedRandom:
            spooled.append(opened.enter_context(tempfile.TemporaryFile()))
            return spooled[-1]

        parser = FormDataParser(
            open_spool,
            max_form_memory_size=_MAX_FORM_MEMORY_BYTES,
            max_form_parts=_MAX_PARTS,
            silent=False,
        )
        try:
            _, fields, files = parser.parse(
                request.stream, request.mimetype, request.content_length, request.mimetype_params
            )
        except RequestEntityTooLarge:
            _ensure_within_bound(upload, spooled)
            raise
        except ValueError as error:
            raise MalformedBodyError("The body is not valid multipart/form-data for its boundary.") from error
        except OSError as error:
            raise ServiceUnavailableError(texts.UPLOAD_NOT_STORED, retry_after_seconds=30) from error
        _ensure_within_bound(upload, spooled)
        form = _load_form(upload, fields, files)
        [content] = spooled
        sha256 = hashlib.file_digest(content, "sha256").hexdigest()
        opened.pop_all()
        return UploadedFile(content, content.tell(), sha256, form)


def _ensure_multipart() -> None:
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise UnsupportedMediaTypeError(texts.BODY_COMPRESSED)
    if request.mimetype != "multipart/form-data":
        raise UnsupportedMediaTypeError("The body must be multipart/form-data with a file.")
    boundary = request.mimetype_params.get("boundary", "")
    if not boundary.isascii() or not 1 <= len(boundary) <= _MAX_BOUNDARY_LENGTH:
        raise MalformedBodyError(
            f"The Content-Type must have a boundary of 1 to {_MAX_BOUNDARY_LENGTH} ASCII characters."
        )


def _file_too_large_error(upload: Upload) -> PayloadTooLargeError:
    return PayloadTooLargeError(f"The file must not exceed {upload.max_bytes // (1024 * 1024)} MB.")


def _ensure_within_bound(upload: Upload, spooled: list[BufferedRandom]) -> None:
    for content in spooled:
        if content.seek(0, os.SEEK_END) > upload.max_bytes:
            raise _file_too_large_error(upload)
        content.seek(0)


def _load_form(
    upload: Upload, fields: MultiDict[str, str], files: MultiDict[str, FileStorage]
) -> dict[str, Any]:
    """Check that the body holds exactly one file, in the upload's field, and load the other fields."""
    field = upload.field
    form = upload.form or Schema()
    known = [one.data_key or name for name, one in form.fields.items()]
    names = dict.fromkeys(name or "" for name in (*fields, *files))
    faults = [InvalidParam(name, "Unknown field.") for name in names if name not in (field, *known)]
    malformed = {name: "Must not be a file." for name in known if name in files}
    malformed |= {name: "Must be given only once." for name in known if len(fields.getlist(name)) > 1}
    faults += [InvalidParam(name, reason) for name, reason in malformed.items()]
    times = len(fields.getlist(field)) + len(files.getlist(field))
    if not times:
        faults.insert(0, InvalidParam(field, "Missing data for required field."))
    elif times > 1:
        faults.insert(0, InvalidParam(field, "Must be given only once."))
    elif field not in files:
        faults.insert(0, InvalidParam(field, "Must be a file: a part with a file name."))
    values = {name: fields[name] for name in known if name in fields}
    faults += [fault for fault in find_faults(form, values) if fault.name not in malformed]
    if faults:
        raise build_validation_error(faults)
    loaded: dict[str, Any] = form.load(values)
    return loaded
