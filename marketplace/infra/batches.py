"""Work on many rows, a bounded number in each transaction: locks are short, and what is broken off goes on later."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Protocol, TypeVar

import structlog
from sqlalchemy.orm import Session

from marketplace.infra.db import Database
from marketplace.kernel.errors import ServiceUnavailableError

_log = structlog.get_logger(__name__)
_Row = TypeVar("_Row")
_Result = TypeVar("_Result")

BATCH_SIZE = 1_000
MAX_BATCHES = 100


class BatchWork(Protocol):
    """Works on at most so many rows, and tells on how many it did."""

    def __call__(self, session: Session, *, now: datetime, limit: int) -> int: ...


def run_in_batches(database: Database, work: BatchWork, *, now: datetime) -> int:
    """Do work batch by batch, each committed, until nothing is left: at most 100,000 rows.

    :param work: does a batch
    :param now: the time
    :return: how many rows there were
    """
    total = 0
    for _ in range(MAX_BATCHES):
        count = database.in_transaction(work, now=now, limit=BATCH_SIZE)
        total += count
        if count < BATCH_SIZE:
            break
    return total


def process_each(rows: Iterable[_Row], work: Callable[[_Row], _Result], *, failure: str) -> list[_Result]:
    """Do work on each of several rows; one at which it raises keeps no other waiting.

    :param rows: ids, or what is logged in their place; bounded
    :param work: takes one, and commits what it does
    :param failure: what is logged of one at which it raised, with the row and the trace; it is due again
    :return: what came of those at which it did not raise
    :raises ServiceUnavailableError: the database is away, for the next one too
    """
    results = []
    for row in rows:
        try:
            results.append(work(row))
        except ServiceUnavailableError:
            raise
        except Exception:  # noqa: BLE001 - logged with its trace; it must not keep those behind it waiting
            _log.exception(failure, row=str(row))
    return results
