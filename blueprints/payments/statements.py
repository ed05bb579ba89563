"""The caller's own statement: every movement on their accounts, as JSON by page or as one CSV file."""

from typing import Any

from flask import Response

from blueprints.http.contract import AUTHENTICATED, SharedLimit
from blueprints.http.csv_export import MAX_CSV_ROWS, csv_response, wants_csv
from blueprints.http.endpoint import Context, ContractBlueprint
from blueprints.http.reply_renderer import compile_renderer
from blueprints.payments.schemas import LedgerEntryQuery, LedgerEntryView
from marketplace.kernel.paging import Page
from marketplace.ledger import queries
from marketplace.ledger.queries import EntryFilter
from marketplace.vendors.queries import find_store_of_user

area = ContractBlueprint("transactions", "/api/transactions", "Statements of the ledger")

_CSV_COLUMNS = tuple(field.data_key or name for name, field in LedgerEntryView().fields.items())
_render_entry = compile_renderer(LedgerEntryView())


@area.get(
    "",
    auth=AUTHENTICATED,
    limit=SharedLimit.CALLER_TIER,
    query=LedgerEntryQuery,
    reply=LedgerEntryView(many=True),
    csv=True,
)
def statement(ctx: Context, query: dict[str, Any]) -> Page | Response:
    """List the entries of the caller's accounts, the latest first, as JSON or as a CSV file."""
    store = find_store_of_user(ctx.session, user_id=ctx.user.id)
    owners = [ctx.user.id] if store is None else [ctx.user.id, store.id]
    entry_filter = EntryFilter(
        starts=query["from_"],
        ends=query["to"],
        kind=query["kind"],
        direction=query["direction"],
        order_id=query["order_id"],
    )
    if not wants_csv(query["format"]):
        return queries.fetch_statement_page(
            ctx.session, owners=owners, entry_filter=entry_filter, page=ctx.page
        )
    entries = queries.iterate_statement_entries(
        ctx.session, owners=owners, entry_filter=entry_filter, limit=MAX_CSV_ROWS + 1
    )
    return csv_response(
        "transactions", columns=_CSV_COLUMNS, rows=map(_render_entry, entries), max_rows=MAX_CSV_ROWS
    )
