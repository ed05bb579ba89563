"""Routes of the service objectives, and of page timings that browsers measure."""

from typing import Any

from blueprints.health.objective_schemas import ObjectiveView, PageTiming, PageTimingReceipt
from blueprints.http import PUBLIC, STAFF, Context, ContractBlueprint, SharedLimit
from marketplace.health import budgets
from marketplace.health.objectives import INTERACTION, PAINT
from marketplace.kernel.signals import RECORDER

objective_area = ContractBlueprint("objectives", "/api/admin/slo", "Service objectives, for staff")
timing_area = ContractBlueprint("page_timings", "/api/page-timings", "Page timings of browsers")


@objective_area.get("", auth=STAFF, limit=SharedLimit.CALLER_TIER, reply=ObjectiveView(many=True))
def list_service_objectives(ctx: Context) -> list[dict[str, Any]]:
    """List the service objectives with error budgets and burn rates."""
    return [
        {
            "name": report.objective.name,
            "title": report.objective.title,
            "target": report.objective.target,
            "window_days": report.objective.window.days,
            "threshold_ms": report.objective.threshold_ms,
            "good": report.tally.good,
            "bad": report.tally.bad,
            "attained": report.attained,
            "budget_left": round(report.budget_left, 4),
            "state": report.state,
            "burn_rates": {name: report.burn_rates[window] for name, window in _BURN_FIELDS.items()},
            "days": report.days,
            "hours": report.hours,
        }
        for report in budgets.report_objectives(ctx.session, now=ctx.now)
    ]


_BURN_FIELDS = {
    "five_minutes": "5m",
    "half_hour": "30m",
    "hour": "1h",
    "six_hours": "6h",
    "three_days": "3d",
}


@timing_area.post(
    "", auth=PUBLIC, limit="60/minute", body=PageTiming, reply=PageTimingReceipt, status=200, autocommit=True
)
def record_page_timing(_ctx: Context, body: dict[str, Any]) -> dict[str, int]:
    """Record how long a page took in a browser. Only the durations are kept, as counts."""
    timings = {
        PAINT: body.get("largest_contentful_paint_ms"),
        INTERACTION: body.get("interaction_to_next_paint_ms"),
    }
    measured = {signal: value for signal, value in timings.items() if value is not None}
    for signal, milliseconds in measured.items():
        RECORDER.observe(signal, "", milliseconds / 1_000)
    return {"recorded": len(measured)}
