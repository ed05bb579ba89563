"""The rating of a store: the sum, the number and the distribution of the counted reviews.

The review's own transaction changes the figures. No request counts reviews. Products have no rating of their own. Each
product carries a copy of its store's rating, because listings sort by an index of products. The copy follows by an
event, since a store can have thousands of products.
"""

from datetime import datetime
from uuid import UUID

from sqlalchemy import text, update
from sqlalchemy.dialects.postgresql import array
from sqlalchemy.orm import Session

from marketplace.infra import outbox
from marketplace.infra.sql.statements import Statement
from marketplace.kernel import queues
from marketplace.reviews.models import Review
from marketplace.reviews.states import VISIBLE
from marketplace.vendors.models import VendorProfile

RATINGS = (1, 2, 3, 4, 5)
RATING_CHANGED_TOPIC = "store.rating-changed"


def counted_rating(review: Review) -> int | None:
    """Return the stars that a review adds to its store's rating; none for a review that does not count.

    ``Review.counted`` is the same rule for statements.
    """
    return review.rating if review.status == VISIBLE and not review.refunded else None


def change_store_rating(
    session: Session, *, vendor_id: UUID, removed: int | None, added: int | None, now: datetime
) -> None:
    """Replace a review's stars in the rating of a store, and enqueue the copy for the store's products.

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
    outbox.enqueue(
        session,
        queue=queues.NOTIFICATIONS,
        topic=RATING_CHANGED_TOPIC,
        payload={"vendorId": str(vendor_id)},
        due_at=now,
    )


# A later copy must not be overwritten by an earlier copy that waited for the products' locks.
_LOCK_COPY = Statement(
    text("SELECT pg_advisory_xact_lock(hashtextextended('store-rating:' || :vendor_id, 0))")
)
_COPY_RATING = Statement(
    text(
        """
        UPDATE products p SET rating_sum = differing.rating_sum, rating_count = differing.rating_count
        FROM (
            SELECT d.id, v.rating_sum, v.rating_count
            FROM products d JOIN vendor_profiles v ON v.id = d.vendor_id
            WHERE d.vendor_id = :vendor_id AND d.status <> 'deleted'
                AND (d.rating_sum, d.rating_count) <> (v.rating_sum, v.rating_count)
            ORDER BY d.id FOR NO KEY UPDATE OF d
        ) differing
        WHERE p.id = differing.id
        """
    )
)


def copy_rating_to_products(session: Session, *, vendor_id: UUID) -> int:
    """Copy a store's rating to the store's products, and return the number of changed products.

    Products are locked in the order of ids, as orders lock products.
    """
    _LOCK_COPY.run(session, vendor_id=str(vendor_id))
    return _COPY_RATING.run(session, vendor_id=vendor_id)
