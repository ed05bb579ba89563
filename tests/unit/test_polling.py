"""Polling continues after a failed row and stops when the provider is unavailable."""

from dataclasses import dataclass, replace

import pytest

from marketplace.infra.batches import ChangedWhilePolledError, ensure_unchanged, poll_each
from marketplace.kernel.errors import ProviderUnavailableError, ServiceUnavailableError


@dataclass(frozen=True)
class Row:
    id: int
    status: str = "submitted"
    attempts: int = 1


ROWS = [Row(number) for number in range(4)]


def test_failed_and_changed_rows_do_not_stop_the_run() -> None:
    applied: list[int] = []

    def apply(row: Row, response: str) -> None:
        if row.id == 0:
            raise ZeroDivisionError
        if row.id == 1:
            raise ChangedWhilePolledError
        applied.append(row.id)

    run = poll_each(ROWS, fetch=lambda _row: "sent", apply=apply, log_field="id")

    assert applied == [2, 3]
    assert (run.polled, run.failed, run.is_provider_down) == (4, 1, False)


def test_run_stops_at_first_row_without_provider_response() -> None:
    applied: list[int] = []
    unanswered: list[int] = []

    def fetch(row: Row) -> str:
        if row.id == 2:
            raise ProviderUnavailableError("Down.")
        return "sent"

    run = poll_each(
        ROWS,
        fetch=fetch,
        apply=lambda row, _response: applied.append(row.id),
        on_unavailable=lambda row, _error: unanswered.append(row.id),
        log_field="id",
    )

    assert (applied, unanswered) == ([0, 1], [2])
    assert (run.polled, run.is_provider_down) == (2, True)


def test_unreadable_response_does_not_stop_the_run() -> None:
    def fetch(row: Row) -> str:
        if row.id == 0:
            raise KeyError("status")
        return "sent"

    run = poll_each(ROWS, fetch=fetch, apply=lambda _row, _response: None, log_field="id")

    assert (run.polled, run.failed, run.is_provider_down) == (4, 1, False)


def test_unavailable_database_stops_the_run() -> None:
    def apply(_row: Row, _response: str) -> None:
        raise ServiceUnavailableError("Away.")

    with pytest.raises(ServiceUnavailableError):
        poll_each(ROWS, fetch=lambda _row: "sent", apply=apply, log_field="id")


def test_row_changed_since_read_is_refused() -> None:
    row = Row(1)

    ensure_unchanged(row, replace(row), ("status", "attempts"))
    with pytest.raises(ChangedWhilePolledError):
        ensure_unchanged(replace(row, attempts=2), row, ("status", "attempts"))
