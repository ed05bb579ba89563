"""Routes of the caller's account and delivery addresses."""

from typing import Any
from uuid import UUID

from blueprints.http import (
    AUTHENTICATED,
    AUTHENTICATED_ANY_STATUS,
    Context,
    ContractBlueprint,
    CursorQuery,
    Deleted,
    SharedLimit,
)
from blueprints.users.schemas import AddAddress, AddressView, Me, UpdateAddress, UpdateMe
from marketplace.identity import operations, queries
from marketplace.identity.models import Profile
from marketplace.kernel.errors import LimitReachedError
from marketplace.kernel.paging import Page

area = ContractBlueprint("users", "/api/users", "Your account and addresses")


@area.get("/me", auth=AUTHENTICATED_ANY_STATUS, limit=SharedLimit.CALLER_TIER, reply=Me)
def get_me(ctx: Context) -> Profile:
    """Get your profile, campus, role and badges. Restricted and suspended accounts can use this route too."""
    return queries.fetch_profile(ctx.session, user_id=ctx.user.id)


@area.put("/me", auth=AUTHENTICATED, limit="30/minute", body=UpdateMe, reply=Me)
def update_me(ctx: Context, body: dict[str, Any]) -> Profile:
    """Change your name, phone number, campus or avatar."""
    return operations.update_profile(ctx.session, user_id=ctx.user.id, changes=body, now=ctx.now)


@area.get(
    "/me/addresses",
    auth=AUTHENTICATED,
    limit=SharedLimit.CALLER_TIER,
    query=CursorQuery,
    reply=AddressView(many=True),
)
def list_addresses(ctx: Context, query: dict[str, Any]) -> Page:
    """List your saved addresses, the default address first."""
    return queries.list_addresses_page(ctx.session, user_id=ctx.user.id, page=ctx.page)


@area.post(
    "/me/addresses",
    auth=AUTHENTICATED,
    limit="20/minute",
    body=AddAddress,
    reply=AddressView,
    status=201,
    raises=(LimitReachedError,),
)
def add_address(ctx: Context, body: dict[str, Any]) -> queries.SavedAddress:
    """Save a delivery address. The first address becomes the default."""
    return operations.add_address(ctx.session, user_id=ctx.user.id, fields=body, now=ctx.now)


@area.put(
    "/me/addresses/<uuid:address_id>",
    auth=AUTHENTICATED,
    limit="20/minute",
    body=UpdateAddress,
    reply=AddressView,
)
def update_address(ctx: Context, address_id: UUID, body: dict[str, Any]) -> queries.SavedAddress:
    """Change a saved address."""
    return operations.update_address(
        ctx.session, user_id=ctx.user.id, address_id=address_id, fields=body, now=ctx.now
    )


@area.delete("/me/addresses/<uuid:address_id>", auth=AUTHENTICATED, limit="20/minute", reply=Deleted)
def delete_address(ctx: Context, address_id: UUID) -> dict[str, Any]:
    """Remove a saved address."""
    operations.remove_address(ctx.session, user_id=ctx.user.id, address_id=address_id, now=ctx.now)
    return {"deleted": True, "id": address_id}
