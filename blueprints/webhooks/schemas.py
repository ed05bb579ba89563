"""Schemas of incoming webhooks."""

import marshmallow
from marshmallow import fields

from blueprints.http.envelope import CursorMetaSchema
from blueprints.http.field_docs import PAID_AT, PERIOD_START, doc
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
from marketplace.alerts import kinds
from marketplace.kernel import demo_ids
from marketplace.ledger.accounts import TRANSACTION_KINDS
from marketplace.payments import states
from marketplace.webhooks import queries, replay

_REFUND_STATUSES = sorted(states.REFUND.states)


class WebhookReceipt(Schema):
    """The acknowledgement of a stored webhook."""

    received = fields.Boolean(required=True, metadata=doc("Always true: the event is stored.", True))


class AnyQuery(Schema):
    """Any query parameters of the configured webhook address. Only the body is signed."""

    class Meta:
        """Options of marshmallow."""

        unknown = marshmallow.EXCLUDE


class WebhookVerificationQuery(AnyQuery):
    """The parameters of the messaging provider's address verification. Additional parameters are ignored."""

    mode = fields.String(
        data_key="hub.mode", load_default="", metadata=doc("Always `subscribe`.", "subscribe")
    )
    verify_token = fields.String(
        data_key="hub.verify_token",
        load_default="",
        metadata=doc("Token of the configured webhook address.", "embedded-verify-token"),
    )
    challenge = fields.String(
        data_key="hub.challenge",
        load_default="",
        metadata=doc("Text that the response repeats.", "1158201444"),
    )


_FINAL_COUNT_DESCRIPTION = f"Events of the last {queries.COUNT_WINDOW_HOURS} hours."


class WebhookQuery(CursorQuery):
    """Filters of the list of webhook events."""

    state = Choice(*queries.STATES, load_default=None, metadata=doc("Only events in this state.", "ignored"))
    event_type = Text(
        data_key="type",
        max_length=255,
        load_default=None,
        metadata=doc("The event type, for example `charge.success`.", "subscription.create"),
    )
    provider = Choice(
        *queries.PROVIDERS, load_default=None, metadata=doc("Only events of this provider.", "gateway")
    )
    since = Timestamp(
        load_default=None, metadata=doc("Only events received at or after this time.", PERIOD_START)
    )
    error = SingleLineText(
        max_length=100,
        load_default=None,
        metadata=doc("A part of the last error, case-insensitive.", "timeout"),
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

    waiting = StrictInteger(
        minimum=0, required=True, metadata=doc("Events that wait for the first attempt.", 0)
    )
    retrying = StrictInteger(
        minimum=0, required=True, metadata=doc("Events that wait for another attempt.", 0)
    )
    dead = StrictInteger(minimum=0, required=True, metadata=doc("Events that failed the last attempt.", 0))
    processed = StrictInteger(minimum=0, required=True, metadata=doc(_FINAL_COUNT_DESCRIPTION, 10))
    ignored = StrictInteger(minimum=0, required=True, metadata=doc(_FINAL_COUNT_DESCRIPTION, 1))


class WebhooksMetaSchema(CursorMetaSchema):
    """The ``meta`` of the list of webhook events."""

    counts = fields.Nested(WebhookCounts, required=True, metadata=doc("Numbers of events by state."))


class WebhookRow(Identified):
    """A webhook event. ``duplicate`` is true if another delivery of the same event was applied."""

    example_id = demo_ids.WEBHOOK

    provider = Choice(*queries.PROVIDERS, required=True, metadata=doc("Sender of the event.", "gateway"))
    event_type = fields.String(
        required=True,
        allow_none=True,
        data_key="type",
        metadata=doc("Type of the event; null before the first attempt.", "charge.success"),
    )
    event_id = fields.String(
        required=True,
        allow_none=True,
        metadata=doc(
            "The same for all deliveries of the event; null for messages.", "charge.success:4099260516"
        ),
    )
    state = Choice(*queries.STATES, required=True, metadata=doc("State of the processing.", "processed"))
    duplicate = fields.Boolean(
        required=True, metadata=doc("Whether another delivery of the event was applied.", False)
    )
    attempts = StrictInteger(minimum=0, required=True, metadata=doc("Number of attempts so far.", 1))
    received_at = Timestamp(required=True, metadata=doc("Time of receipt.", PAID_AT))
    next_attempt_at = Timestamp(
        required=True,
        allow_none=True,
        data_key="dueAt",
        metadata=doc("The time of the next attempt; null for finished events.", None),
    )
    finished_at = Timestamp(required=True, allow_none=True)
    last_error = fields.String(
        required=True,
        allow_none=True,
        data_key="error",
        metadata=doc("Cause of the last failure; null without a failure.", None),
    )


class Webhook(WebhookRow):
    """A webhook event with the part of the payload that identifies no person."""

    died_at = Timestamp(
        required=True,
        allow_none=True,
        metadata=doc("Time of the last failed attempt of a dead event; null otherwise.", None),
    )
    replayed_at = Timestamp(
        required=True,
        allow_none=True,
        metadata=doc("Time of the latest replay; null without a replay.", None),
    )
    body_bytes = StrictInteger(minimum=0, required=True, metadata=doc("Size of the body in bytes.", 1_284))
    payload = fields.Dict(
        keys=fields.String(),
        required=True,
        allow_none=True,
        metadata=doc(
            "Selected fields only; null if the body is not a JSON object.",
            {"event": "charge.success", "data": {"id": 4_099_260_516, "status": "success"}},
        ),
    )


class ReplayWebhook(Schema):
    """A replay; with ``dryRun`` the changes are shown and not made."""

    dry_run = StrictBoolean(
        load_default=False, metadata=doc("`true` shows the changes and makes none.", True)
    )


class OrderChange(Identified):
    """A change of an order's status, payment status or escrow status."""

    example_id = demo_ids.ORDER

    number = fields.String(required=True)
    what = Choice(
        "status", "payment", "escrow", required=True, metadata=doc("Changed part of the order.", "status")
    )
    before = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("State before; null for a new record.", "pending_payment"),
    )
    after = fields.String(required=True, allow_none=True, metadata=doc("State after.", "paid_escrow"))


class RefundChange(Identified):
    """A new refund (``before`` is null), or a refund with a changed status."""

    amount_minor = MinorAmount(minimum=1, required=True)
    destination = Choice(
        "gateway", "wallet", required=True, metadata=doc("Recipient: `gateway` or `wallet`.", "gateway")
    )
    order_number = fields.String(required=True, allow_none=True)
    before = Choice(
        *_REFUND_STATUSES,
        required=True,
        allow_none=True,
        metadata=doc("Status before; null for a new refund.", None),
    )
    after = Choice(*_REFUND_STATUSES, required=True, metadata=doc("Status after.", "pending"))


class PostedEntry(Schema):
    """A debit or credit of a ledger transaction."""

    account = fields.String(required=True, metadata=doc("Kind of the account.", "escrow"))
    direction = Choice("debit", "credit", required=True)
    amount_minor = MinorAmount(minimum=1, required=True)
    order_number = fields.String(required=True, allow_none=True)


class PostedTransaction(Identified):
    """A posted ledger transaction."""

    kind = Choice(*TRANSACTION_KINDS, required=True, metadata=doc("Kind of the transaction.", "payment"))
    source = fields.String(
        required=True, metadata=doc("Cause of the transaction, unique by kind.", f"order:{demo_ids.ORDER}")
    )
    description = fields.String(
        required=True, metadata=doc("Description in a sentence.", "Payment for CM-100001")
    )
    entries = fields.List(fields.Nested(PostedEntry), required=True, metadata=doc("Debits and credits."))


class CreatedNotification(Identified):
    """A notification to a user."""

    user_id = Uuid(required=True)
    type = fields.String(required=True, metadata=doc("Type of the notification.", "order_paid"))
    title = fields.String(required=True, metadata=doc("Title.", "Your payment has arrived"))


class _HeldAmount(Identified):
    amount_minor = MinorAmount(required=True)
    currency = fields.String(required=True)


class CreatedQuarantinedCharge(_HeldAmount):
    """A quarantined charge."""

    reason = fields.String(
        required=True, metadata=doc("Difference between the charge and the payment.", "amount_below_total")
    )


class CreatedPayoutException(_HeldAmount):
    """A transfer that failed, was reversed, or is unrecognized."""

    outcome = fields.String(required=True, metadata=doc("Outcome that the gateway reported.", "failed"))
    reference = fields.String(required=True)


class AlertTransition(Identified):
    """A raised or resolved alert."""

    event = Choice(
        "raised",
        "resolved",
        required=True,
        metadata=doc("Whether the alert was raised or resolved.", "raised"),
    )
    identifier = Choice(
        *kinds.ALERT_KINDS, required=True, metadata=doc("Kind of the alert.", "PAYMENT_STALLED")
    )
    severity = Choice(*kinds.SEVERITIES, required=True, metadata=doc("Urgency of the alert.", "SEV-2"))
    subject = fields.String(required=True)
    title = fields.String(
        required=True, metadata=doc("Summary in a sentence.", "It is unclear whether a payment succeeded")
    )


class EnqueuedWork(Identified):
    """Work added to a queue."""

    queue = fields.String(required=True, metadata=doc("Queue of the work.", "escrow-reconciliation"))
    topic = fields.String(required=True, metadata=doc("Kind of work.", "refund.send"))


class StoredSupportMessage(Identified):
    """A message stored for support."""

    type = fields.String(required=True, metadata=doc("Type of the message.", "text"))


class UnpackedEvent(Identified):
    """A message or status of an envelope, stored as a separate event."""

    provider = Choice(*queries.PROVIDERS, required=True, metadata=doc("Sender of the event.", "messaging"))


class ReplayChanges(Schema):
    """The changes of a replay."""

    orders = fields.List(fields.Nested(OrderChange), required=True, metadata=doc("Changed orders."))
    refunds = fields.List(
        fields.Nested(RefundChange), required=True, metadata=doc("New and changed refunds.")
    )
    ledger = fields.List(
        fields.Nested(PostedTransaction), required=True, metadata=doc("Posted transactions.")
    )
    notifications = fields.List(
        fields.Nested(CreatedNotification), required=True, metadata=doc("New notifications.")
    )
    quarantined_charges = fields.List(
        fields.Nested(CreatedQuarantinedCharge),
        required=True,
        data_key="heldCharges",
        metadata=doc("New quarantined charges."),
    )
    payout_exceptions = fields.List(
        fields.Nested(CreatedPayoutException), required=True, metadata=doc("New transfer exceptions.")
    )
    alerts = fields.List(
        fields.Nested(AlertTransition), required=True, metadata=doc("Raised and resolved alerts.")
    )
    work = fields.List(
        fields.Nested(EnqueuedWork), required=True, metadata=doc("Work that was added to queues.")
    )
    messages = fields.List(
        fields.Nested(StoredSupportMessage),
        required=True,
        metadata=doc("Messages that were stored for support."),
    )
    parts = fields.List(
        fields.Nested(UnpackedEvent),
        required=True,
        metadata=doc("Parts of an envelope that were stored as separate events."),
    )


class WebhookReplayResult(Identified):
    """The result of a replay or dry run. A failed replay leaves the event unchanged."""

    example_id = demo_ids.WEBHOOK

    dry_run = fields.Boolean(required=True, metadata=doc("Whether the changes were only shown.", True))
    outcome = Choice(*replay.OUTCOMES, required=True, metadata=doc("Outcome of the replay.", "processed"))
    before = Choice(*queries.STATES, required=True, metadata=doc("State before.", "dead"))
    after = Choice(*queries.STATES, required=True, metadata=doc("State after.", "processed"))
    error = fields.String(
        required=True, allow_none=True, metadata=doc("Cause of a failure; null otherwise.", None)
    )
    changes = fields.Nested(
        ReplayChanges,
        required=True,
        allow_none=True,
        metadata={"description": "Null if the event was not applied."},
    )
