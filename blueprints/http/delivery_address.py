"""What a delivery address is made of, saved or sent along with an order."""

from typing import Any

from marshmallow import ValidationError, validates_schema

from blueprints.http.fields import Degrees, Phone, Schema, SingleLineText, Text


class AddressFields(Schema):
    """The fields of an address that say where it is and how to get there."""

    label = SingleLineText(max_length=60, allow_none=True)
    hostel = SingleLineText(max_length=120)
    hall = SingleLineText(max_length=120, allow_none=True)
    room_number = SingleLineText(max_length=40, allow_none=True)
    latitude = Degrees(max_degrees=90, allow_none=True)
    longitude = Degrees(max_degrees=180, allow_none=True)
    instructions = Text(max_length=500, allow_none=True)
    phone = Phone(allow_none=True)

    @validates_schema
    def check_coordinates(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Refuse half a position."""
        is_given = [data.get(name) is not None for name in ("latitude", "longitude")]
        if any(is_given) and not all(is_given):
            raise ValidationError(
                "Send latitude and longitude together.", "longitude" if is_given[0] else "latitude"
            )
