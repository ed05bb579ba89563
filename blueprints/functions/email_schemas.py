"""Schemas of the function that receives e-mails."""

from marshmallow import fields, validate

from blueprints.functions.schemas import ProviderSchema
from blueprints.http.field_docs import doc
from blueprints.http.fields import Choice, Schema, Uuid
from marketplace.kernel import demo_ids

_MAX_ADDRESS, _MAX_TEXT = 500, 200_000


class InboundMail(ProviderSchema):
    """An e-mail that a mail service received. Members that are not listed are ignored."""

    from_ = fields.String(
        data_key="from",
        required=True,
        validate=validate.Length(min=3, max=_MAX_ADDRESS),
        metadata=doc("Sender, with or without a name.", "Amara <amara@north.example.edu>"),
    )
    to = fields.String(
        required=True,
        validate=validate.Length(min=3, max=_MAX_ADDRESS),
        metadata=doc(
            "Recipient: the signed address of a ticket.",
            f"ticket-{demo_ids.TICKET.hex}-0a1b2c3d4e5f60718293a4b5@replies.example.com",
        ),
    )
    subject = fields.String(
        load_default="",
        validate=validate.Length(max=1_000),
        metadata=doc("Subject.", "Re: Support answered you"),
    )
    text = fields.String(
        required=True,
        validate=validate.Length(max=_MAX_TEXT),
        metadata=doc("Plain text. Quoted lines are removed.", "It arrived, thank you."),
    )
    message_id = fields.String(
        required=True,
        validate=validate.Length(min=3, max=998),
        metadata=doc("Message-ID. A repeated id changes nothing.", "<CAF1@mail.example.com>"),
    )
    in_reply_to = fields.String(
        validate=validate.Length(max=998),
        metadata=doc("Message-ID of the answered mail.", "<01a2@campus.example>"),
    )


class MailReceipt(Schema):
    """The outcome."""

    outcome = Choice(
        "accepted",
        "duplicate",
        "ignored",
        required=True,
        metadata=doc("`ignored`: unknown address, another sender, or no new text.", "accepted"),
    )
    ticket_id = Uuid(
        required=True,
        allow_none=True,
        metadata=doc("Ticket with the message; null if ignored.", demo_ids.TICKET),
    )
