"""Work on many rows: in batches of bounded size, or row by row, so that one failing row keeps no other waiting."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

import structlog
from sqlalchemy.orm import Session

from marketplace.infra.db import Database
from marketplace.kernel.errors import ConflictError, ProviderUnavailableError, ServiceUnavailableError

_log = structlog.get_logger(__name__)
_Row = TypeVar("_Row")
_Result = TypeVar("_Result")

BATCH_SIZE = 1_000


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
    for _ in range(100):
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


class ChangedWhilePolledError(ConflictError):
    """The row changed while the provider was polled, so the provider's response may be outdated."""

    reason = "changed-while-polled"


@dataclass
class PollingRun:
    """The counts of one run.

    :ivar polled: rows that the provider answered about
    :ivar failed: rows whose response could not be applied; they stay due
    :ivar is_provider_down: whether the run ended early, because the provider gave no usable response
    """

    polled: int = 0
    failed: int = 0
    is_provider_down: bool = False


def ensure_unchanged(locked: object, polled: object, columns: Iterable[str]) -> None:
    """Refuse to apply a response to a row that changed since it was read.

    :param locked: the row as it is now
    :param polled: the row as it was before the provider was asked
    :param columns: the attributes that every change of the row changes
    :raises ChangedWhilePolledError: the row changed
    """
    if any(getattr(locked, name) != getattr(polled, name) for name in columns):
        raise ChangedWhilePolledError("The status changed while the provider was asked for it.")


def poll_each(
    rows: Iterable[_Row],
    *,
    fetch: Callable[[_Row], _Result],
    apply: Callable[[_Row, _Result], None],
    on_unavailable: Callable[[_Row, ProviderUnavailableError], None] | None = None,
    log_field: str,
) -> PollingRun:
    """Fetch the status of each row from a provider and apply it.

    The run ends with the first row that the provider gives no usable response about: the next ones would wait too.

    :param fetch: calls the provider
    :param apply: applies a response in a transaction of its own
    :param on_unavailable: called with the row at which the run ended
    :param log_field: the attribute that names a row in the log, such as ``reference``
    :raises ServiceUnavailableError: the database is away, for the next row too
    """
    run = PollingRun()
    for row in rows:
        try:
            apply(row, fetch(row))
        except ProviderUnavailableError as error:
            run.is_provider_down = True
            if on_unavailable is not None:
                on_unavailable(row, error)
            break
        except ChangedWhilePolledError:
            _log.info("row changed while it was polled", **{log_field: str(getattr(row, log_field))})
        except ServiceUnavailableError:
            raise
        except Exception:  # noqa: BLE001 - logged with its trace; the row stays due, and must not keep others waiting
            _log.exception("polled status not applied", **{log_field: str(getattr(row, log_field))})
            run.failed += 1
        run.polled += 1
    return run
