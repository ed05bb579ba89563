"""Database with simulated process crashes just before or just after a commit."""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from sqlalchemy.orm import Session

from marketplace.infra.db import Database


class ProcessCrashedError(BaseException):
    """A simulated process crash, which only the simulation may catch."""


class CrashingDatabase(Database):
    """A database that may crash around each commit.

    ``crash_probability`` applies to each boundary. Reading sessions commit each statement, so only the end of such a
    session is a boundary.
    """

    crash_probability = 0.0
    crashes = 0
    draw: Random

    def _maybe_crash(self) -> None:
        if self.crash_probability and self.draw.random() < self.crash_probability:
            self.crashes += 1
            raise ProcessCrashedError

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """Open a transaction that may crash before or after the commit."""
        with super().transaction() as session:
            yield session
            self._maybe_crash()
        self._maybe_crash()

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Open a session in autocommit that may crash at the end."""
        with super().reading() as session:
            yield session
        self._maybe_crash()
