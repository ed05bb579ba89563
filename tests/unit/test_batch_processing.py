"""Several rows worked on one after the other: one that fails keeps no other waiting, unless all would fail."""

import pytest
from structlog.testing import capture_logs

from marketplace.infra.batches import process_each
from marketplace.kernel.errors import ServiceUnavailableError


def test_one_that_raises_is_logged_with_its_trace_and_the_others_are_done() -> None:
    def work(row: int) -> int:
        return 12 // row

    with capture_logs() as logged:
        assert process_each([3, 0, 4], work, failure="row not divided") == [4, 3]

    [entry] = logged
    assert (entry["event"], entry["row"], entry["log_level"]) == ("row not divided", "0", "error")
    assert entry["exc_info"]


def test_what_is_away_for_all_ends_it() -> None:
    done = []

    def work(row: int) -> None:
        done.append(row)
        raise ServiceUnavailableError("The database can't be reached.", retry_after_seconds=5)

    with pytest.raises(ServiceUnavailableError):
        process_each([1, 2], work, failure="row not worked on")

    assert done == [1]
