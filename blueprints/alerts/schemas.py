"""Schemas of alerts."""

from marshmallow import fields

from blueprints.http.fields import (
    Choice,
    CursorQuery,
    Identified,
    Schema,
    SingleLineText,
    StrictInteger,
    Timestamp,
    Uuid,
)
from marketplace.alerts import kinds, operations, queries

_FACTS_METADATA = {"description": "Ids, counts and amounts; no personal data."}


class AlertQuery(CursorQuery):
    """Filters of the list of alerts. Without filters, all alerts are listed."""

    state = Choice(*queries.STATES, queries.ALL, load_default=queries.ALL)
    severity = Choice(*kinds.SEVERITIES, load_default=None)
    identifier = Choice(*kinds.ALERT_KINDS, load_default=None)


class AlertView(Identified):
    """An alert. Repeats about the same subject count up `occurrences` while the alert is open."""

    identifier = fields.String(required=True)
    severity = Choice(*kinds.SEVERITIES, required=True)
    subject = fields.String(
        required=True,
        metadata={"description": "The resource that the alert is about, such as `refund:<id>`."},
    )
    title = fields.String(required=True)
    meaning = fields.String(required=True, allow_none=True)
    first_step = fields.String(
        required=True,
        allow_none=True,
        metadata={"description": "The first steps for the operator, numbered."},
    )
    facts = fields.Dict(required=True, metadata=_FACTS_METADATA)
    latest_facts = fields.Dict(required=True, metadata=_FACTS_METADATA)
    occurrences = StrictInteger(minimum=1, required=True)
    state = Choice(*queries.STATES, required=True)
    raised_at = Timestamp(required=True)
    last_raised_at = Timestamp(required=True)
    resolved_at = Timestamp(required=True, allow_none=True)
    resolution = Choice("officer", "operator", "rule", required=True, allow_none=True)
    resolved_by = Uuid(required=True, allow_none=True)
    note = fields.String(required=True, allow_none=True)


class ResolveAlert(Schema):
    """The resolution of an alert."""

    note = SingleLineText(
        min_length=3,
        max_length=operations.MAX_NOTE_LENGTH,
        required=True,
        metadata={"description": "The action that was taken. Write no personal data or secrets."},
    )
