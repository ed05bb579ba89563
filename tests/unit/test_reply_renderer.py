"""Rendering of replies with the API's field names."""

from dataclasses import dataclass

import pytest
from marshmallow import fields

from blueprints.http.fields import Schema
from blueprints.http.reply_renderer import compile_renderer


class StoreReply(Schema):
    """A store."""

    display_name = fields.String(required=True)


class OrderReply(Schema):
    """An order with all kinds of nested fields."""

    id = fields.Integer(required=True)
    total_amount = fields.Integer(required=True, data_key="total_amount")
    sold_by = fields.Nested(StoreReply, required=True, allow_none=True)
    other_stores = fields.List(fields.Nested(StoreReply), required=True)
    stores_by_code = fields.Dict(keys=fields.String(), values=fields.Nested(StoreReply), required=True)
    shipping_address = fields.Dict(required=True)
    tracking_note = fields.String()


class CategoryReply(Schema):
    """A category with its children."""

    category_id = fields.Integer(required=True)
    child_nodes = fields.List(fields.Nested("CategoryReply"), required=True)


@dataclass(frozen=True)
class Store:
    """A store row, with a column that clients do not see."""

    display_name: str
    phone: str = "+2348031234567"


@dataclass(frozen=True)
class Sale:
    """A row that contains a row."""

    store: Store


class SaleReply(Schema):
    """A sale with a field of its store."""

    seller = fields.String(required=True, attribute="store.display_name")


def test_field_is_read_from_a_nested_attribute() -> None:
    assert compile_renderer(SaleReply())(Sale(Store("Ada's"))) == {"seller": "Ada's"}


def test_partial_replies_may_lack_required_fields() -> None:
    assert compile_renderer(OrderReply(), partial=True)({"sold_by": Store("Ada's")}) == {
        "soldBy": {"displayName": "Ada's"}
    }


def test_fields_of_dicts_and_dataclasses_get_public_names_at_every_level() -> None:
    order = {
        "id": 1,
        "total_amount": 500,
        "sold_by": Store("Ada's"),
        "other_stores": [{"display_name": "Bola's"}, Store("Chi's")],
        "stores_by_code": {"a_b": Store("Ada's")},
        "shipping_address": {"hostel_name": "Moremi"},
        "tracking_note": "at the gate",
    }
    assert compile_renderer(OrderReply())(order) == {
        "id": 1,
        "total_amount": 500,
        "soldBy": {"displayName": "Ada's"},
        "otherStores": [{"displayName": "Bola's"}, {"displayName": "Chi's"}],
        "storesByCode": {"a_b": {"displayName": "Ada's"}},
        "shippingAddress": {"hostel_name": "Moremi"},
        "trackingNote": "at the gate",
    }


def test_null_and_missing_optional_fields_are_kept() -> None:
    order = {
        "id": 1, "total_amount": 5, "sold_by": None, "other_stores": [], "stores_by_code": {}, "shipping_address": {}
    }  # fmt: skip
    rendered = compile_renderer(OrderReply())(order)
    assert rendered["soldBy"] is None
    assert "trackingNote" not in rendered


def test_fields_missing_from_the_schema_are_left_out() -> None:
    assert compile_renderer(StoreReply())(Store("Ada's")) == {"displayName": "Ada's"}


def test_missing_required_field_is_an_error() -> None:
    with pytest.raises(KeyError, match="display_name"):
        compile_renderer(StoreReply())({"phone": "+2348031234567"})


def test_lists_and_recursive_schemas_are_rendered() -> None:
    tree = [{"category_id": 1, "child_nodes": [{"category_id": 2, "child_nodes": []}]}]
    assert compile_renderer(CategoryReply(many=True))(tree) == [
        {"categoryId": 1, "childNodes": [{"categoryId": 2, "childNodes": []}]}
    ]
