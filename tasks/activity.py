"""What this worker process does at the moment: told by its heartbeats, and put back when it must stop."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from marketplace.background.workers import WorkerActivity


class Activity:
    """What goes on; threads add what they begin and take away what they ended."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._current: dict[int, WorkerActivity] = {}

    @contextmanager
    def track(
        self, description: str, *, now: datetime, queue: str | None = None, row_id: str | None = None
    ) -> Iterator[None]:
        """Have something go on while the context lasts.

        :param description: for people
        :param now: since when
        :param queue: the queue of a row
        :param row_id: the row's id
        """
        number = next(self._numbers)
        self._current[number] = WorkerActivity(description, now, queue, row_id)
        try:
            yield
        finally:
            del self._current[number]

    def current(self) -> tuple[WorkerActivity, ...]:
        """Tell what goes on, the longest first."""
        # A copy at once: other threads add and take away meanwhile.
        return tuple(activity for _, activity in sorted(self._current.copy().items()))
