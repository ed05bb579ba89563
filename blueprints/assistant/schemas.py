"""Schemas of the assistant."""

from typing import Any

from marshmallow import ValidationError, fields, validates_schema
from marshmallow.validate import Length

from blueprints.http.field_docs import doc
from blueprints.http.fields import (
    Choice,
    Created,
    CursorQuery,
    Schema,
    StrictBoolean,
    StrictInteger,
    Text,
    Timestamp,
    Uuid,
)
from marketplace.assistant import pictures, threads, titles
from marketplace.kernel import demo_ids

_QUESTION = "I need a reading lamp for my room."
MAX_MESSAGES = 50


class TitledMessage(Schema):
    """A message of the conversation."""

    role = Choice("user", "assistant", required=True, metadata=doc("Author of the message.", "user"))
    content = Text(
        min_length=1,
        max_length=threads.MAX_MESSAGE_LENGTH,
        required=True,
        metadata=doc("The text.", _QUESTION),
    )


class WriteTitle(Schema):
    """A conversation without a title: a thread, or messages."""

    example_omits = frozenset({"thread_id"})

    thread_id = Uuid(metadata=doc("Your thread, which keeps the title.", demo_ids.ASSISTANT_THREAD))
    messages = fields.List(
        fields.Nested(TitledMessage),
        validate=Length(min=1, max=titles.MAX_MESSAGES),
        metadata=doc("The first messages.", [{"role": "user", "content": _QUESTION}]),
    )

    @validates_schema
    def check_source(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Require either a thread or messages."""
        if ("thread_id" in data) == ("messages" in data):
            raise ValidationError("Send either `threadId` or `messages`.", "messages")


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


class SentMessage(TitledMessage):
    """A message of a request, with pictures if the model reads pictures."""

    example_omits = frozenset({"images"})

    images = fields.List(
        fields.String(validate=Length(min=1)),
        load_default=list,
        validate=Length(max=pictures.MAX_PICTURES),
        metadata=doc("Pictures as data URLs in base64. They are not stored.", []),
    )


class ViewedResources(Schema):
    """Resources that the person looks at in the app."""

    example_omits = frozenset({"order_id", "vendor_id"})

    product_id = Uuid(metadata=doc("Product on the screen.", demo_ids.PRODUCT))
    order_id = Uuid(metadata=doc("Order on the screen.", demo_ids.ORDER))
    vendor_id = Uuid(metadata=doc("Store on the screen.", demo_ids.STORE))


class AskAssistant(Schema):
    """A question to the assistant. With a thread, earlier messages need not be sent again."""

    example_omits = frozenset({"thread_id", "context"})

    thread_id = Uuid(
        load_default=None,
        metadata=doc("Your thread to continue; without it a new thread.", demo_ids.ASSISTANT_THREAD),
    )
    messages = fields.List(
        fields.Nested(SentMessage),
        required=True,
        validate=Length(min=1, max=MAX_MESSAGES),
        metadata=doc("The conversation, or the new messages of a thread. The last is by the user."),
    )
    context = fields.Nested(
        ViewedResources, load_default=dict, metadata=doc("What the person looks at in the app.")
    )

    @validates_schema
    def check_messages(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Require a question at the end, and limit the pictures of all messages."""
        messages = data["messages"]
        if messages[-1]["role"] != "user":
            raise ValidationError(
                "The last message must be by the user.", f"messages[{len(messages) - 1}].role"
            )
        if sum(len(message["images"]) for message in messages) > pictures.MAX_PICTURES:
            raise ValidationError(f"Send at most {pictures.MAX_PICTURES} pictures at once.", "messages")


class ThreadQuery(CursorQuery):
    """The parameters of lists of threads and messages."""


class ThreadView(Created):
    """Your thread."""

    example_id = demo_ids.ASSISTANT_THREAD

    thread_title = fields.String(
        data_key="title",
        required=True,
        allow_none=True,
        metadata=doc("3 to 5 words; null until `/session-title` wrote one.", "Reading lamp for room"),
    )
    message_count = StrictInteger(minimum=0, required=True, metadata=doc("Number of messages.", 2))
    last_message_at = Timestamp(
        required=True, metadata=doc("Time of the last message.", "2035-03-05T10:00:00Z")
    )
    flagged_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Time of your flag; null without one.", None)
    )


class ThreadMessageView(Schema):
    """A message of a thread. Contact details and PINs are not stored."""

    number = StrictInteger(minimum=1, required=True, metadata=doc("Position in the thread, from 1.", 1))
    role = Choice("user", "assistant", required=True, metadata=doc("Author of the message.", "user"))
    body = fields.String(required=True, metadata=doc("The text.", _QUESTION))
    picture_count = StrictInteger(
        minimum=0, required=True, metadata=doc("Pictures that were sent with the message.", 0)
    )
    is_complete = fields.Boolean(
        required=True, metadata=doc("False for an answer that was interrupted.", True)
    )
    created_at = Timestamp(required=True)


class FlagThread(Schema):
    """A flag, which lets support read the thread."""

    reason = Choice(*threads.FLAG_REASONS, required=True, metadata=doc("Reason of the flag.", "wrong"))
    details = Text(max_length=1_000, metadata=doc("What was wrong.", "The price was not right."))


class DeletedThread(Schema):
    """The deleted thread."""

    id = Uuid(required=True, metadata=doc("Id of the thread.", demo_ids.ASSISTANT_THREAD))


def _opted_out() -> StrictBoolean:
    return StrictBoolean(
        required=True, metadata=doc("True: none of your data goes to the language model.", False)
    )


class AssistantPreferences(Schema):
    """Your choice about the assistant."""

    opted_out = _opted_out()


class SetAssistantPreferences(Schema):
    """A new choice about the assistant."""

    opted_out = _opted_out()
