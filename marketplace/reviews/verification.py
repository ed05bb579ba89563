"""Verification of store ratings: compare the stored figures with the reviews, and repair differences."""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.batches import process_each
from marketplace.infra.db import Database, allow_long_statements
from marketplace.infra.sql.statements import Statement
from marketplace.reviews.rating import copy_rating_to_products

MAX_DIFFERENCES = 1_000
# The comparison reads all reviews and products.
_STATEMENT_TIMEOUT_SECONDS = 120
_COUNTED_SQL = """
    SELECT coalesce(sum(r.rating), 0)::bigint AS rating_sum, count(*) AS rating_count, ARRAY[
        count(*) FILTER (WHERE r.rating = 1), count(*) FILTER (WHERE r.rating = 2),
        count(*) FILTER (WHERE r.rating = 3), count(*) FILTER (WHERE r.rating = 4),
        count(*) FILTER (WHERE r.rating = 5)] AS rating_counts
    FROM reviews r WHERE r.vendor_id = v.id AND r.counted
"""


@dataclass(frozen=True)
class RatingDifference:
    """A store whose rating differs from its counted reviews, or whose products have another rating."""

    vendor_id: UUID
    stored_counts: list[int]
    counted_counts: list[int]
    products: int


_SELECT_DIFFERENCES = Statement(
    text(
        f"""
        SELECT v.id AS vendor_id, v.rating_counts AS stored_counts, c.rating_counts AS counted_counts, p.products
        FROM vendor_profiles v CROSS JOIN LATERAL ({_COUNTED_SQL}) c CROSS JOIN LATERAL (
            SELECT count(*) AS products FROM products p
            WHERE p.vendor_id = v.id AND p.status <> 'deleted'
                AND (p.rating_sum, p.rating_count) <> (v.rating_sum, v.rating_count)
        ) p
        WHERE (v.rating_sum, v.rating_count, v.rating_counts) <> (c.rating_sum, c.rating_count, c.rating_counts)
            OR p.products > 0
        ORDER BY v.id LIMIT {MAX_DIFFERENCES}
        """
    ),
    row=RatingDifference,
)


def find_differences(session: Session) -> list[RatingDifference]:
    """Find stores with a wrong rating, at most ``MAX_DIFFERENCES``.

    A rating that changed just now is reported until its products have the new rating.
    """
    allow_long_statements(session, seconds=_STATEMENT_TIMEOUT_SECONDS)
    return _SELECT_DIFFERENCES.all(session)


def repair_ratings(database: Database) -> int:
    """Repair the ratings of stores that differ, each store in its own transaction.

    :return: the number of repaired stores
    """
    with database.transaction() as session:
        differing = [difference.vendor_id for difference in find_differences(session)]
    return sum(
        process_each(
            differing,
            lambda vendor_id: database.in_transaction(repair_rating, vendor_id=vendor_id),
            failure="rating not repaired",
        )
    )


_LOCK_STORE = Statement(
    text("SELECT v.id FROM vendor_profiles v WHERE v.id = :vendor_id FOR NO KEY UPDATE OF v")
)
_RECOUNT = Statement(
    text(
        f"""
        UPDATE vendor_profiles v SET rating_sum = c.rating_sum, rating_count = c.rating_count,
            rating_counts = c.rating_counts
        FROM (SELECT v.id, c.* FROM vendor_profiles v CROSS JOIN LATERAL ({_COUNTED_SQL}) c WHERE v.id = :vendor_id) c
        WHERE v.id = c.id
        """
    )
)


def repair_rating(session: Session, *, vendor_id: UUID) -> bool:
    """Count a store's reviews again, and write the rating to the store and its products."""
    # Statements after the lock see the reviews of all transactions that changed the rating before.
    _LOCK_STORE.run(session, vendor_id=vendor_id)
    _RECOUNT.run(session, vendor_id=vendor_id)
    copy_rating_to_products(session, vendor_id=vendor_id)
    return True
