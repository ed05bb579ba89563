"""Counts and durations of this process, in memory.

Recording takes about a microsecond, so that every request can be counted.
"""

import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

# Upper bounds of the histogram's buckets, in milliseconds. Each target of the service objectives is a bound.
BUCKETS_MS = (5, 10, 20, 50, 100, 150, 200, 250, 400, 600, 800, 1_000, 2_200, 5_000, 10_000)
_BOUNDS_SECONDS = tuple(bound / 1_000 for bound in BUCKETS_MS)
COUNT = -1  # the bucket of a count without a duration
DURATION_SUM = -3  # the bucket with the sum of the durations of all buckets, in microseconds
MAX_LABEL_LENGTH = 200
# Signals whose labels have words of clients, so their number has no limit.
CSP_VIOLATION, DEPRECATED_CALL = "csp_violation", "deprecated_call"
CLIENT_LABELLED = frozenset({CSP_VIOLATION, DEPRECATED_CALL})


class Key(NamedTuple):
    """The key of a count: signal, label and bucket.

    :ivar signal: the kind, such as ``http``
    :ivar label: the label within the signal; never personal data
    :ivar bucket: the index of the bucket in ``BUCKETS_MS``, the number of bounds for longer durations, ``COUNT`` or
        ``DURATION_SUM``
    """

    signal: str
    label: str
    bucket: int


class Recorder:
    """The counts since the last ``take``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: defaultdict[tuple[str, str, int], int] = defaultdict(int)

    def count(self, signal: str, label: str = "", number: int = 1) -> None:
        """Add to a count. Zero adds nothing."""
        if number:
            with self._lock:
                self._counts[signal, label, COUNT] += number

    def observe(self, signal: str, label: str, seconds: float) -> None:
        """Add a duration to a histogram."""
        bucket = bisect_left(_BOUNDS_SECONDS, seconds)
        with self._lock:
            self._counts[signal, label, bucket] += 1
            self._counts[signal, label, DURATION_SUM] += int(seconds * 1_000_000)

    def take(self) -> dict[Key, int]:
        """Return and reset the counts."""
        with self._lock:
            taken, self._counts = self._counts, defaultdict(int)
        return {
            Key(signal, label[:MAX_LABEL_LENGTH], bucket): number
            for (signal, label, bucket), number in taken.items()
            if number
        }

    def put_back(self, counts: Mapping[Key, int]) -> None:
        """Add counts that could not be sent."""
        with self._lock:
            for key, number in counts.items():
                self._counts[key.signal, key.label, key.bucket] += number


# The recorder of the process.
RECORDER = Recorder()
