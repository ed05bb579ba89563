"""The entry point of ``python -m bench.signals``: the processor time that recording takes in a cached request."""

import time

import click

from marketplace.kernel.signals import Recorder

_CALLS = 100_000
_ROUNDS = 5


def _record(recorder: Recorder) -> None:
    """Record what the edge records for a cached listing."""
    method, rule, status = "GET", "/api/products", 200
    recorder.observe("http", f"{method} {rule} {status // 100}xx", 0.000_4)
    recorder.count("cache", "hit")


@click.command(
    help="""Measure the recording of a cached request in a loop of 100,000 calls.

    Divide the figure by the processor time of `listing-cached` (web), which `python -m bench --part listing-cached`
    measures: the target is at most 3 %."""
)
def main() -> None:
    """Print the best of five rounds."""
    recorder, best = Recorder(), float("inf")
    for _ in range(_ROUNDS):
        started = time.process_time()
        for _ in range(_CALLS):
            _record(recorder)
        best = min(best, (time.process_time() - started) / _CALLS)
        recorder.take()
    click.echo(f"{best * 1e6:.2f} us of processor time per request ({_CALLS:,} calls)")


if __name__ == "__main__":
    main()
