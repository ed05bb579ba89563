"""Schemas of incoming webhooks."""

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
    """The acknowledgement of a stored webhook."""

    received = fields.Boolean(required=True)


class AnyQuery(Schema):
    """Any query parameters of the configured webhook address. Only the body is signed."""

    class Meta:
        """Options of marshmallow."""

        unknown = marshmallow.EXCLUDE


class WebhookVerificationQuery(AnyQuery):
    """The parameters of the messaging provider's address verification. Additional parameters are ignored."""

    mode = fields.String(data_key="hub.mode", load_default="")
    verify_token = fields.String(data_key="hub.verify_token", load_default="")
    challenge = fields.String(data_key="hub.challenge", load_default="")


_FINAL_COUNT_DESCRIPTION = f"Events of the last {queries.COUNT_WINDOW_HOURS} hours."


class WebhookQuery(CursorQuery):
    """Filters of the list of webhook events."""

    state = Choice(*queries.STATES, load_default=None)
    event_type = Text(
        data_key="type",
        max_length=255,
        load_default=None,
        metadata={"description": "The event type, for example `charge.success`."},
    )
    provider = Choice(*queries.PROVIDERS, load_default=None)
    since = Timestamp(
        load_default=None, metadata={"description": "Only events received at or after this time."}
    )
    error = SingleLineText(
        max_length=100,
        load_default=None,
        metadata={"description": "A part of the last error, case-insensitive."},
    )
    identifier = SingleLineText(
        data_key="id",
        max_length=255,
        load_default=None,
        metadata={
            "description": "An event's `id`, its `eventId` such as `charge.success:4099`, or the gateway's reference"
            " of a charge or transfer. Duplicates are listed, too."
        },
    )


class WebhookCounts(Schema):
    """Counts of webhook events by state."""

    waiting = StrictInteger(minimum=0, required=True)
    retrying = StrictInteger(minimum=0, required=True)
    dead = StrictInteger(minimum=0, required=True)
    processed = StrictInteger(minimum=0, required=True, metadata={"description": _FINAL_COUNT_DESCRIPTION})
    ignored = StrictInteger(minimum=0, required=True, metadata={"description": _FINAL_COUNT_DESCRIPTION})


class WebhooksMetaSchema(CursorMetaSchema):
    """The ``meta`` of the list of webhook events."""

    counts = fields.Nested(WebhookCounts, required=True)


class WebhookRow(Identified):
    """A webhook event. ``duplicate`` is true if another delivery of the same event was applied."""

    provider = Choice(*queries.PROVIDERS, required=True)
    event_type = fields.String(required=True, allow_none=True, data_key="type")
    event_id = fields.String(
        required=True,
        allow_none=True,
        metadata={"description": "The same for all deliveries of the event; null for messages."},
    )
    state = Choice(*queries.STATES, required=True)
    duplicate = fields.Boolean(required=True)
    attempts = StrictInteger(minimum=0, required=True)
    received_at = Timestamp(required=True)
    next_attempt_at = Timestamp(
        required=True,
        allow_none=True,
        data_key="dueAt",
        metadata={"description": "The time of the next attempt; null for finished events."},
    )
    finished_at = Timestamp(required=True, allow_none=True)
    last_error = fields.String(required=True, allow_none=True, data_key="error")


class Webhook(WebhookRow):
    """A webhook event with the part of the payload that identifies no person."""

    died_at = Timestamp(required=True, allow_none=True)
    replayed_at = Timestamp(required=True, allow_none=True)
    body_bytes = StrictInteger(minimum=0, required=True)
    payload = fields.Dict(
        keys=fields.String(),
        required=True,
        allow_none=True,
        metadata={"description": "Selected fields only; null if the body is not a JSON object."},
    )


class ReplayWebhook(Schema):
    """A replay; with ``dryRun`` the changes are shown and not made."""

    dry_run = StrictBoolean(load_default=False)


class OrderChange(Identified):
    """A change of an order's status, payment status or escrow status."""

    number = fields.String(required=True)
    what = Choice("status", "payment", "escrow", required=True)
    before = fields.String(required=True, allow_none=True)
    after = fields.String(required=True, allow_none=True)


class RefundChange(Identified):
    """A new refund (``before`` is null), or a refund with a changed status."""

    amount_minor = MinorAmount(minimum=1, required=True)
    destination = fields.String(required=True)
    order_number = fields.String(required=True, allow_none=True)
    before = fields.String(required=True, allow_none=True)
    after = fields.String(required=True)


class PostedEntry(Schema):
    """A debit or credit of a ledger transaction."""

    account = fields.String(required=True)
    direction = Choice("debit", "credit", required=True)
    amount_minor = MinorAmount(minimum=1, required=True)
    order_number = fields.String(required=True, allow_none=True)


class PostedTransaction(Identified):
    """A posted ledger transaction."""

    kind = fields.String(required=True)
    source = fields.String(required=True)
    description = fields.String(required=True)
    entries = fields.List(fields.Nested(PostedEntry), required=True)


class CreatedNotification(Identified):
    """A notification to a user."""

    user_id = Uuid(required=True)
    type = fields.String(required=True)
    title = fields.String(required=True)


class _HeldAmount(Identified):
    amount_minor = MinorAmount(required=True)
    currency = fields.String(required=True)


class CreatedQuarantinedCharge(_HeldAmount):
    """A quarantined charge."""

    reason = fields.String(required=True)


class CreatedPayoutException(_HeldAmount):
    """A transfer that failed, was reversed, or is unrecognized."""

    outcome = fields.String(required=True)
    reference = fields.String(required=True)


class AlertTransition(Identified):
    """A raised or resolved alert."""

    event = Choice("raised", "resolved", required=True)
    identifier = fields.String(required=True)
    severity = fields.String(required=True)
    subject = fields.String(required=True)
    title = fields.String(required=True)


class EnqueuedWork(Identified):
    """Work added to a queue."""

    queue = fields.String(required=True)
    topic = fields.String(required=True)


class StoredSupportMessage(Identified):
    """A message stored for support."""

    type = fields.String(required=True)


class UnpackedEvent(Identified):
    """A message or status of an envelope, stored as a separate event."""

    provider = fields.String(required=True)


class ReplayChanges(Schema):
    """The changes of a replay."""

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
    """The result of a replay or dry run. A failed replay leaves the event unchanged."""

    dry_run = fields.Boolean(required=True)
    outcome = Choice(*replay.OUTCOMES, required=True)
    before = Choice(*queries.STATES, required=True)
    after = Choice(*queries.STATES, required=True)
    error = fields.String(required=True, allow_none=True)
    changes = fields.Nested(
        ReplayChanges,
        required=True,
        allow_none=True,
        metadata={"description": "Null if the event was not applied."},
    )
