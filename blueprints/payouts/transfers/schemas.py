"""Schemas of dispatch, transfer exceptions and stalled payouts: requests and responses."""

from typing import Any

from marshmallow import ValidationError, fields, validates_schema

from blueprints.http.field_docs import DELIVERED_AT, doc
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
from marketplace.kernel import demo_ids
from marketplace.payouts import states
from marketplace.payouts.transfers import admin_queries

_PAYOUT_STATUSES = sorted(states.PAYOUT.states)
_OUTCOMES = ("failed", "reversed", "unexpected")


class DispatchPayouts(Schema):
    """The batch to dispatch, from an officer, or the amount to withdraw, from a vendor."""

    example_omits = frozenset({"batch_id"})

    batch_id = Uuid(metadata=doc("Approved batch to dispatch; for officers.", demo_ids.PAYOUT_BATCH))
    amount_minor = MinorAmount(minimum=1, metadata=doc("Amount to withdraw early; for vendors.", 200_000))

    @validates_schema
    def check_target(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Refuse a body with both fields or neither."""
        if len(data) != 1:
            raise ValidationError("Send exactly one of `batchId` and `amountMinor`.", "batchId")


class DispatchedPayouts(Schema):
    """A dispatched batch, or a vendor's requested payout, which joins the next batch.

    The rest of the vendor's balance is paid with the batch after that.
    """

    batch_id = Uuid(
        required=True,
        allow_none=True,
        metadata=doc("Id of the dispatched batch; null for a requested payout.", demo_ids.PAYOUT_BATCH),
    )
    payout_id = Uuid(
        required=True, allow_none=True, metadata=doc("Id of the requested payout; null for a batch.", None)
    )
    status = fields.String(required=True, metadata=doc("Status of the batch or payout.", "dispatching"))
    payments = StrictInteger(minimum=1, required=True, metadata=doc("Number of payments.", 1))
    amount_minor = MinorAmount(minimum=1, required=True)


class TransferExceptionQuery(OffsetQuery):
    """Filters of transfer exceptions."""

    sort = sort_choice(admin_queries.EXCEPTION_SORTS, default="created_at")
    status = Choice(
        "open", "resolved", load_default=None, metadata=doc("Only open, or only resolved exceptions.", "open")
    )
    outcome = Choice(
        *_OUTCOMES, load_default=None, metadata=doc("Only exceptions with this outcome.", "failed")
    )


class PayoutIssueRow(Created):
    """The common fields of stalled payouts and transfer exceptions."""

    batch_id = Uuid(required=True, allow_none=True)
    payee_name = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("Name of the payee; null for an unrecognized transfer.", "Ngozi Adeyemi"),
    )
    vendor_id = Uuid(required=True, allow_none=True)


class TransferExceptionRow(PayoutIssueRow):
    """A failed, reversed or unrecognized transfer (``unexpected``: without payout and payee)."""

    status = Choice(
        "open",
        "resolved",
        required=True,
        metadata=doc("Whether an officer has resolved the exception.", "open"),
    )
    outcome = Choice(*_OUTCOMES, required=True, metadata=doc("Outcome that the gateway reported.", "failed"))
    reference = fields.String(
        required=True, metadata=doc("Reference of the transfer.", "payout-01958b3c7a107c3e9d524f6a8b0c1d2e")
    )
    gateway_transfer_id = fields.String(
        required=True, metadata=doc("The gateway's code of the transfer.", "TRF_2x5j67tnnw1t98k")
    )
    amount_minor = MinorAmount(required=True)
    currency = fields.String(required=True)
    payout_id = Uuid(required=True, allow_none=True)
    payout_status = Choice(
        *_PAYOUT_STATUSES,
        required=True,
        allow_none=True,
        metadata=doc("Status of the payout; null for an unrecognized transfer.", "failed"),
    )
    reason = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("The gateway's reason; null without a reason.", "Account is dormant"),
    )
    payee_id = Uuid(
        required=True,
        allow_none=True,
        metadata=doc("User id of the payee; null for an unrecognized transfer.", demo_ids.VENDOR_OWNER),
    )
    resolved_at = Timestamp(required=True, allow_none=True)
    resolved_by = Uuid(required=True, allow_none=True)
    resolution_note = fields.String(required=True, allow_none=True)


class OfficerNote(Schema):
    """An officer's note: the action taken on an exception, or the reason to void a payout."""

    note = SingleLineText(
        min_length=10,
        max_length=500,
        required=True,
        metadata=doc("Reason or action, for the audit trail.", "The vendor corrected the account number."),
    )


class ResolvedTransferException(Identified):
    """A resolved transfer exception."""

    status = Choice("open", "resolved", required=True, metadata=doc("Always `resolved`.", "resolved"))
    resolution_note = fields.String(required=True)
    resolved_at = Timestamp(required=True)


class StalledPayoutQuery(OffsetQuery):
    """Sort order of stalled payouts."""

    sort = sort_choice(admin_queries.STALLED_SORTS, default="created_at")


class StalledPayoutRow(PayoutIssueRow):
    """A payout in transit for more than 48 hours; ``askedNextAt`` is the time of the next status poll."""

    status = Choice(
        states.PENDING,
        states.SUBMITTED,
        states.UNKNOWN,
        required=True,
        metadata=doc("Status of the payout.", "submitted"),
    )
    batch_status = Choice(
        *sorted(states.BATCH.states),
        required=True,
        allow_none=True,
        metadata=doc("Status of the batch; null without a batch.", "dispatching"),
    )
    amount_minor = MinorAmount(minimum=1, required=True)
    payee_id = Uuid(required=True, metadata=doc("User id of the payee.", demo_ids.VENDOR_OWNER))
    reference = fields.String(
        required=True,
        allow_none=True,
        metadata=doc(
            "Reference of the transfer; null before the dispatch.", "payout-01958b3c7a107c3e9d524f6a8b0c1d2e"
        ),
    )
    times_asked = StrictInteger(minimum=0, required=True, metadata=doc("Number of status polls so far.", 12))
    asked_next_at = Timestamp(
        required=True,
        allow_none=True,
        metadata=doc("Time of the next status poll; null if none is planned.", DELIVERED_AT),
    )
    sent_at = Timestamp(required=True, allow_none=True)
    stalled_at = Timestamp(required=True)
    age_seconds = StrictInteger(minimum=0, required=True)


class PolledPayout(Identified):
    """A payout with a status poll within the next minute."""

    status = Choice(*_PAYOUT_STATUSES, required=True, metadata=doc("Status of the payout.", "submitted"))
    reference = fields.String(
        required=True, metadata=doc("Reference of the transfer.", "payout-01958b3c7a107c3e9d524f6a8b0c1d2e")
    )


class VoidedPayout(PolledPayout):
    """A voided payout; the amount is back in the payee's balance."""

    status = Choice(*_PAYOUT_STATUSES, required=True, metadata=doc("Always `failed`.", "failed"))
