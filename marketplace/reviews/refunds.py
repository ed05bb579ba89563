"""Effect of refunds on reviews: a full refund takes the review's stars out of the store's rating."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.reviews.models import Review
from marketplace.reviews.rating import change_store_rating, counted_rating
from marketplace.reviews.submit import is_refunded_in_full


def mark_refunded(session: Session, *, order_id: UUID, now: datetime) -> bool:
    """Mark the review of an order that was refunded in full. The review stays on the page without effect on the rating.

    Repeated calls have no effect. After the refund the order accepts no new review, so an early or late event finds
    every review.

    :return: false without a review, for a review that is marked already, and for a partial refund
    """
    review = session.scalar(
        select(Review).where(Review.order_id == order_id).with_for_update(key_share=True),
        execution_options={"populate_existing": True},
    )
    if review is None or review.refunded or not is_refunded_in_full(session, order_id=order_id):
        return False
    before = counted_rating(review)
    review.refunded = True
    review.updated_at = now
    session.flush()
    change_store_rating(session, vendor_id=review.vendor_id, removed=before, added=None, now=now)
    return True
