"""Schemas of payout batches: requests and responses."""

from marshmallow import fields

from blueprints.http.fields import (
    Choice,
    CursorQuery,
    DateRangeQuery,
    FullMatch,
    Identified,
    MinorAmount,
    OffsetQuery,
    Revised,
    Schema,
    SingleLineText,
    StrictInteger,
    Text,
    Timestamp,
    UniqueList,
    Updated,
    Uuid,
    sort_choice,
)
from blueprints.payouts.payees.schemas import PayoutAccountView
from marketplace.payouts import states
from marketplace.payouts.batches import detail, queries, staging
from marketplace.payouts.payees import holds

_MAX_PAYEES = 2 * staging.PAYEES_LIMIT
_STATUSES = sorted(states.BATCH.states)
_PAYOUT_STATUSES = sorted(states.PAYOUT.states)


def _payment_count() -> StrictInteger:
    return StrictInteger(minimum=0, maximum=_MAX_PAYEES, required=True)


class StageBatch(Schema):
    """The vendors to pay; all payable vendors by default."""

    vendor_ids = UniqueList(
        Uuid(),
        min_length=1,
        max_length=1_000,
        metadata={"description": "Ids of the stores to pay; all by default."},
    )


class ApproveBatch(Schema):
    """An officer's approval of a batch."""

    comment = Text(max_length=500, metadata={"description": "Shown to the other officers."})
    content_hash = fields.String(
        validate=FullMatch("[0-9a-f]{64}", error="Must be 64 lowercase hexadecimal digits."),
        metadata={
            "description": "The `contentHash` that you reviewed. If the batch has changed since, the response is 409."
        },
    )


class RejectBatch(Schema):
    """The reason to reject a batch."""

    reason = SingleLineText(
        min_length=10, max_length=500, required=True, metadata={"description": "Shown to the other officers."}
    )


class ExcludePayments(RejectBatch):
    """The payments to exclude from a batch, and the reason."""

    intent_ids = UniqueList(Uuid(), min_length=1, max_length=100, required=True)


class BatchQuery(DateRangeQuery, OffsetQuery):
    """Filters of batches; ``to`` is exclusive.

    ``undisbursed`` selects staged, approved and dispatching batches. ``awaiting`` selects staged and approved batches.
    """

    sort = sort_choice(queries.SORTS, default="created_at")
    status = Choice(*queries.FILTERS, load_default=queries.UNDISBURSED)


class BatchDetailQuery(CursorQuery):
    """Filter of a batch's payments by a risk flag; ``any`` selects payments with any flag."""

    risk = Choice(
        detail.ANY_RISK,
        *detail.RISK_FLAGS,
        load_default=None,
        metadata={
            "description": " ".join(f"{risk}: {meaning}" for risk, meaning in detail.RISK_FLAGS.items())
        },
    )


class BatchOfficer(Identified):
    """An officer."""

    name = fields.String(required=True, allow_none=True)


class PayoutBatchRow(Revised):
    """A batch. ``stagedBy`` is null for batches of the schedule. The sums exclude cancelled payments."""

    status = Choice(*_STATUSES, required=True)
    payments = _payment_count()
    amount_minor = MinorAmount(required=True)
    currency = fields.String(required=True)
    paid = _payment_count()
    failed = _payment_count()
    stalled = StrictInteger(
        minimum=0,
        maximum=_MAX_PAYEES,
        required=True,
        metadata={"description": "Payments in transit for more than 48 hours."},
    )
    staged_by = fields.Nested(BatchOfficer, required=True, allow_none=True)
    approved_at = Timestamp(required=True, allow_none=True)
    rejected_by = fields.Nested(BatchOfficer, required=True, allow_none=True)
    rejected_at = Timestamp(required=True, allow_none=True)
    rejection_reason = fields.String(required=True, allow_none=True)
    dispatched_by = fields.Nested(BatchOfficer, required=True, allow_none=True)
    dispatched_at = Timestamp(required=True, allow_none=True)
    finished_at = Timestamp(required=True, allow_none=True)


class BatchApproval(Schema):
    """An officer's approval, which counts while the batch still has the approved ``contentHash``."""

    officer = fields.Nested(BatchOfficer, required=True)
    content_hash = fields.String(required=True)
    comment = fields.String(required=True, allow_none=True)
    created_at = Timestamp(required=True)
    counts = fields.Boolean(required=True)


class PayoutBatchView(PayoutBatchRow):
    """A batch with approvals.

    ``contentHash`` is the fingerprint of the current payments or, after the dispatch, of the approved payments.
    """

    content_hash = fields.String(required=True)
    staged_hash = fields.String(required=True)
    approved_hash = fields.String(required=True, allow_none=True)
    changed_since_staging = fields.Boolean(required=True)
    changed_since_approval = fields.Boolean(required=True)
    approvals = fields.List(
        fields.Nested(BatchApproval),
        required=True,
        metadata={"description": "Without the staging, which counts as the stager's approval."},
    )
    approvals_missing = StrictInteger(minimum=0, maximum=2, required=True)


class SkippedVendor(Schema):
    """A vendor without a payment in the batch, and the reason."""

    vendor_id = Uuid(required=True)
    reason = Choice(*staging.SKIP_REASONS, required=True)
    until = Timestamp(required=True, allow_none=True)


class StagedPayoutBatch(PayoutBatchView):
    """A newly staged batch, with the amount collected for debts and the skipped vendors."""

    collected_minor = MinorAmount(required=True)
    left_out = fields.List(
        fields.Nested(SkippedVendor), required=True, metadata={"description": "Skipped vendors, at most 100."}
    )


class BatchPayee(Schema):
    """The payee: a vendor with a store, or a person paid from the wallet (without a store)."""

    user_id = Uuid(required=True)
    vendor_id = Uuid(required=True, allow_none=True)
    name = fields.String(required=True, allow_none=True, attribute="payee_name")
    store_name = fields.String(required=True, allow_none=True)
    store_slug = fields.String(required=True, allow_none=True)


class BatchAccount(PayoutAccountView):
    """A bank account, with only the last four digits of the account number."""

    id = Uuid(required=True)
    since = Timestamp(required=True, attribute="created_at")


class PayeeHold(Schema):
    """A reason that blocks payouts to a payee, with the end if known."""

    reason = Choice(*holds.HOLD_REASONS, required=True)
    until = Timestamp(required=True, allow_none=True)


class PayeeHistory(Schema):
    """The payee's latest 12 successful payouts before this payment."""

    payments = StrictInteger(minimum=0, maximum=100, required=True, attribute="successful_payouts")
    average_minor = MinorAmount(required=True, allow_none=True)
    largest_minor = MinorAmount(required=True, allow_none=True)
    last_paid_at = Timestamp(required=True, allow_none=True)


class BatchPayment(Updated):
    """A payment of a batch with risk flags.

    ``account`` is the bank account that the payment would go to now, or went to. ``stagedAccount`` is the account at
    the staging, if different.
    """

    payee = fields.Nested(BatchPayee, required=True, attribute="payee_view")
    source = Choice("vendor", "wallet", required=True)
    amount_minor = MinorAmount(minimum=1, required=True)
    status = Choice(*_PAYOUT_STATUSES, required=True)
    asked_for = fields.Boolean(
        required=True, metadata={"description": "Whether the payee requested the payment before the staging."}
    )
    account = fields.Nested(BatchAccount, required=True)
    staged_account = fields.Nested(BatchAccount, required=True, allow_none=True)
    risks = fields.List(Choice(*detail.RISK_FLAGS), required=True)
    holds = fields.List(fields.Nested(PayeeHold), required=True)
    history = fields.Nested(PayeeHistory, required=True)
    disputes = StrictInteger(minimum=0, required=True)
    owes_minor = MinorAmount(required=True)
    failure_reason = fields.String(required=True, allow_none=True)
    stalled_at = Timestamp(required=True, allow_none=True)


class BatchStatusTotal(Schema):
    """The number and the sum of payments with a status."""

    status = Choice(*_PAYOUT_STATUSES, required=True, attribute="name")
    payments = _payment_count()
    amount_minor = MinorAmount(required=True)


class BatchRiskTotal(Schema):
    """The number and the sum of payments with a risk flag."""

    risk = Choice(*detail.RISK_FLAGS, required=True, attribute="name")
    meaning = fields.String(required=True)
    payments = _payment_count()
    amount_minor = MinorAmount(required=True)


class BatchChange(Schema):
    """A change of a payment since the staging."""

    intent_id = Uuid(required=True, attribute="id")
    change = Choice("called_off", "account_changed", required=True)
    payee = fields.Nested(BatchPayee, required=True, attribute="payee_view")
    amount_minor = MinorAmount(required=True)
    at = Timestamp(required=True, attribute="changed_at")


class PayoutBatchDetail(PayoutBatchView):
    """A batch with the details that officers review before an approval, and a page of payments."""

    halted = fields.Boolean(
        required=True,
        metadata={"description": "Whether all payouts are halted. Nothing is sent until payouts resume."},
    )
    statuses = fields.List(fields.Nested(BatchStatusTotal), required=True)
    risks = fields.List(fields.Nested(BatchRiskTotal), required=True)
    changes = fields.List(
        fields.Nested(BatchChange),
        required=True,
        metadata={"description": "Changes since the staging, at most 100."},
    )
    intents = fields.List(
        fields.Nested(BatchPayment),
        required=True,
        metadata={
            "description": "Payments with the most risk flags first, then the largest. Cancelled payments are left out."
        },
    )
