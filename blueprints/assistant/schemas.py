"""Schemas of the assistant."""

from marshmallow import fields
from marshmallow.validate import Length

from blueprints.http.field_docs import doc
from blueprints.http.fields import Choice, Schema, Text, Uuid
from marketplace.assistant import titles
from marketplace.kernel import demo_ids


class TitledMessage(Schema):
    """A message of the conversation."""

    role = Choice("user", "assistant", required=True, metadata=doc("Author of the message.", "user"))
    content = Text(
        min_length=1,
        max_length=titles.MAX_MESSAGE_LENGTH,
        required=True,
        metadata=doc("The text.", "I need a reading lamp for my room."),
    )


class WriteTitle(Schema):
    """A conversation without a title."""

    messages = fields.List(
        fields.Nested(TitledMessage),
        required=True,
        validate=Length(min=1, max=titles.MAX_MESSAGES),
        metadata=doc(
            "The first messages.", [{"role": "user", "content": "I need a reading lamp for my room."}]
        ),
    )


class SessionTitle(Schema):
    """A title."""

    title = fields.String(required=True, metadata=doc("3 to 5 words.", "Reading lamp for room"))


class SuggestReply(Schema):
    """A ticket to reply to."""

    ticket_id = Uuid(required=True, metadata=doc("Ticket.", demo_ids.TICKET))


class ReplySource(Schema):
    """A source of a suggested reply."""

    kind = Choice("ticket", "order", "policy", required=True, metadata=doc("Kind of the source.", "policy"))
    id = fields.String(required=True, metadata=doc("Id of the source.", "refunds"))
    title = fields.String(required=True, metadata=doc("Number or title.", "Cancellations and refunds"))


class SuggestedReply(Schema):
    """A suggested reply, which staff edit and send."""

    reply = fields.String(
        required=True, metadata=doc("The text, without contact details.", "Thank you for your message.")
    )
    sources = fields.List(
        fields.Nested(ReplySource), required=True, metadata=doc("What the reply is based on.")
    )
