"""What officers stage, approve and call off batches with, and what batches look like."""

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
    """Whom to pay; without it, all who can be."""

    vendor_ids = UniqueList(
        Uuid(),
        min_length=1,
        max_length=1_000,
        metadata={"description": "Stores' ids; without it, all."},
    )


class ApproveBatch(Schema):
    """What an officer says with their approval."""

    comment = Text(max_length=500, metadata={"description": "For the other officers."})
    content_hash = fields.String(
        validate=FullMatch("[0-9a-f]{64}", error="Must be 64 lowercase hexadecimal digits."),
        metadata={"description": "What you read: if the batch is not that any more, this answers 409."},
    )


class RejectBatch(Schema):
    """Why a batch is called off."""

    reason = SingleLineText(
        min_length=10, max_length=500, required=True, metadata={"description": "For the other officers."}
    )


class ExcludePayments(RejectBatch):
    """Which payments are taken out of a batch, and why."""

    intent_ids = UniqueList(Uuid(), min_length=1, max_length=100, required=True)


class BatchQuery(DateRangeQuery, OffsetQuery):
    """Which batches are listed; ``to`` is exclusive.

    ``undisbursed`` are those that are staged, approved or dispatching, ``awaiting`` of these what waits for officers.
    """

    sort = sort_choice(queries.SORTS, default="created_at")
    status = Choice(*queries.FILTERS, load_default=queries.UNDISBURSED)


class BatchDetailQuery(CursorQuery):
    """Which payments of a batch are shown: those with a risk, with ``any``, or all."""

    risk = Choice(
        detail.ANY_RISK,
        *detail.RISK_FLAGS,
        load_default=None,
        metadata={
            "description": " ".join(f"{risk}: {meaning}" for risk, meaning in detail.RISK_FLAGS.items())
        },
    )


class BatchOfficer(Identified):
    """Somebody of staff."""

    name = fields.String(required=True, allow_none=True)


class PayoutBatchRow(Revised):
    """A batch. ``stagedBy`` is none where the schedule staged it; what was called off is in none of the sums."""

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
        metadata={"description": "Under way for over 48 hours."},
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
    """An officer's word for a batch; it counts as long as the batch is what it was then."""

    officer = fields.Nested(BatchOfficer, required=True)
    content_hash = fields.String(required=True)
    comment = fields.String(required=True, allow_none=True)
    created_at = Timestamp(required=True)
    counts = fields.Boolean(required=True)


class PayoutBatchView(PayoutBatchRow):
    """A batch with what of it was approved by whom.

    ``contentHash`` is of what it pays as of now, or, once it is being sent, of what was approved.
    """

    content_hash = fields.String(required=True)
    staged_hash = fields.String(required=True)
    approved_hash = fields.String(required=True, allow_none=True)
    changed_since_staging = fields.Boolean(required=True)
    changed_since_approval = fields.Boolean(required=True)
    approvals = fields.List(
        fields.Nested(BatchApproval),
        required=True,
        metadata={"description": "Beside the staging, which is the stager's."},
    )
    approvals_missing = StrictInteger(minimum=0, maximum=2, required=True)


class SkippedVendor(Schema):
    """A vendor whose money stays where it is, and why."""

    vendor_id = Uuid(required=True)
    reason = Choice(*staging.SKIP_REASONS, required=True)
    until = Timestamp(required=True, allow_none=True)


class StagedPayoutBatch(PayoutBatchView):
    """A batch that was just staged, what was taken for debts first, and vendors who could not be paid."""

    collected_minor = MinorAmount(required=True)
    left_out = fields.List(
        fields.Nested(SkippedVendor), required=True, metadata={"description": "At most 100 of them."}
    )


class BatchPayee(Schema):
    """Who is paid: a vendor for the store, or somebody out of their wallet (without store)."""

    user_id = Uuid(required=True)
    vendor_id = Uuid(required=True, allow_none=True)
    name = fields.String(required=True, allow_none=True, attribute="payee_name")
    store_name = fields.String(required=True, allow_none=True)
    store_slug = fields.String(required=True, allow_none=True)


class BatchAccount(PayoutAccountView):
    """A bank account; of its number the last four digits are shown."""

    id = Uuid(required=True)
    since = Timestamp(required=True, attribute="created_at")


class PayeeHold(Schema):
    """Why nothing is paid to somebody, and until when, if it ends by itself."""

    reason = Choice(*holds.HOLD_REASONS, required=True)
    until = Timestamp(required=True, allow_none=True)


class PayeeHistory(Schema):
    """The latest 12 payments that arrived at a payee before."""

    payments = StrictInteger(minimum=0, maximum=100, required=True, attribute="successful_payouts")
    average_minor = MinorAmount(required=True, allow_none=True)
    largest_minor = MinorAmount(required=True, allow_none=True)
    last_paid_at = Timestamp(required=True, allow_none=True)


class BatchPayment(Updated):
    """A payment of a batch, with what is risky in it.

    ``account`` is where it would go now, or went; ``stagedAccount`` the one at staging where that is another.
    """

    payee = fields.Nested(BatchPayee, required=True, attribute="payee_view")
    source = Choice("vendor", "wallet", required=True)
    amount_minor = MinorAmount(minimum=1, required=True)
    status = Choice(*_PAYOUT_STATUSES, required=True)
    asked_for = fields.Boolean(required=True, metadata={"description": "By the payee, before the staging."})
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
    """How many payments are in a status, and how much they come to."""

    status = Choice(*_PAYOUT_STATUSES, required=True, attribute="name")
    payments = _payment_count()
    amount_minor = MinorAmount(required=True)


class BatchRiskTotal(Schema):
    """In how many payments something is risky, and how much they come to."""

    risk = Choice(*detail.RISK_FLAGS, required=True, attribute="name")
    meaning = fields.String(required=True)
    payments = _payment_count()
    amount_minor = MinorAmount(required=True)


class BatchChange(Schema):
    """What of a batch is not any more as it was staged."""

    intent_id = Uuid(required=True, attribute="id")
    change = Choice("called_off", "account_changed", required=True)
    payee = fields.Nested(BatchPayee, required=True, attribute="payee_view")
    amount_minor = MinorAmount(required=True)
    at = Timestamp(required=True, attribute="changed_at")


class PayoutBatchDetail(PayoutBatchView):
    """A batch with all that an officer looks at before approving it, and a page of its payments."""

    halted = fields.Boolean(
        required=True, metadata={"description": "All payouts stand still: nothing is sent until they resume."}
    )
    statuses = fields.List(fields.Nested(BatchStatusTotal), required=True)
    risks = fields.List(fields.Nested(BatchRiskTotal), required=True)
    changes = fields.List(
        fields.Nested(BatchChange), required=True, metadata={"description": "At most 100 of them."}
    )
    intents = fields.List(
        fields.Nested(BatchPayment),
        required=True,
        metadata={
            "description": "Those with the most risks first, then the largest; what was called off is not here."
        },
    )
