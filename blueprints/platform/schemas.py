"""Schemas of proposals, payout halts and the platform's status."""

from typing import Any

from marshmallow import ValidationError, fields, validates_schema

from blueprints.http.field_docs import DELIVERED_AT, PLACED_AT, PROMOTION_END, PROMOTION_START, doc
from blueprints.http.fields import (
    Choice,
    Created,
    Identified,
    OffsetQuery,
    Schema,
    SingleLineText,
    StrictBoolean,
    StrictInteger,
    Text,
    Timestamp,
    Uuid,
    sort_choice,
)
from marketplace.kernel import demo_ids
from marketplace.platform.fees import FEES
from marketplace.proposals import queries, states
from marketplace.proposals.kinds import CHANGES
from marketplace.proposals.wallet_adjustment import MAX_ADJUSTMENT_MINOR

_REASON_LENGTH = {"min_length": 3, "max_length": 500}
_STATUSES = sorted(states.PROPOSAL.states)
# The required and the optional payload fields, by kind.
_PAYLOAD_FIELDS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "fee": (frozenset({"key", "value"}), frozenset()),
    "category_commission": (frozenset({"category_id", "commission_bps"}), frozenset()),
    "feature_flag": (frozenset({"key", "enabled"}), frozenset()),
    "maintenance": (frozenset({"active"}), frozenset({"message", "until"})),
    "payout_resume": (frozenset({"reason"}), frozenset()),
    "wallet_adjustment": (frozenset({"user_id", "amount_minor", "reason"}), frozenset()),
}


class ProposedChange(Schema):
    """The payload of a proposal. The allowed fields depend on the kind."""

    key = SingleLineText(
        max_length=64,
        metadata=doc(
            f"For `fee`: one of {', '.join(FEES)}. For `feature_flag`: the name of the feature.",
            "express_delivery",
        ),
    )
    value = StrictInteger(minimum=0, metadata=doc("For `fee`: basis points, kobo or a count.", 15_000))
    category_id = Uuid(metadata={"description": "For `category_commission`."})
    commission_bps = StrictInteger(
        minimum=0,
        allow_none=True,
        metadata={
            "description": "For `category_commission`: basis points; null for the platform's default rate."
        },
    )
    enabled = StrictBoolean(metadata={"description": "For `feature_flag`."})
    active = StrictBoolean(metadata={"description": "For `maintenance`."})
    message = SingleLineText(
        max_length=300,
        metadata=doc("For `maintenance`: a message for users.", "We are back at 06:00."),
    )
    until = Timestamp(metadata=doc("For `maintenance`: the automatic end.", PROMOTION_END))
    reason = Text(
        **_REASON_LENGTH,
        metadata=doc(
            "For `payout_resume`: why payouts are safe again. For `wallet_adjustment`: the reason that the owner of"
            " the wallet reads.",
            "The missing transfer was found and posted.",
        ),
    )
    user_id = Uuid(metadata={"description": "For `wallet_adjustment`: the owner of the wallet."})
    amount_minor = StrictInteger(
        minimum=-MAX_ADJUSTMENT_MINOR,
        metadata={"description": "For `wallet_adjustment`: kobo to add, or to take if negative."},
    )


class CreateProposal(Schema):
    """A proposed change of the platform, with the reason."""

    example_omits = frozenset({"effective_at"})

    kind = Choice(
        *CHANGES,
        required=True,
        metadata=doc("Kind of change, which determines the fields of `payload`.", "feature_flag"),
    )
    payload = fields.Nested(
        ProposedChange,
        required=True,
        metadata=doc(
            "New values, with the fields of the kind.", {"key": "express_delivery", "enabled": True}
        ),
    )
    reason = Text(
        **_REASON_LENGTH,
        required=True,
        metadata=doc("Reason, for the deciding officer.", "The riders of both campuses are ready."),
    )
    effective_at = Timestamp(
        metadata=doc(
            "The time of the change. Without a time, the change takes effect at the approval.",
            PROMOTION_START,
        ),
    )

    @validates_schema
    def check_payload(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Check the payload's fields against the kind."""
        needed, allowed = _PAYLOAD_FIELDS[data["kind"]]
        names = {name: field.data_key for name, field in ProposedChange().fields.items()}
        provided = data["payload"].keys()
        errors = {names[name]: ["Missing data for required field."] for name in needed - provided}
        errors |= {
            names[name]: [f"Is not allowed for the kind {data['kind']}."]
            for name in provided - needed - allowed
        }
        if errors:
            raise ValidationError({"payload": errors})


class RejectProposal(Schema):
    """The reason to reject a proposal."""

    reason = Text(
        **_REASON_LENGTH,
        required=True,
        metadata=doc("Reason, for the other officers.", "The fee was raised only last month."),
    )


class ProposalQuery(OffsetQuery):
    """Filters of the list of proposals."""

    sort = sort_choice(queries.SORTS, default="created_at")
    status = Choice(
        *_STATUSES, load_default=None, metadata=doc("Only proposals with this status.", "pending")
    )
    kind = Choice(*CHANGES, load_default=None, metadata=doc("Only proposals of this kind.", "fee"))


class ProposalOfficer(Identified):
    """An officer in a proposal's decisions."""

    example_id = demo_ids.ADMIN

    name = fields.String(required=True, allow_none=True, metadata=doc("Full name.", "Folake Balogun"))


class ProposalRow(Created):
    """A proposal with the change, the effect and the decisions."""

    example_id = demo_ids.PROPOSAL

    kind = Choice(*CHANGES, required=True, metadata=doc("Kind of change.", "fee"))
    status = Choice(*_STATUSES, required=True, metadata=doc("Status of the proposal.", "pending"))
    target = fields.String(
        required=True, metadata=doc("Name of the changed setting, category or switch.", "service_fee_minor")
    )
    payload = fields.Dict(
        required=True,
        metadata=doc(
            "New values, with the fields of the kind.", {"key": "service_fee_minor", "value": 15_000}
        ),
    )
    reason = fields.String(
        required=True, metadata=doc("Reason, for the deciding officer.", "Card fees rose this year.")
    )
    before = fields.Dict(
        required=True, metadata=doc("Changed values at the time of the proposal.", {"value": 10_000})
    )
    after = fields.Dict(
        required=True, metadata=doc("Changed values with the proposal in effect.", {"value": 15_000})
    )
    effect = fields.Dict(
        required=True,
        metadata=doc(
            "The effect of the change, such as a sample order before and after.",
            {"sampleOrder": {"before": {"totalMinor": 1_060_000}, "after": {"totalMinor": 1_065_000}}},
        ),
    )
    effective_at = Timestamp(
        required=True,
        allow_none=True,
        metadata=doc("Time of the change; null for the time of approval.", None),
    )
    expires_at = Timestamp(
        required=True, metadata=doc("End of the time for a decision.", "2026-03-09T09:30:00Z")
    )
    proposed_by = fields.Nested(ProposalOfficer, required=True)
    approved_by = fields.Nested(ProposalOfficer, required=True, allow_none=True)
    approved_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Time of the approval; null before.", None)
    )
    activated_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Time when the change took effect; null before.", None)
    )
    rejected_by = fields.Nested(ProposalOfficer, required=True, allow_none=True)
    rejected_at = Timestamp(required=True, allow_none=True)
    rejection_reason = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("Reason of the rejection; null without a rejection.", None),
    )
    expired_at = Timestamp(required=True, allow_none=True)


class Proposal(ProposalRow):
    """A proposal with the current values and the caller's possible actions."""

    current = fields.Dict(
        required=True,
        allow_none=True,
        metadata=doc("The current values; null for a closed proposal.", {"value": 10_000}),
    )
    next_actions = fields.List(
        Choice(states.APPROVE, states.REJECT),
        required=True,
        metadata=doc("Actions that the caller may take now.", ["approve", "reject"]),
    )


class PayoutHaltView(Identified):
    """A halt of all payouts."""

    state = Choice(
        "halted", "resumed", required=True, metadata=doc("Whether payouts are still halted.", "resumed")
    )
    reason = fields.String(
        required=True, metadata=doc("Reason of the halt.", "The gateway's balance differs from the ledger.")
    )
    findings = StrictInteger(
        attribute="finding_count",
        minimum=0,
        required=True,
        metadata=doc("The number of different findings during the halt.", 2),
    )
    halted_at = Timestamp(required=True, metadata=doc("Start of the halt.", PLACED_AT))
    resumed_at = Timestamp(
        required=True, allow_none=True, metadata=doc("End of the halt; null while halted.", DELIVERED_AT)
    )
    proposal_id = Uuid(
        required=True, allow_none=True, metadata=doc("The proposal that resumed payouts.", demo_ids.PROPOSAL)
    )


class CspReceipt(Schema):
    """The acknowledgement of a report."""

    recorded = fields.Integer(required=True, metadata=doc("Number of counted violations.", 1))
