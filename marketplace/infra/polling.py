"""Poll a provider for rows without a final status, so that one failing row keeps no other waiting."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import structlog

from marketplace.kernel.errors import ConflictError, ProviderUnavailableError, ServiceUnavailableError

_log = structlog.get_logger(__name__)
_RowT = TypeVar("_RowT")
_Response = TypeVar("_Response")


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
    rows: Iterable[_RowT],
    *,
    fetch: Callable[[_RowT], _Response],
    apply: Callable[[_RowT, _Response], None],
    on_unavailable: Callable[[_RowT, ProviderUnavailableError], None] | None = None,
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
