"""Reviews of delivered orders and replies of stores, made by the domain's own operations at past times."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from commands.seeding.loading import load_data
from marketplace.kernel.demo_ids import SeededKind, seeded_id
from marketplace.media.images import REVIEW
from marketplace.media.models import Image
from marketplace.orders import states as order_states
from marketplace.orders.models import Order, OrderItem
from marketplace.reviews.models import Review
from marketplace.reviews.rating import copy_rating_to_products
from marketplace.reviews.reply import reply_to_review
from marketplace.reviews.submit import submit_review
from marketplace.vendors.models import VendorProfile

_REPLY_DELAY = timedelta(hours=3)


@dataclass(frozen=True)
class ReviewScenario:
    """A review of the demo.

    ``order`` counts the order scenarios from 1. ``hours`` is the time from the delivery to the review. A
    picture is a copy of the first product's picture.
    """

    order: int
    rating: int
    hours: int
    text: str
    reply: str | None = None
    has_picture: bool = False


_SCENARIOS = load_data("reviews", tuple[ReviewScenario, ...])


def load_reviews(session: Session) -> int:
    """Create the missing reviews of delivered orders. Without paid orders there are no reviews.

    :return: number of new reviews
    """
    return sum(_create_review(session, scenario, number) for number, scenario in enumerate(_SCENARIOS, 1))


def _add_picture(session: Session, order: Order, number: int, at: datetime) -> UUID:
    """Add an uploaded image of the buyer that shares the object of a product's picture."""
    key = session.scalars(
        select(OrderItem.image_key).where(OrderItem.order_id == order.id).order_by(OrderItem.position)
    ).first()
    image_id = seeded_id(SeededKind.REVIEW_IMAGE, number)
    session.add(Image(id=image_id, owner_id=order.buyer_id, purpose=REVIEW, key=key, created_at=at))
    session.flush()
    return image_id


def _create_review(session: Session, scenario: ReviewScenario, number: int) -> bool:
    order = session.get(Order, seeded_id(SeededKind.ORDER, scenario.order))
    review_id = seeded_id(SeededKind.REVIEW, number)
    if order is None or order.status != order_states.DELIVERED or session.get(Review, review_id) is not None:
        return False
    delivered_at: datetime = order.delivered_at or order.updated_at
    at = delivered_at + timedelta(hours=scenario.hours)
    submit_review(
        session,
        author_id=order.buyer_id,
        vendor_id=order.vendor_id,
        order_id=order.id,
        rating=scenario.rating,
        text=scenario.text,
        image_ids=[_add_picture(session, order, number, at)] if scenario.has_picture else [],
        now=at,
        review_id=review_id,
    )
    if scenario.reply is not None:
        owner_id = session.scalars(
            select(VendorProfile.user_id).where(VendorProfile.id == order.vendor_id)
        ).one()
        reply_to_review(
            session, user_id=owner_id, review_id=review_id, text=scenario.reply, now=at + _REPLY_DELAY
        )
    copy_rating_to_products(session, vendor_id=order.vendor_id)
    return True
