"""Reviews by buyers: submit, change and delete."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.kernel.errors import ConflictError, NotFoundError, StaleRevisionError, found
from marketplace.orders import states as order_states
from marketplace.orders.models import Escrow, Order, OrderItem
from marketplace.reviews import notifications, states, texts
from marketplace.reviews.models import Review, ReviewProduct
from marketplace.reviews.pictures import list_picture_ids, replace_pictures
from marketplace.reviews.rating import change_store_rating, counted_rating
from marketplace.reviews.text_guard import ensure_suitable

EDITABLE_FOR = timedelta(days=7)
TEXT_LENGTHS = range(10, 2001)


class OrderNotDeliveredError(ConflictError):
    """The order is not delivered, so the buyer cannot judge the store yet."""

    reason = "order-not-delivered"


class OrderRefundedInFullError(ConflictError):
    """The buyer got all money of the order back."""

    reason = "order-refunded-in-full"


class AlreadyReviewedError(ConflictError):
    """The order has a review, or had a review that its author deleted."""

    reason = "order-already-reviewed"


class ReviewEditsClosedError(ConflictError):
    """The time for changes of the review has passed."""

    reason = "review-edits-closed"


def submit_review(
    session: Session,
    *,
    author_id: UUID,
    vendor_id: UUID,
    order_id: UUID,
    rating: int,
    text: str,
    image_ids: Sequence[UUID] = (),
    now: datetime,
    review_id: UUID | None = None,
) -> UUID:
    """Review a store for a delivered order, once.

    The order's lock makes the review and a refund of the order follow each other.

    :param image_ids: uploaded images for reviews, which become the review's pictures in this order
    :param review_id: id of the new review; chosen by the database by default
    :return: the review's id
    :raises ValidationError: the text contains contact details or offensive language, or an image cannot be used
    :raises NotFoundError: the author has no such order at this store
    :raises OrderNotDeliveredError: the order is not delivered
    :raises OrderRefundedInFullError: all money of the order was refunded
    :raises AlreadyReviewedError: the order has or had a review
    """
    ensure_suitable(text, name="text")
    order = found(
        session.scalar(
            select(Order)
            .where(Order.id == order_id, Order.buyer_id == author_id, Order.vendor_id == vendor_id)
            .with_for_update(key_share=True),
            execution_options={"populate_existing": True},
        ),
        "Order not found.",
    )
    if order.status != order_states.DELIVERED:
        raise OrderNotDeliveredError(texts.ORDER_NOT_DELIVERED.format(status=order.status.replace("_", " ")))
    if is_refunded_in_full(session, order_id=order_id):
        raise OrderRefundedInFullError(texts.ORDER_REFUNDED_IN_FULL)
    review = session.scalar(
        insert(Review)
        .values(
            order_id=order_id,
            vendor_id=vendor_id,
            author_id=author_id,
            rating=rating,
            text=text,
            status=states.REVIEW.initial,
            created_at=now,
            updated_at=now,
            **({} if review_id is None else {"id": review_id}),
        )
        .on_conflict_do_nothing(index_elements=("order_id",))
        .returning(Review)
    )
    if review is None:
        raise AlreadyReviewedError(texts.ORDER_ALREADY_REVIEWED)
    product_ids = session.scalars(
        select(OrderItem.product_id).where(OrderItem.order_id == order_id).distinct()
    )
    session.add_all(
        ReviewProduct(review_id=review.id, product_id=product_id, reviewed_at=now)
        for product_id in product_ids
    )
    session.flush()
    replace_pictures(session, review_id=review.id, author_id=author_id, image_ids=image_ids, now=now)
    change_store_rating(session, vendor_id=vendor_id, removed=None, added=rating, now=now)
    notifications.notify_store_of_review(session, review=review, order_number=order.number, now=now)
    new_id: UUID = review.id
    return new_id


def update_review(
    session: Session,
    *,
    author_id: UUID,
    review_id: UUID,
    changes: Mapping[str, Any],
    revision: int | None,
    now: datetime,
) -> None:
    """Change the author's review within seven days.

    :param changes: ``rating``, ``text`` and ``image_ids`` (all pictures), as far as they change
    :param revision: the revision that the client read; none skips the comparison
    :raises ValidationError: the text contains contact details or offensive language
    :raises NotFoundError: the author has no such review
    :raises IllegalTransitionError: the review is hidden
    :raises ReviewEditsClosedError: seven days have passed
    :raises StaleRevisionError: the review has changed since the client read it
    """
    if "text" in changes:
        ensure_suitable(changes["text"], name="text")
    review = _lock_own_review(session, author_id=author_id, review_id=review_id)
    states.REVIEW.target(review.status, states.EDIT)
    if now >= review.created_at + EDITABLE_FOR:
        raise ReviewEditsClosedError(texts.REVIEW_EDITS_CLOSED.format(days=EDITABLE_FOR.days))
    StaleRevisionError.check(review.revision, revision)
    columns = {name: value for name, value in changes.items() if name != "image_ids"}
    image_ids = changes.get("image_ids")
    changed = {name: value for name, value in columns.items() if getattr(review, name) != value}
    if image_ids is not None and image_ids == list_picture_ids(session, review_id=review_id):
        image_ids = None
    if not changed and image_ids is None:
        return
    if image_ids is not None:
        replace_pictures(session, review_id=review_id, author_id=author_id, image_ids=image_ids, now=now)
    before = counted_rating(review)
    for name, value in changed.items():
        setattr(review, name, value)
    review.edited_at = review.updated_at = now
    review.revision += 1
    session.flush()
    change_store_rating(
        session, vendor_id=review.vendor_id, removed=before, added=counted_rating(review), now=now
    )


def delete_review(session: Session, *, author_id: UUID, review_id: UUID, now: datetime) -> None:
    """Delete the author's review with the store's reply. The order cannot be reviewed again.

    :raises NotFoundError: the author has no such review
    """
    review = _lock_own_review(session, author_id=author_id, review_id=review_id)
    before = counted_rating(review)
    review.status = states.REVIEW.target(review.status, states.DELETE)
    review.text = review.reply_text = review.replied_at = review.reply_edited_at = None
    review.revision += 1
    review.updated_at = now
    session.flush()
    replace_pictures(session, review_id=review_id, author_id=author_id, image_ids=(), now=now)
    change_store_rating(session, vendor_id=review.vendor_id, removed=before, added=None, now=now)


def is_refunded_in_full(session: Session, *, order_id: UUID) -> bool:
    """Return whether the buyer got all money of an order back, before or after the delivery."""
    is_returned = Escrow.refunded_minor + Escrow.clawed_back_minor >= Escrow.amount_minor
    return bool(session.scalar(select(is_returned).where(Escrow.order_id == order_id)))


def lock_review(session: Session, *, review_id: UUID) -> Review | None:
    """Lock a review, or return none."""
    review: Review | None = session.get(
        Review, review_id, with_for_update={"key_share": True}, populate_existing=True
    )
    return review


def _lock_own_review(session: Session, *, author_id: UUID, review_id: UUID) -> Review:
    review = lock_review(session, review_id=review_id)
    if review is None or review.author_id != author_id or review.status == states.DELETED:
        raise NotFoundError("Review not found.")
    return review
