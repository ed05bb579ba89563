"""What officers stage, approve and call off batches with, and what batches look like."""

from marshmallow import fields

from blueprints.http.date_range import PeriodQuery
from blueprints.http.fields import (
    Choice,
    Distinct,
    Line,
    Matches,
    Minor,
    Moment,
    Schema,
    Text,
    Uuid,
    Whole,
)
from blueprints.http.paging import CursorQuery, OffsetQuery
from marketplace.payouts import states
from marketplace.payouts.batches import detail, queries, staging
from marketplace.payouts.batches.risk_flags import RISKS
from marketplace.payouts.payees import holds

_MOST_NAMED = 1_000
_MOST_TAKEN_OUT = 100
_MOST_PAYEES = 2 * staging.MOST_PAYEES
_STATUSES = sorted(states.BATCH.states)
_INTENT_STATUSES = sorted(states.INTENT.states)
_HASH = Matches("[0-9a-f]{64}", error="Must be 64 lowercase hexadecimal digits.")
_REASON = {"least": 10, "most": 500}


def _count() -> Whole:
    return Whole(low=0, high=_MOST_PAYEES, required=True)


class StageBatch(Schema):
    """Whom to pay; without it, all who can be."""

    vendor_ids = Distinct(
        Uuid(), least=1, most=_MOST_NAMED, metadata={"description": "Stores' ids; without it, all."}
    )


class ApproveBatch(Schema):
    """What an officer says with their approval."""

    comment = Text(most=500, metadata={"description": "For the other officers."})
    content_hash = fields.String(
        validate=_HASH,
        metadata={"description": "What you read: if the batch is not that any more, this answers 409."},
    )


class RejectBatch(Schema):
    """Why a batch is called off."""

    reason = Line(**_REASON, required=True, metadata={"description": "For the other officers."})


class TakePaymentsOut(Schema):
    """Which payments are taken out of a batch, and why."""

    intent_ids = Distinct(Uuid(), least=1, most=_MOST_TAKEN_OUT, required=True)
    reason = Line(**_REASON, required=True, metadata={"description": "For the other officers."})


class BatchQuery(PeriodQuery, OffsetQuery):
    """Which batches are listed; ``to`` is exclusive.

    ``undisbursed`` are those that are staged, approved or dispatching, ``awaiting`` of these what waits for officers.
    """

    sort = Choice(*queries.SORTS, load_default="createdAt")
    status = Choice(*queries.FILTERS, load_default=queries.UNDISBURSED)


class BatchDetailQuery(CursorQuery):
    """Which payments of a batch are shown: those with a risk, with ``any``, or all."""

    risk = Choice(
        detail.ANY_RISK,
        *RISKS,
        load_default=None,
        metadata={"description": " ".join(f"{risk}: {meaning}" for risk, meaning in RISKS.items())},
    )


class BatchOfficer(Schema):
    """Somebody of staff."""

    id = Uuid(required=True)
    name = fields.String(required=True, allow_none=True)


class PayoutBatchRow(Schema):
    """A batch. ``stagedBy`` is none where the schedule staged it; what was called off is in none of the sums."""

    id = Uuid(required=True)
    status = Choice(*_STATUSES, required=True)
    payments = _count()
    amount_minor = Minor(required=True)
    currency = fields.String(required=True)
    paid = _count()
    failed = _count()
    stalled = Whole(
        low=0, high=_MOST_PAYEES, required=True, metadata={"description": "Under way for over 48 hours."}
    )
    staged_by = fields.Nested(BatchOfficer, required=True, allow_none=True)
    approved_at = Moment(required=True, allow_none=True)
    rejected_by = fields.Nested(BatchOfficer, required=True, allow_none=True)
    rejected_at = Moment(required=True, allow_none=True)
    rejection_reason = fields.String(required=True, allow_none=True)
    dispatched_by = fields.Nested(BatchOfficer, required=True, allow_none=True)
    dispatched_at = Moment(required=True, allow_none=True)
    finished_at = Moment(required=True, allow_none=True)
    revision = Whole(low=1, required=True)
    created_at = Moment(required=True)
    updated_at = Moment(required=True)


class BatchApproval(Schema):
    """An officer's word for a batch; it counts as long as the batch is what it was then."""

    officer = fields.Nested(BatchOfficer, required=True)
    content_hash = fields.String(required=True)
    comment = fields.String(required=True, allow_none=True)
    created_at = Moment(required=True)
    counts = fields.Boolean(required=True)


class PayoutBatch(PayoutBatchRow):
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
    approvals_missing = Whole(low=0, high=2, required=True)


class LeftOutVendor(Schema):
    """A vendor whose money stays where it is, and why."""

    vendor_id = Uuid(required=True)
    reason = Choice(*staging.REASONS, required=True)
    until = Moment(required=True, allow_none=True)


class StagedPayoutBatch(PayoutBatch):
    """A batch that was just staged, what was taken for debts first, and vendors who could not be paid."""

    collected_minor = Minor(required=True)
    left_out = fields.List(
        fields.Nested(LeftOutVendor), required=True, metadata={"description": "At most 100 of them."}
    )


class BatchPayee(Schema):
    """Who is paid: a vendor for the store, or somebody out of their wallet (without store)."""

    user_id = Uuid(required=True)
    vendor_id = Uuid(required=True, allow_none=True)
    name = fields.String(required=True, allow_none=True)
    store_name = fields.String(required=True, allow_none=True)
    store_slug = fields.String(required=True, allow_none=True)


class BatchAccount(Schema):
    """A bank account; of its number the last four digits are shown."""

    id = Uuid(required=True)
    bank_code = fields.String(required=True)
    bank_name = fields.String(required=True, allow_none=True)
    account_number = fields.String(required=True)
    account_name = fields.String(required=True)
    since = Moment(required=True)


class PayeeHold(Schema):
    """Why nothing is paid to somebody, and until when, if it ends by itself."""

    reason = Choice(*holds.HOLD_REASONS, required=True)
    until = Moment(required=True, allow_none=True)


class PayeeHistory(Schema):
    """The latest 12 payments that arrived at a payee before."""

    payments = Whole(low=0, high=100, required=True)
    average_minor = Minor(required=True, allow_none=True)
    largest_minor = Minor(required=True, allow_none=True)
    last_paid_at = Moment(required=True, allow_none=True)


class BatchPayment(Schema):
    """A payment of a batch, with what is risky in it.

    ``account`` is where it would go now, or went; ``stagedAccount`` the one at staging where that is another.
    """

    id = Uuid(required=True)
    payee = fields.Nested(BatchPayee, required=True)
    source = Choice("vendor", "wallet", required=True)
    amount_minor = Minor(low=1, required=True)
    status = Choice(*_INTENT_STATUSES, required=True)
    asked_for = fields.Boolean(required=True, metadata={"description": "By the payee, before the staging."})
    account = fields.Nested(BatchAccount, required=True)
    staged_account = fields.Nested(BatchAccount, required=True, allow_none=True)
    risks = fields.List(Choice(*RISKS), required=True)
    holds = fields.List(fields.Nested(PayeeHold), required=True)
    history = fields.Nested(PayeeHistory, required=True)
    disputes = Whole(low=0, required=True)
    owes_minor = Minor(required=True)
    failure_reason = fields.String(required=True, allow_none=True)
    stalled_at = Moment(required=True, allow_none=True)
    created_at = Moment(required=True)
    updated_at = Moment(required=True)


class BatchStatusSum(Schema):
    """How many payments are in a status, and how much they come to."""

    status = Choice(*_INTENT_STATUSES, required=True)
    payments = _count()
    amount_minor = Minor(required=True)


class BatchRiskSum(Schema):
    """In how many payments something is risky, and how much they come to."""

    risk = Choice(*RISKS, required=True)
    meaning = fields.String(required=True)
    payments = _count()
    amount_minor = Minor(required=True)


class BatchChange(Schema):
    """What of a batch is not any more as it was staged."""

    intent_id = Uuid(required=True)
    change = Choice("called_off", "account_changed", required=True)
    payee = fields.Nested(BatchPayee, required=True)
    amount_minor = Minor(required=True)
    at = Moment(required=True)


class PayoutBatchDetail(PayoutBatch):
    """A batch with all that an officer looks at before approving it, and a page of its payments."""

    halted = fields.Boolean(
        required=True, metadata={"description": "All payouts stand still: nothing is sent until they resume."}
    )
    statuses = fields.List(fields.Nested(BatchStatusSum), required=True)
    risks = fields.List(fields.Nested(BatchRiskSum), required=True)
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
