"""Targets of reports: find a visible target and its owner, hide, restore and remove the target."""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import exists, or_, select
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act
from marketplace.catalog.models import Product
from marketplace.catalog.moderation import automated_review, staff_actions
from marketplace.chat import moderation as chat_moderation
from marketplace.chat.models import Conversation
from marketplace.identity.models import Profile
from marketplace.identity.permissions import MANAGE_PRODUCTS, MANAGE_USERS
from marketplace.kernel.states import IllegalTransitionError
from marketplace.orders.models import Order
from marketplace.reports import texts
from marketplace.reviews import moderation as review_moderation, states as review_states
from marketplace.reviews.models import Review
from marketplace.vendors.models import VendorProfile

PRODUCT, REVIEW, USER, MESSAGE = "product", "review", "user", "message"
TARGET_TYPES = (PRODUCT, REVIEW, USER, MESSAGE)


@dataclass(frozen=True)
class TargetType:
    """The functions of a kind of target.

    :ivar permission: the permission that decides about reports
    :ivar find_owner: returns the owner of a target that is visible to a reporter, else none
    :ivar hide: hides a visible target until staff decide; none for a kind that is never hidden automatically
    :ivar restore: shows a target that ``hide`` hid
    :ivar remove: removes a target for good, or keeps the target hidden
    """

    permission: str
    find_owner: Callable[[Session, UUID, UUID], UUID | None]
    hide: Callable[[Session, UUID, Act], bool] | None = None
    restore: Callable[[Session, UUID, Act], None] | None = None
    remove: Callable[[Session, UUID, str, Act], None] | None = None


def _find_product_owner(session: Session, product_id: UUID, _reporter_id: UUID) -> UUID | None:
    return session.scalar(
        select(VendorProfile.user_id)
        .join(Product, Product.vendor_id == VendorProfile.id)
        .where(Product.id == product_id, Product.status == "published", VendorProfile.status == "active")
    )


def _hide_product(session: Session, product_id: UUID, act: Act) -> bool:
    return automated_review.hold_reported_listing(session, product_id=product_id, now=act.now)


def _restore_product(session: Session, product_id: UUID, act: Act) -> None:
    """Publish a held listing. Moderation may have decided, or the vendor may have changed the listing meanwhile."""
    product = session.get(Product, product_id, populate_existing=True)
    if product is not None and product.status == "in_review" and product.held:
        staff_actions.approve_product(session, act=act, product_id=product_id, revision=None, note=None)


def _remove_product(session: Session, product_id: UUID, reason: str, act: Act) -> None:
    """Reject a listing in review, and take down a published or paused listing. Other listings stay as they are."""
    product = session.get(Product, product_id, populate_existing=True)
    if product is None or product.status == "deleted":
        return
    trigger = staff_actions.REJECT if product.status == "in_review" else staff_actions.TAKE_DOWN
    try:
        staff_actions.refuse_product(
            session,
            act=act,
            trigger=trigger,
            product_id=product_id,
            revision=None,
            reason=texts.LISTING_REASON.format(reason=reason),
        )
    except IllegalTransitionError:
        # Drafts and removed listings are hidden already.
        return


def _find_review_owner(session: Session, review_id: UUID, _reporter_id: UUID) -> UUID | None:
    target = review_moderation.find_review_target(session, review_id=review_id)
    return target.author_id if target is not None and target.is_visible else None


def _hide_review(session: Session, review_id: UUID, act: Act) -> bool:
    return review_moderation.hide_review(session, review_id=review_id, act=act)


def _restore_review(session: Session, review_id: UUID, act: Act) -> None:
    review_moderation.restore_review(session, review_id=review_id, act=act)


def _remove_review(session: Session, review_id: UUID, _reason: str, act: Act) -> None:
    review_moderation.hide_review(session, review_id=review_id, act=act)


def _find_person(session: Session, user_id: UUID, reporter_id: UUID) -> UUID | None:
    """Find a person that the reporter can know.

    Reporters know owners of public stores, authors of reviews, and the other party of a conversation or paid order.
    """
    store_id = select(VendorProfile.id).where(VendorProfile.user_id == reporter_id).scalar_subquery()
    return session.scalar(
        select(Profile.id).where(
            Profile.id == user_id,
            or_(
                exists().where(VendorProfile.user_id == user_id, VendorProfile.status == "active"),
                exists().where(Review.author_id == user_id, Review.status == review_states.VISIBLE),
                exists().where(Conversation.buyer_id == reporter_id, Conversation.seller_id == user_id),
                exists().where(Conversation.seller_id == reporter_id, Conversation.buyer_id == user_id),
                exists().where(
                    Order.buyer_id == user_id, Order.vendor_id == store_id, Order.paid_at.is_not(None)
                ),
            ),
        )
    )


def _find_message_sender(session: Session, message_id: UUID, reporter_id: UUID) -> UUID | None:
    return chat_moderation.find_sender(session, message_id=message_id, reader_id=reporter_id)


def _remove_message(session: Session, message_id: UUID, _reason: str, act: Act) -> None:
    chat_moderation.remove_message(session, message_id=message_id, act=act)


TARGETS = {
    PRODUCT: TargetType(
        MANAGE_PRODUCTS, _find_product_owner, _hide_product, _restore_product, _remove_product
    ),
    REVIEW: TargetType(MANAGE_PRODUCTS, _find_review_owner, _hide_review, _restore_review, _remove_review),
    USER: TargetType(MANAGE_USERS, _find_person),
    # Only the two parties see a message, so staff decide before the message is removed.
    MESSAGE: TargetType(MANAGE_USERS, _find_message_sender, remove=_remove_message),
}
