"""Payouts for those who are paid: their history, their balance, and calling off what they asked for."""

from typing import Any
from uuid import UUID

from flask import Response

from blueprints.http import (
    AUTHENTICATED,
    FINANCE,
    VENDOR_OR_STAFF,
    Context,
    ContractBlueprint,
    Idempotency,
    SharedLimit,
    csv_response,
    negotiate_format,
)
from blueprints.http.reply_renderer import compile_renderer
from blueprints.payouts.payees.schemas import (
    PayoutQuery,
    PayoutView,
    StatementEntry,
    StatementQuery,
    StatementView,
    VendorBalanceView,
    VendorDebtQuery,
    VendorDebtsMeta,
    VendorDebtView,
    VendorSelectionQuery,
)
from marketplace.kernel.errors import PermissionRequiredError
from marketplace.kernel.paging import TablePage
from marketplace.kernel.states import IllegalTransitionError
from marketplace.payouts import withdrawals
from marketplace.payouts.payees import balances, payout_history, statements, stores

_STATEMENT_COLUMNS = (
    *("at", "kind", "description", "orderNumber", "account", "direction", "amountMinor", "balanceMinor"),
    *("orderId", "transactionId"),
)
_render_entry = compile_renderer(StatementEntry())
_FORMATS = {"json": "application/json", "csv": "text/csv", "pdf": "application/pdf"}

area = ContractBlueprint("payouts", "/api/payouts", "Payouts, for those who are paid")
receivables_area = ContractBlueprint("receivables", "/api/payouts", "What vendors owe us")


@area.get(
    "", auth=VENDOR_OR_STAFF, limit=SharedLimit.CALLER_TIER, query=PayoutQuery, reply=PayoutView(many=True)
, raises=(PermissionRequiredError,))  # fmt: skip
def list_payouts(ctx: Context, query: dict[str, Any]) -> TablePage:
    """List payouts: a vendor's own, and all of them for finance."""
    if ctx.user.is_staff:
        stores.ensure_finance_permission(ctx.user)
    return payout_history.list_payouts(
        ctx.session,
        page=ctx.table,
        user_id=None if ctx.user.is_staff else ctx.user.id,
        vendor_id=query["vendor_id"],
        batch_id=query["batch_id"],
        status=query["status"],
        source=query["source"],
        starts=query["from_"],
        ends=query["to"],
    )


@area.get(
    "/balance",
    auth=VENDOR_OR_STAFF,
    limit=SharedLimit.CALLER_TIER,
    query=VendorSelectionQuery,
    reply=VendorBalanceView,
    raises=(PermissionRequiredError,),
)
def balance(ctx: Context, query: dict[str, Any]) -> balances.StoreBalance:
    """Tell what a vendor has: to be paid, in escrow, on its way, held and why; finance names one."""
    store = stores.resolve_store_for_caller(ctx.session, caller=ctx.user, vendor_id=query["vendor_id"])
    return balances.show_store_balance(ctx.session, vendor_id=store.id, now=ctx.now)


@area.get(
    "/statement", auth=VENDOR_OR_STAFF, limit="10/minute", query=StatementQuery, reply=StatementView, csv=True,
    pdf=True,
    raises=(PermissionRequiredError,),
)  # fmt: skip
def statement(ctx: Context, query: dict[str, Any]) -> statements.VendorStatement | Response:
    """Give a vendor's statement of a period, as JSON, CSV or PDF; finance names the vendor."""
    store = stores.resolve_store_for_caller(ctx.session, caller=ctx.user, vendor_id=query["vendor_id"])
    period = statements.resolve_period(query["from_"], query["to"], now=ctx.now)
    format_name = negotiate_format(query["format"], _FORMATS)
    limit = statements.FILE_ROWS_LIMIT if format_name == "csv" else statements.PAGED_ROWS_LIMIT
    vendor_statement = statements.build_statement(ctx.session, store=store, period=period, limit=limit)
    name = f"statement-{period.starts:%Y-%m-%d}-{period.ends:%Y-%m-%d}"
    if format_name == "csv":
        return csv_response(
            name,
            columns=_STATEMENT_COLUMNS,
            rows=map(_render_entry, vendor_statement.rows()),
            max_rows=limit + 2,
        )
    if format_name == "pdf":
        headers = {"Content-Disposition": f'attachment; filename="{name}.pdf"'}
        # It brings a decoder of pictures along, which a web process need not hold before somebody wants a PDF.
        from blueprints.payouts.payees import statement_pdf  # noqa: PLC0415

        return Response(
            statement_pdf.render_pdf(vendor_statement, generated_at=ctx.now),
            content_type=_FORMATS["pdf"],
            headers=headers,
        )
    return vendor_statement


@area.post(
    "/<uuid:payout_id>/cancel", auth=AUTHENTICATED, limit="10/minute", reply=PayoutView,
    idempotent=Idempotency.OPTIONAL,
    raises=(IllegalTransitionError, withdrawals.PayoutNotCancellableError),
)  # fmt: skip
def cancel(ctx: Context, payout_id: UUID) -> payout_history.PayoutView:
    """Call off a payout that the caller had asked for, as long as it is in no batch."""
    return withdrawals.cancel_request(ctx.session, payout_id=payout_id, caller=ctx.user, now=ctx.now)


@receivables_area.get(
    "/receivables", auth=FINANCE, limit=SharedLimit.CALLER_TIER, query=VendorDebtQuery,
    reply=VendorDebtView(many=True), meta=VendorDebtsMeta,
)  # fmt: skip
def list_indebted_vendors(ctx: Context, query: dict[str, Any]) -> TablePage:
    """List vendors who owe us something: of orders that were refunded after their release."""
    return balances.list_vendor_debts(ctx.session, vendor_id=query["vendor_id"], page=ctx.table)
