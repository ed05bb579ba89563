"""Schemas of payout batches: requests and responses."""

from marshmallow import fields

from blueprints.http.field_docs import (
    DELIVERED_AT,
    FINGERPRINT,
    OTHER_ID,
    PAID_AT,
    PLACED_AT,
    STORE_NAME,
    doc,
)
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
from marketplace.kernel import demo_ids
from marketplace.payouts import states
from marketplace.payouts.batches import detail, queries, staging
from marketplace.payouts.payees import holds

_MAX_PAYEES = 2 * staging.PAYEES_LIMIT
_STATUSES = sorted(states.BATCH.states)
_PAYOUT_STATUSES = sorted(states.PAYOUT.states)


def _payment_count(description: str = "Number of payments.", example: int = 1) -> StrictInteger:
    return StrictInteger(minimum=0, maximum=_MAX_PAYEES, required=True, metadata=doc(description, example))


class StageBatch(Schema):
    """The vendors to pay; all payable vendors by default."""

    vendor_ids = UniqueList(
        Uuid(),
        min_length=1,
        max_length=1_000,
        metadata=doc("Ids of the stores to pay; all by default.", [demo_ids.STORE]),
    )


class ApproveBatch(Schema):
    """An officer's approval of a batch."""

    comment = Text(
        max_length=500, metadata=doc("Shown to the other officers.", "Amounts and accounts checked.")
    )
    content_hash = fields.String(
        validate=FullMatch("[0-9a-f]{64}", error="Must be 64 lowercase hexadecimal digits."),
        metadata=doc(
            "The `contentHash` that you reviewed. If the batch has changed since, the response is 409.",
            FINGERPRINT,
        ),
    )


class RejectBatch(Schema):
    """The reason to reject a batch."""

    reason = SingleLineText(
        min_length=10,
        max_length=500,
        required=True,
        metadata=doc("Shown to the other officers.", "The total is out of date."),
    )


class ExcludePayments(RejectBatch):
    """The payments to exclude from a batch, and the reason."""

    intent_ids = UniqueList(
        Uuid(),
        min_length=1,
        max_length=100,
        required=True,
        metadata=doc("Ids of payments of the batch.", [OTHER_ID]),
    )


class BatchQuery(DateRangeQuery, OffsetQuery):
    """Filters of batches; ``to`` is exclusive.

    ``undisbursed`` selects staged, approved and dispatching batches. ``awaiting`` selects staged and approved batches.
    """

    sort = sort_choice(queries.SORTS, default="created_at")
    status = Choice(
        *queries.FILTERS,
        load_default=queries.UNDISBURSED,
        metadata=doc("Only batches with this status, or in a group of statuses.", "undisbursed"),
    )


class BatchDetailQuery(CursorQuery):
    """Filter of a batch's payments by a risk flag; ``any`` selects payments with any flag."""

    risk = Choice(
        detail.ANY_RISK,
        *detail.RISK_FLAGS,
        load_default=None,
        metadata=doc(
            " ".join(f"{risk}: {meaning}" for risk, meaning in detail.RISK_FLAGS.items()), "first_payout"
        ),
    )


class BatchOfficer(Identified):
    """An officer."""

    example_id = demo_ids.FINANCE

    name = fields.String(
        required=True, allow_none=True, metadata=doc("Full name; null without one.", "Zainab Lawal")
    )


class PayoutBatchRow(Revised):
    """A batch. ``stagedBy`` is null for batches of the schedule. The sums exclude cancelled payments."""

    example_id = demo_ids.PAYOUT_BATCH

    status = Choice(*_STATUSES, required=True, metadata=doc("Status of the batch.", "staged"))
    payments = _payment_count()
    amount_minor = MinorAmount(required=True, metadata=doc("Sum of the payments in kobo.", 679_250))
    currency = fields.String(required=True)
    paid = _payment_count("Number of successful payments.", 0)
    failed = _payment_count("Number of failed payments.", 0)
    stalled = StrictInteger(
        minimum=0,
        maximum=_MAX_PAYEES,
        required=True,
        metadata=doc("Payments in transit for more than 48 hours.", 0),
    )
    staged_by = fields.Nested(BatchOfficer, required=True, allow_none=True)
    approved_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Time of the last required approval; null before.", None)
    )
    rejected_by = fields.Nested(BatchOfficer, required=True, allow_none=True)
    rejected_at = Timestamp(required=True, allow_none=True)
    rejection_reason = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("Reason of the rejection, for the other officers; null without a rejection.", None),
    )
    dispatched_by = fields.Nested(BatchOfficer, required=True, allow_none=True)
    dispatched_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Time of the dispatch; null before.", None)
    )
    finished_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Time of the last final payment; null until then.", None)
    )


class BatchApproval(Schema):
    """An officer's approval, which counts while the batch still has the approved ``contentHash``."""

    officer = fields.Nested(BatchOfficer, required=True, metadata=doc("Officer who approved."))
    content_hash = fields.String(required=True)
    comment = fields.String(
        required=True,
        allow_none=True,
        metadata=doc(
            "Comment for the other officers; null without a comment.", "Amounts and accounts checked."
        ),
    )
    created_at = Timestamp(required=True)
    counts = fields.Boolean(
        required=True, metadata=doc("Whether the approval is for the present payments.", True)
    )


class PayoutBatchView(PayoutBatchRow):
    """A batch with approvals.

    ``contentHash`` is the fingerprint of the current payments or, after the dispatch, of the approved payments.
    """

    content_hash = fields.String(required=True)
    staged_hash = fields.String(
        required=True, metadata=doc("Fingerprint of the payments at the staging.", FINGERPRINT)
    )
    approved_hash = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("Fingerprint of the approved payments; null before the last approval.", None),
    )
    changed_since_staging = fields.Boolean(
        required=True, metadata=doc("Whether the payments changed after the staging.", False)
    )
    changed_since_approval = fields.Boolean(
        required=True, metadata=doc("Whether the payments changed after an approval.", False)
    )
    approvals = fields.List(
        fields.Nested(BatchApproval),
        required=True,
        metadata={"description": "Without the staging, which counts as the stager's approval."},
    )
    approvals_missing = StrictInteger(
        minimum=0,
        maximum=2,
        required=True,
        metadata=doc("Number of further approvals that the batch needs.", 1),
    )


class SkippedVendor(Schema):
    """A vendor without a payment in the batch, and the reason."""

    vendor_id = Uuid(required=True)
    reason = Choice(
        *staging.SKIP_REASONS,
        required=True,
        metadata=doc("Reason for leaving out the vendor.", "nothing_to_pay"),
    )
    until = Timestamp(
        required=True,
        allow_none=True,
        metadata=doc("Time when the reason ends; null without a known end.", None),
    )


class StagedPayoutBatch(PayoutBatchView):
    """A newly staged batch, with the amount collected for debts and the skipped vendors."""

    collected_minor = MinorAmount(required=True, metadata=doc("Sum that was deducted for debts, in kobo.", 0))
    left_out = fields.List(
        fields.Nested(SkippedVendor), required=True, metadata={"description": "Skipped vendors, at most 100."}
    )


class BatchPayee(Schema):
    """The payee: a vendor with a store, or a person paid from the wallet (without a store)."""

    user_id = Uuid(required=True, metadata=doc("Id of the person.", demo_ids.VENDOR_OWNER))
    vendor_id = Uuid(required=True, allow_none=True)
    name = fields.String(
        required=True,
        allow_none=True,
        attribute="payee_name",
        metadata=doc("Full name; null without one.", "Ngozi Adeyemi"),
    )
    store_name = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("Public name of the store; null for a wallet.", STORE_NAME),
    )
    store_slug = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("Name of the store for URLs; null for a wallet.", "ngozi-books-gadgets"),
    )


class BatchAccount(PayoutAccountView):
    """A bank account, with only the last four digits of the account number."""

    example_id = demo_ids.PAYOUT_ACCOUNT

    id = Uuid(required=True)
    since = Timestamp(
        required=True, attribute="created_at", metadata=doc("Time of saving.", "2025-11-02T08:00:00Z")
    )


class PayeeHold(Schema):
    """A reason that blocks payouts to a payee, with the end if known."""

    reason = Choice(
        *holds.HOLD_REASONS, required=True, metadata=doc("Reason of the hold.", "bank_account_changed")
    )
    until = Timestamp(
        required=True,
        allow_none=True,
        metadata=doc("End of the hold; null without a known end.", DELIVERED_AT),
    )


class PayeeHistory(Schema):
    """The payee's latest 12 successful payouts before this payment."""

    payments = StrictInteger(
        minimum=0,
        maximum=100,
        required=True,
        attribute="successful_payouts",
        metadata=doc("Number of successful payouts.", 4),
    )
    average_minor = MinorAmount(
        required=True, allow_none=True, metadata=doc("Average amount in kobo; null without payouts.", 540_000)
    )
    largest_minor = MinorAmount(
        required=True, allow_none=True, metadata=doc("Largest amount in kobo; null without payouts.", 820_000)
    )
    last_paid_at = Timestamp(
        required=True,
        allow_none=True,
        metadata=doc("Time of the latest payout; null without payouts.", PLACED_AT),
    )


class BatchPayment(Updated):
    """A payment of a batch with risk flags.

    ``account`` is the bank account that the payment would go to now, or went to. ``stagedAccount`` is the account at
    the staging, if different.
    """

    payee = fields.Nested(
        BatchPayee, required=True, attribute="payee_view", metadata=doc("Person or store that is paid.")
    )
    source = Choice(
        "vendor", "wallet", required=True, metadata=doc("Balance that the payment is paid from.", "vendor")
    )
    amount_minor = MinorAmount(minimum=1, required=True, metadata=doc("Amount in kobo.", 679_250))
    status = Choice(*_PAYOUT_STATUSES, required=True, metadata=doc("Status of the payment.", "pending"))
    asked_for = fields.Boolean(
        required=True, metadata=doc("Whether the payee requested the payment before the staging.", False)
    )
    account = fields.Nested(
        BatchAccount, required=True, metadata=doc("Bank account that the payment goes to.")
    )
    staged_account = fields.Nested(
        BatchAccount,
        required=True,
        allow_none=True,
        metadata=doc("Bank account at the staging; null if unchanged.", None),
    )
    risks = fields.List(
        Choice(*detail.RISK_FLAGS),
        required=True,
        metadata=doc("Risk flags; empty without a risk.", ["first_payout"]),
    )
    holds = fields.List(
        fields.Nested(PayeeHold),
        required=True,
        metadata=doc("Reasons that block the payment; empty without a hold.", []),
    )
    history = fields.Nested(PayeeHistory, required=True, metadata=doc("Earlier payouts to the payee."))
    disputes = StrictInteger(
        minimum=0, required=True, metadata=doc("Number of the payee's disputed orders.", 0)
    )
    owes_minor = MinorAmount(required=True, metadata=doc("The payee's debt in kobo.", 0))
    failure_reason = fields.String(
        required=True, allow_none=True, metadata=doc("Reason of a failure; null otherwise.", None)
    )
    stalled_at = Timestamp(
        required=True,
        allow_none=True,
        metadata=doc("Time since when the payment counts as stalled; null otherwise.", None),
    )


class BatchStatusTotal(Schema):
    """The number and the sum of payments with a status."""

    status = Choice(
        *_PAYOUT_STATUSES, required=True, attribute="name", metadata=doc("Status of the payments.", "pending")
    )
    payments = _payment_count()
    amount_minor = MinorAmount(required=True)


class BatchRiskTotal(Schema):
    """The number and the sum of payments with a risk flag."""

    risk = Choice(
        *detail.RISK_FLAGS, required=True, attribute="name", metadata=doc("Risk flag.", "first_payout")
    )
    meaning = fields.String(
        required=True,
        metadata=doc("Meaning of the flag, in a sentence.", "The payee has never been paid before."),
    )
    payments = _payment_count()
    amount_minor = MinorAmount(required=True)


class BatchChange(Schema):
    """A change of a payment since the staging."""

    intent_id = Uuid(required=True, attribute="id", metadata=doc("Id of the payment.", OTHER_ID))
    change = Choice(
        "called_off",
        "account_changed",
        required=True,
        metadata=doc(
            "`called_off`: the payee cancelled the request. `account_changed`: the payee changed "
            "the bank account.",
            "account_changed",
        ),
    )
    payee = fields.Nested(
        BatchPayee,
        required=True,
        attribute="payee_view",
        metadata=doc("Person or store that was to be paid."),
    )
    amount_minor = MinorAmount(required=True)
    at = Timestamp(required=True, attribute="changed_at", metadata=doc("Time of the change.", PAID_AT))


class PayoutBatchDetail(PayoutBatchView):
    """A batch with the details that officers review before an approval, and a page of payments."""

    halted = fields.Boolean(
        required=True,
        metadata=doc("Whether all payouts are halted. Nothing is sent until payouts resume.", False),
    )
    statuses = fields.List(
        fields.Nested(BatchStatusTotal), required=True, metadata=doc("Totals by status of the payments.")
    )
    risks = fields.List(fields.Nested(BatchRiskTotal), required=True, metadata=doc("Totals by risk flag."))
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
