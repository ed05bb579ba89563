"""Schemas of accounts and addresses."""

from marshmallow import fields

from blueprints.http.field_docs import doc
from blueprints.http.fields import (
    AddressFields,
    HttpUrl,
    NamedResource,
    Phone,
    Schema,
    SingleLineText,
    StrictBoolean,
    Updated,
    Uuid,
)
from marketplace.kernel import demo_ids


class UpdateMe(Schema):
    """Changes to the profile. Omitted fields stay unchanged."""

    name = SingleLineText(max_length=100, metadata=doc("Full name.", "Amara Okafor"))
    phone = Phone(allow_none=True)
    campus_id = Uuid(allow_none=True, metadata=doc("Id of the campus; null for no campus.", demo_ids.CAMPUS))
    avatar_url = HttpUrl(
        schemes={"https"},
        allow_none=True,
        metadata=doc(
            "https URL of a picture; null removes the picture.",
            "https://media.example.com/avatars/amara.webp",
        ),
    )


class MyCampus(NamedResource):
    """The campus of the user."""


class Me(Updated):
    """The profile of the user."""

    example_id = demo_ids.BUYER

    email = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("E-mail address of the account; null without one.", "buyer@north.example.edu"),
    )
    name = fields.String(
        required=True, allow_none=True, metadata=doc("Full name; null without one.", "Amara Okafor")
    )
    phone = fields.String(required=True, allow_none=True)
    avatar_url = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("URL of the picture; null without one.", "https://media.example.com/avatars/amara.webp"),
    )
    role = fields.String(required=True, metadata=doc("`buyer`, `vendor` or `staff`.", "buyer"))
    staff_role = fields.String(
        required=True, allow_none=True, metadata=doc("Role among the staff; null for other users.", None)
    )
    permissions = fields.List(
        fields.String(),
        required=True,
        metadata=doc("Permissions of staff; empty for other users.", ["canManageOrders"]),
    )
    badges = fields.List(
        fields.String(),
        required=True,
        metadata=doc("Badges that the platform awarded.", ["verified_student"]),
    )
    account_status = fields.String(
        required=True, metadata=doc("`active`, `restricted` or `suspended`.", "active")
    )
    status_reason = fields.String(required=True, allow_none=True)
    appeal_status = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("Status of an appeal against a restriction; null without an appeal.", None),
    )
    referral_code = fields.String(
        required=True, metadata=doc("Code with which others can name the user as referrer.", "7C9E667974")
    )
    campus_id = Uuid(required=True, allow_none=True)
    campus = fields.Nested(
        MyCampus, required=True, allow_none=True, metadata=doc("Campus of the user; null without a campus.")
    )


class UpdateAddress(AddressFields):
    """Changes to an address. Omitted fields stay unchanged."""

    is_default = StrictBoolean()


class AddAddress(UpdateAddress):
    """A new delivery address."""

    hostel = SingleLineText(max_length=120, required=True)


class AddressView(Updated):
    """A saved delivery address."""

    example_id = demo_ids.ADDRESS

    label = fields.String(required=True, allow_none=True)
    hostel = fields.String(required=True)
    hall = fields.String(required=True, allow_none=True)
    room_number = fields.String(required=True, allow_none=True)
    latitude = fields.Float(required=True, allow_none=True)
    longitude = fields.Float(required=True, allow_none=True)
    instructions = fields.String(required=True, allow_none=True)
    phone = fields.String(required=True, allow_none=True)
    is_default = fields.Boolean(required=True)
