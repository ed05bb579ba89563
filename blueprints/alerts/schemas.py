"""Schemas of alerts."""

from marshmallow import fields

from blueprints.http.field_docs import DELIVERED_AT, PLACED_AT, REFERENCE, doc
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

_FACTS_METADATA = doc("Ids, counts and amounts; no personal data.", {"amountMinor": 775_000})


class AlertQuery(CursorQuery):
    """Filters of the list of alerts. Without filters, all alerts are listed."""

    state = Choice(
        *queries.STATES,
        queries.ALL,
        load_default=queries.ALL,
        metadata=doc("State of the alerts; all states by default."),
    )
    severity = Choice(
        *kinds.SEVERITIES, load_default=None, metadata=doc("Only alerts of this urgency.", "SEV-2")
    )
    identifier = Choice(*kinds.ALERT_KINDS, load_default=None, metadata=doc("Only alerts of this kind."))


class AlertView(Identified):
    """An alert. Repeats about the same subject count up `occurrences` while the alert is open."""

    identifier = Choice(
        *kinds.ALERT_KINDS, required=True, metadata=doc("Kind of the alert.", "PAYMENT_STALLED")
    )
    severity = Choice(
        *kinds.SEVERITIES,
        required=True,
        metadata=doc(
            "Urgency, from `SEV-1` (respond in 15 minutes) to `SEV-3` (respond in 4 hours).", "SEV-2"
        ),
    )
    subject = fields.String(
        required=True,
        metadata=doc("The resource that the alert is about, such as `refund:<id>`.", f"payment:{REFERENCE}"),
    )
    title = fields.String(
        required=True, metadata=doc("Summary in a sentence.", "It is unclear whether a payment succeeded")
    )
    meaning = fields.String(
        required=True,
        allow_none=True,
        metadata=doc(
            "Meaning of the condition and the consequences; null for a retired kind of alert.",
            "The gateway has not reported a final status.",
        ),
    )
    first_step = fields.String(
        required=True,
        allow_none=True,
        metadata=doc(
            "The first steps for the operator, numbered.", "1. Open the payment in the gateway's dashboard."
        ),
    )
    facts = fields.Dict(required=True, metadata=_FACTS_METADATA)
    latest_facts = fields.Dict(
        required=True, metadata=doc("Facts of the latest occurrence.", {"amountMinor": 775_000})
    )
    occurrences = StrictInteger(
        minimum=1,
        required=True,
        metadata=doc("Number of times that the condition was found while the alert was open.", 3),
    )
    state = Choice(
        *queries.STATES, required=True, metadata=doc("Whether the alert is open or resolved.", "open")
    )
    raised_at = Timestamp(required=True, metadata=doc("Time when the condition was first found.", PLACED_AT))
    last_raised_at = Timestamp(
        required=True, metadata=doc("Time when the condition was last found.", DELIVERED_AT)
    )
    resolved_at = Timestamp(required=True, allow_none=True)
    resolution = Choice(
        "officer",
        "operator",
        "rule",
        required=True,
        allow_none=True,
        metadata=doc(
            "Who resolved the alert: an officer, an operator on the command line, or a rule when "
            "the condition ended.",
            "officer",
        ),
    )
    resolved_by = Uuid(required=True, allow_none=True)
    note = fields.String(
        required=True,
        allow_none=True,
        metadata=doc(
            "Action that the officer or operator took; null without a note.",
            "Asked the gateway, which confirmed the payment.",
        ),
    )


class ResolveAlert(Schema):
    """The resolution of an alert."""

    note = SingleLineText(
        min_length=3,
        max_length=operations.MAX_NOTE_LENGTH,
        required=True,
        metadata=doc(
            "The action that was taken. Write no personal data or secrets.",
            "Asked the gateway, which confirmed the payment.",
        ),
    )
