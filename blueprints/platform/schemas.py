"""Schemas of proposals, payout halts and the platform's status."""

from typing import Any

from marshmallow import ValidationError, fields, validates_schema

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
from marketplace.health import queries as health
from marketplace.platform.fees import FEES
from marketplace.proposals import queries, states
from marketplace.proposals.kinds import CHANGES

_REASON_LENGTH = {"min_length": 3, "max_length": 500}
_STATUSES = sorted(states.PROPOSAL.states)
# The required and the optional payload fields, by kind.
_PAYLOAD_FIELDS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "fee": (frozenset({"key", "value"}), frozenset()),
    "category_commission": (frozenset({"category_id", "commission_bps"}), frozenset()),
    "feature_flag": (frozenset({"key", "enabled"}), frozenset()),
    "maintenance": (frozenset({"active"}), frozenset({"message", "until"})),
    "payout_resume": (frozenset({"reason"}), frozenset()),
}
_STATE_METADATA = {
    "description": "The changed values: `before` at the time of the proposal, `after` with the proposal in effect."
}


class ProposalPayload(Schema):
    """The payload of a proposal. The allowed fields depend on the kind."""

    key = SingleLineText(
        max_length=64,
        metadata={
            "description": f"For `fee`: one of {', '.join(FEES)}. For `feature_flag`: the name of the feature."
        },
    )
    value = StrictInteger(minimum=0, metadata={"description": "For `fee`: basis points or kobo."})
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
        max_length=300, allow_none=True, metadata={"description": "For `maintenance`: a message for users."}
    )
    until = Timestamp(allow_none=True, metadata={"description": "For `maintenance`: the automatic end."})
    reason = Text(
        **_REASON_LENGTH, metadata={"description": "For `payout_resume`: why payouts are safe again."}
    )


class CreateProposal(Schema):
    """A proposed change of the platform, with the reason."""

    kind = Choice(*CHANGES, required=True)
    payload = fields.Nested(ProposalPayload, required=True)
    reason = Text(**_REASON_LENGTH, required=True)
    effective_at = Timestamp(
        allow_none=True,
        metadata={
            "description": "The time of the change. Without a time, the change takes effect at the approval."
        },
    )

    @validates_schema
    def check_payload(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Check the payload's fields against the kind."""
        needed, allowed = _PAYLOAD_FIELDS[data["kind"]]
        names = {name: field.data_key for name, field in ProposalPayload().fields.items()}
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

    reason = Text(**_REASON_LENGTH, required=True)


class ProposalQuery(OffsetQuery):
    """Filters of the list of proposals."""

    sort = sort_choice(queries.SORTS, default="created_at")
    status = Choice(*_STATUSES, load_default=None)
    kind = Choice(*CHANGES, load_default=None)


class ProposalOfficer(Identified):
    """An officer in a proposal's decisions."""

    name = fields.String(required=True, allow_none=True)


class ProposalRow(Created):
    """A proposal with the change, the effect and the decisions."""

    kind = Choice(*CHANGES, required=True)
    status = Choice(*_STATUSES, required=True)
    target = fields.String(required=True)
    payload = fields.Dict(required=True)
    reason = fields.String(required=True)
    before = fields.Dict(required=True, metadata=_STATE_METADATA)
    after = fields.Dict(required=True, metadata=_STATE_METADATA)
    effect = fields.Dict(
        required=True,
        metadata={"description": "The effect of the change, such as a sample order before and after."},
    )
    effective_at = Timestamp(required=True, allow_none=True)
    expires_at = Timestamp(required=True)
    proposed_by = fields.Nested(ProposalOfficer, required=True)
    approved_by = fields.Nested(ProposalOfficer, required=True, allow_none=True)
    approved_at = Timestamp(required=True, allow_none=True)
    activated_at = Timestamp(required=True, allow_none=True)
    rejected_by = fields.Nested(ProposalOfficer, required=True, allow_none=True)
    rejected_at = Timestamp(required=True, allow_none=True)
    rejection_reason = fields.String(required=True, allow_none=True)
    expired_at = Timestamp(required=True, allow_none=True)


class Proposal(ProposalRow):
    """A proposal with the current values and the caller's possible actions."""

    current = fields.Dict(
        required=True,
        allow_none=True,
        metadata={"description": "The current values; null for a closed proposal."},
    )
    next_actions = fields.List(Choice(states.APPROVE, states.REJECT), required=True)


class PayoutHaltView(Identified):
    """A halt of all payouts."""

    state = Choice("halted", "resumed", required=True)
    reason = fields.String(required=True)
    findings = StrictInteger(
        attribute="finding_count",
        minimum=0,
        required=True,
        metadata={"description": "The number of different findings during the halt."},
    )
    halted_at = Timestamp(required=True)
    resumed_at = Timestamp(required=True, allow_none=True)
    proposal_id = Uuid(
        required=True, allow_none=True, metadata={"description": "The proposal that resumed payouts."}
    )


class MaintenanceState(Schema):
    """The state of maintenance."""

    active = fields.Boolean(required=True)
    message = fields.String(required=True, allow_none=True)
    until = Timestamp(required=True, allow_none=True)


class ServiceComponent(Schema):
    """A component of the service with its status."""

    name = Choice(*health.COMPONENTS, required=True)
    status = Choice(*health.COMPONENT_STATUSES, required=True)


class PlatformStatus(Schema):
    """The public status of the service."""

    status = Choice(*health.COMPONENT_STATUSES, health.MAINTENANCE, required=True)
    maintenance = fields.Nested(MaintenanceState, required=True)
    components = fields.List(fields.Nested(ServiceComponent), required=True)
    features = fields.Dict(
        keys=fields.String(), values=fields.Boolean(), required=True,
        metadata={"description": "The state of each feature: true if on."},
    )  # fmt: skip
