"""A database whose process may die at any boundary of a commit: just before it, or just after."""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from sqlalchemy.orm import Session

from marketplace.infra.db import Database


class DiedError(BaseException):
    """Stands for the death of a process: nothing but the simulation may catch it."""


class MortalDatabase(Database):
    """Commits as the real one does, unless the process dies before, or after, it did.

    ``chance`` is how likely that is at each boundary; reading sessions commit each statement, so that they have
    a boundary after them alone.
    """

    chance = 0.0
    deaths = 0
    draw: Random

    def _may_die(self) -> None:
        if self.chance and self.draw.random() < self.chance:
            self.deaths += 1
            raise DiedError

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """Open a transaction that may not live to its commit, or that nobody hears the commit of."""
        with super().transaction() as session:
            yield session
            self._may_die()
        self._may_die()

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Give a session in autocommit whose holder may die after it."""
        with super().reading() as session:
            yield session
        self._may_die()
