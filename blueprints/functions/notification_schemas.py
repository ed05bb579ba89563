"""Schemas of the function that delivers notifications."""

from typing import Any
from uuid import UUID

from marshmallow import ValidationError, fields, post_load

from blueprints.functions.schemas import ProviderSchema, ProviderText
from blueprints.http.field_docs import doc
from blueprints.http.fields import Choice, Schema, SingleLineText, Uuid
from marketplace.kernel import demo_ids
from marketplace.kernel.ids import parse_uuid
from marketplace.notifications.kinds import REQUESTABLE
from marketplace.notifications.requested import RequestedNotification

_TRIGGER = {"type": "INSERT", "schema": "public", "table": "notifications"}
_OWN_FIELDS = ("id", "user_id", "kind", "title", "body")
_CONFLICT = "Send a trigger's `type` and `record`, or a notification with `id`."
_MAX_TEXT_LENGTH = 1_000


class DeliverNotification(ProviderSchema):
    """A notification to deliver, in one of two shapes.

    - A trigger of the database sends `type`, `schema`, `table` and `record`.
    - Other services send a new notification with `id`, `userId`, `kind`, `title` and `body`.
    """

    example_omits = frozenset({"type", "schema_name", "table", "record"})

    id = Uuid(metadata=doc("Id of your choice. A repeated id delivers nothing again.", demo_ids.NOTIFICATION))
    user_id = Uuid(metadata=doc("Person to notify.", demo_ids.BUYER))
    kind = Choice(
        *REQUESTABLE,
        metadata=doc("Kind of the notification, which decides on channels.", "order_refunded"),
    )
    title = SingleLineText(min_length=1, max_length=120, metadata=doc("A few words.", "Refund sent"))
    body = ProviderText(
        max_length=_MAX_TEXT_LENGTH,
        metadata=doc("A few sentences.", "Your refund of \u20a65,000 is on its way."),
    )
    link = SingleLineText(
        min_length=1,
        max_length=200,
        metadata=doc("Path in the client application.", f"/orders/{demo_ids.ORDER}"),
    )
    type = ProviderText(
        metadata=doc("Event of the trigger. Events other than `INSERT` are ignored.", _TRIGGER["type"])
    )
    schema_name = ProviderText(
        data_key="schema", metadata=doc("Schema of the trigger's table.", _TRIGGER["schema"])
    )
    table = ProviderText(metadata=doc("Table of the trigger. Other tables are ignored.", _TRIGGER["table"]))
    record = fields.Dict(
        keys=fields.String(), metadata=doc("New row, with `id`.", {"id": demo_ids.NOTIFICATION})
    )

    @post_load
    def read_request(
        self, data: dict[str, Any], **_kwargs: Any
    ) -> dict[str, RequestedNotification | UUID | None]:
        """Return the new notification, the id of an existing one, or none for a call that is to be ignored.

        :raises ValidationError: the body has neither shape, or mixes them
        """
        is_own, is_trigger = "id" in data, "record" in data or "type" in data
        if is_own == is_trigger:
            raise ValidationError(_CONFLICT)
        return {"request": _read_own(data) if is_own else _read_trigger(data)}


def _read_own(data: dict[str, Any]) -> RequestedNotification:
    known = DeliverNotification().fields
    faults = {name: ["Unknown field."] for name in data.keys() - known.keys()}
    faults |= {
        known[name].data_key or name: ["Missing data for required field."]
        for name in _OWN_FIELDS
        if not data.get(name)
    }
    if faults:
        raise ValidationError(faults)
    link = data.get("link")
    if link is not None and (not link.startswith("/") or link.startswith("//")):
        raise ValidationError({"link": ["Must be a path that starts with a slash."]})
    return RequestedNotification(**{name: data[name] for name in _OWN_FIELDS}, link=link)


def _read_trigger(data: dict[str, Any]) -> UUID | None:
    event = {"type": data.get("type"), "schema": data.get("schema_name"), "table": data.get("table")}
    if event != _TRIGGER:
        return None
    given = data.get("record", {}).get("id")
    notification_id = parse_uuid(given) if isinstance(given, str) else None
    if notification_id is None:
        raise ValidationError({"record": {"id": ["Must be a UUID."]}})
    return notification_id


class DeliveredNotification(Schema):
    """The result. For an ignored call, `ignored` is true and the other field is missing."""

    ignored = fields.Boolean(
        required=True,
        metadata=doc("Whether the call is about something else, so that nothing was done.", False),
    )
    accepted = fields.Boolean(
        metadata=doc("Whether the call started the delivery. False for a repeated call.", True)
    )
