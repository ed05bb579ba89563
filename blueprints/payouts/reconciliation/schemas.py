"""Schemas of reconciliation: requests and responses."""

from marshmallow import fields

from blueprints.http.field_docs import OTHER_ID, PAID_AT, doc
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
from marketplace.kernel import demo_ids
from marketplace.reconciliation import classification, queries, run
from marketplace.reconciliation.resolution import RESOLUTIONS, STATES

_MIN_AMOUNT_MINOR = -(10**15)


class StartReconciliation(Schema):
    """The period of the compared gateway records. The gateway's balance is always compared as of now."""

    from_ = Timestamp(
        data_key="from",
        metadata=doc(
            "By default the end of the last matched run, from 1 hour to 31 days before `to`.",
            "2025-03-01T00:00:00Z",
        ),
    )
    to = Timestamp(metadata=doc("Now by default.", "2025-04-01T00:00:00Z"))


class StartedReconciliation(Schema):
    """A reconciliation run that continues in the background."""

    run_id = Uuid(required=True)
    status = Choice(*run.STATUSES, required=True, metadata=doc("Status of the run.", "running"))


class GatewayRecordCounts(Schema):
    """Counts of the gateway's records that were read."""

    movements = StrictInteger(
        minimum=0, required=True, metadata=doc("Number of movements of the balance.", 12)
    )
    charges = StrictInteger(minimum=0, required=True, metadata=doc("Number of charges.", 10))
    transfers = StrictInteger(minimum=0, required=True, metadata=doc("Number of transfers.", 1))
    refunds = StrictInteger(minimum=0, required=True, metadata=doc("Number of refunds.", 1))
    settlements = StrictInteger(
        minimum=0, required=True, metadata=doc("Number of settlements to the bank.", 0)
    )


class ReconciliationView(StartedReconciliation):
    """A reconciliation run: ``gatewayMinor`` = ``booksMinor`` + ``inFlightMinor`` + ``driftMinor``."""

    started_by = Choice(
        run.OFFICER,
        run.SCHEDULE,
        run.OPERATOR,
        required=True,
        metadata=doc("Who started the run.", "schedule"),
    )
    officer_id = Uuid(
        required=True, allow_none=True, metadata=doc("User id of the officer; null for other runs.", None)
    )
    from_ = Timestamp(data_key="from", required=True, attribute="starts")
    to = Timestamp(required=True, attribute="ends")
    gateway_minor = MinorAmount(
        minimum=_MIN_AMOUNT_MINOR,
        required=True,
        allow_none=True,
        metadata=doc("The gateway's balance as reported by the gateway.", 9_412_500),
    )
    books_minor = MinorAmount(
        minimum=_MIN_AMOUNT_MINOR,
        required=True,
        allow_none=True,
        metadata=doc("The gateway's balance in the ledger, account `gateway_clearing`.", 9_412_500),
    )
    in_flight_minor = MinorAmount(
        minimum=_MIN_AMOUNT_MINOR,
        required=True,
        allow_none=True,
        metadata=doc("Movements at the gateway that the ledger will post later. These are not drift.", 0),
    )
    drift_minor = MinorAmount(
        minimum=_MIN_AMOUNT_MINOR,
        required=True,
        allow_none=True,
        metadata=doc("Unexplained difference in kobo; positive if the gateway has more.", 0),
    )
    in_flight = StrictInteger(
        minimum=0,
        required=True,
        attribute="totals.in_flight",
        metadata=doc("Number of items that the ledger will post later.", 0),
    )
    found = StrictInteger(
        minimum=0, required=True, attribute="totals.exceptions", metadata=doc("Number of differences.", 0)
    )
    open_exceptions = StrictInteger(
        minimum=0, required=True, metadata=doc("Number of differences without a resolution.", 0)
    )
    settlements_booked = StrictInteger(
        minimum=0,
        required=True,
        attribute="totals.settlements_booked",
        metadata=doc("Number of settlements that the run posted.", 0),
    )
    own_funds_booked = StrictInteger(
        minimum=0,
        required=True,
        attribute="totals.own_funds_booked",
        metadata=doc("Number of movements of the company's own funds that the run posted.", 0),
    )
    read = fields.Nested(
        GatewayRecordCounts,
        required=True,
        attribute="totals",
        metadata=doc("Numbers of the gateway's records."),
    )
    balances = fields.Dict(
        keys=fields.String(),
        values=fields.Integer(),
        required=True,
        attribute="totals.balances",
        metadata=doc(
            "Ledger balances in kobo, by kind of account.",
            {"gateway_clearing": 9_412_500, "escrow": 4_120_000},
        ),
    )
    failure = fields.String(
        required=True, allow_none=True, metadata=doc("Cause of a failed run; null otherwise.", None)
    )
    created_at = Timestamp(required=True)
    finished_at = Timestamp(required=True, allow_none=True)


class FindingView(Identified):
    """A difference between the gateway (there) and the ledger (here), with a suggested resolution."""

    kind = Choice(*queries.EXCEPTION_KINDS, required=True, metadata=doc("Kind of record.", "charge"))
    problem = Choice(
        *classification.PROBLEMS, required=True, metadata=doc("Kind of difference.", "missing_here")
    )
    action = Choice(
        *classification.ACTIONS, required=True, metadata=doc("Suggested action.", "look_up_charge")
    )
    suggestion = fields.String(
        required=True,
        metadata=doc("Suggested action, in a sentence.", "Look up the charge in the gateway's dashboard."),
    )
    here_minor = MinorAmount(
        minimum=_MIN_AMOUNT_MINOR, required=True, metadata=doc("Amount that the ledger moved.", 0)
    )
    there_minor = MinorAmount(
        minimum=_MIN_AMOUNT_MINOR,
        required=True,
        metadata=doc("Amount that the gateway's balance moved.", 775_000),
    )
    difference_minor = MinorAmount(
        minimum=_MIN_AMOUNT_MINOR, required=True, metadata=doc("Gateway minus ledger, in kobo.", 775_000)
    )
    here_status = fields.String(
        required=True, allow_none=True, metadata=doc("Status in this service; null without a record.", None)
    )
    there_status = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("Status at the gateway; null without a record.", "success"),
    )
    here_amount_minor = MinorAmount(
        required=True,
        allow_none=True,
        metadata=doc("Amount in this service, in kobo; null without a record.", None),
    )
    there_amount_minor = MinorAmount(
        required=True,
        allow_none=True,
        metadata=doc("Amount at the gateway, in kobo; null without a record.", 775_000),
    )
    reference = fields.String(required=True, allow_none=True)
    gateway_id = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("The gateway's id of the record; null without a record.", "4099260516"),
    )
    order_id = Uuid(
        required=True,
        allow_none=True,
        metadata=doc("Id of the order; null without an order.", demo_ids.ORDER),
    )
    order_number = fields.String(required=True, allow_none=True)
    refund_id = Uuid(
        required=True, allow_none=True, metadata=doc("Id of the refund; null for other records.", None)
    )
    payout_id = Uuid(
        required=True,
        allow_none=True,
        attribute="intent_id",
        metadata=doc("Id of the payout; null for other records.", None),
    )
    happened_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Time at the gateway; null without a record.", PAID_AT)
    )
    proposed_resolution = Choice(
        *RESOLUTIONS,
        required=True,
        allow_none=True,
        metadata=doc("Resolution that an officer proposed and another officer has to confirm.", None),
    )
    proposed_by = Uuid(
        required=True,
        allow_none=True,
        metadata=doc("User id of the proposing officer; null without a proposal.", None),
    )
    proposed_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Time of the proposal; null without a proposal.", None)
    )
    proposal_note = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("The proposing officer's reason; null without a proposal.", None),
    )
    resolved_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Time of the resolution; null while open.", None)
    )
    resolved_by = Uuid(
        required=True, allow_none=True, metadata=doc("User id of the officer; null while open.", None)
    )
    resolution = Choice(
        *RESOLUTIONS, required=True, allow_none=True, metadata=doc("Resolution; null while open.", None)
    )
    note = fields.String(
        required=True, allow_none=True, metadata=doc("The officer's reason; null while open.", None)
    )


class ReconciliationDetail(ReconciliationView):
    """A reconciliation run with at most 100 differences, the largest first."""

    exceptions = fields.List(
        fields.Nested(FindingView),
        required=True,
        metadata=doc("Differences, the largest first, at most 100.", []),
    )


class ReconciliationQuery(OffsetQuery):
    """Filters of reconciliation runs."""

    sort = sort_choice(queries.RUN_SORTS, default="created_at")
    status = Choice(*run.STATUSES, load_default=None, metadata=doc("Only runs with this status.", "matched"))


class FindingQuery(OffsetQuery):
    """Filters of a run's differences; ``open`` selects unresolved differences."""

    sort = sort_choice(queries.EXCEPTION_SORTS, default="difference_minor")
    kind = Choice(
        *queries.EXCEPTION_KINDS,
        load_default=None,
        metadata=doc("Only differences of this kind of record.", "charge"),
    )
    problem = Choice(
        *classification.PROBLEMS,
        load_default=None,
        metadata=doc("Only differences of this kind.", "missing_here"),
    )
    open = BooleanParameter(
        load_default=None, metadata=doc("`true` for unresolved differences, `false` for resolved ones.", True)
    )


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
        min_length=10,
        max_length=500,
        required=True,
        metadata=doc("Reason, for the audit log.", "The gateway confirmed the amount by e-mail."),
    )


class ResolvedFinding(Schema):
    """The result of a resolution: the posted amount on ``gateway_clearing`` in kobo, zero for a proposal."""

    exception_id = Uuid(required=True, metadata=doc("Id of the difference.", OTHER_ID))
    state = Choice(
        *STATES,
        required=True,
        metadata={"description": "proposed: another officer must confirm the same resolution."},
    )
    resolution = Choice(
        *RESOLUTIONS, required=True, metadata=doc("Applied or proposed resolution.", "own_funds")
    )
    booked_minor = MinorAmount(
        minimum=_MIN_AMOUNT_MINOR,
        required=True,
        metadata=doc("Amount posted to `gateway_clearing`, in kobo.", 775_000),
    )
