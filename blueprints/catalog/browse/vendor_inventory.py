"""A vendor's own inventory."""

from typing import Any

from blueprints.catalog.browse.schemas import InventoryItem, InventoryMeta, InventoryQuery
from blueprints.http.contract import VENDOR, SharedLimit
from blueprints.http.endpoint import Context, ContractBlueprint
from marketplace.catalog.browse import vendor_inventory
from marketplace.catalog.browse.vendor_inventory import InventoryFilters
from marketplace.kernel.paging import TablePage
from marketplace.vendors.queries import StoreRequiredError

area = ContractBlueprint("inventory", "/api/products/vendor", "A vendor's own inventory")


@area.get(
    "/paginated",
    auth=VENDOR,
    limit=SharedLimit.MERCHANT_TIER,
    query=InventoryQuery,
    reply=InventoryItem(many=True),
    meta=InventoryMeta,
    raises=(StoreRequiredError,),
)
def list_inventory(ctx: Context, query: dict[str, Any]) -> TablePage:
    """List the own store's products in whatever state, by `page` or by `cursor`."""
    return vendor_inventory.list_inventory(
        ctx.session,
        user_id=ctx.user.id,
        filters=InventoryFilters(**query),
        page=ctx.table,
        now=ctx.now,
        media_base_url=ctx.media_base_url,
    )
