"""Listings as CSV files: the same rows as the JSON's, every cell safe to open in a spreadsheet."""

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from flask import Response, request

from marketplace.kernel.clock import iso

# A file holds so many rows at most; the filters narrow it down.
MAX_CSV_ROWS = 10_000
FORMATS = ("json", "csv")
# A cell that starts like this is a formula to a spreadsheet.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def wants_csv(chosen: str | None) -> bool:
    """This function will tell whether a client wants a file: by ``format``, or without it by the Accept header.

    :param chosen: the parameter's value, one of ``FORMATS``, or none
    """
    if chosen is not None:
        return chosen == "csv"
    return request.accept_mimetypes.best_match(["application/json", "text/csv"]) == "text/csv"


def csv_file(name: str, *, columns: Sequence[str], rows: Iterable[dict[str, Any]]) -> Response:
    """This function will answer rows as a file.

    :param name: of the file, without its ending
    :param columns: which of each row's values are written, in this order
    :param rows: each with a value for every column; times are written in ISO 8601, nothing as an empty cell
    """
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(row[column]) for column in columns])
    return Response(
        text.getvalue(),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}.csv"'},
    )


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = iso(value) if isinstance(value, datetime) else str(value)
    # A number is one, whatever its sign; a text that looks like a formula is none.
    return f"'{text}" if text.startswith(_FORMULA_STARTS) and not isinstance(value, int) else text
