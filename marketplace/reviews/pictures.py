"""Pictures of reviews: uploaded by the author for reviews, and used in one review."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from marketplace.kernel.errors import InvalidParam, ValidationError
from marketplace.media.images import REVIEW, claim_images, release_images
from marketplace.reviews import texts
from marketplace.reviews.models import ReviewImage

MAX_PICTURES = 4


def list_picture_ids(session: Session, *, review_id: UUID) -> list[UUID]:
    """List the ids of a review's pictures in order."""
    return list(
        session.scalars(
            select(ReviewImage.image_id)
            .where(ReviewImage.review_id == review_id)
            .order_by(ReviewImage.position)
        )
    )


def replace_pictures(
    session: Session, *, review_id: UUID, author_id: UUID, image_ids: Sequence[UUID], now: datetime
) -> None:
    """Replace the pictures of a locked or new review. Removed pictures are left to the cleanup.

    :param image_ids: at most ``MAX_PICTURES`` without duplicates
    :raises ValidationError: an image is unknown, belongs to another person, purpose or review
    """
    earlier = list_picture_ids(session, review_id=review_id)
    if list(image_ids) == earlier:
        return
    claim_images(session, image_ids=image_ids, owner_id=author_id, purpose=REVIEW, parameter="imageIds")
    # The images are locked, so no other review takes them in the meantime.
    taken = set(
        session.scalars(
            select(ReviewImage.image_id).where(
                ReviewImage.image_id.in_(image_ids), ReviewImage.review_id != review_id
            )
        )
    )
    faults = [
        InvalidParam(f"imageIds[{index}]", texts.IMAGE_IN_OTHER_REVIEW)
        for index, image_id in enumerate(image_ids)
        if image_id in taken
    ]
    if faults:
        raise ValidationError(texts.IMAGES_IN_OTHER_REVIEW, invalid_params=faults)
    session.execute(delete(ReviewImage).where(ReviewImage.review_id == review_id))
    session.add_all(
        ReviewImage(review_id=review_id, position=position, image_id=image_id)
        for position, image_id in enumerate(image_ids)
    )
    session.flush()
    removed = [image_id for image_id in earlier if image_id not in set(image_ids)]
    if removed:
        release_images(session, image_ids=removed, now=now)
