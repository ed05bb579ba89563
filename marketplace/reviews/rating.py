"""The rating of a store: the sum, the number and the distribution of the counted reviews.

The review's own transaction changes the figures. No request counts reviews.
"""

from uuid import UUID

from sqlalchemy import update
from sqlalchemy.dialects.postgresql import array
from sqlalchemy.orm import Session

from marketplace.reviews.models import Review
from marketplace.reviews.states import VISIBLE
from marketplace.vendors.models import VendorProfile

RATINGS = (1, 2, 3, 4, 5)


def counted_rating(review: Review) -> int | None:
    """Return the stars that a review adds to its store's rating; none for a review that does not count.

    ``Review.counted`` is the same rule for statements.
    """
    return review.rating if review.status == VISIBLE and not review.refunded else None


def change_store_rating(session: Session, *, vendor_id: UUID, removed: int | None, added: int | None) -> None:
    """Replace a review's stars in the rating of a store.

    :param removed: stars that counted before the change; none for a review that did not count
    :param added: stars that count after the change; none for a review that does not count
    """
    if removed == added:
        return
    stars = (added or 0) - (removed or 0)
    reviews = (added is not None) - (removed is not None)
    # An increment, so that concurrent reviews of a store wait for the row's lock only.
    session.execute(
        update(VendorProfile)
        .where(VendorProfile.id == vendor_id)
        .values(
            rating_sum=VendorProfile.rating_sum + stars,
            rating_count=VendorProfile.rating_count + reviews,
            rating_counts=array(
                VendorProfile.rating_counts[rating] + (int(rating == added) - int(rating == removed))
                for rating in RATINGS
            ),
        ),
        execution_options={"synchronize_session": False},
    )
