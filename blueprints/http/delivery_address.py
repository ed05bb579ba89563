"""What a delivery address is made of, saved or sent along with an order."""

from typing import Any

from marshmallow import ValidationError, validates_schema

from blueprints.http.fields import Degrees, Phone, Schema, SingleLineText, Text


class AddressFields(Schema):
    """The fields of an address that say where it is and how to get there."""

    label = SingleLineText(most=60, allow_none=True)
    hostel = SingleLineText(most=120)
    hall = SingleLineText(most=120, allow_none=True)
    room_number = SingleLineText(most=40, allow_none=True)
    latitude = Degrees(most=90, allow_none=True)
    longitude = Degrees(most=180, allow_none=True)
    instructions = Text(most=500, allow_none=True)
    phone = Phone(allow_none=True)

    @validates_schema
    def check_coordinates(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Refuse half a position."""
        given = [data.get(name) is not None for name in ("latitude", "longitude")]
        if any(given) and not all(given):
            raise ValidationError(
                "Send latitude and longitude together.", "longitude" if given[0] else "latitude"
            )
