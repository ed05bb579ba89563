"""Routes for payees: payout history, balance, statement and cancellation. For finance: debts of vendors."""

from typing import Any
from uuid import UUID

from flask import Response

from blueprints.http import (
    AUTHENTICATED_OR_DELETING,
    FINANCE,
    VENDOR_OR_STAFF_OR_DELETING,
    Context,
    ContractBlueprint,
    Idempotency,
    SharedLimit,
    csv_response,
    negotiate_format,
    record_export,
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
from marketplace.kernel.errors import NotFoundError, PermissionRequiredError
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

area = ContractBlueprint("payouts", "/api/payouts", "Payouts, for payees")
receivables_area = ContractBlueprint("receivables", "/api/payouts", "Debts of vendors")


@area.get(
    "", auth=VENDOR_OR_STAFF_OR_DELETING, limit=SharedLimit.CALLER_TIER, query=PayoutQuery, reply=PayoutView(many=True)
, raises=(PermissionRequiredError,))  # fmt: skip
def list_payouts(ctx: Context, query: dict[str, Any]) -> TablePage:
    """List payouts: the caller's own payouts, or all payouts for finance."""
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
    auth=VENDOR_OR_STAFF_OR_DELETING,
    limit=SharedLimit.CALLER_TIER,
    query=VendorSelectionQuery,
    reply=VendorBalanceView,
    raises=(NotFoundError, PermissionRequiredError),
)
def get_vendor_balance(ctx: Context, query: dict[str, Any]) -> balances.StoreBalance:
    """Show a vendor's balance: available, in escrow, in transit, and on hold with the reasons."""
    store = stores.resolve_store_for_caller(ctx.session, caller=ctx.user, vendor_id=query["vendor_id"])
    return balances.show_store_balance(ctx.session, vendor_id=store.id, now=ctx.now)


@area.get(
    "/statement", auth=VENDOR_OR_STAFF_OR_DELETING, limit="10/minute", query=StatementQuery, reply=StatementView,
    csv=True, pdf=True,
    raises=(NotFoundError, PermissionRequiredError),
)  # fmt: skip
def get_vendor_statement(ctx: Context, query: dict[str, Any]) -> statements.VendorStatement | Response:
    """Show a vendor's statement of a period as JSON, CSV or PDF."""
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
        record_export(name)
        headers = {"Content-Disposition": f'attachment; filename="{name}.pdf"'}
        # The import loads an image library, so a web process defers the import until the first PDF.
        from blueprints.payouts.payees import statement_pdf  # noqa: PLC0415

        return Response(
            statement_pdf.render_pdf(vendor_statement, generated_at=ctx.now),
            content_type=_FORMATS["pdf"],
            headers=headers,
        )
    return vendor_statement


@area.post(
    "/<uuid:payout_id>/cancel", auth=AUTHENTICATED_OR_DELETING, limit="10/minute", reply=PayoutView,
    idempotent=Idempotency.OPTIONAL,
    raises=(IllegalTransitionError, withdrawals.PayoutNotCancellableError),
)  # fmt: skip
def cancel_payout(ctx: Context, payout_id: UUID) -> payout_history.PayoutView:
    """Cancel a payout that the caller requested and that is not in a batch yet."""
    return withdrawals.cancel_request(ctx.session, payout_id=payout_id, caller=ctx.user, now=ctx.now)


@receivables_area.get(
    "/receivables", auth=FINANCE, limit=SharedLimit.CALLER_TIER, query=VendorDebtQuery,
    reply=VendorDebtView(many=True), meta=VendorDebtsMeta,
)  # fmt: skip
def list_indebted_vendors(ctx: Context, query: dict[str, Any]) -> TablePage:
    """List vendors with debts to the marketplace."""
    return balances.list_vendor_debts(ctx.session, vendor_id=query["vendor_id"], page=ctx.table)
