"""Moderation of reviews, for reports: find, hide and restore a review."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.reviews import notifications, states
from marketplace.reviews.models import Review
from marketplace.reviews.rating import change_store_rating, counted_rating
from marketplace.reviews.submit import lock_review
from marketplace.vendors.models import VendorProfile

_TARGET_TYPE = "review"


@dataclass(frozen=True)
class ReviewTarget:
    """A review that somebody reports or staff judge. A deleted review is no target.

    :param is_visible: false for a hidden review, which only its author and staff see
    """

    id: UUID
    author_id: UUID
    vendor_id: UUID
    vendor_user_id: UUID
    rating: int
    text: str
    reply: str | None
    is_visible: bool
    revision: int
    created_at: datetime


def find_review_target(session: Session, *, review_id: UUID) -> ReviewTarget | None:
    """Find a review by id; none for an unknown or deleted review."""
    row = session.execute(
        select(Review, VendorProfile.user_id)
        .join(VendorProfile, VendorProfile.id == Review.vendor_id)
        .where(Review.id == review_id)
        .execution_options(populate_existing=True)
    ).one_or_none()
    if row is None:
        return None
    review, vendor_user_id = row
    if review.text is None:
        return None
    return ReviewTarget(
        id=review.id,
        author_id=review.author_id,
        vendor_id=review.vendor_id,
        vendor_user_id=vendor_user_id,
        rating=review.rating,
        text=review.text,
        reply=review.reply_text,
        is_visible=review.status == states.VISIBLE,
        revision=review.revision,
        created_at=review.created_at,
    )


def hide_review(session: Session, *, review_id: UUID, act: Act) -> bool:
    """Hide a visible review, take its stars out of the store's rating, and notify the author.

    :return: false if the review is not visible
    """
    review = _move(session, review_id=review_id, trigger=states.HIDE, act=act)
    if review is not None:
        notifications.notify_author_of_hiding(session, review=review, now=act.now)
    return review is not None


def restore_review(session: Session, *, review_id: UUID, act: Act) -> bool:
    """Show a hidden review again, add its stars to the store's rating, and notify the author.

    :return: false if the review is not hidden
    """
    review = _move(session, review_id=review_id, trigger=states.RESTORE, act=act)
    if review is not None:
        notifications.notify_author_of_restoring(session, review=review, now=act.now)
    return review is not None


def _move(session: Session, *, review_id: UUID, trigger: str, act: Act) -> Review | None:
    """Apply a trigger to a review, with an entry in the audit trail; none if its state does not allow the trigger."""
    review = lock_review(session, review_id=review_id)
    if review is None or not states.REVIEW.allows(review.status, trigger):
        return None
    counted, status = counted_rating(review), review.status
    review.status = states.REVIEW.target(status, trigger)
    review.revision += 1
    review.updated_at = act.now
    session.flush()
    change_store_rating(
        session, vendor_id=review.vendor_id, removed=counted, added=counted_rating(review), now=act.now
    )
    record_audit_entry(
        session,
        act=act,
        action=f"review.{trigger}",
        target_type=_TARGET_TYPE,
        target_id=str(review.id),
        before={"status": status},
        after={"status": review.status},
    )
    return review
