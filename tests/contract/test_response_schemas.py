"""Response schemas are complete, so a missing field is noticed."""

from collections.abc import Iterator

import pytest
from marshmallow import Schema, fields

from blueprints.areas import contracts
from blueprints.http.contract import Contract

# Shown only to a listing's owner and to staff. Other callers get no such fields.
OF_OWNERS = {
    *(
        "status",
        "statusReason",
        "reviewState",
        "reviewReasons",
        "quantity",
        "reserved",
        "revision",
        "createdAt",
    ),
    *("views", "cartAdds", "shares", "favorites", "isFavorite"),
}
# An order has the fields of an address that were given, or those of a hub.
OF_DESTINATIONS = {
    *("label", "hostel", "hall", "roomNumber", "latitude", "longitude", "instructions", "phone"),
    *("hubId", "hub", "address"),
}
MAY_BE_MISSING = {
    "ProductDetail": OF_OWNERS,
    "StoreProfileView": {"bankAccount", "payoutHolds"},
    "OrderDestination": OF_DESTINATIONS,
    # An ignored call has no user.
    "CreatedUser": {"userId", "created", "referralStatus", "referralRejection"},
    "DeliveredNotification": {"accepted"},
}
_MOST_LEVELS = 8


def loose_fields(schema: Schema, levels: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the fields that a response may omit, with the name of the schema."""
    assert levels < _MOST_LEVELS
    for name, field in schema.fields.items():
        if not field.required:
            yield type(schema).__name__, field.data_key or name
        inner = field.inner if isinstance(field, fields.List) else field
        # The nodes of a tree have the schema of the tree.
        if isinstance(inner, fields.Nested) and type(inner.schema) is not type(schema):
            yield from loose_fields(inner.schema, levels + 1)


@pytest.mark.parametrize("contract", contracts(), ids=lambda contract: f"{contract.method} {contract.path}")
def test_reply_schema_requires_all_fields(contract: Contract) -> None:
    assert (contract.reply is None) == (contract.plain or contract.event_stream)
    if contract.reply is None:
        return
    loose = [item for item in loose_fields(contract.reply) if item[1] not in MAY_BE_MISSING.get(item[0], ())]
    assert loose == []
