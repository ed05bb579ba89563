"""Route of the figures of a store, for the owner."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from flask import Response

from blueprints.analytics.schemas import AnalyticsQuery, StoreAnalytics
from blueprints.http import VENDOR, Context, ContractBlueprint, csv_response, wants_csv
from marketplace.analytics import report
from marketplace.kernel.errors import NotFoundError
from marketplace.kernel.opening_hours import LAGOS

area = ContractBlueprint("analytics", "/api/vendors", "Figures of your store")

_CSV_COLUMNS = (
    *(
        "from",
        "to",
        "orders",
        "units",
        "revenueMinor",
        "averageOrderMinor",
        "views",
        "cartAdds",
        "conversion",
    ),
    *("refundedOrders", "refundedMinor", "disputedOrders", "lostDisputes"),
)


@area.get(
    "/<uuid:vendor_id>/analytics",
    auth=VENDOR,
    limit="30/minute",
    query=AnalyticsQuery,
    reply=StoreAnalytics,
    csv=True,
    raises=(NotFoundError,),
)
def get_store_analytics(ctx: Context, vendor_id: UUID, query: dict[str, Any]) -> report.Report | Response:
    """Get the figures of your store by day, week or month, beside the previous period. The series can be CSV."""
    ends = query["to"] or ctx.now.astimezone(LAGOS).date()
    starts = query["from_"] or ends - timedelta(days=report.DEFAULT_DAYS - 1)
    AnalyticsQuery.check_period(starts, ends)
    built = report.build_report(
        ctx.session,
        vendor_id=vendor_id,
        user_id=ctx.user.id,
        starts=starts,
        ends=ends,
        interval=query["interval"],
    )
    if not wants_csv(query["format"]):
        return built
    rows = (
        {
            "from": point.starts,
            "to": point.ends,
            "orders": point.orders,
            "units": point.units,
            "revenueMinor": point.revenue_minor,
            "averageOrderMinor": point.average_order_minor,
            "views": point.views,
            "cartAdds": point.cart_adds,
            "conversion": point.conversion,
            "refundedOrders": point.refunded_orders,
            "refundedMinor": point.refunded_minor,
            "disputedOrders": point.disputed_orders,
            "lostDisputes": point.lost_disputes,
        }
        for point in built.series
    )
    return csv_response("analytics", columns=_CSV_COLUMNS, rows=rows)
