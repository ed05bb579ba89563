"""Progress of long work: a bar on a terminal, elsewhere a line for each finished stage."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


class Stages:
    """Consecutive stages of work."""

    def __init__(self, *, on_stderr: bool = False) -> None:
        """Choose the stream for progress.

        :param on_stderr: write to standard error, because standard output carries the result
        """
        self._on_stderr = on_stderr
        self._terminal = (sys.stderr if on_stderr else sys.stdout).isatty()

    @contextmanager
    def stage(self, title: str, *, total: int) -> Iterator[Callable[[int], None]]:
        """Show a stage while it runs. Show the duration at the end, also after an error.

        :param total: number of steps
        :return: function that adds a number of finished steps
        """
        started = time.monotonic()
        if self._terminal:
            with Progress(
                TextColumn("{task.description:<24}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=Console(stderr=self._on_stderr),
            ) as progress:
                task = progress.add_task(title, total=total)
                yield lambda steps: progress.advance(task, steps)
        else:
            done = 0

            def advance(steps: int) -> None:
                nonlocal done
                done += steps

            count = f"{total}"
            try:
                yield advance
            except BaseException:
                count = f"{done} of {total}, aborted"
                raise
            finally:
                click.echo(f"{title}: {count} ({time.monotonic() - started:.1f} s)", err=self._on_stderr)
