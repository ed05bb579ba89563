"""What vendors owe us, for finance."""

from typing import Any

from blueprints.http.contract import FINANCE, SharedLimit
from blueprints.http.endpoint import Context, ContractBlueprint
from blueprints.payouts.payees.schemas import VendorDebtQuery, VendorDebtsMeta, VendorDebtView
from marketplace.kernel.paging import TablePage
from marketplace.payouts.payees.vendor_debt import list_vendor_debts

area = ContractBlueprint("receivables", "/api/payouts", "What vendors owe us")


@area.get(
    "/receivables", auth=FINANCE, limit=SharedLimit.CALLER_TIER, query=VendorDebtQuery,
    reply=VendorDebtView(many=True), meta=VendorDebtsMeta,
)  # fmt: skip
def list_indebted_vendors(ctx: Context, query: dict[str, Any]) -> TablePage:
    """List vendors who owe us something: of orders that were refunded after their release."""
    return list_vendor_debts(ctx.session, vendor_id=query["vendor_id"], page=ctx.table)
