"""Notifications about reviews, for stores and authors."""

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.kernel.pluralize import format_count
from marketplace.notifications.operations import notify
from marketplace.notifications.phrases import say
from marketplace.orders.models import Order
from marketplace.reviews import texts
from marketplace.reviews.models import Review
from marketplace.vendors.models import VendorProfile


def notify_store_of_review(session: Session, *, review: Review, order_number: str, now: datetime) -> None:
    """Notify a store's owner of a new review."""
    store = session.get_one(VendorProfile, review.vendor_id)
    notify(
        session,
        user_id=store.user_id,
        type="review_received",
        title=say(texts.REVIEW_RECEIVED_TITLE),
        body=say(
            texts.REVIEW_RECEIVED_BODY,
            order_number=order_number,
            stars=format_count(review.rating, "star"),
        ),
        link=f"/stores/{store.slug}/reviews",
        cause=f"review:{review.id}:received",
        now=now,
    )


def notify_author_of_reply(session: Session, *, review: Review, now: datetime) -> None:
    """Notify a review's author of the store's reply."""
    store = session.get_one(VendorProfile, review.vendor_id)
    _notify_author(
        session,
        review,
        "review_reply",
        texts.REPLY_RECEIVED_TITLE,
        texts.REPLY_RECEIVED_BODY,
        store=store.display_name,
        now=now,
    )


def notify_author_of_hiding(session: Session, *, review: Review, now: datetime) -> None:
    """Notify a review's author that the review is hidden until staff decide."""
    _notify_author(
        session, review, "review_hidden", texts.REVIEW_HIDDEN_TITLE, texts.REVIEW_HIDDEN_BODY, now=now
    )


def notify_author_of_restoring(session: Session, *, review: Review, now: datetime) -> None:
    """Notify a review's author that the review is visible again."""
    _notify_author(
        session, review, "review_restored", texts.REVIEW_RESTORED_TITLE, texts.REVIEW_RESTORED_BODY, now=now
    )


def _notify_author(
    session: Session, review: Review, kind: str, title: str, body: str, *, now: datetime, **values: str
) -> None:
    number = session.scalars(select(Order.number).where(Order.id == review.order_id)).one()
    notify(
        session,
        user_id=review.author_id,
        type=kind,
        title=say(title),
        body=say(body, order_number=number, **values),
        link=f"/orders/{review.order_id}",
        # A review can be hidden and restored again after a change.
        cause=f"review:{review.id}:{kind}:{review.revision}",
        now=now,
    )
