"""Routes of reviews: of a store, of a product, of the caller, and the replies of stores."""

from typing import Any
from uuid import UUID

from blueprints.http import (
    AUTHENTICATED,
    PUBLIC,
    VENDOR,
    Context,
    ContractBlueprint,
    CursorQuery,
    Deleted,
    SharedLimit,
    expected_revision,
    omit_fields,
)
from blueprints.reviews.schemas import (
    OwnReviewView,
    ReviewMetaSchema,
    ReviewQuery,
    ReviewView,
    SubmitReview,
    UpdateReview,
    WriteReply,
)
from marketplace.kernel.errors import StaleRevisionError
from marketplace.kernel.paging import Page
from marketplace.kernel.states import IllegalTransitionError
from marketplace.reviews import queries, reply, submit

store_area = ContractBlueprint("store_reviews", "/api/vendors", "Reviews of stores")
product_area = ContractBlueprint("product_reviews", "/api/products", "Reviews of stores")
author_area = ContractBlueprint("own_reviews", "/api/users/me", "Reviews of stores")
area = ContractBlueprint("reviews", "/api/reviews", "Reviews of stores")


@store_area.get(
    "/<uuid:vendor_id>/reviews",
    auth=PUBLIC,
    limit=SharedLimit.CALLER_TIER,
    query=ReviewQuery,
    reply=ReviewView(many=True),
    meta=ReviewMetaSchema,
)
def list_store_reviews(ctx: Context, vendor_id: UUID, query: dict[str, Any]) -> Page:
    """List the reviews of a store, with the store's rating in `meta.summary`."""
    return queries.list_reviews_of_store(
        ctx.session, vendor_id=vendor_id, page=ctx.page, media_base_url=ctx.media_base_url, **query
    )


@store_area.post(
    "/<uuid:vendor_id>/reviews",
    auth=AUTHENTICATED,
    limit=SharedLimit.CALLER_TIER,
    body=SubmitReview,
    reply=OwnReviewView,
    status=201,
    raises=(
        submit.AlreadyReviewedError,
        submit.OrderNotDeliveredError,
        submit.OrderRefundedInFullError,
    ),
)
def submit_review(ctx: Context, vendor_id: UUID, body: dict[str, Any]) -> queries.OwnReviewView:
    """Review a store for a delivered order of yours. Each order can be reviewed once."""
    review_id = submit.submit_review(
        ctx.session, author_id=ctx.user.id, vendor_id=vendor_id, now=ctx.now, **body
    )
    return queries.fetch_review(ctx.session, review_id=review_id, media_base_url=ctx.media_base_url)


@product_area.get(
    "/<uuid:product_id>/reviews",
    auth=PUBLIC,
    limit=SharedLimit.CALLER_TIER,
    query=CursorQuery,
    reply=ReviewView(many=True),
)
def list_product_reviews(ctx: Context, product_id: UUID, query: dict[str, Any]) -> Page:
    """List the reviews of orders that contained a product, the newest first. The stars rate the store."""
    return queries.list_reviews_of_product(
        ctx.session, product_id=product_id, page=ctx.page, media_base_url=ctx.media_base_url
    )


@author_area.get(
    "/reviews",
    auth=AUTHENTICATED,
    limit=SharedLimit.CALLER_TIER,
    query=CursorQuery,
    reply=OwnReviewView(many=True),
)
def list_own_reviews(ctx: Context, query: dict[str, Any]) -> Page:
    """List the reviews that you wrote, the newest first, hidden reviews included."""
    return queries.list_reviews_of_author(
        ctx.session, author_id=ctx.user.id, page=ctx.page, media_base_url=ctx.media_base_url
    )


@area.put(
    "/<uuid:review_id>",
    auth=AUTHENTICATED,
    limit="30/minute",
    body=UpdateReview,
    reply=OwnReviewView,
    raises=(IllegalTransitionError, submit.ReviewEditsClosedError, StaleRevisionError),
)
def update_review(ctx: Context, review_id: UUID, body: dict[str, Any]) -> queries.OwnReviewView:
    """Change your review within seven days."""
    submit.update_review(
        ctx.session,
        author_id=ctx.user.id,
        review_id=review_id,
        revision=expected_revision(body.get("revision")),
        changes=omit_fields(body, "revision"),
        now=ctx.now,
    )
    return queries.fetch_review(ctx.session, review_id=review_id, media_base_url=ctx.media_base_url)


@area.delete("/<uuid:review_id>", auth=AUTHENTICATED, limit="30/minute", reply=Deleted)
def delete_review(ctx: Context, review_id: UUID) -> dict[str, Any]:
    """Delete your review with the store's reply. The order cannot be reviewed again."""
    submit.delete_review(ctx.session, author_id=ctx.user.id, review_id=review_id, now=ctx.now)
    return {"deleted": True, "id": review_id}


@area.post(
    "/<uuid:review_id>/reply",
    auth=VENDOR,
    limit="30/minute",
    body=WriteReply,
    reply=ReviewView,
    status=201,
    raises=(reply.AlreadyRepliedError,),
)
def reply_to_review(ctx: Context, review_id: UUID, body: dict[str, Any]) -> queries.ReviewView:
    """Reply to a review of your store. Each review can have one reply."""
    reply.reply_to_review(
        ctx.session, user_id=ctx.user.id, review_id=review_id, text=body["text"], now=ctx.now
    )
    return queries.fetch_review(ctx.session, review_id=review_id, media_base_url=ctx.media_base_url)


@area.put(
    "/<uuid:review_id>/reply",
    auth=VENDOR,
    limit="30/minute",
    body=WriteReply,
    reply=ReviewView,
    raises=(reply.NoReplyError, reply.ReplyEditsClosedError),
)
def update_reply(ctx: Context, review_id: UUID, body: dict[str, Any]) -> queries.ReviewView:
    """Change the reply of your store within seven days."""
    reply.update_reply(ctx.session, user_id=ctx.user.id, review_id=review_id, text=body["text"], now=ctx.now)
    return queries.fetch_review(ctx.session, review_id=review_id, media_base_url=ctx.media_base_url)
