"""What staff see of background work: the queues' figures, and the periodic tasks."""

from typing import Any

from blueprints.background.schemas import PeriodicTaskView, QueueStatistics
from blueprints.http.context import Context
from blueprints.http.contract import SharedLimit
from blueprints.http.endpoint import ContractBlueprint
from blueprints.http.permissions import STAFF_AAL2
from marketplace.background import queues, schedule

area = ContractBlueprint("background", "/api/admin", "Queues and periodic tasks")


@area.get("/queues", auth=STAFF_AAL2, limit=SharedLimit.CALLER_TIER, reply=QueueStatistics)
def show_queues(ctx: Context) -> dict[str, Any]:
    """Show how much work waits, goes on, failed and was done, queue by queue."""
    queue_stats, workers = queues.fetch_complete_queue_report(ctx.session, ctx.services.cache, now=ctx.now)
    return {
        "queues": {
            name: {
                "waiting": stats.waiting,
                "active": stats.active,
                "failed": stats.failed,
                "completed": stats.completed,
            }
            for name, stats in queue_stats.items()
        },
        "redisMemoryUsedBytes": workers.memory_used_bytes,
        "connectedWorkers": len(workers.workers),
    }


@area.get("/periodic", auth=STAFF_AAL2, limit=SharedLimit.CALLER_TIER, reply=PeriodicTaskView(many=True))
def list_periodic(ctx: Context) -> list[dict[str, Any]]:
    """List the periodic tasks: when each runs next, and what came of its last run."""
    return [_periodic_task_view(task) for task in schedule.list_all_tasks(ctx.session)]


def _periodic_task_view(task: dict[str, Any]) -> dict[str, Any]:
    state = task["state"]
    return {
        "name": task["name"],
        "purpose": task["purpose"],
        "queue": task["queue"],
        "timetable": state.effective_schedule.text,
        "rescheduled": state.timetable is not None,
        "pausedAt": state.paused_at,
        "nextRunAt": None if state.paused_at else state.next_run_at,
        "runningSince": state.started_at,
        "runningOn": state.run_by,
        "lastFinishedAt": state.finished_at,
        "lastDurationMilliseconds": state.duration_milliseconds,
        "lastOutcome": state.outcome,
        "lastError": state.error,
        "lastResult": state.result,
        "runs": state.runs,
        "failuresInARow": state.failures,
    }
