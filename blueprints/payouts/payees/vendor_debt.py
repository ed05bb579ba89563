"""What vendors owe us, for finance."""

from typing import Any

from blueprints.http.contract import Shared, staff_with
from blueprints.http.endpoint import Area, Context
from blueprints.payouts.payees.schemas import Receivable, ReceivableQuery, ReceivablesMeta
from marketplace.kernel.paging import TablePage
from marketplace.payouts.payees.vendor_debt import list_receivables

area = Area("receivables", "/api/payouts", "What vendors owe us")


@area.get(
    "/receivables", auth=staff_with("canManageFinances"), limit=Shared.GLOBAL, query=ReceivableQuery,
    reply=Receivable(many=True), meta=ReceivablesMeta,
)  # fmt: skip
def list_owing(ctx: Context, query: dict[str, Any]) -> TablePage:
    """List vendors who owe us something: of orders that were refunded after their release."""
    return list_receivables(ctx.session, vendor_id=query["vendor_id"], page=ctx.table)
