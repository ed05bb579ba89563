"""Queues and workers: how much waits, how much was done, and who works."""

import click

from commands.console.database import build_services as make_services
from commands.console.failures import CommandFailedError
from commands.console.output import print_table
from marketplace.background import queues as figures
from marketplace.background import workers as heartbeats
from marketplace.infra.cache import CacheDownError
from marketplace.kernel.clock import system_clock

_CACHE_UNAVAILABLE = (
    "The cache can't be reached: what workers do is not known, and nothing is counted as active."
)


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
    services = make_services()
    with services.database.reading() as session:
        found = figures.fetch_queue_report(session, services.cache, now=system_clock())
    print_table(
        ("Queue", "Waiting", "Active", "Failed", "Completed", "Later", "Oldest due"),
        [
            (name, one.waiting, one.active, one.failed, one.completed, one.later, one.oldest_due_at)
            for name, one in found.queues.items()
        ],
    )
    if found.seen is None:
        click.echo(_CACHE_UNAVAILABLE, err=True)
    else:
        memory = found.seen.memory_used_bytes / 2**20
        click.echo(f"Workers: {len(found.seen.workers)}. The cache uses {memory:.1f} MiB.", err=True)


@click.command(help="List the worker processes that live, and what each does since when.")
def workers() -> None:
    """List the workers."""
    try:
        seen = heartbeats.fetch_live_workers(make_services().cache)
    except CacheDownError as error:
        raise CommandFailedError("The cache can't be reached, where workers tell that they live.") from error
    if not seen.workers:
        click.echo("No worker has told of itself in the last seconds.", err=True)
        return
    rows: list[tuple[object, ...]] = []
    for one in seen.workers:
        who = (one.name, one.queue, one.host, one.process_id, one.started_at)
        rows += [(*who, doing.what, doing.since) for doing in one.doing] or [(*who, "nothing", None)]
    print_table(("Worker", "Queue", "Host", "Process", "Started", "Does", "Since"), rows)
