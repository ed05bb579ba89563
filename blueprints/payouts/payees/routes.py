"""Payouts for those who are paid: their history, their balance, and calling off what they asked for."""

from typing import Any
from uuid import UUID

from flask import Response

from blueprints.http.contract import AUTHENTICATED, VENDOR_OR_STAFF, Idempotency, Shared
from blueprints.http.csv_export import csv_file, format_of
from blueprints.http.endpoint import Area, Context
from blueprints.payouts.payees.schemas import (
    BalanceView,
    PayoutQuery,
    PayoutView,
    StatementQuery,
    StatementView,
    StoreQuery,
)
from marketplace.kernel.paging import TablePage
from marketplace.payouts import withdrawals
from marketplace.payouts.payees import access, balances, payout_history, statements
from marketplace.payouts.payees.payout_history import Filters

_FORMATS = {"json": "application/json", "csv": "text/csv", "pdf": "application/pdf"}

area = Area("payouts", "/api/payouts", "Payouts, for those who are paid")


@area.get(
    "", auth=VENDOR_OR_STAFF, limit=Shared.GLOBAL, query=PayoutQuery, reply=PayoutView(many=True)
)  # fmt: skip
def list_payouts(ctx: Context, query: dict[str, Any]) -> TablePage:
    """List payouts: a vendor's own, and all of them for finance."""
    if ctx.user.is_staff:
        access.require_finance(ctx.user)
    filters = Filters(
        user_id=None if ctx.user.is_staff else ctx.user.id,
        vendor_id=query["vendor_id"],
        batch_id=query["batch_id"],
        status=query["status"],
        source=query["source"],
        starts=query["from_"],
        ends=query["to"],
    )
    return payout_history.list_payouts(ctx.session, filters=filters, page=ctx.table)


@area.get("/balance", auth=VENDOR_OR_STAFF, limit=Shared.GLOBAL, query=StoreQuery, reply=BalanceView)
def balance(ctx: Context, query: dict[str, Any]) -> dict[str, Any]:
    """Tell what a vendor has: to be paid, in escrow, on its way, held and why; finance names one."""
    store = access.store_of(ctx.session, caller=ctx.user, vendor_id=query["vendor_id"])
    return balances.balance_of_store(ctx.session, vendor_id=store.id, now=ctx.now)


@area.get(
    "/statement", auth=VENDOR_OR_STAFF, limit="10/minute", query=StatementQuery, reply=StatementView, csv=True,
    pdf=True,
)  # fmt: skip
def statement(ctx: Context, query: dict[str, Any]) -> dict[str, Any] | Response:
    """Give a vendor's statement of a period, as JSON, CSV or PDF; finance names the vendor."""
    store = access.store_of(ctx.session, caller=ctx.user, vendor_id=query["vendor_id"])
    period = statements.period_of(query["from_"], query["to"], now=ctx.now)
    wanted = format_of(query["format"], _FORMATS)
    most = statements.MOST_ROWS if wanted == "csv" else statements.MOST_LAID_OUT
    found = statements.statement_of(ctx.session, store=store, period=period, most=most)
    name = f"statement-{period.starts:%Y-%m-%d}-{period.ends:%Y-%m-%d}"
    if wanted == "csv":
        return csv_file(name, columns=statements.COLUMNS, rows=found.rows(), most=most + 2)
    if wanted == "pdf":
        headers = {"Content-Disposition": f'attachment; filename="{name}.pdf"'}
        # It brings a decoder of pictures along, which a web process need not hold before somebody wants a PDF.
        from blueprints.payouts.payees import statement_pdf  # noqa: PLC0415

        content = statement_pdf.draw(found, drawn_at=ctx.now)
        return Response(content, content_type=_FORMATS["pdf"], headers=headers)
    return found.shown()


@area.post(
    "/<uuid:payout_id>/cancel", auth=AUTHENTICATED, limit="10/minute", reply=PayoutView,
    idempotent=Idempotency.OPTIONAL,
)  # fmt: skip
def cancel(ctx: Context, payout_id: UUID) -> dict[str, Any]:
    """Call off a payout that the caller had asked for, as long as it is in no batch."""
    return withdrawals.take_back(ctx.session, payout_id=payout_id, caller=ctx.user, now=ctx.now)
