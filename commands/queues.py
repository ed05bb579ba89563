"""Queues and workers: how much waits, how much was done, and who works."""

import click

from commands.console.database import build_services
from commands.console.failures import CommandFailedError
from commands.console.output import print_table
from marketplace.background import queues as figures, workers as heartbeats
from marketplace.infra.cache import CacheDownError


@click.command(
    help="""Show the queues' figures.

    \b
    Waiting    due, or waiting for the next try; nobody works on it
    Active     workers are at it
    Failed     given up: `marketplace webhooks list --status dead` shows webhooks
    Completed  ever
    Later      put off on purpose
    Oldest due since when the one that waits longest is due"""
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
            "The cache can't be reached: what workers do is not known, and nothing is counted as active.",
            err=True,
        )
    else:
        memory = report.workers.memory_used_bytes / 2**20
        click.echo(f"Workers: {len(report.workers.workers)}. The cache uses {memory:.1f} MiB.", err=True)


@click.command(help="List the worker processes that live, and what each does since when.")
def workers() -> None:
    """List the workers."""
    try:
        snapshot = heartbeats.fetch_live_workers(build_services().cache)
    except CacheDownError as error:
        raise CommandFailedError("The cache can't be reached, where workers tell that they live.") from error
    if not snapshot.workers:
        click.echo("No worker has told of itself in the last seconds.", err=True)
        return
    rows: list[tuple[object, ...]] = []
    for worker in snapshot.workers:
        columns = (worker.name, worker.queue, worker.host, worker.process_id, worker.started_at)
        rows += [(*columns, activity.what, activity.since) for activity in worker.doing] or [
            (*columns, "nothing", None)
        ]
    print_table(("Worker", "Queue", "Host", "Process", "Started", "Does", "Since"), rows)
