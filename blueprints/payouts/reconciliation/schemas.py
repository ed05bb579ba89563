"""Schemas of reconciliation: requests and responses."""

from marshmallow import fields

from blueprints.http.fields import (
    BooleanParameter,
    Choice,
    Identified,
    MinorAmount,
    OffsetQuery,
    Schema,
    StrictInteger,
    Text,
    Timestamp,
    Uuid,
    sort_choice,
)
from marketplace.reconciliation import classification, queries, run
from marketplace.reconciliation.resolution import RESOLUTIONS, STATES

_MIN_AMOUNT_MINOR = -(10**15)


class StartReconciliation(Schema):
    """The period of the compared gateway records. The gateway's balance is always compared as of now."""

    from_ = Timestamp(
        data_key="from",
        metadata={
            "description": "By default the end of the last matched run, from 1 hour to 31 days before `to`."
        },
    )
    to = Timestamp(metadata={"description": "Now by default."})


class StartedReconciliation(Schema):
    """A reconciliation run that continues in the background."""

    run_id = Uuid(required=True)
    status = Choice(*run.STATUSES, required=True)


class GatewayRecordCounts(Schema):
    """Counts of the gateway's records that were read."""

    movements = StrictInteger(minimum=0, required=True)
    charges = StrictInteger(minimum=0, required=True)
    transfers = StrictInteger(minimum=0, required=True)
    refunds = StrictInteger(minimum=0, required=True)
    settlements = StrictInteger(minimum=0, required=True)


class ReconciliationView(StartedReconciliation):
    """A reconciliation run: ``gatewayMinor`` = ``booksMinor`` + ``inFlightMinor`` + ``driftMinor``."""

    started_by = Choice(run.OFFICER, run.SCHEDULE, run.OPERATOR, required=True)
    officer_id = Uuid(required=True, allow_none=True)
    from_ = Timestamp(data_key="from", required=True, attribute="starts")
    to = Timestamp(required=True, attribute="ends")
    gateway_minor = MinorAmount(
        minimum=_MIN_AMOUNT_MINOR,
        required=True,
        allow_none=True,
        metadata={"description": "The gateway's balance as reported by the gateway."},
    )
    books_minor = MinorAmount(
        minimum=_MIN_AMOUNT_MINOR,
        required=True,
        allow_none=True,
        metadata={"description": "The gateway's balance in the ledger, account `gateway_clearing`."},
    )
    in_flight_minor = MinorAmount(
        minimum=_MIN_AMOUNT_MINOR,
        required=True,
        allow_none=True,
        metadata={
            "description": "Movements at the gateway that the ledger will post later. These are not drift."
        },
    )
    drift_minor = MinorAmount(minimum=_MIN_AMOUNT_MINOR, required=True, allow_none=True)
    in_flight = StrictInteger(minimum=0, required=True, attribute="totals.in_flight")
    found = StrictInteger(minimum=0, required=True, attribute="totals.exceptions")
    open_exceptions = StrictInteger(minimum=0, required=True)
    settlements_booked = StrictInteger(minimum=0, required=True, attribute="totals.settlements_booked")
    own_funds_booked = StrictInteger(minimum=0, required=True, attribute="totals.own_funds_booked")
    read = fields.Nested(GatewayRecordCounts, required=True, attribute="totals")
    balances = fields.Dict(
        keys=fields.String(),
        values=fields.Integer(),
        required=True,
        attribute="totals.balances",
        metadata={"description": "Ledger balances in kobo, by kind of account."},
    )
    failure = fields.String(required=True, allow_none=True)
    created_at = Timestamp(required=True)
    finished_at = Timestamp(required=True, allow_none=True)


class FindingView(Identified):
    """A difference between the gateway (there) and the ledger (here), with a suggested resolution."""

    kind = Choice(*queries.EXCEPTION_KINDS, required=True)
    problem = Choice(*classification.PROBLEMS, required=True)
    action = Choice(*classification.ACTIONS, required=True)
    suggestion = fields.String(required=True)
    here_minor = MinorAmount(
        minimum=_MIN_AMOUNT_MINOR, required=True, metadata={"description": "Amount that the ledger moved."}
    )
    there_minor = MinorAmount(
        minimum=_MIN_AMOUNT_MINOR,
        required=True,
        metadata={"description": "Amount that the gateway's balance moved."},
    )
    difference_minor = MinorAmount(minimum=_MIN_AMOUNT_MINOR, required=True)
    here_status = fields.String(required=True, allow_none=True)
    there_status = fields.String(required=True, allow_none=True)
    here_amount_minor = MinorAmount(required=True, allow_none=True)
    there_amount_minor = MinorAmount(required=True, allow_none=True)
    reference = fields.String(required=True, allow_none=True)
    gateway_id = fields.String(required=True, allow_none=True)
    order_id = Uuid(required=True, allow_none=True)
    order_number = fields.String(required=True, allow_none=True)
    refund_id = Uuid(required=True, allow_none=True)
    payout_id = Uuid(required=True, allow_none=True, attribute="intent_id")
    happened_at = Timestamp(required=True, allow_none=True)
    proposed_resolution = Choice(
        *RESOLUTIONS,
        required=True,
        allow_none=True,
        metadata={"description": "Resolution that an officer proposed and another officer has to confirm."},
    )
    proposed_by = Uuid(required=True, allow_none=True)
    proposed_at = Timestamp(required=True, allow_none=True)
    proposal_note = fields.String(required=True, allow_none=True)
    resolved_at = Timestamp(required=True, allow_none=True)
    resolved_by = Uuid(required=True, allow_none=True)
    resolution = Choice(*RESOLUTIONS, required=True, allow_none=True)
    note = fields.String(required=True, allow_none=True)


class ReconciliationDetail(ReconciliationView):
    """A reconciliation run with at most 100 differences, the largest first."""

    exceptions = fields.List(fields.Nested(FindingView), required=True)


class ReconciliationQuery(OffsetQuery):
    """Filters of reconciliation runs."""

    sort = sort_choice(queries.RUN_SORTS, default="created_at")
    status = Choice(*run.STATUSES, load_default=None)


class FindingQuery(OffsetQuery):
    """Filters of a run's differences; ``open`` selects unresolved differences."""

    sort = sort_choice(queries.EXCEPTION_SORTS, default="difference_minor")
    kind = Choice(*queries.EXCEPTION_KINDS, load_default=None)
    problem = Choice(*classification.PROBLEMS, load_default=None)
    open = BooleanParameter(load_default=None)


class ResolveFinding(Schema):
    """The resolution of a difference, and the reason."""

    resolution = Choice(
        *RESOLUTIONS,
        required=True,
        metadata={
            "description": "ask: poll the gateway and apply the reported status. own_funds: the difference is the"
            " company's own money at the gateway. gateway_cost: the difference is a charge of the gateway."
        },
    )
    note = Text(
        min_length=10, max_length=500, required=True, metadata={"description": "Reason, for the audit log."}
    )


class ResolvedFinding(Schema):
    """The result of a resolution: the posted amount on ``gateway_clearing`` in kobo, zero for a proposal."""

    exception_id = Uuid(required=True)
    state = Choice(
        *STATES,
        required=True,
        metadata={"description": "proposed: another officer must confirm the same resolution."},
    )
    resolution = Choice(*RESOLUTIONS, required=True)
    booked_minor = MinorAmount(minimum=_MIN_AMOUNT_MINOR, required=True)
