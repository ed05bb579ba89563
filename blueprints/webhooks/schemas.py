"""Schemas of webhooks."""

import marshmallow
from marshmallow import fields

from blueprints.http.envelope import CursorMetaSchema
from blueprints.http.fields import (
    Choice,
    CursorQuery,
    Identified,
    MinorAmount,
    Schema,
    SingleLineText,
    StrictBoolean,
    StrictInteger,
    Text,
    Timestamp,
    Uuid,
)
from marketplace.webhooks import queries, replay


class WebhookReceipt(Schema):
    """A webhook was stored."""

    received = fields.Boolean(required=True)


class AnyQuery(Schema):
    """Whatever stands in the address that a provider was given: what is signed is the body."""

    class Meta:
        unknown = marshmallow.EXCLUDE


class WebhookVerificationQuery(AnyQuery):
    """What the messaging provider asks with; a parameter more or less is no reason to complain."""

    mode = fields.String(data_key="hub.mode", load_default="")
    verify_token = fields.String(data_key="hub.verify_token", load_default="")
    challenge = fields.String(data_key="hub.challenge", load_default="")


_FINAL_COUNT_DESCRIPTION = (
    f"What is over (processed, ignored) is counted for {queries.COUNT_WINDOW_HOURS} hours."
)


class WebhookQuery(CursorQuery):
    """Which events are listed, the latest first."""

    state = Choice(*queries.STATES, load_default=None)
    event_type = Text(
        data_key="type",
        max_length=255,
        load_default=None,
        metadata={"description": "Such as charge.success."},
    )
    provider = Choice(*queries.PROVIDERS, load_default=None)
    since = Timestamp(load_default=None, metadata={"description": "Those that came from then on."})
    error = SingleLineText(
        max_length=100,
        load_default=None,
        metadata={"description": "What the last error holds, in any case of letters."},
    )


class WebhookCounts(Schema):
    """How many events there are, by state."""

    waiting = StrictInteger(minimum=0, required=True)
    retrying = StrictInteger(minimum=0, required=True)
    dead = StrictInteger(minimum=0, required=True)
    processed = StrictInteger(minimum=0, required=True, metadata={"description": _FINAL_COUNT_DESCRIPTION})
    ignored = StrictInteger(minimum=0, required=True, metadata={"description": _FINAL_COUNT_DESCRIPTION})


class WebhooksMetaSchema(CursorMetaSchema):
    """The ``meta`` of the list of events."""

    counts = fields.Nested(WebhookCounts, required=True)


class WebhookRow(Identified):
    """An event that came in. ``duplicate`` tells why it was ignored: another delivery of it had its effect."""

    provider = Choice(*queries.PROVIDERS, required=True)
    event_type = fields.String(required=True, allow_none=True, data_key="type")
    event_id = fields.String(
        required=True, allow_none=True, metadata={"description": "What all deliveries of it share."}
    )
    state = Choice(*queries.STATES, required=True)
    duplicate = fields.Boolean(required=True)
    attempts = StrictInteger(minimum=0, required=True)
    received_at = Timestamp(required=True)
    next_attempt_at = Timestamp(
        required=True, allow_none=True, data_key="dueAt", metadata={"description": "When it is tried next."}
    )
    finished_at = Timestamp(required=True, allow_none=True)
    last_error = fields.String(required=True, allow_none=True, data_key="error")


class Webhook(WebhookRow):
    """An event with the part of its payload that tells nothing of a person."""

    died_at = Timestamp(required=True, allow_none=True)
    replayed_at = Timestamp(required=True, allow_none=True)
    body_bytes = StrictInteger(minimum=0, required=True)
    payload = fields.Dict(
        keys=fields.String(),
        required=True,
        allow_none=True,
        metadata={"description": "Named fields alone; null where the body is not a JSON object."},
    )


class ReplayWebhook(Schema):
    """Whether the replay is made, or only shown."""

    dry_run = StrictBoolean(load_default=False)


class OrderChange(Identified):
    """What changes of an order."""

    number = fields.String(required=True)
    what = Choice("status", "payment", "escrow", required=True)
    before = fields.String(required=True, allow_none=True)
    after = fields.String(required=True, allow_none=True)


class RefundChange(Identified):
    """A refund that is made, or changes its status; ``before`` is null of one that is new."""

    amount_minor = MinorAmount(minimum=1, required=True)
    destination = fields.String(required=True)
    order_number = fields.String(required=True, allow_none=True)
    before = fields.String(required=True, allow_none=True)
    after = fields.String(required=True)


class PostedEntry(Schema):
    """One side of a ledger transaction."""

    account = fields.String(required=True)
    direction = Choice("debit", "credit", required=True)
    amount_minor = MinorAmount(minimum=1, required=True)
    order_number = fields.String(required=True, allow_none=True)


class PostedTransaction(Identified):
    """A ledger transaction that is posted."""

    kind = fields.String(required=True)
    source = fields.String(required=True)
    description = fields.String(required=True)
    entries = fields.List(fields.Nested(PostedEntry), required=True)


class CreatedNotification(Identified):
    """A notification."""

    user_id = Uuid(required=True)
    type = fields.String(required=True)
    title = fields.String(required=True)


class _HeldAmount(Identified):
    amount_minor = MinorAmount(required=True)
    currency = fields.String(required=True)


class CreatedQuarantinedCharge(_HeldAmount):
    """A charge that is held back."""

    reason = fields.String(required=True)


class CreatedPayoutException(_HeldAmount):
    """A transfer that failed, came back, or is none of ours."""

    outcome = fields.String(required=True)
    reference = fields.String(required=True)


class AlertTransition(Identified):
    """An alert that somebody is told of: that it was raised, or is over."""

    event = Choice("raised", "resolved", required=True)
    identifier = fields.String(required=True)
    severity = fields.String(required=True)
    subject = fields.String(required=True)
    title = fields.String(required=True)


class EnqueuedWork(Identified):
    """Work that is handed on to a queue."""

    queue = fields.String(required=True)
    topic = fields.String(required=True)


class StoredSupportMessage(Identified):
    """A message that is kept for support."""

    type = fields.String(required=True)


class UnpackedEvent(Identified):
    """A part of an envelope of messages: an event of its own, processed by itself."""

    provider = fields.String(required=True)


class ReplayChanges(Schema):
    """All that a replay changes."""

    orders = fields.List(fields.Nested(OrderChange), required=True)
    refunds = fields.List(fields.Nested(RefundChange), required=True)
    ledger = fields.List(fields.Nested(PostedTransaction), required=True)
    notifications = fields.List(fields.Nested(CreatedNotification), required=True)
    quarantined_charges = fields.List(
        fields.Nested(CreatedQuarantinedCharge), required=True, data_key="heldCharges"
    )
    payout_exceptions = fields.List(fields.Nested(CreatedPayoutException), required=True)
    alerts = fields.List(fields.Nested(AlertTransition), required=True)
    work = fields.List(fields.Nested(EnqueuedWork), required=True)
    messages = fields.List(fields.Nested(StoredSupportMessage), required=True)
    parts = fields.List(fields.Nested(UnpackedEvent), required=True)


class WebhookReplayResult(Identified):
    """What a replay did, or would do. One that failed left the event as it was."""

    dry_run = fields.Boolean(required=True)
    outcome = Choice(*replay.OUTCOMES, required=True)
    before = Choice(*queries.STATES, required=True)
    after = Choice(*queries.STATES, required=True)
    error = fields.String(required=True, allow_none=True)
    changes = fields.Nested(
        ReplayChanges,
        required=True,
        allow_none=True,
        metadata={"description": "Null where nothing was changed."},
    )
