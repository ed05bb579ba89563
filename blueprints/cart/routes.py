"""Routes of the cart."""

from typing import Any

from blueprints.cart.schemas import CartView, SynchroniseCart
from blueprints.http import AUTHENTICATED, Context, ContractBlueprint, Deleted, SharedLimit
from marketplace.cart import operations, queries

area = ContractBlueprint("cart", "/api/cart", "The cart")


@area.get("", auth=AUTHENTICATED, limit=SharedLimit.CALLER_TIER, reply=CartView)
def get_cart(ctx: Context) -> queries.CartView:
    """Get the cart, with the current stock and price of each line."""
    return _cart_view(ctx)


@area.post(
    "",
    auth=AUTHENTICATED,
    limit="60/minute",
    body=SynchroniseCart,
    reply=CartView,
    raises=(operations.InvalidCartError,),
)
def synchronise_cart(ctx: Context, body: dict[str, Any]) -> queries.CartView:
    """Replace the cart with the given items."""
    operations.synchronise_cart(
        ctx.session,
        caller=ctx.user,
        lines=[operations.RequestedItem(**item) for item in body["items"]],
        now=ctx.now,
    )
    return _cart_view(ctx)


@area.delete("", auth=AUTHENTICATED, limit=SharedLimit.CALLER_TIER, reply=Deleted)
def clear_cart(ctx: Context) -> dict[str, Any]:
    """Clear the cart. The returned id is the user's id."""
    operations.clear_cart(ctx.session, user_id=ctx.user.id)
    return {"deleted": True, "id": ctx.user.id}


def _cart_view(ctx: Context) -> queries.CartView:
    return queries.fetch_cart(
        ctx.session,
        user_id=ctx.user.id,
        now=ctx.now,
        media_base_url=ctx.media_base_url,
    )
