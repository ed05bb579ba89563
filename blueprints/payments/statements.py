"""The caller's own statement: every movement on their accounts, as JSON by page or as one CSV file."""

import csv
import io
from collections.abc import Iterable
from typing import Any

from flask import Response, request

from blueprints.http.contract import AUTHENTICATED, Shared
from blueprints.http.endpoint import Area, Context
from blueprints.payments.schemas import EntryQuery, EntryView
from marketplace.kernel.clock import iso
from marketplace.kernel.paging import Page, PageRequest
from marketplace.ledger import queries
from marketplace.ledger.queries import EntryFilter
from marketplace.vendors.queries import store_of_user

area = Area("transactions", "/api/transactions", "Statements of the ledger")

# A file holds the latest so many entries; from and to narrow it down.
MAX_CSV_ROWS = 10_000
_COLUMNS = tuple(field.data_key or name for name, field in EntryView().fields.items())
# A cell that starts like this is a formula to a spreadsheet.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


@area.get("", auth=AUTHENTICATED, limit=Shared.GLOBAL, query=EntryQuery, reply=EntryView(many=True))
def statement(ctx: Context, query: dict[str, Any]) -> Page | Response:
    """This function will list the entries of the caller's accounts, the latest first; with Accept: text/csv as CSV."""
    store = store_of_user(ctx.session, user_id=ctx.user.id)
    as_csv = request.accept_mimetypes.best_match(["application/json", "text/csv"]) == "text/csv"
    page = queries.statement_of(
        ctx.session,
        owners=[ctx.user.id] if store is None else [ctx.user.id, store.id],
        wanted=EntryFilter(starts=query["from_"], ends=query["to"], kind=query["kind"]),
        page=PageRequest(MAX_CSV_ROWS) if as_csv else ctx.page,
    )
    if not as_csv:
        return page
    return Response(
        _csv(page.items),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": 'attachment; filename="transactions.csv"'},
    )


def _csv(entries: Iterable[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(_COLUMNS)
    for entry in entries:
        shown = entry | {"createdAt": iso(entry["createdAt"])}
        writer.writerow([_cell(shown[name]) for name in _COLUMNS])
    return text.getvalue()


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text
