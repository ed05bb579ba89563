"""Routes of background work for staff: queue statistics and periodic tasks."""

from collections.abc import Sequence
from typing import Any

from blueprints.background.schemas import PeriodicTaskView, QueueStatistics
from blueprints.http import STAFF_AAL2, Context, ContractBlueprint, SharedLimit
from marketplace.background import queues, schedule
from marketplace.background.models import PeriodicTaskState

area = ContractBlueprint("background", "/api/admin", "Queues and periodic tasks")


@area.get("/queues", auth=STAFF_AAL2, limit=SharedLimit.CALLER_TIER, reply=QueueStatistics)
def get_queue_statistics(ctx: Context) -> dict[str, Any]:
    """Show the waiting, active, failed and completed work of each queue."""
    queue_stats, workers = queues.fetch_complete_queue_report(ctx.session, ctx.services.cache, now=ctx.now)
    return {
        "queues": queue_stats,
        "redis_memory_used_bytes": workers.memory_used_bytes,
        "connected_workers": len(workers.workers),
    }


@area.get("/periodic", auth=STAFF_AAL2, limit=SharedLimit.CALLER_TIER, reply=PeriodicTaskView(many=True))
def list_periodic_tasks(ctx: Context) -> Sequence[PeriodicTaskState]:
    """List the periodic tasks with next run and last result."""
    return schedule.list_tasks(ctx.session)
