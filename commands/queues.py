"""Commands for queues and workers."""

import click

from commands.console.database import build_services
from commands.console.failures import CommandFailedError
from commands.console.output import print_table
from marketplace.background import queues as figures, workers as heartbeats
from marketplace.infra.cache import CacheDownError


@click.command(
    help="""Show the amount of work in each queue.

    \b
    Waiting    due, or waiting for a retry
    Active     in progress in a worker
    Failed     dead letters; `marketplace webhooks list --state dead` lists webhooks
    Completed  finished since the beginning
    Later      scheduled for a later time
    Oldest due due time of the work that has waited longest"""
)
def queues() -> None:
    """Show the queues."""
    services = build_services()
    with services.database.reading() as session:
        report = figures.fetch_queue_report(session, services.cache, now=services.clock())
    print_table(
        ("Queue", "Waiting", "Active", "Failed", "Completed", "Later", "Oldest due"),
        [
            (
                name,
                stats.waiting,
                stats.active,
                stats.failed,
                stats.completed,
                stats.scheduled,
                stats.oldest_due_at,
            )
            for name, stats in report.queues.items()
        ],
    )
    if report.workers is None:
        click.echo(
            "The cache can't be reached, so the current work of workers is unknown and Active shows 0."
            " Check REDIS_URL.",
            err=True,
        )
    else:
        memory = report.workers.memory_used_bytes / 2**20
        click.echo(f"Workers: {len(report.workers.workers)}. The cache uses {memory:.1f} MiB.", err=True)


@click.command(help="List the live worker processes with their current work.")
def workers() -> None:
    """List the workers."""
    try:
        snapshot = heartbeats.fetch_live_workers(build_services().cache)
    except CacheDownError as error:
        raise CommandFailedError(
            "The cache can't be reached, so live workers are unknown. Check REDIS_URL."
        ) from error
    if not snapshot.workers:
        click.echo("No live workers were found. Start the workers, or check their logs.", err=True)
        return
    rows: list[tuple[object, ...]] = []
    for worker in snapshot.workers:
        columns = (worker.name, worker.queue, worker.host, worker.process_id, worker.started_at)
        rows += [(*columns, activity.what, activity.since) for activity in worker.doing] or [
            (*columns, "idle", None)
        ]
    print_table(("Worker", "Queue", "Host", "Process", "Started", "Current work", "Since"), rows)
