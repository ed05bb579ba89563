"""Replies of stores to reviews."""

from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.kernel.errors import ConflictError, NotFoundError
from marketplace.reviews import notifications, states, texts
from marketplace.reviews.models import Review
from marketplace.reviews.submit import lock_review
from marketplace.reviews.text_guard import ensure_suitable
from marketplace.vendors.queries import is_store_owner

EDITABLE_FOR = timedelta(days=7)
TEXT_LENGTHS = range(2, 1001)


class AlreadyRepliedError(ConflictError):
    """The store has already replied to the review."""

    reason = "review-already-replied"


class NoReplyError(ConflictError):
    """The store has not replied to the review."""

    reason = "review-without-reply"


class ReplyEditsClosedError(ConflictError):
    """The time for changes of the reply has passed."""

    reason = "reply-edits-closed"


def reply_to_review(session: Session, *, user_id: UUID, review_id: UUID, text: str, now: datetime) -> None:
    """Reply to a review of the user's store, once, and notify the author.

    :raises ValidationError: the text contains contact details or offensive language
    :raises NotFoundError: the user's store has no such visible review
    :raises AlreadyRepliedError: the store has already replied
    """
    ensure_suitable(text, name="text")
    review = _lock_review_of_store(session, user_id=user_id, review_id=review_id)
    if review.reply_text is not None:
        raise AlreadyRepliedError(texts.REVIEW_ALREADY_REPLIED)
    review.reply_text, review.replied_at = text, now
    review.revision += 1
    review.updated_at = now
    session.flush()
    notifications.notify_author_of_reply(session, review=review, now=now)


def update_reply(session: Session, *, user_id: UUID, review_id: UUID, text: str, now: datetime) -> None:
    """Change the reply of the user's store within seven days.

    :raises ValidationError: the text contains contact details or offensive language
    :raises NotFoundError: the user's store has no such visible review
    :raises NoReplyError: the store has not replied
    :raises ReplyEditsClosedError: seven days have passed
    """
    ensure_suitable(text, name="text")
    review = _lock_review_of_store(session, user_id=user_id, review_id=review_id)
    if review.replied_at is None:
        raise NoReplyError(texts.REVIEW_WITHOUT_REPLY)
    if now >= review.replied_at + EDITABLE_FOR:
        raise ReplyEditsClosedError(texts.REPLY_EDITS_CLOSED.format(days=EDITABLE_FOR.days))
    if review.reply_text != text:
        review.reply_text, review.reply_edited_at = text, now
        review.revision += 1
        review.updated_at = now


def _lock_review_of_store(session: Session, *, user_id: UUID, review_id: UUID) -> Review:
    review = lock_review(session, review_id=review_id)
    if (
        review is None
        or review.status != states.VISIBLE
        or not is_store_owner(session, vendor_id=review.vendor_id, user_id=user_id)
    ):
        raise NotFoundError("Review not found.")
    return review
