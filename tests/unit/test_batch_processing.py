"""Batch processing: a failing row does not stop the other rows, an unavailable service does."""

import pytest
from structlog.testing import capture_logs

from marketplace.infra.batches import process_each
from marketplace.kernel.errors import ServiceUnavailableError


def test_failing_row_is_logged_with_traceback_and_other_rows_are_processed() -> None:
    def work(row: int) -> int:
        return 12 // row

    with capture_logs() as logged:
        assert process_each([3, 0, 4], work, failure="row not divided") == [4, 3]

    [entry] = logged
    assert (entry["event"], entry["row"], entry["log_level"]) == ("row not divided", "0", "error")
    assert entry["exc_info"]


def test_unavailable_service_stops_the_batch() -> None:
    done = []

    def work(row: int) -> None:
        done.append(row)
        raise ServiceUnavailableError("The database can't be reached.", retry_after_seconds=5)

    with pytest.raises(ServiceUnavailableError):
        process_each([1, 2], work, failure="row not worked on")

    assert done == [1]
