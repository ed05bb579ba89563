"""What proposals are made of and look like, and the platform's status."""

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
# By kind: what its payload must have, and what it may have beside.
_PAYLOAD_FIELDS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "fee": (frozenset({"key", "value"}), frozenset()),
    "category_commission": (frozenset({"category_id", "commission_bps"}), frozenset()),
    "feature_flag": (frozenset({"key", "enabled"}), frozenset()),
    "maintenance": (frozenset({"active"}), frozenset({"message", "until"})),
    "payout_resume": (frozenset({"reason"}), frozenset()),
}
_STATE_METADATA = {"description": "What it changes: as it was when it was proposed, and as it would be."}


class ProposalPayload(Schema):
    """What is proposed: fields by kind."""

    key = SingleLineText(
        max_length=64,
        metadata={"description": f"fee: one of {', '.join(FEES)}; feature_flag: the name of the feature."},
    )
    value = StrictInteger(minimum=0, metadata={"description": "fee: basis points or kobo."})
    category_id = Uuid(metadata={"description": "category_commission."})
    commission_bps = StrictInteger(
        minimum=0,
        allow_none=True,
        metadata={"description": "category_commission: basis points; null for the platform's own rate."},
    )
    enabled = StrictBoolean(metadata={"description": "feature_flag."})
    active = StrictBoolean(metadata={"description": "maintenance."})
    message = SingleLineText(
        max_length=300, allow_none=True, metadata={"description": "maintenance: what people are told."}
    )
    until = Timestamp(allow_none=True, metadata={"description": "maintenance: when it ends by itself."})
    reason = Text(**_REASON_LENGTH, metadata={"description": "payout_resume: why it is safe to go on."})


class CreateProposal(Schema):
    """A change of the platform, and why."""

    kind = Choice(*CHANGES, required=True)
    payload = fields.Nested(ProposalPayload, required=True)
    reason = Text(**_REASON_LENGTH, required=True)
    effective_at = Timestamp(
        allow_none=True,
        metadata={"description": "When it takes effect; without it, as soon as it is approved."},
    )

    @validates_schema
    def check_payload(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Refuse a payload that is not of its kind."""
        needed, allowed = _PAYLOAD_FIELDS[data["kind"]]
        names = {name: field.data_key for name, field in ProposalPayload().fields.items()}
        provided = data["payload"].keys()
        errors = {names[name]: ["Missing data for required field."] for name in needed - provided}
        errors |= {
            names[name]: [f"Is not of the kind {data['kind']}."] for name in provided - needed - allowed
        }
        if errors:
            raise ValidationError({"payload": errors})


class RejectProposal(Schema):
    """Why a proposal is not carried."""

    reason = Text(**_REASON_LENGTH, required=True)


class ProposalQuery(OffsetQuery):
    """Which proposals are listed."""

    sort = sort_choice(queries.SORTS, default="created_at")
    status = Choice(*_STATUSES, load_default=None)
    kind = Choice(*CHANGES, load_default=None)


class ProposalOfficer(Identified):
    """An officer who had to do with it."""

    name = fields.String(required=True, allow_none=True)


class ProposalRow(Created):
    """A proposal: what it changes from what to what, what that does, and who decided on it."""

    kind = Choice(*CHANGES, required=True)
    status = Choice(*_STATUSES, required=True)
    target = fields.String(required=True)
    payload = fields.Dict(required=True)
    reason = fields.String(required=True)
    before = fields.Dict(required=True, metadata=_STATE_METADATA)
    after = fields.Dict(required=True, metadata=_STATE_METADATA)
    effect = fields.Dict(
        required=True, metadata={"description": "Such as a sample order before the change and after it."}
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
    """A proposal with what it changes as of now, and what the caller may do with it."""

    current = fields.Dict(
        required=True,
        allow_none=True,
        metadata={"description": "What it changes, as it is now; null of one that is over."},
    )
    next_actions = fields.List(Choice(states.APPROVE, states.REJECT), required=True)


class PayoutHaltView(Identified):
    """A time in which payouts stood still."""

    state = Choice("halted", "resumed", required=True)
    reason = fields.String(required=True)
    findings = StrictInteger(
        attribute="finding_count",
        minimum=0,
        required=True,
        metadata={"description": "How many different things were found meanwhile."},
    )
    halted_at = Timestamp(required=True)
    resumed_at = Timestamp(required=True, allow_none=True)
    proposal_id = Uuid(
        required=True, allow_none=True, metadata={"description": "The proposal that resumed them."}
    )


class MaintenanceState(Schema):
    """Whether the platform is being worked on."""

    active = fields.Boolean(required=True)
    message = fields.String(required=True, allow_none=True)
    until = Timestamp(required=True, allow_none=True)


class ServiceComponent(Schema):
    """A part of the service, and how it is."""

    name = Choice(*health.COMPONENTS, required=True)
    status = Choice(*health.COMPONENT_STATUSES, required=True)


class PlatformStatus(Schema):
    """How the service is, for everybody."""

    status = Choice(*health.COMPONENT_STATUSES, health.MAINTENANCE, required=True)
    maintenance = fields.Nested(MaintenanceState, required=True)
    components = fields.List(fields.Nested(ServiceComponent), required=True)
    features = fields.Dict(
        keys=fields.String(), values=fields.Boolean(), required=True,
        metadata={"description": "Which features are on."},
    )  # fmt: skip
