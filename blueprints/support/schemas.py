"""Schemas of tickets and their messages."""

from functools import partial
from typing import Any

import marshmallow
from marshmallow import fields, validate, validates_schema

from blueprints.http.field_docs import PLACED_AT, doc
from blueprints.http.fields import (
    Choice,
    Created,
    CursorQuery,
    FullMatch,
    Identified,
    Revised,
    Schema,
    SingleLineText,
    StrictInteger,
    Text,
    Timestamp,
    Uuid,
)
from marketplace.kernel import demo_ids
from marketplace.support import answers, attachments, severity, states, texts, tickets

_EXAMPLE_SUBJECT = "My order has not arrived"
_EXAMPLE_URL = (
    "http://127.0.0.1:8333/marketplace-private/support/7c9e6679-7425-40de-944b-e07fc1f90ae8.jpg"
    "?X-Amz-Signature=0f5b"
)
_category = partial(
    Choice,
    *severity.CATEGORIES,
    required=True,
    metadata=doc("Topic of the ticket.", severity.DELIVERY),
)


class OpenTicket(Schema):
    """A new ticket."""

    subject = SingleLineText(
        min_length=3,
        max_length=tickets.MAX_SUBJECT_LENGTH,
        required=True,
        metadata=doc("A few words.", _EXAMPLE_SUBJECT),
    )
    message = Text(
        max_length=tickets.MAX_BODY_LENGTH,
        required=True,
        metadata=doc(
            "The question or problem.", "The vendor shipped it on Monday. The hub does not have it."
        ),
    )
    category = _category()
    order_id = Uuid(
        metadata=doc("Order that you bought or sold, if the ticket is about one.", demo_ids.ORDER)
    )


class Ticket(Revised):
    """Your ticket."""

    example_id = demo_ids.TICKET

    number = fields.String(required=True, metadata=doc("Number for people.", "S-100001"))
    subject = fields.String(required=True, metadata=doc("A few words.", _EXAMPLE_SUBJECT))
    category = _category()
    status = Choice(
        *sorted(states.TICKET.states),
        required=True,
        metadata=doc("`pending_user` waits for your answer, `open` and `pending_staff` for ours.", "open"),
    )
    order_id = Uuid(required=True, allow_none=True, metadata=doc("Order; null without one.", demo_ids.ORDER))
    message_count = StrictInteger(
        minimum=1, required=True, metadata=doc("Number of messages, internal notes included.", 1)
    )
    can_reply = fields.Boolean(required=True, metadata=doc("Whether you can still write.", True))
    merged_into_id = Uuid(
        required=True,
        allow_none=True,
        metadata=doc("Ticket that continues this one; null unless merged.", None),
    )
    resolved_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Time of the resolution; null before.", None)
    )
    closed_at = Timestamp(required=True, allow_none=True, metadata=doc("Time of closing; null before.", None))
    rating = StrictInteger(
        minimum=1, maximum=5, required=True, allow_none=True, metadata=doc("Your rating; null before.", None)
    )
    rating_comment = fields.String(
        required=True, allow_none=True, metadata=doc("Your comment; null without one.", None)
    )


class AttachmentView(Identified):
    """A file of a message."""

    example_id = demo_ids.TICKET_ATTACHMENT

    name = fields.String(required=True, metadata=doc("Name of the file.", "parcel.jpg"))
    content_type = fields.String(required=True, metadata=doc("Media type, checked by content.", "image/jpeg"))
    byte_count = StrictInteger(minimum=1, required=True, metadata=doc("Size in bytes.", 120_394))
    url = fields.String(
        required=True,
        metadata=doc(f"Link that is valid for {attachments.LINK_SECONDS // 60} minutes.", _EXAMPLE_URL),
    )


class TicketMessage(Created):
    """A message of a ticket."""

    example_id = demo_ids.TICKET_MESSAGE

    number = StrictInteger(minimum=1, required=True, metadata=doc("Number within the ticket.", 1))
    author = Choice(
        "user", "staff", "system", required=True, metadata=doc("Side that wrote the message.", "user")
    )
    author_name = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("Name of the author; null for messages of the service.", "Amara"),
    )
    is_internal = fields.Boolean(
        required=True, data_key="internal", metadata=doc("Whether only staff see the message.", False)
    )
    body = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("The text; null for a file alone.", "The hub does not have it."),
    )
    delivery_status = Choice(
        *answers.STATUSES,
        required=True,
        allow_none=True,
        metadata=doc("State of an answer to a contact by message; null for messages in the app.", None),
    )
    attachments = fields.List(
        fields.Nested(AttachmentView), required=True, metadata=doc("Files of the message.")
    )


class TicketMessagesQuery(CursorQuery):
    """The page of messages, from the oldest."""


class ReplyToTicket(Schema):
    """A message with text, a file or both."""

    example_omits = frozenset({"attachment_url", "attachment_name"})

    message = Text(
        max_length=tickets.MAX_BODY_LENGTH,
        metadata=doc("The text.", "It arrived this morning, thank you."),
    )
    attachment_url = fields.String(
        validate=validate.Length(max=2_000),
        metadata=doc("`attachmentUrl` of your upload.", _EXAMPLE_URL),
    )
    attachment_name = SingleLineText(
        max_length=120, metadata=doc("Name of the file for readers.", "parcel.jpg")
    )

    @validates_schema
    def check_content(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Check that the message has a content."""
        if data.get("message") is None and data.get("attachment_url") is None:
            raise marshmallow.ValidationError(texts.EMPTY_MESSAGE, "message")


class StartAttachment(Schema):
    """A file that you are about to upload."""

    content_type = Choice(
        *attachments.CONTENT_TYPES, required=True, metadata=doc("Media type of the file.", "image/jpeg")
    )
    byte_count = StrictInteger(
        minimum=1,
        maximum=attachments.MAX_BYTES,
        required=True,
        metadata=doc("Size in bytes.", 120_394),
    )
    sha256 = fields.String(
        required=True,
        validate=FullMatch("[0-9a-f]{64}", error="Must be 64 lowercase hexadecimal digits."),
        metadata=doc(
            "SHA-256 of the file.", "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9"
        ),
    )


class AttachmentUpload(Schema):
    """The links of an upload."""

    upload_url = fields.String(
        required=True,
        metadata=doc("Send the file here by PUT, with the header `Content-Type` as announced.", _EXAMPLE_URL),
    )
    attachment_url = fields.String(
        required=True,
        attribute="document_url",
        metadata=doc("Name the file by this URL in your message.", _EXAMPLE_URL),
    )
    expires_at = Timestamp(required=True, metadata=doc("End of the links.", PLACED_AT))


class RateTicket(Schema):
    """A rating of the answer."""

    rating = StrictInteger(minimum=1, maximum=5, required=True, metadata=doc("1 (bad) to 5 (good).", 5))
    comment = Text(max_length=1_000, metadata=doc("Reason of the rating.", "Quick and friendly."))
