"""Schemas of favourites."""

from marshmallow import fields

from blueprints.http.field_docs import doc
from blueprints.http.fields import Schema, Uuid


class ToggleFavorite(Schema):
    """The product to add to your favourites, or to remove."""

    product_id = Uuid(required=True)


class FavoriteState(Schema):
    """Whether a product is a favourite of yours after the toggle."""

    product_id = Uuid(required=True)
    is_favorite = fields.Boolean(
        required=True, metadata=doc("Whether the product is a favourite of yours now.", True)
    )
