"""Schemas of accounts and addresses."""

from typing import Any

from marshmallow import ValidationError, fields, validates_schema

from blueprints.http.field_docs import doc
from blueprints.http.fields import (
    AddressFields,
    Choice,
    ClearableFields,
    ClearList,
    HttpUrl,
    NamedResource,
    Phone,
    SingleLineText,
    StrictBoolean,
    Updated,
    Uuid,
)
from marketplace.identity import permissions
from marketplace.identity.queries import ACCOUNT_STATUSES, ROLES
from marketplace.kernel import demo_ids


class UpdateMe(ClearableFields):
    """Changes to the profile. Omitted fields stay unchanged."""

    name = SingleLineText(max_length=100, metadata=doc("Full name.", "Amara Okafor"))
    phone = Phone()
    campus_id = Uuid(metadata=doc("Id of the campus.", demo_ids.CAMPUS))
    avatar_url = HttpUrl(
        schemes={"https"},
        metadata=doc(
            "https URL of a picture.",
            "https://media.example.com/avatars/amara.webp",
        ),
    )
    clear = ClearList("phone", "campusId", "avatarUrl")


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
    role = Choice(*ROLES, required=True, metadata=doc("`buyer`, `vendor` or `staff`.", "buyer"))
    staff_role = fields.String(
        required=True, allow_none=True, metadata=doc("Role among the staff; null for other users.", None)
    )
    permissions = fields.List(
        Choice(*permissions.ALL),
        required=True,
        metadata=doc("Permissions of staff; empty for other users.", ["canManageOrders"]),
    )
    badges = fields.List(
        fields.String(),
        required=True,
        metadata=doc("Badges that the platform awarded.", ["verified_student"]),
    )
    account_status = Choice(
        *ACCOUNT_STATUSES, required=True, metadata=doc("`active`, `restricted` or `suspended`.", "active")
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


class UpdateAddress(AddressFields, ClearableFields):
    """Changes to an address. Omitted fields stay unchanged."""

    is_default = StrictBoolean()
    clear = ClearList("label", "hall", "roomNumber", "latitude", "longitude", "instructions", "phone")

    @validates_schema
    def check_cleared_coordinates(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Check that latitude and longitude are cleared together."""
        if len({"latitude", "longitude"} & set(data.get("clear", ()))) == 1:
            raise ValidationError("Clear latitude and longitude together.", "clear")


class AddAddress(AddressFields):
    """A new delivery address."""

    hostel = SingleLineText(max_length=120, required=True)
    is_default = StrictBoolean()


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
