"""All orders, as staff see them: the table that officers audit, and what is handed over on a campus."""

from datetime import timedelta
from typing import Any

from flask import Response

from blueprints.http.contract import ORDER_STAFF, STAFF, SharedLimit
from blueprints.http.csv_export import MAX_CSV_ROWS, csv_response, wants_csv
from blueprints.http.endpoint import Context, ContractBlueprint
from blueprints.orders.schemas import CampusOrder, CampusOrderQuery, OrderAuditQuery, OrderAuditRow
from marketplace.kernel.paging import Page, TablePage, TableRequest
from marketplace.orders import admin_table
from marketplace.orders.admin_table import AuditedOrder, OrderFilters

area = ContractBlueprint("order-audit", "/api/orders", "All orders, for officers")
campus_area = ContractBlueprint(
    "campus-orders", "/api/campus-orders", "Orders that are handed over on a campus"
)

_CSV_COLUMNS = (
    *("number", "status", "escrowStatus", "buyer", "buyerId", "vendor", "vendorId", "campus", "total_amount"),
    *("escrowMinor", "currency", "paymentStatus", "createdAt", "paidAt", "ageHours", "statusAgeHours"),
    *("stuck", "id"),
)


@area.get(
    "/admin", auth=ORDER_STAFF, limit="60/minute", query=OrderAuditQuery,
    reply=OrderAuditRow(many=True), csv=True,
)  # fmt: skip
def audit(ctx: Context, query: dict[str, Any]) -> TablePage | Response:
    """Show the orders of all campuses with their escrow, as JSON by page or as a CSV file."""
    as_csv = wants_csv(query.pop("format", None))
    table, filters = ctx.table, _build_filters(ctx, query)
    if not as_csv:
        return admin_table.list_orders_for_staff(
            ctx.session, caller=ctx.user, filters=filters, table=table, now=ctx.now
        )
    all_rows = TableRequest(1, MAX_CSV_ROWS + 1, sort=table.sort, descending=table.descending)
    rows = admin_table.export_orders(
        ctx.session, caller=ctx.user, filters=filters, table=all_rows, now=ctx.now
    )
    return csv_response("orders", columns=_CSV_COLUMNS, rows=map(_flatten_row, rows), max_rows=MAX_CSV_ROWS)


@campus_area.get(
    "", auth=STAFF, limit=SharedLimit.CALLER_TIER, query=CampusOrderQuery, reply=CampusOrder(many=True)
)
def list_campus_orders(ctx: Context, query: dict[str, Any]) -> Page:
    """List the paid orders of a campus, the latest first; a campus's own staff see theirs alone."""
    return admin_table.list_orders_on_campus(
        ctx.session,
        caller=ctx.user,
        campus=query["campus"],
        status=query["status"],
        delivery_method=query["delivery_method"],
        page=ctx.page,
    )


def _build_filters(ctx: Context, query: dict[str, Any]) -> OrderFilters:
    """Give the filters; whatever of the two ends of the period comes first, holds."""
    hours = query.pop("older_than_hours", None)
    ends = [query.pop("to", None), None if hours is None else ctx.now - timedelta(hours=hours)]
    return OrderFilters(
        starts=query.pop("from_", None),
        ends=min((end for end in ends if end is not None), default=None),
        vendor_id=query.pop("vendor", None),
        buyer_id=query.pop("buyer", None),
        **query,
    )


def _flatten_row(row: AuditedOrder) -> dict[str, Any]:
    """Write a row for a file: names and ids beside each other, reasons in one cell."""
    cells = (
        *(
            row.number,
            row.status,
            row.escrow_status,
            row.buyer_name,
            row.buyer_id,
            row.vendor_name,
            row.vendor_id,
        ),
        *(
            row.campus_slug,
            row.total_minor,
            row.escrow_minor,
            row.currency,
            row.payment_status,
            row.created_at,
        ),
        *(row.paid_at, row.age_hours, row.status_age_hours, " ".join(row.stuck), row.id),
    )
    return dict(zip(_CSV_COLUMNS, cells, strict=True))
