"""Listings as CSV files: the same rows as the JSON's, every cell safe to open in a spreadsheet."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from flask import Response, request

from marketplace.kernel.clock import iso

# A file holds so many rows at most, and says in a header if there are more; the filters narrow it down.
MAX_CSV_ROWS = 10_000
TRUNCATED_HEADER = "X-Truncated"
FORMATS = ("json", "csv")
# A cell that starts like this is a formula to a spreadsheet.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def wants_csv(requested_format: str | None) -> bool:
    """Tell whether a client wants a file: by ``format``, or without it by the Accept header.

    :param requested_format: the parameter's value, one of ``FORMATS``, or none
    """
    return negotiate_format(requested_format, {"json": "application/json", "csv": "text/csv"}) == "csv"


def negotiate_format(requested_format: str | None, content_types: Mapping[str, str]) -> str:
    """Tell in which format a client wants an answer: by ``format``, or else by the Accept header.

    :param requested_format: the parameter's value, one of the offered formats, or none
    :param content_types: content types by format; the first is for those who want none of them
    """
    if requested_format is not None:
        return requested_format
    best_match = request.accept_mimetypes.best_match(content_types.values())
    return next(
        (name for name, kind in content_types.items() if kind == best_match), next(iter(content_types))
    )


def csv_response(
    name: str, *, columns: Sequence[str], rows: Iterable[dict[str, Any]], max_rows: int = MAX_CSV_ROWS
) -> Response:
    """Answer rows as a file.

    :param name: of the file, without its ending
    :param columns: which of each row's values are written, in this order
    :param rows: each with a value for every column; times are written in ISO 8601, nothing as an empty cell. They
        are taken one by one, so that what reads them in batches never holds all of them
    :param max_rows: so many rows are written; if there is one more, a header says that the file is cut short
    """
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    headers = {"Content-Disposition": f'attachment; filename="{name}.csv"'}
    for number, row in enumerate(rows):
        if number == max_rows:
            headers[TRUNCATED_HEADER] = "true"
            break
        writer.writerow([_format_cell(row[column]) for column in columns])
    return Response(text.getvalue(), content_type="text/csv; charset=utf-8", headers=headers)


def _format_cell(value: Any) -> str:
    if value is None:
        return ""
    text = iso(value) if isinstance(value, datetime) else str(value)
    # A number is one, whatever its sign; a text that looks like a formula is none.
    return f"'{text}" if text.startswith(_FORMULA_STARTS) and not isinstance(value, int) else text
