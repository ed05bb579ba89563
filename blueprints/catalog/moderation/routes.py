"""Routes for deletion and moderation of listings, and for banned terms."""

from typing import Any
from uuid import UUID

from blueprints.catalog.moderation.schemas import (
    ApproveProduct,
    BannedTermView,
    BanTerm,
    BulkDelete,
    BulkDeleted,
    ModeratedProduct,
    ModerationQuery,
    RefuseProduct,
)
from blueprints.http import (
    PRODUCT_STAFF,
    VENDOR_OR_STAFF,
    Context,
    ContractBlueprint,
    CursorQuery,
    Deleted,
    SharedLimit,
    expected_revision,
)
from marketplace.catalog import vendor_products
from marketplace.catalog.models import BannedTerm
from marketplace.catalog.moderation import banned_terms, queries, staff_actions
from marketplace.kernel.errors import PermissionRequiredError, StaleRevisionError
from marketplace.kernel.paging import Page
from marketplace.kernel.states import IllegalTransitionError

area = ContractBlueprint("moderation", "/api/products", "Moderation of listings")


@area.delete(
    "/<uuid:product_id>",
    auth=VENDOR_OR_STAFF,
    limit=SharedLimit.MERCHANT_TIER,
    reply=Deleted,
    raises=(
        IllegalTransitionError,
        staff_actions.OwnListingError,
        PermissionRequiredError,
        StaleRevisionError,
        vendor_products.StoreNotActiveError,
    ),
)
def delete_product(ctx: Context, product_id: UUID) -> dict[str, Any]:
    """Delete a listing of your own store, or any listing as staff with the permission to manage products."""
    revision = expected_revision(None)
    if ctx.user.is_staff:
        staff_actions.delete_product(
            ctx.session, caller=ctx.user, act=ctx.act, product_id=product_id, revision=revision
        )
    else:
        vendor_products.delete_product(
            ctx.session, caller=ctx.user, product_id=product_id, revision=revision, now=ctx.now
        )
    return {"deleted": True, "id": product_id}


@area.delete(
    "/bulk/delete",
    auth=PRODUCT_STAFF,
    limit="30/minute",
    body=BulkDelete,
    reply=BulkDeleted,
    raises=(IllegalTransitionError, staff_actions.OwnListingError),
)
def delete_products(ctx: Context, body: dict[str, Any]) -> staff_actions.BulkDeletionResult:
    """Delete listings that violate the rules. Either all deletions succeed, or none does."""
    return staff_actions.delete_products(
        ctx.session, act=ctx.act, product_ids=body["ids"], reason=body["reason"]
    )


@area.get(
    "/moderation",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    query=ModerationQuery,
    reply=ModeratedProduct(many=True),
)
def list_products_in_moderation(ctx: Context, query: dict[str, Any]) -> Page:
    """List listings in moderation, longest waiting first."""
    return queries.list_moderation_queue(
        ctx.session,
        state=query["status"],
        campus=query.get("campus"),
        page=ctx.page,
        media_base_url=ctx.media_base_url,
    )


@area.post(
    "/<uuid:product_id>/approve",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    body=ApproveProduct,
    reply=ModeratedProduct,
    raises=(IllegalTransitionError, staff_actions.OwnListingError, StaleRevisionError),
)
def approve_product(ctx: Context, product_id: UUID, body: dict[str, Any]) -> dict[str, Any]:
    """Publish a listing in review or a rejected listing, or restore a removed listing."""
    staff_actions.approve_product(
        ctx.session, note=body.get("note"), **_decision_arguments(ctx, product_id, body)
    )
    return _moderated_product(ctx, product_id)


@area.post(
    "/<uuid:product_id>/reject",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    body=RefuseProduct,
    reply=ModeratedProduct,
    raises=(IllegalTransitionError, staff_actions.OwnListingError, StaleRevisionError),
)
def reject_product(ctx: Context, product_id: UUID, body: dict[str, Any]) -> dict[str, Any]:
    """Reject a listing in review; the vendor may edit and resubmit the listing."""
    staff_actions.refuse_product(
        ctx.session,
        trigger=staff_actions.REJECT,
        reason=body["reason"],
        **_decision_arguments(ctx, product_id, body),
    )
    return _moderated_product(ctx, product_id)


@area.post(
    "/<uuid:product_id>/takedown",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    body=RefuseProduct,
    reply=ModeratedProduct,
    raises=(IllegalTransitionError, staff_actions.OwnListingError, StaleRevisionError),
)
def take_down_product(ctx: Context, product_id: UUID, body: dict[str, Any]) -> dict[str, Any]:
    """Take a listing down; only staff can restore the listing."""
    staff_actions.refuse_product(
        ctx.session,
        trigger=staff_actions.TAKE_DOWN,
        reason=body["reason"],
        **_decision_arguments(ctx, product_id, body),
    )
    return _moderated_product(ctx, product_id)


@area.get(
    "/moderation/banned-terms",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    query=CursorQuery,
    reply=BannedTermView(many=True),
)
def list_banned_terms(ctx: Context, query: dict[str, Any]) -> Page:
    """List the banned terms."""
    return banned_terms.list_terms(ctx.session, page=ctx.page)


@area.post(
    "/moderation/banned-terms",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    body=BanTerm,
    reply=BannedTermView,
    status=201,
    raises=(banned_terms.TermAlreadyBannedError,),
)
def ban_term(ctx: Context, body: dict[str, Any]) -> BannedTerm:
    """Ban a term from the next screening on."""
    return banned_terms.add_term(ctx.session, act=ctx.act, **body)


@area.delete(
    "/moderation/banned-terms/<uuid:term_id>",
    auth=PRODUCT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    reply=Deleted,
)
def unban_term(ctx: Context, term_id: UUID) -> dict[str, Any]:
    """Allow a banned term again."""
    banned_terms.remove_term(ctx.session, act=ctx.act, term_id=term_id)
    return {"deleted": True, "id": term_id}


def _decision_arguments(ctx: Context, product_id: UUID, body: dict[str, Any]) -> dict[str, Any]:
    return {
        "act": ctx.act,
        "product_id": product_id,
        "revision": expected_revision(body.get("revision")),
    }


def _moderated_product(ctx: Context, product_id: UUID) -> dict[str, Any]:
    return queries.fetch_listing_for_staff(
        ctx.session, product_id=product_id, media_base_url=ctx.media_base_url
    )
