"""PDF documents for tests: harmless, and with active content."""

import io
from collections.abc import Callable

from fpdf import FPDF
from pypdf import PdfWriter
from pypdf.generic import ArrayObject, DictionaryObject, NameObject, NumberObject, TextStringObject


def plain_pdf(*, pages: int = 1) -> bytes:
    """Build a PDF document with text."""
    document = FPDF()
    document.set_font("helvetica", size=12)
    for number in range(pages):
        document.add_page()
        document.cell(text=f"Student ID, page {number + 1}")
    return bytes(document.output())


def _written(change: Callable[[PdfWriter], object]) -> bytes:
    writer = PdfWriter(clone_from=io.BytesIO(plain_pdf()))
    change(writer)
    buffer = io.BytesIO()
    writer.write(buffer)
    return buffer.getvalue()


def _action(kind: str, **more: str) -> DictionaryObject:
    fields = {NameObject("/S"): NameObject(kind)}
    fields |= {NameObject(f"/{name}"): TextStringObject(value) for name, value in more.items()}
    return DictionaryObject(fields)


def _open_action(writer: PdfWriter, action: object) -> None:
    writer.root_object[NameObject("/OpenAction")] = action  # type: ignore[index,assignment]


def _hide_script(writer: PdfWriter) -> None:
    """Add a script that no page refers to."""
    writer._add_object(_action("/JavaScript", JS="app.alert(1)"))


def _name_script(writer: PdfWriter) -> None:
    script = writer._add_object(_action("/JavaScript", JS="app.alert(1)"))
    names = DictionaryObject({NameObject("/Names"): ArrayObject([TextStringObject("start"), script])})
    writer.root_object[NameObject("/Names")] = DictionaryObject({NameObject("/JavaScript"): names})  # type: ignore[index]


def _page_event(writer: PdfWriter) -> None:
    writer.pages[0][NameObject("/AA")] = DictionaryObject({NameObject("/O"): _action("/JavaScript", JS="1")})


def active_pdfs() -> dict[str, bytes]:
    """Build documents that must be refused, by the kind of their content."""
    return {
        "named script": _written(_name_script),
        "script when opened": _written(
            lambda writer: _open_action(writer, _action("/JavaScript", JS="app.alert(1)"))
        ),
        "script without reference": _written(_hide_script),
        "event of a page": _written(_page_event),
        "program when opened": _written(lambda writer: _open_action(writer, _action("/Launch", F="cmd.exe"))),
        "page of the web when opened": _written(
            lambda writer: _open_action(writer, _action("/URI", URI="https://attacker.example"))
        ),
        "attachment": _written(lambda writer: writer.add_attachment("a.exe", b"MZ")),
        "encryption": _written(lambda writer: writer.encrypt("secret")),
    }


def pdf_that_opens_a_page() -> bytes:
    """Build a document with the destination that many programs write."""

    def change(writer: PdfWriter) -> None:
        destination = ArrayObject(
            [writer.pages[0].indirect_reference, NameObject("/XYZ"), NumberObject(0), NumberObject(0)]
        )
        _open_action(writer, destination)

    return _written(change)
