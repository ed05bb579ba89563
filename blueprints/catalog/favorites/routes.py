"""Routes of favourites: list and toggle."""

from typing import Any

from blueprints.catalog.favorites.schemas import FavoriteState, ToggleFavorite
from blueprints.catalog.products.schemas import ProductCard
from blueprints.http import AUTHENTICATED, Context, ContractBlueprint, CursorQuery, SharedLimit
from marketplace.catalog.favorites import queries, toggle
from marketplace.kernel.errors import LimitReachedError, NotFoundError
from marketplace.kernel.paging import Page

area = ContractBlueprint("favorites", "/api/users/favorites", "Your account and addresses")


@area.get(
    "",
    auth=AUTHENTICATED,
    limit=SharedLimit.CALLER_TIER,
    query=CursorQuery,
    reply=ProductCard(many=True),
)
def list_favorites(ctx: Context, query: dict[str, Any]) -> Page:
    """List your favourites, the latest first. Deleted and hidden products are left out."""
    return queries.list_favorites(
        ctx.session, user_id=ctx.user.id, page=ctx.page, now=ctx.now, media_base_url=ctx.media_base_url
    )


@area.post(
    "/toggle",
    auth=AUTHENTICATED,
    limit="60/minute",
    body=ToggleFavorite,
    reply=FavoriteState,
    raises=(LimitReachedError, NotFoundError),
)
def toggle_favorite(ctx: Context, body: dict[str, Any]) -> dict[str, Any]:
    """Add a product to your favourites, or remove a favourite. A hidden product can only be removed."""
    is_favorite = toggle.toggle_favorite(
        ctx.session, user_id=ctx.user.id, product_id=body["product_id"], now=ctx.now
    )
    return {"product_id": body["product_id"], "is_favorite": is_favorite}
