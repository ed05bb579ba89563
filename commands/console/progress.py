"""How long work goes: a bar on a terminal, a line for each finished stage elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


class Stages:
    """Stages of work, one after the other."""

    def __init__(self, *, on_stderr: bool = False) -> None:
        """Make them.

        :param on_stderr: whether they are shown on standard error, since standard output is for what comes of them
        """
        self._on_stderr = on_stderr
        self._terminal = (sys.stderr if on_stderr else sys.stdout).isatty()

    @contextmanager
    def stage(self, title: str, *, total: int) -> Iterator[Callable[[int], None]]:
        """Show a stage while it runs, and what it took when it is over, done or broken off.

        :param title: what is done
        :param total: of how many steps
        :return: takes how many more steps are done
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
                count = f"{done} of {total}, broken off"
                raise
            finally:
                click.echo(f"{title}: {count} ({time.monotonic() - started:.1f} s)", err=self._on_stderr)
