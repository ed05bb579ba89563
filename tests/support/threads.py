"""Concurrent calls: threads that start together, and the results."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Given = TypeVar("Given")
Done = TypeVar("Done")
BOUND_SECONDS = 60


def at_once(work: Callable[[Given], Done], given: Sequence[Given]) -> list[Done | Exception]:
    """Call a function for each item in concurrent threads and return the results in order.

    :return: results, and the exceptions of failed calls
    """
    barrier = threading.Barrier(len(given))

    def one(item: Given) -> Done | Exception:
        barrier.wait(BOUND_SECONDS)
        try:
            return work(item)
        except Exception as error:  # noqa: BLE001 - returned to the test for inspection
            return error

    with ThreadPoolExecutor(len(given)) as pool:
        return list(pool.map(one, given, timeout=BOUND_SECONDS))


def unexpected_errors(results: Sequence[object], *foreseen: type[Exception]) -> list[object]:
    """List the unexpected exceptions among results."""
    return [found for found in results if isinstance(found, Exception) and not isinstance(found, foreseen)]
