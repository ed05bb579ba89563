"""Schemas of accounts and addresses."""

from marshmallow import fields

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


class UpdateMe(Schema):
    """Changes to the profile. Omitted fields stay unchanged."""

    name = SingleLineText(max_length=100)
    phone = Phone(allow_none=True)
    campus_id = Uuid(allow_none=True)
    avatar_url = HttpUrl(schemes={"https"}, allow_none=True)


class MyCampus(NamedResource):
    """The campus of the user."""


class Me(Updated):
    """The profile of the user."""

    email = fields.String(required=True, allow_none=True)
    name = fields.String(required=True, allow_none=True)
    phone = fields.String(required=True, allow_none=True)
    avatar_url = fields.String(required=True, allow_none=True)
    role = fields.String(required=True)
    staff_role = fields.String(required=True, allow_none=True)
    permissions = fields.List(fields.String(), required=True)
    badges = fields.List(fields.String(), required=True)
    account_status = fields.String(required=True)
    status_reason = fields.String(required=True, allow_none=True)
    appeal_status = fields.String(required=True, allow_none=True)
    referral_code = fields.String(required=True)
    campus_id = Uuid(required=True, allow_none=True)
    campus = fields.Nested(MyCampus, required=True, allow_none=True)


class UpdateAddress(AddressFields):
    """Changes to an address. Omitted fields stay unchanged."""

    is_default = StrictBoolean()


class AddAddress(UpdateAddress):
    """A new delivery address."""

    hostel = SingleLineText(max_length=120, required=True)


class AddressView(Updated):
    """A saved delivery address."""

    label = fields.String(required=True, allow_none=True)
    hostel = fields.String(required=True)
    hall = fields.String(required=True, allow_none=True)
    room_number = fields.String(required=True, allow_none=True)
    latitude = fields.Float(required=True, allow_none=True)
    longitude = fields.Float(required=True, allow_none=True)
    instructions = fields.String(required=True, allow_none=True)
    phone = fields.String(required=True, allow_none=True)
    is_default = fields.Boolean(required=True)
