"""What finance starts and reads reconciliations with, and what they look like."""

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
    """Over which window the gateway's lists are compared; its balance is compared as it is now, whatever the window."""

    from_ = Timestamp(
        data_key="from",
        metadata={"description": "Without it, since the last one that matched, at most 31 days ago."},
    )
    to = Timestamp(metadata={"description": "Without it, now."})


class StartedReconciliation(Schema):
    """A reconciliation that goes on in the background."""

    run_id = Uuid(required=True)
    status = Choice(*run.STATUSES, required=True)


class GatewayRecordCounts(Schema):
    """How many records of the gateway were read."""

    movements = StrictInteger(minimum=0, required=True)
    charges = StrictInteger(minimum=0, required=True)
    transfers = StrictInteger(minimum=0, required=True)
    refunds = StrictInteger(minimum=0, required=True)
    settlements = StrictInteger(minimum=0, required=True)


class ReconciliationView(StartedReconciliation):
    """A reconciliation: ``gatewayMinor`` = ``booksMinor`` + ``inFlightMinor`` + ``driftMinor``."""

    started_by = Choice(run.OFFICER, run.SCHEDULE, run.OPERATOR, required=True)
    officer_id = Uuid(required=True, allow_none=True)
    from_ = Timestamp(data_key="from", required=True, attribute="starts")
    to = Timestamp(required=True, attribute="ends")
    gateway_minor = MinorAmount(
        minimum=_MIN_AMOUNT_MINOR,
        required=True,
        allow_none=True,
        metadata={"description": "What the gateway holds, by its own word."},
    )
    books_minor = MinorAmount(
        minimum=_MIN_AMOUNT_MINOR,
        required=True,
        allow_none=True,
        metadata={"description": "What gateway_clearing says that it holds."},
    )
    in_flight_minor = MinorAmount(
        minimum=_MIN_AMOUNT_MINOR,
        required=True,
        allow_none=True,
        metadata={"description": "What it moved, and the books do not know yet: no drift."},
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
        metadata={"description": "The books by kind of account: what we hold, owe and earned."},
    )
    failure = fields.String(required=True, allow_none=True)
    created_at = Timestamp(required=True)
    finished_at = Timestamp(required=True, allow_none=True)


class FindingView(Identified):
    """Something that is otherwise at the gateway (there) than in the books (here), and what is suggested."""

    kind = Choice(*queries.EXCEPTION_KINDS, required=True)
    problem = Choice(*classification.PROBLEMS, required=True)
    action = Choice(*classification.ACTIONS, required=True)
    suggestion = fields.String(required=True)
    here_minor = MinorAmount(
        minimum=_MIN_AMOUNT_MINOR, required=True, metadata={"description": "What the books moved for it."}
    )
    there_minor = MinorAmount(
        minimum=_MIN_AMOUNT_MINOR,
        required=True,
        metadata={"description": "What the gateway's balance moved for it."},
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
        metadata={"description": "What an officer proposed, and another one has to confirm."},
    )
    proposed_by = Uuid(required=True, allow_none=True)
    proposed_at = Timestamp(required=True, allow_none=True)
    proposal_note = fields.String(required=True, allow_none=True)
    resolved_at = Timestamp(required=True, allow_none=True)
    resolved_by = Uuid(required=True, allow_none=True)
    resolution = Choice(*RESOLUTIONS, required=True, allow_none=True)
    note = fields.String(required=True, allow_none=True)


class ReconciliationDetail(ReconciliationView):
    """A reconciliation with what it found, the largest differences first, at most 100."""

    exceptions = fields.List(fields.Nested(FindingView), required=True)


class ReconciliationQuery(OffsetQuery):
    """Which reconciliations are listed."""

    sort = sort_choice(queries.RUN_SORTS, default="created_at")
    status = Choice(*run.STATUSES, load_default=None)


class FindingQuery(OffsetQuery):
    """Which of a reconciliation's exceptions are listed; ``open`` are those that nobody resolved."""

    sort = sort_choice(queries.EXCEPTION_SORTS, default="difference_minor")
    kind = Choice(*queries.EXCEPTION_KINDS, load_default=None)
    problem = Choice(*classification.PROBLEMS, load_default=None)
    open = BooleanParameter(load_default=None)


class ResolveFinding(Schema):
    """How an exception is resolved, and why."""

    resolution = Choice(
        *RESOLUTIONS,
        required=True,
        metadata={
            "description": "ask: have the gateway asked, and its word taken; own_funds: the difference is the company's"
            " own money at the gateway; gateway_cost: the gateway charged it."
        },
    )
    note = Text(min_length=10, max_length=500, required=True, metadata={"description": "Why, for the audit."})


class ResolvedFinding(Schema):
    """What came of it: by how many kobo ``gateway_clearing`` moved; none as long as it is only proposed."""

    exception_id = Uuid(required=True)
    state = Choice(
        *STATES,
        required=True,
        metadata={"description": "proposed: it takes the same word of another officer."},
    )
    resolution = Choice(*RESOLUTIONS, required=True)
    booked_minor = MinorAmount(minimum=_MIN_AMOUNT_MINOR, required=True)
