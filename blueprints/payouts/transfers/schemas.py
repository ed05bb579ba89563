"""Schemas of dispatch, transfer exceptions and stalled payouts: requests and responses."""

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
    """The batch to dispatch, from an officer, or the amount to withdraw, from a vendor."""

    batch_id = Uuid(metadata={"description": "Approved batch to dispatch; for officers."})
    amount_minor = MinorAmount(minimum=1, metadata={"description": "Amount to withdraw early; for vendors."})

    @validates_schema
    def check_target(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Refuse a body with both fields or neither."""
        if len(data) != 1:
            raise ValidationError("Send exactly one of `batchId` and `amountMinor`.", "batchId")


class DispatchedPayouts(Schema):
    """A dispatched batch, or a vendor's requested payout, which joins the next batch.

    The rest of the vendor's balance is paid with the batch after that.
    """

    batch_id = Uuid(required=True, allow_none=True)
    payout_id = Uuid(required=True, allow_none=True)
    status = fields.String(required=True)
    payments = StrictInteger(minimum=1, required=True)
    amount_minor = MinorAmount(minimum=1, required=True)


class TransferExceptionQuery(OffsetQuery):
    """Filters of transfer exceptions."""

    sort = sort_choice(admin_queries.EXCEPTION_SORTS, default="created_at")
    status = Choice("open", "resolved", load_default=None)
    outcome = Choice(*_OUTCOMES, load_default=None)


class PayoutIssueRow(Created):
    """The common fields of stalled payouts and transfer exceptions."""

    batch_id = Uuid(required=True, allow_none=True)
    payee_name = fields.String(required=True, allow_none=True)
    vendor_id = Uuid(required=True, allow_none=True)


class TransferExceptionRow(PayoutIssueRow):
    """A failed, reversed or unrecognized transfer (``unexpected``: without payout and payee)."""

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
    """An officer's note: the action taken on an exception, or the reason to void a payout."""

    note = SingleLineText(min_length=10, max_length=500, required=True)


class ResolvedTransferException(Identified):
    """A resolved transfer exception."""

    status = Choice("resolved", required=True)
    resolution_note = fields.String(required=True)
    resolved_at = Timestamp(required=True)


class StalledPayoutQuery(OffsetQuery):
    """Sort order of stalled payouts."""

    sort = sort_choice(admin_queries.STALLED_SORTS, default="created_at")


class StalledPayoutRow(PayoutIssueRow):
    """A payout in transit for more than 48 hours; ``askedNextAt`` is the time of the next status poll."""

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
    """A payout with a status poll within the next minute."""

    status = Choice(*_PAYOUT_STATUSES, required=True)
    reference = fields.String(required=True)


class VoidedPayout(PolledPayout):
    """A voided payout; the amount is back in the payee's balance."""

    status = Choice(states.FAILED, required=True)
