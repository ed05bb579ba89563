"""Processing of many rows, in batches of limited size or row by row. A failing row does not stop the other rows."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

import structlog
from sqlalchemy.orm import Session

from marketplace.infra import texts
from marketplace.infra.db import Database
from marketplace.kernel.errors import ConflictError, ProviderUnavailableError, ServiceUnavailableError

_log = structlog.get_logger(__name__)
_Row = TypeVar("_Row")
_Result = TypeVar("_Result")

BATCH_SIZE = 1_000


class BatchWork(Protocol):
    """A function that processes at most ``limit`` rows and returns the number of processed rows."""

    def __call__(self, session: Session, *, now: datetime, limit: int) -> int:
        """Process a batch of at most ``limit`` rows."""


def run_in_batches(database: Database, work: BatchWork, *, now: datetime) -> int:
    """Process rows batch by batch until no row is left, at most 100,000 rows. Each batch commits.

    :return: the number of processed rows
    """
    total = 0
    for _ in range(100):
        count = database.in_transaction(work, now=now, limit=BATCH_SIZE)
        total += count
        if count < BATCH_SIZE:
            break
    return total


def process_each(rows: Iterable[_Row], work: Callable[[_Row], _Result], *, failure: str) -> list[_Result]:
    """Process each row. An error is logged, and the next row follows.

    :param rows: a limited number of ids, or of objects whose ``str`` is safe to log
    :param work: processes a row and commits
    :param failure: the log event for a failed row, which stays due
    :return: the results of the rows without an error
    :raises ServiceUnavailableError: the database is unavailable, so the remaining rows would fail too
    """
    results = []
    for row in rows:
        try:
            results.append(work(row))
        except ServiceUnavailableError:
            raise
        except Exception:  # noqa: BLE001 - logged with the traceback; the remaining rows must run
            _log.exception(failure, row=str(row))
    return results


class ChangedWhilePolledError(ConflictError):
    """The row changed while the provider was polled, so the provider's response may be outdated."""

    reason = "changed-while-polled"


@dataclass
class PollingRun:
    """The counts of a polling run.

    :ivar polled: rows that were polled, without the row at which the run ended
    :ivar failed: polled rows with an unexpected error, which stay due
    :ivar is_provider_down: whether the run ended early without a usable response from the provider
    """

    polled: int = 0
    failed: int = 0
    is_provider_down: bool = False


def ensure_unchanged(locked: object, polled: object, columns: Iterable[str]) -> None:
    """Refuse to apply a provider's response to a row that changed since the row was read.

    :param locked: the locked, current row
    :param polled: the row as read before the provider was polled
    :param columns: attributes of which every change of the row changes at least one
    :raises ChangedWhilePolledError: the row changed
    """
    if any(getattr(locked, name) != getattr(polled, name) for name in columns):
        raise ChangedWhilePolledError(texts.CHANGED_WHILE_POLLED)


def poll_each(
    rows: Iterable[_Row],
    *,
    fetch: Callable[[_Row], _Result],
    apply: Callable[[_Row, _Result], None],
    on_unavailable: Callable[[_Row, ProviderUnavailableError], None] | None = None,
    log_field: str,
) -> PollingRun:
    """Fetch the status of each row from a provider and apply the response.

    The run ends at the first row without a usable response, because the remaining rows would time out too.

    :param fetch: calls the provider
    :param apply: applies a response in a separate transaction
    :param on_unavailable: called with the row at which the run ended
    :param log_field: the attribute that identifies a row in the log, such as ``reference``
    :raises ServiceUnavailableError: the database is unavailable, so the remaining rows would fail too
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
        except Exception:  # noqa: BLE001 - logged with the traceback; the row stays due and the others must run
            _log.exception("polled status not applied", **{log_field: str(getattr(row, log_field))})
            run.failed += 1
        run.polled += 1
    return run
