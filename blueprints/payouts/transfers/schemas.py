"""What payouts are sent with, and what finance sees of those that went wrong or do not move."""

from typing import Any

from marshmallow import ValidationError, fields, validates_schema

from blueprints.http.fields import (
    Choice,
    Created,
    Identified,
    MinorAmount,
    OffsetQuery,
    Schema,
    SingleLineText,
    StrictInteger,
    Timestamp,
    Uuid,
    sort_choice,
)
from marketplace.payouts import states
from marketplace.payouts.transfers import admin_queries

_PAYOUT_STATUSES = sorted(states.PAYOUT.states)
_OUTCOMES = ("failed", "reversed", "unexpected")


class DispatchPayouts(Schema):
    """An officer names the batch that is sent, a vendor what they want to be paid."""

    batch_id = Uuid(metadata={"description": "Of an approved batch, from an officer."})
    amount_minor = MinorAmount(minimum=1, metadata={"description": "An early withdrawal, from a vendor."})

    @validates_schema
    def check_target(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Refuse a body that names both, or neither."""
        if len(data) != 1:
            raise ValidationError("Takes either batchId or amountMinor.", "batchId")


class DispatchedPayouts(Schema):
    """What is on its way: a batch, or a vendor's own payout, which joins the next one.

    What is left of that vendor's balance is paid with the batch after.
    """

    batch_id = Uuid(required=True, allow_none=True)
    payout_id = Uuid(required=True, allow_none=True)
    status = fields.String(required=True)
    payments = StrictInteger(minimum=1, required=True)
    amount_minor = MinorAmount(minimum=1, required=True)


class TransferExceptionQuery(OffsetQuery):
    """Which exceptions are listed."""

    sort = sort_choice(admin_queries.EXCEPTION_SORTS, default="created_at")
    status = Choice("open", "resolved", load_default=None)
    outcome = Choice(*_OUTCOMES, load_default=None)


class PayoutIssueRow(Created):
    """A payout, or a transfer, that finance sees to."""

    batch_id = Uuid(required=True, allow_none=True)
    payee_name = fields.String(required=True, allow_none=True)
    vendor_id = Uuid(required=True, allow_none=True)


class TransferExceptionRow(PayoutIssueRow):
    """A transfer that failed, came back, or that we did not send (``unexpected``: without payout and payee)."""

    status = Choice("open", "resolved", required=True)
    outcome = Choice(*_OUTCOMES, required=True)
    reference = fields.String(required=True)
    gateway_transfer_id = fields.String(required=True)
    amount_minor = MinorAmount(required=True)
    currency = fields.String(required=True)
    payout_id = Uuid(required=True, allow_none=True)
    payout_status = Choice(*_PAYOUT_STATUSES, required=True, allow_none=True)
    reason = fields.String(required=True, allow_none=True)
    payee_id = Uuid(required=True, allow_none=True)
    resolved_at = Timestamp(required=True, allow_none=True)
    resolved_by = Uuid(required=True, allow_none=True)
    resolution_note = fields.String(required=True, allow_none=True)


class OfficerNote(Schema):
    """What was done about a transfer that went wrong, or why a payout is given up."""

    note = SingleLineText(min_length=10, max_length=500, required=True)


class ResolvedTransferException(Identified):
    """An exception that an officer has seen to."""

    status = Choice("resolved", required=True)
    resolution_note = fields.String(required=True)
    resolved_at = Timestamp(required=True)


class StalledPayoutQuery(OffsetQuery):
    """How stalled payouts are listed."""

    sort = sort_choice(admin_queries.STALLED_SORTS, default="created_at")


class StalledPayoutRow(PayoutIssueRow):
    """A payout that has waited for more than 48 hours; ``askedNextAt`` is when the gateway is asked about it next."""

    status = Choice(states.PENDING, states.SUBMITTED, states.UNKNOWN, required=True)
    batch_status = Choice(*sorted(states.BATCH.states), required=True, allow_none=True)
    amount_minor = MinorAmount(minimum=1, required=True)
    payee_id = Uuid(required=True)
    reference = fields.String(required=True, allow_none=True)
    times_asked = StrictInteger(minimum=0, required=True)
    asked_next_at = Timestamp(required=True, allow_none=True)
    sent_at = Timestamp(required=True, allow_none=True)
    stalled_at = Timestamp(required=True)
    age_seconds = StrictInteger(minimum=0, required=True)


class PolledPayout(Identified):
    """A payout that the gateway is asked about within a minute."""

    status = Choice(*_PAYOUT_STATUSES, required=True)
    reference = fields.String(required=True)


class VoidedPayout(PolledPayout):
    """A payout that was given up: its money is the payee's again."""

    status = Choice(states.FAILED, required=True)
