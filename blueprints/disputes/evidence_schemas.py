"""Schemas of evidence and facts."""

from marshmallow import fields

from blueprints.http.field_docs import PLACED_AT, doc
from blueprints.http.fields import (
    Choice,
    Created,
    Schema,
    StrictBoolean,
    StrictInteger,
    Text,
    Timestamp,
    Uuid,
)
from marketplace.disputes.evidence import files
from marketplace.kernel import demo_ids

_HASH = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
_LINK = "https://storage.example/evidence/1.jpg?X-Amz-Signature=1"


class EvidenceForm(Schema):
    """Fields beside the file."""

    kind = Choice(*files.KINDS, required=True, metadata=doc("What the file shows.", "photo"))
    note = Text(
        max_length=files.MAX_NOTE_LENGTH, metadata=doc("Words about the file.", "The lamp as it arrived.")
    )


class EditEvidence(EvidenceForm):
    """The new kind and note of evidence."""


class SetVisibility(Schema):
    """The visibility of evidence."""

    is_private = StrictBoolean(required=True, metadata=doc("True hides the file from the other side.", True))


class EvidenceView(Created):
    """A file of a side."""

    example_id = demo_ids.DISPUTE_EVIDENCE

    sent_by = Choice("buyer", "vendor", required=True, metadata=doc("Side that sent the file.", "buyer"))
    kind = Choice(*files.KINDS, required=True, metadata=doc("What the file shows.", "photo"))
    note = fields.String(
        required=True, allow_none=True, metadata=doc("Words of the side; null without any.", None)
    )
    content_type = Choice(
        *files.CONTENT_TYPES, required=True, metadata=doc("Media type by the content.", "image/jpeg")
    )
    byte_count = StrictInteger(minimum=1, required=True, metadata=doc("Size in bytes.", 48_200))
    sha256 = fields.String(required=True, metadata=doc("Hash of the stored file, in hex.", _HASH))
    duration_ms = StrictInteger(
        minimum=1,
        required=True,
        allow_none=True,
        metadata=doc("Duration of a video in milliseconds; otherwise null.", None),
    )
    is_private = fields.Boolean(
        required=True, metadata=doc("Whether only the sender and staff see the file.", False)
    )


class EvidenceLinksView(Schema):
    """Links to a file."""

    url = fields.String(required=True, metadata=doc("Downloads the file.", _LINK))
    poster_url = fields.String(
        required=True, allow_none=True, metadata=doc("First frame of a video as JPEG; otherwise null.", None)
    )
    expires_at = Timestamp(required=True, metadata=doc("End of the links.", PLACED_AT))


class TrailEventView(Schema):
    """An event of the order."""

    trigger = fields.String(required=True, metadata=doc("Action. More actions can follow.", "ship"))
    actor = fields.String(required=True, metadata=doc("Role of the acting person, or `system`.", "vendor"))
    note = fields.String(required=True, allow_none=True, metadata=doc("Note; null without a note.", None))
    at = Timestamp(required=True, metadata=doc("Time of the event.", PLACED_AT))


class PinDeliveryView(Schema):
    """A message with the delivery PIN to the buyer."""

    channel = fields.String(required=True, metadata=doc("Channel. More channels can follow.", "sms"))
    status = fields.String(required=True, metadata=doc("Last status of the message.", "delivered"))
    created_at = Timestamp(required=True, metadata=doc("Time of the message.", PLACED_AT))
    status_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Time of the status; null if unknown.", None)
    )


class ChatExtractView(Schema):
    """A chat message of the parties."""

    sender = Choice("buyer", "vendor", required=True, metadata=doc("Side that wrote.", "buyer"))
    body = fields.String(required=True, metadata=doc("The text.", "Where is the lamp?"))
    created_at = Timestamp(required=True, metadata=doc("Time of the message.", PLACED_AT))


class BoughtListingView(Schema):
    """A listing as it was bought."""

    product_id = Uuid(required=True, metadata=doc("Product of the order.", demo_ids.PRODUCT))
    title = fields.String(required=True, metadata=doc("Title then.", "Desk lamp"))
    unit_price_minor = StrictInteger(minimum=1, required=True, metadata=doc("Price then, in kobo.", 250_000))
    quantity = StrictInteger(minimum=1, required=True, metadata=doc("Bought units.", 1))
    revision = StrictInteger(
        minimum=1, required=True, allow_none=True, metadata=doc("Revision then; null if unknown.", 3)
    )
    current_revision = StrictInteger(
        minimum=1, required=True, metadata=doc("Revision now. The vendor changed the listing if later.", 4)
    )
    image_urls = fields.List(
        fields.String(),
        required=True,
        metadata=doc("Images then.", ["https://media.example/products/1.webp"]),
    )


class FactsView(Schema):
    """Facts of the service about the order."""

    trail = fields.List(
        fields.Nested(TrailEventView), required=True, metadata=doc("Events of the order from the first.")
    )
    wrong_pins = StrictInteger(
        minimum=0, required=True, metadata=doc("Wrong PINs that the vendor submitted.", 0)
    )
    pin_deliveries = fields.List(
        fields.Nested(PinDeliveryView),
        required=True,
        metadata=doc("Messages with the delivery PIN from the first."),
    )
    messages = fields.List(
        fields.Nested(ChatExtractView),
        required=True,
        metadata=doc("At most the last 200 messages about the order, or between its placing and the ruling."),
    )
    listings = fields.List(
        fields.Nested(BoughtListingView), required=True, metadata=doc("Listings as they were bought.")
    )


class PackView(Schema):
    """A pack of evidence."""

    url = fields.String(
        required=True,
        metadata=doc("Downloads the ZIP.", "https://storage.example/packs/1.zip?X-Amz-Signature=1"),
    )
    byte_count = StrictInteger(minimum=1, required=True, metadata=doc("Size in bytes.", 5_100_200))
    sha256 = fields.String(required=True, metadata=doc("Hash of the ZIP, in hex.", _HASH))
    expires_at = Timestamp(required=True, metadata=doc("End of the link.", PLACED_AT))
