"""CSV export of listings. Every cell is safe to open in a spreadsheet."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from flask import Response, request

from blueprints.http.context import current_context
from marketplace.audit.operations import record_audit_entry
from marketplace.kernel.clock import iso
from marketplace.kernel.redaction import redact

# Maximum number of rows in a file. A header reports truncation, and clients can narrow the listing with filters.
MAX_CSV_ROWS = 10_000
TRUNCATED_HEADER = "X-Truncated"
FORMATS = ("json", "csv")
# Spreadsheets treat cells with these starts as formulas, also with the full-width forms of East Asian input.
_FORMULA_STARTS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\t", "\r")


def wants_csv(requested_format: str | None) -> bool:
    """Return whether the client asks for CSV, by the ``format`` parameter or else by the Accept header.

    :param requested_format: the parameter's value, one of ``FORMATS``, or None
    """
    return negotiate_format(requested_format, {"json": "application/json", "csv": "text/csv"}) == "csv"


def negotiate_format(requested_format: str | None, content_types: Mapping[str, str]) -> str:
    """Choose a response's format by the ``format`` parameter, or else by the Accept header.

    :param requested_format: the parameter's value, one of the offered formats, or None
    :param content_types: content types by format. The first format is the default
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
    """Build a response with rows as a CSV file.

    An export by staff is in the audit trail.

    :param name: file name without the extension
    :param columns: keys of the values to write, in this order
    :param rows: rows with a value for every column. Times become ISO 8601, None becomes an empty cell. Rows are
        consumed one by one, so a generator may read them in batches
    :param max_rows: maximum number of rows. Further rows are dropped, and the header ``X-Truncated`` is set
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
    record_export(name)
    return Response(text.getvalue(), content_type="text/csv; charset=utf-8", headers=headers)


def record_export(name: str) -> None:
    """Record in the audit trail that staff exported data of others as a file.

    :param name: file name without the extension
    """
    context = current_context()
    if context.caller is None or not context.caller.is_staff:
        return
    # The view's session may be in autocommit, but the trail needs a transaction.
    context.services.database.in_transaction(
        record_audit_entry,
        act=context.act,
        action="data.export",
        target_type="export",
        target_id=name,
        after={"path": request.path, "filters": redact(dict(request.args))},
    )


def _format_cell(value: Any) -> str:
    if value is None:
        return ""
    text = iso(value) if isinstance(value, datetime) else str(value)
    # A negative number starts with a minus sign too, but is safe.
    return f"'{text}" if text.startswith(_FORMULA_STARTS) and not isinstance(value, int) else text
