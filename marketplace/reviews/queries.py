"""Queries of reviews: of a store, of a product, and of an author."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from marketplace.identity.public_name import public_name
from marketplace.infra.sql.statements import Prepared
from marketplace.kernel.errors import NotFoundError
from marketplace.kernel.paging import CursorValueType, Page, PageRequest, page_of
from marketplace.kernel.ratings import average_rating
from marketplace.media.images import image_view
from marketplace.reviews import states
from marketplace.reviews.rating import RATINGS
from marketplace.reviews.submit import EDITABLE_FOR
from marketplace.vendors.models import VendorProfile


@dataclass(frozen=True)
class Author:
    """The author of a review as the public sees the author: first name and initial."""

    name: str


@dataclass(frozen=True)
class Reply:
    """The reply of a store."""

    text: str
    created_at: datetime
    edited_at: datetime | None


@dataclass(frozen=True)
class ReviewView:
    """A review with author and reply.

    ``refunded`` marks a review whose stars do not count, because the order was refunded in full.
    """

    id: UUID
    vendor_id: UUID
    rating: int
    text: str
    refunded: bool
    edited_at: datetime | None
    created_at: datetime
    author_name: str | None
    reply_text: str | None
    replied_at: datetime | None
    reply_edited_at: datetime | None
    raw_images: list[list[str]]
    media_base_url: str

    @property
    def images(self) -> list[dict[str, Any]]:
        """The pictures in the author's order."""
        return [
            image_view(image_id, key, orjson.loads(renditions), media_base_url=self.media_base_url)
            for image_id, key, renditions in self.raw_images
        ]

    @property
    def author(self) -> Author:
        """The author's public name."""
        return Author(public_name(self.author_name))

    @property
    def reply(self) -> Reply | None:
        """The store's reply."""
        if self.reply_text is None or self.replied_at is None:
            return None
        return Reply(self.reply_text, self.replied_at, self.reply_edited_at)


@dataclass(frozen=True)
class OwnReviewView(ReviewView):
    """A review as its author sees the review."""

    order_id: UUID
    status: str
    revision: int
    updated_at: datetime

    @property
    def editable_until(self) -> datetime | None:
        """The end of the time for changes; none for a hidden review."""
        return self.created_at + EDITABLE_FOR if self.status == states.VISIBLE else None


_COLUMNS_SQL = """
    r.id, r.vendor_id, r.rating, r.text, r.refunded, r.edited_at, r.created_at, p.name AS author_name,
    r.reply_text, r.replied_at, r.reply_edited_at,
    ARRAY(
        SELECT ARRAY[CAST(i.id AS text), i.key, CAST(i.renditions AS text)]
        FROM review_images m JOIN images i ON i.id = m.image_id WHERE m.review_id = r.id ORDER BY m.position
    ) AS raw_images, CAST(:media_base_url AS text) AS media_base_url
"""
_OWN_COLUMNS_SQL = f"{_COLUMNS_SQL}, r.order_id, r.status, r.revision, r.updated_at"
_REVIEWS_SQL = "reviews r JOIN profiles p ON p.id = r.author_id"


@dataclass(frozen=True)
class _ReviewSort:
    """A sort order: the key's parts, the ORDER BY clause, and the condition for the rows after a position."""

    parts: tuple[CursorValueType, ...]
    order_by: str
    after: str

    def position(self, review: ReviewView) -> list[Any]:
        time_and_id = [review.created_at.isoformat(), str(review.id)]
        return time_and_id if len(self.parts) == 2 else [review.rating, *time_and_id]


_OLDER_SQL = "(r.created_at, r.id) < (CAST(:created_at AS timestamptz), CAST(:id AS uuid))"
_SORTS = {
    "newest": _ReviewSort(("time", "id"), "r.created_at DESC, r.id DESC", _OLDER_SQL),
    "highest": _ReviewSort(
        ("number", "time", "id"),
        "r.rating DESC, r.created_at DESC, r.id DESC",
        f"r.rating <= :stars AND (r.rating < :stars OR {_OLDER_SQL})",
    ),
    "lowest": _ReviewSort(
        ("number", "time", "id"),
        "r.rating, r.created_at DESC, r.id DESC",
        f"r.rating >= :stars AND (r.rating > :stars OR {_OLDER_SQL})",
    ),
}
SORTS = tuple(_SORTS)


# Statements by sort order, filter by stars, and whether a position is given: each has an index of its own.
_SELECT_REVIEWS_OF_STORE: dict[tuple[str, bool, bool], Prepared[ReviewView]] = {
    (name, is_filtered, is_continued): Prepared(
        text(
            f"""
            SELECT {_COLUMNS_SQL} FROM {_REVIEWS_SQL}
            WHERE r.vendor_id = :vendor_id AND r.status = 'visible'
                {"AND r.rating = :rating" if is_filtered else ""} {f"AND {sort.after}" if is_continued else ""}
            ORDER BY {sort.order_by} LIMIT :limit
            """
        ),
        row=ReviewView,
    )
    for name, sort in _SORTS.items()
    for is_filtered in (False, True)
    for is_continued in (False, True)
}


def list_reviews_of_store(
    session: Session,
    *,
    vendor_id: UUID,
    sort: str,
    rating: int | None,
    page: PageRequest,
    media_base_url: str,
) -> Page:
    """List the visible reviews of an active store, with the summary of all counted reviews.

    :param sort: a key of ``SORTS``; newer reviews come first among equals
    :param rating: only reviews with this number of stars
    :raises NotFoundError: the store does not exist or is not active
    """
    summary = _fetch_summary(session, vendor_id=vendor_id)
    order = _SORTS[sort]
    rows = _SELECT_REVIEWS_OF_STORE[sort, rating is not None, page.position is not None].all(
        session,
        vendor_id=vendor_id,
        limit=page.limit + 1,
        media_base_url=media_base_url,
        **({} if rating is None else {"rating": rating}),
        **_position_parameters(page, order),
    )
    found = page_of(rows, request=page, position_of=order.position)
    found.extra_meta["summary"] = summary
    return found


def _position_parameters(page: PageRequest, order: _ReviewSort) -> dict[str, Any]:
    values = page.after(*order.parts)
    if page.position is None:
        return {}
    names = ("created_at", "id") if len(order.parts) == 2 else ("stars", "created_at", "id")
    return dict(zip(names, values, strict=True))


def _fetch_summary(session: Session, *, vendor_id: UUID) -> dict[str, Any]:
    row = session.execute(
        select(VendorProfile.rating_sum, VendorProfile.rating_count, VendorProfile.rating_counts).where(
            VendorProfile.id == vendor_id, VendorProfile.status == "active"
        )
    ).one_or_none()
    if row is None:
        raise NotFoundError("Store not found.")
    rating_sum, rating_count, rating_counts = row
    return {
        "rating": average_rating(rating_sum, rating_count),
        "rating_count": rating_count,
        "distribution": {str(stars): number for stars, number in zip(RATINGS, rating_counts, strict=True)},
    }


_SELECT_PUBLIC_PRODUCT = Prepared(
    text(
        """
        SELECT FROM products p JOIN vendor_profiles v ON v.id = p.vendor_id
        WHERE p.id = :product_id AND p.status = 'published' AND v.status = 'active'
        """
    )
)
_SELECT_REVIEWS_OF_PRODUCT: dict[bool, Prepared[ReviewView]] = {
    is_continued: Prepared(
        text(
            f"""
            SELECT {_COLUMNS_SQL}
            FROM review_products q JOIN reviews r ON r.id = q.review_id JOIN profiles p ON p.id = r.author_id
            WHERE q.product_id = :product_id AND r.status = 'visible'
                {"AND (q.reviewed_at, q.review_id) < (CAST(:created_at AS timestamptz), CAST(:id AS uuid))"
                if is_continued else ""}
            ORDER BY q.reviewed_at DESC, q.review_id DESC LIMIT :limit
            """
        ),
        row=ReviewView,
    )
    for is_continued in (False, True)
}  # fmt: skip


def list_reviews_of_product(
    session: Session, *, product_id: UUID, page: PageRequest, media_base_url: str
) -> Page:
    """List the visible reviews of orders with a product, the newest first.

    :raises NotFoundError: the product is not public
    """
    if not _SELECT_PUBLIC_PRODUCT.tuples(session, product_id=product_id):
        raise NotFoundError("Product not found.")
    order = _SORTS["newest"]
    rows = _SELECT_REVIEWS_OF_PRODUCT[page.position is not None].all(
        session,
        product_id=product_id,
        limit=page.limit + 1,
        media_base_url=media_base_url,
        **_position_parameters(page, order),
    )
    return page_of(rows, request=page, position_of=order.position)


_SELECT_REVIEWS_OF_AUTHOR: dict[bool, Prepared[OwnReviewView]] = {
    is_continued: Prepared(
        text(
            f"""
            SELECT {_OWN_COLUMNS_SQL} FROM {_REVIEWS_SQL}
            WHERE r.author_id = :author_id AND r.status <> 'deleted' {f"AND {_OLDER_SQL}" if is_continued else ""}
            ORDER BY r.created_at DESC, r.id DESC LIMIT :limit
            """
        ),
        row=OwnReviewView,
    )
    for is_continued in (False, True)
}


def list_reviews_of_author(
    session: Session, *, author_id: UUID, page: PageRequest, media_base_url: str
) -> Page:
    """List the reviews that a person wrote, the newest first, hidden reviews included."""
    order = _SORTS["newest"]
    rows = _SELECT_REVIEWS_OF_AUTHOR[page.position is not None].all(
        session,
        author_id=author_id,
        limit=page.limit + 1,
        media_base_url=media_base_url,
        **_position_parameters(page, order),
    )
    return page_of(rows, request=page, position_of=order.position)


_SELECT_REVIEW = Prepared(
    text(f"SELECT {_OWN_COLUMNS_SQL} FROM {_REVIEWS_SQL} WHERE r.id = :review_id"), row=OwnReviewView
)


def fetch_review(session: Session, *, review_id: UUID, media_base_url: str) -> OwnReviewView:
    """Fetch a review after its author or the store changed the review."""
    return _SELECT_REVIEW.one(session, review_id=review_id, media_base_url=media_base_url)
