"""Schemas of reviews, replies and rating summaries."""

from typing import Any

import marshmallow
from marshmallow import fields, validates_schema

from blueprints.http.envelope import CursorMetaSchema
from blueprints.http.field_docs import DELIVERED_AT, doc
from blueprints.http.fields import (
    Choice,
    Created,
    CursorQuery,
    ExpectedRevision,
    IntegerParameter,
    Schema,
    StrictInteger,
    Text,
    Timestamp,
    UniqueList,
    Uuid,
)
from blueprints.http.image_views import ImageView
from marketplace.kernel import demo_ids
from marketplace.reviews import pictures, queries, reply, states, submit

_STATUSES = (states.VISIBLE, states.HIDDEN)
_REVIEW_TEXT = "The book came the same day, as good as new."
_REPLY_TEXT = "Thank you, Amara. See you next semester."
_text_lengths = {"min_length": submit.TEXT_LENGTHS[0], "max_length": submit.TEXT_LENGTHS[-1]}
_reply_lengths = {"min_length": reply.TEXT_LENGTHS[0], "max_length": reply.TEXT_LENGTHS[-1]}


class _PictureIds(UniqueList):
    """The ids of a review's pictures in order."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(Uuid(), max_length=pictures.MAX_PICTURES, **kwargs)


class SubmitReview(Schema):
    """A review of a store for a delivered order."""

    order_id = Uuid(required=True, metadata=doc("A delivered order of yours at this store.", demo_ids.ORDER))
    rating = StrictInteger(minimum=1, maximum=5, required=True, metadata=doc("Stars, from 1 to 5.", 5))
    text = Text(
        **_text_lengths,
        required=True,
        metadata=doc("The review, without contact details and offensive language.", _REVIEW_TEXT),
    )
    image_ids = _PictureIds(metadata=doc("Uploaded images for reviews, at most 4.", []))


class UpdateReview(ExpectedRevision):
    """A change of a review. Omitted fields stay unchanged."""

    rating = StrictInteger(minimum=1, maximum=5, metadata=doc("Stars, from 1 to 5.", 4))
    text = Text(
        **_text_lengths,
        metadata=doc("The review, without contact details and offensive language.", _REVIEW_TEXT),
    )
    image_ids = _PictureIds(metadata=doc("All pictures after the change; an empty list removes them.", []))

    @validates_schema
    def check_changes(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Refuse a change without fields."""
        if not data.keys() - {"revision"}:
            raise marshmallow.ValidationError("Send at least one field to change.")


class WriteReply(Schema):
    """A reply of the store to a review."""

    text = Text(
        **_reply_lengths,
        required=True,
        metadata=doc("The reply, without contact details and offensive language.", _REPLY_TEXT),
    )


class ReviewQuery(CursorQuery):
    """The sort order and the filter of a store's reviews."""

    sort = Choice(
        *queries.SORTS,
        load_default="newest",
        metadata=doc("Sort order; newer reviews come first among equals.", "newest"),
    )
    rating = IntegerParameter(
        minimum=1, maximum=5, load_default=None, metadata=doc("Only reviews with this number of stars.", 5)
    )


class ReviewAuthor(Schema):
    """The author of a review."""

    name = fields.String(required=True, metadata=doc("First name and initial.", "Amara O."))


class ReviewReply(Schema):
    """The store's reply to a review."""

    text = fields.String(required=True, metadata=doc("Text of the reply.", _REPLY_TEXT))
    created_at = Timestamp(required=True)
    edited_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Time of the last change; null without.", None)
    )


class ReviewView(Created):
    """A review of a store."""

    example_id = demo_ids.REVIEW

    vendor_id = Uuid(required=True, metadata=doc("Id of the store.", demo_ids.STORE))
    rating = StrictInteger(minimum=1, maximum=5, required=True, metadata=doc("Stars, from 1 to 5.", 5))
    text = fields.String(required=True, metadata=doc("Text of the review.", _REVIEW_TEXT))
    author = fields.Nested(ReviewAuthor, required=True, metadata=doc("Author of the review."))
    images = fields.List(fields.Nested(ImageView), required=True, metadata=doc("Pictures, at most 4.", []))
    refunded = fields.Boolean(
        required=True,
        metadata=doc("Whether the order was refunded in full, so that the stars do not count.", False),
    )
    edited_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Time of the last change; null without.", None)
    )
    reply = fields.Nested(
        ReviewReply,
        required=True,
        allow_none=True,
        metadata=doc("Reply of the store; null without a reply."),
    )


class OwnReviewView(ReviewView):
    """A review with the fields for its author."""

    order_id = Uuid(required=True, metadata=doc("Id of the reviewed order.", demo_ids.ORDER))
    status = Choice(
        *_STATUSES,
        required=True,
        metadata=doc("`hidden` if reports or staff hid the review from others.", "visible"),
    )
    editable_until = Timestamp(
        required=True,
        allow_none=True,
        metadata=doc("End of the time for changes; null for a hidden review.", DELIVERED_AT),
    )
    updated_at = Timestamp(required=True)
    revision = StrictInteger(minimum=1, required=True)


class RatingSummary(Schema):
    """The rating of a store: average, number and distribution of the counted reviews."""

    rating = fields.Float(required=True, allow_none=True)
    rating_count = StrictInteger(minimum=0, required=True)
    distribution = fields.Dict(
        keys=fields.String(),
        values=StrictInteger(minimum=0),
        required=True,
        metadata=doc(
            "The number of reviews by stars, from `1` to `5`.", {"1": 0, "2": 1, "3": 1, "4": 2, "5": 14}
        ),
    )


class ReviewMetaSchema(CursorMetaSchema):
    """The ``meta`` of a store's reviews."""

    summary = fields.Nested(
        RatingSummary, required=True, metadata=doc("Rating of the store, from all counted reviews.")
    )
