"""Schemas of the audit trail."""

from marshmallow import fields

from blueprints.http.csv_export import FORMATS
from blueprints.http.field_docs import OTHER_ID, PERIOD_END, PERIOD_START, doc
from blueprints.http.fields import (
    Choice,
    DateRangeBound,
    DateRangeQuery,
    OffsetQuery,
    Schema,
    StrictInteger,
    Text,
    Timestamp,
    Uuid,
    sort_choice,
)
from marketplace.audit import table
from marketplace.kernel import demo_ids


class AuditLogQuery(DateRangeQuery, OffsetQuery):
    """Filters and order of the audit trail. `to` is exclusive."""

    sort = sort_choice(table.SORTS, default="at")
    actor_id = Uuid(metadata=doc("Only acts of this person.", demo_ids.ADMIN))
    action = Text(max_length=100, metadata=doc("An action, or the first part of actions.", "account"))
    target_type = Text(max_length=100, metadata=doc("Only acts on this kind of object.", "order"))
    target_id = Text(max_length=200, metadata=doc("Only acts on this object.", demo_ids.ORDER))
    request_id = Uuid(metadata=doc("Only acts of this request.", OTHER_ID))
    from_ = DateRangeBound(data_key="from", metadata=doc("The earliest time.", PERIOD_START))
    to = DateRangeBound(metadata=doc("The end of the period, exclusive.", PERIOD_END))
    format = Choice(*FORMATS)


class AuditLogEntry(Schema):
    """A recorded act. `previousHash` is the hash of the row before, `hash` covers all other fields."""

    id = StrictInteger(minimum=1, required=True, metadata=doc("Position in the trail.", 42))
    at = Timestamp(required=True, metadata=doc("Time of the act.", PERIOD_START))
    actor_id = Uuid(
        required=True,
        allow_none=True,
        metadata=doc("Person who acted; null for operators, the schedule and the system.", demo_ids.ADMIN),
    )
    actor = fields.String(required=True, metadata=doc("Role of the actor.", "admin"))
    on_behalf_of_id = Uuid(
        required=True, allow_none=True, metadata=doc("Person for whom the actor acted, if another.", None)
    )
    action = fields.String(required=True, metadata=doc("What happened.", "account.suspend"))
    target_type = fields.String(required=True, metadata=doc("Kind of the object.", "profile"))
    target_id = fields.String(required=True, metadata=doc("Object of the act.", demo_ids.STUDENT))
    ip_address = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("Address of the actor; null without a request.", "192.0.2.7"),
    )
    user_agent = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("Client of the actor; null without a request.", "Firefox"),
    )
    request_id = Uuid(
        required=True, allow_none=True, metadata=doc("Request of the act; null without one.", OTHER_ID)
    )
    before = fields.Dict(
        keys=fields.String(),
        required=True,
        allow_none=True,
        metadata=doc("Changed fields before the act.", {"status": "active"}),
    )
    after = fields.Dict(
        keys=fields.String(),
        required=True,
        allow_none=True,
        metadata=doc("Changed fields after the act.", {"status": "suspended"}),
    )
    previous_hash = fields.String(required=True, metadata=doc("Hash of the row before.", "0" * 64))
    hash = fields.String(required=True, metadata=doc("Hash of this row, in hexadecimal digits.", "a" * 64))
