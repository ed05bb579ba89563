"""Measure the rate limiter's CPU as a share of an empty Flask route's CPU (``python -m bench.limiter``).

gunicorn serves three routes, which are put under load in turns:

1. an empty route;
2. a route that makes a request's context and counts the request, as the edge does;
3. a route that Flask-Limiter limits by its decorator, with the library's storage.

The limiter's CPU is the difference of the second and the first.
"""

import itertools
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4
from wsgiref.types import StartResponse

import click
from flask import Flask, g, request
from flask_limiter import Limiter

from bench import report
from bench.figures import Run
from bench.load import Call, LoadError, request as http_request
from bench.parts import Part, http_side, measure
from bench.reference import Reference
from bench.stand import Stand
from blueprints.http import limits
from blueprints.http.context import Context
from marketplace.infra.settings import load_settings
from marketplace.services import Services
from sandbox.process import ProcessFailedError

MAX_SHARE = 0.7
_EMPTY, _LIMITED, _LIBRARY = "/empty", "/limited", "/library"
_TITLES = {
    _EMPTY: "empty Flask route",
    _LIMITED: "the same with the edge's limiter",
    _LIBRARY: "the same with Flask-Limiter's decorator",
}


def _answer() -> str:
    return "{}"


@cache
def _applications() -> dict[str, Flask]:
    """Build the applications at the first request, thus after the fork."""
    settings = load_settings()
    services = Services.from_settings(settings, application_name="bench")

    def count() -> str:
        g.context = Context(
            services=services,
            request_id=uuid4(),
            now=services.clock(),
            started_at_seconds=time.perf_counter(),
            path=request.path,
        )
        limits.enforce_rate_limit(g.context, contract=None)
        return _answer()

    made = {path: Flask("bench") for path in _TITLES}
    made[_EMPTY].add_url_rule(_EMPTY, "view", _answer)
    made[_LIMITED].add_url_rule(_LIMITED, "view", count)
    limits.RateLimits(services).install(made[_LIMITED], unlimited_views=frozenset({"static"}))
    library = Limiter(
        lambda: request.headers["X-Forwarded-For"],
        app=made[_LIBRARY],
        storage_uri=settings.redis_url,
        strategy="moving-window",
        headers_enabled=True,
    )
    quota = f"{60 * settings.rate_limit_scale}/minute"
    made[_LIBRARY].add_url_rule(_LIBRARY, "view", library.limit(quota)(_answer))
    return made


def app(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
    """Serve a measured route. Other paths show that the server is ready."""
    applications = _applications()
    path = environ["PATH_INFO"]
    if path not in applications:
        environ["PATH_INFO"] = path = _EMPTY
    return applications[path](environ, start_response)


def line(empty: Run, limited: Run) -> str:
    """Format the limiter's CPU as a share of an empty route's, and whether the target is met."""
    floor, figure = (run.cpu_ms(run.cpu.web) for run in (empty, limited))
    share = figure / floor - 1 if floor else 0.0
    met = 0 < share <= MAX_SHARE and not (empty.failures or limited.failures)
    return (
        f"limiter: {figure - floor:.3f} ms of CPU, {share:.2f} of an empty Flask route's {floor:.3f} ms"
        f" (target: at most {MAX_SHARE}) {'met' if met else 'MISSED'}"
    )


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--seconds", default=6.0, show_default=True, type=click.FloatRange(0.5, 60), help="Load per route."
)
@click.option("--rounds", default=12, show_default=True, type=click.IntRange(1, 50), help="Number of rounds.")
@click.option(
    "--clients", default=2, show_default=True, type=click.IntRange(1, 64), help="Concurrent requests."
)
def main(seconds: float, rounds: int, clients: int) -> None:
    """Measure the rate limiter's CPU as a share of an empty Flask route's CPU."""

    def tell(text: str) -> None:
        click.echo(text, err=True)

    directory = Path(tempfile.mkdtemp(prefix="marketplace-limiter-"))
    try:
        with Stand(directory, tell=tell) as stand:
            stand.start_limiter()

            def repeated(path: str) -> Callable[[], Iterator[Call]]:
                call = Call("", http_request("GET", path, headers={"X-Forwarded-For": "203.0.113.7"}))
                return lambda: itertools.repeat(call)

            sides = tuple(
                http_side(stand, title, server="web", calls=repeated(path), clients=clients)
                for path, title in _TITLES.items()
            )
            # The figure is a share, so durations need no scaling.
            unscaled = Reference(lambda _seconds: 0.0, recorded=None)
            measured = measure(
                Part("limiter", None, sides), seconds=seconds, rounds=rounds, reference=unscaled, tell=tell
            )
    except (ProcessFailedError, LoadError) as error:
        raise click.ClickException(str(error)) from error
    finally:
        shutil.rmtree(directory)
    click.echo(report.table(report.rows_of(measured)))
    click.echo(line(*measured.floors[:2]))


if __name__ == "__main__":
    main()
