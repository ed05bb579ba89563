"""Schemas of uploaded images with their sizes."""

from marshmallow import fields

from blueprints.http.field_docs import doc
from blueprints.http.fields import Identified, Schema, StrictInteger
from marketplace.kernel import demo_ids


class ImageSize(Schema):
    """A size of an image in a media type."""

    url = fields.String(
        required=True,
        metadata=doc("URL of the file.", "https://media.example.com/products/5e884898da280471.webp"),
    )
    width = StrictInteger(minimum=1, required=True)
    height = StrictInteger(minimum=1, required=True)
    content_type = fields.String(required=True, metadata=doc("Media type of the file.", "image/webp"))


class ImageView(Identified):
    """An image: the size for a page, and all sizes, smallest first."""

    example_id = demo_ids.IMAGE

    url = fields.String(
        required=True,
        metadata=doc(
            "URL of the size for the product page.",
            "https://media.example.com/products/5e884898da280471.webp",
        ),
    )
    width = StrictInteger(minimum=1, required=True, allow_none=True)
    height = StrictInteger(minimum=1, required=True, allow_none=True)
    sizes = fields.List(fields.Nested(ImageSize), required=True, metadata=doc("All sizes, smallest first."))
