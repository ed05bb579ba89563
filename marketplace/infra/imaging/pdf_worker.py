"""The program of the process that checks one PDF document.

Usage: ``python -I -m marketplace.infra.imaging.pdf_worker SECONDS BYTES``.

The process reads the file from standard input, and writes a line of JSON: ``{"pages": 2}`` or ``{"refused": WHY}``.
Documents with active content, attachments or encryption are refused, and so are files that are also something else.
"""

import io
import json
import logging
import os
import resource
import signal
import sys
from collections.abc import Iterator
from typing import Any

from pypdf import PdfReader
from pypdf.errors import PyPdfError
from pypdf.generic import ArrayObject, DictionaryObject, IndirectObject, StreamObject

from marketplace.infra import texts

MAX_PAGES = 20
MAX_OBJECTS = 20_000
_MAX_DEPTH = 60
_MAX_STREAM_BYTES = 40_000_000
_END = b"%%EOF"
# Names of PDF 2.0 (ISO 32000-2) that run, open or contain something else than pages.
_ACTIVE_NAMES = frozenset(
    {
        *("/JS", "/JavaScript", "/AA", "/Launch", "/EmbeddedFile", "/EmbeddedFiles", "/EF", "/RichMedia"),
        *("/XFA", "/SubmitForm", "/ImportData", "/GoToR", "/GoToE", "/Rendition", "/Movie", "/Sound", "/3D"),
    }
)


class RefusedError(Exception):
    """The document cannot be accepted. The message explains the reason to the sender."""


def check_pdf(content: bytes) -> int:
    """Check a PDF document and return the number of pages.

    :raises RefusedError: the document is damaged, too large, encrypted or has active content
    """
    end = content.rfind(_END)
    if not content.startswith(b"%PDF-") or end < 0 or content[end + len(_END) :].strip():
        raise RefusedError(texts.PDF_NOT_ONLY_PDF)
    try:
        reader = PdfReader(io.BytesIO(content), strict=False)
        if reader.is_encrypted:
            raise RefusedError(texts.PDF_ENCRYPTED)
        pages = len(reader.pages)
        for value in _objects(reader):
            _refuse_active(value)
    except (PyPdfError, ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise RefusedError(texts.PDF_DAMAGED) from error
    if not 1 <= pages <= MAX_PAGES:
        raise RefusedError(texts.PDF_PAGES.format(limit=MAX_PAGES))
    return pages


def _objects(reader: PdfReader) -> Iterator[Any]:
    """Yield the trailer and all objects, whether the pages refer to the objects or not."""
    yield reader.trailer
    numbers = [
        *((number, generation) for generation, table in reader.xref.items() for number in table),
        *((number, 0) for number in reader.xref_objStm),
    ]
    if len(numbers) > MAX_OBJECTS:
        raise RefusedError(texts.PDF_TOO_COMPLEX)
    for number, generation in numbers:
        yield reader.get_object(IndirectObject(number, generation, reader))


def _refuse_active(value: Any, depth: int = 0) -> None:
    if depth > _MAX_DEPTH:
        raise RefusedError(texts.PDF_TOO_COMPLEX)
    if isinstance(value, StreamObject) and len(value._data) > _MAX_STREAM_BYTES:
        raise RefusedError(texts.PDF_TOO_COMPLEX)
    if isinstance(value, DictionaryObject):
        # A plain destination, which many programs write, opens a page. An action can do anything.
        opens = value.raw_get("/OpenAction") if "/OpenAction" in value else None
        action = opens.get_object() if isinstance(opens, IndirectObject) else opens
        if isinstance(action, DictionaryObject) and action.get("/S") != "/GoTo":
            raise RefusedError(texts.PDF_ACTIVE)
        if _ACTIVE_NAMES.intersection(value.keys()) or value.get("/S") in _ACTIVE_NAMES:
            raise RefusedError(texts.PDF_ACTIVE)
        if value.get("/Type") in _ACTIVE_NAMES or value.get("/Subtype") in _ACTIVE_NAMES:
            raise RefusedError(texts.PDF_ACTIVE)
        children: list[Any] = [value.raw_get(name) for name in value]
    else:
        children = list(value) if isinstance(value, ArrayObject) else []
    for child in children:
        # References lead to objects that the loop over all objects checks.
        if not isinstance(child, IndirectObject):
            _refuse_active(child, depth + 1)


def main(arguments: list[str]) -> int:
    """Check the document on standard input and write the result to standard output.

    :param arguments: SECONDS is the limit of CPU time, BYTES the limit of address space
    :return: the exit status, which is 0 for a refused file, too
    """
    seconds, space = float(arguments[0]), int(arguments[1])
    logging.disable(logging.CRITICAL)  # the reader's warnings about a file are not useful
    os.nice(5)  # short requests have priority
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (space, space))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        answer: dict[str, object] = {"pages": check_pdf(sys.stdin.buffer.read())}
    except RefusedError as error:
        answer = {"refused": str(error)}
    except MemoryError:
        answer = {"refused": texts.PDF_TOO_COMPLEX}
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
