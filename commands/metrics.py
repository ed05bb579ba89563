"""Commands for Prometheus and Grafana: serve metrics, print rules and the dashboard."""

import signal
import threading

import click
from prometheus_client import CollectorRegistry, start_http_server

from commands.console.environment import get_settings
from commands.console.failures import CommandFailedError
from marketplace.health.prometheus.dashboard import render_dashboard
from marketplace.health.prometheus.metrics import MetricsCollector
from marketplace.health.prometheus.rules import render_rules
from marketplace.infra.logs import configure_command_logging
from marketplace.infra.waits.limits import web_limits
from marketplace.services import Services


@click.group(help="Serve metrics for Prometheus, and generate the rules and the dashboard.")
def metrics() -> None:
    """Group the commands."""


@metrics.command(
    name="serve",
    help="""Serve the metrics of all processes at /metrics until a signal ends the command.

    One server is enough for an installation: all processes add their counts up in the cache. The metrics are for
    operators. Never make the port public.

    \b
    Examples:
      marketplace metrics serve
      marketplace metrics serve --host 0.0.0.0 --port 9464""",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", type=click.IntRange(1, 65_535), default=9464, show_default=True, help="The port to listen on."
)
def serve_metrics(host: str, port: int) -> None:
    """Serve the metrics."""
    settings = get_settings()
    configure_command_logging(settings)
    # A scrape must end although the database hangs.
    limits = web_limits(settings.database_wait_scale)
    services = Services.from_settings(settings, application_name="metrics", wait_limits=limits)
    registry = CollectorRegistry()
    registry.register(MetricsCollector(services.database, services.cache, clock=services.clock))
    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise CommandFailedError(
            f"Cannot listen on {host}:{port}: {error.strerror}. Change --host or --port."
        ) from error
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_arguments: stopped.set())
    click.echo(f"Serving metrics at http://{host}:{port}/metrics. Ctrl-C ends the command.")
    stopped.wait()
    server.shutdown()
    thread.join()
    server.server_close()


@metrics.command(
    name="rules",
    help="""Print the rules for Prometheus: recorded error ratios, burn rates and the monitored alerts.

    \b
    Example, after a change of an objective:
      marketplace metrics rules > deploy/prometheus/rules.yml""",
)
def print_rules() -> None:
    """Print the rules."""
    click.echo(render_rules(), nl=False)


@metrics.command(
    name="dashboard",
    help="""Print the dashboard for Grafana. Import the file, and choose the data source there.

    \b
    Example, after a change of a metric:
      marketplace metrics dashboard > deploy/grafana/marketplace.json""",
)
def print_dashboard() -> None:
    """Print the dashboard."""
    click.echo(render_dashboard(), nl=False)
