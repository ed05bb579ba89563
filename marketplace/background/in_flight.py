"""Beginnings: a worker leaves word of each row that it begins, and takes it away at the row's end, however that was.

Word of a worker that lives no more tells that it died at the row: whatever ended it, the row may end the next one
too, and each time with what goes on beside it. So such a row is not simply tried again; the death is counted as a
try that failed. All of it is lost with the cache, and nothing is counted then.
"""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from marketplace.background import workers
from marketplace.background.workers import Worker
from marketplace.infra.cache import Cache, CacheDownError, Script

WORKER_CRASHED = "The worker died while it worked on this"

_KEY_PREFIX = "h1:begun:"
# A row whose worker died is begun again within a minute; no row takes so long.
_MARKER_TTL_SECONDS = 3_600

_SET_MARKER = Script(
    """
    -- KEYS: the row's. ARGV: the word that is left unless there is one, seconds to be forgotten after.
    return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'GET', 'EX', ARGV[2])
    """
)


class InFlightMarkers:
    """The words that one process leaves; one that is no worker leaves none, since nobody could tell that it died."""

    def __init__(self, cache: Cache, worker: Worker | None) -> None:
        """Prepare for leaving word.

        :param cache: where it is left
        :param worker: the process, as its heartbeats tell of it
        """
        self._cache = cache
        self._incarnation = worker.incarnation if worker else None
        self._numbers = itertools.count()

    @contextmanager
    def track(self, row: str) -> Iterator[bool]:
        """Leave word of a row while the context lasts, if nobody else has.

        :param row: names it among all rows
        :return: whether a worker died at it, which is to be noted instead of trying it
        """
        is_mine, worker_crashed = self._set_marker(row)
        try:
            yield worker_crashed
        finally:
            if is_mine or worker_crashed:
                self.clear(row)

    def clear(self, row: str) -> None:
        """Take the word of a row away. If the cache is away, its worker's death will count."""
        if self._incarnation is not None:
            with suppress(CacheDownError):
                self._cache.remove(_KEY_PREFIX + row)

    def _set_marker(self, row: str) -> tuple[bool, bool]:
        """Leave word, and tell whether it is there now, and whether that of a dead worker was there before."""
        if self._incarnation is None:
            return False, False
        own_marker = f"{self._incarnation} {next(self._numbers)}"
        try:
            previous_marker = self._cache.run(
                _SET_MARKER, (_KEY_PREFIX + row,), own_marker, _MARKER_TTL_SECONDS
            )
            # Where the connection broke, it was sent twice.
            if previous_marker is None or previous_marker.decode() == own_marker:
                return True, False
            # One that lives may be at it just now: the row's lock tells the two apart.
            incarnation = previous_marker.decode().rpartition(" ")[0]
            return False, all(
                worker.incarnation != incarnation
                for worker in workers.fetch_live_workers(self._cache).workers
            )
        except CacheDownError:
            return False, False
