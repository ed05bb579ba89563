"""Work on many rows, a bounded number in each transaction: locks are short, and what is broken off goes on later."""

from datetime import datetime
from typing import Protocol

from sqlalchemy.orm import Session

from marketplace.infra.db import Database

BATCH = 1_000
MOST_BATCHES = 100


class Batch(Protocol):
    """Works on at most so many rows, and tells on how many it did."""

    def __call__(self, session: Session, *, now: datetime, most: int) -> int: ...


def in_batches(database: Database, work: Batch, *, now: datetime) -> int:
    """This function will do work batch by batch, each committed, until nothing is left: at most 100,000 rows.

    :param work: does a batch
    :param now: the time
    :return: how many rows there were
    """
    done = 0
    for _ in range(MOST_BATCHES):
        count = database.in_transaction(work, now=now, most=BATCH)
        done += count
        if count < BATCH:
            break
    return done
