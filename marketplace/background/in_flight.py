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
        self._life = worker.life if worker else None
        self._numbers = itertools.count()

    @contextmanager
    def of(self, row: str) -> Iterator[bool]:
        """Leave word of a row while the context lasts, if nobody else has.

        :param row: names it among all rows
        :return: whether a worker died at it, which is to be noted instead of trying it
        """
        is_mine, has_died = self._begin(row)
        try:
            yield has_died
        finally:
            if is_mine or has_died:
                self.forget(row)

    def forget(self, row: str) -> None:
        """Take the word of a row away. If the cache is away, its worker's death will count."""
        if self._life is not None:
            with suppress(CacheDownError):
                self._cache.remove(_KEY_PREFIX + row)

    def _begin(self, row: str) -> tuple[bool, bool]:
        """Leave word, and tell whether it is there now, and whether that of a dead worker was there before."""
        if self._life is None:
            return False, False
        mine = f"{self._life} {next(self._numbers)}"
        try:
            found = self._cache.run(_SET_MARKER, (_KEY_PREFIX + row,), mine, _MARKER_TTL_SECONDS)
            # Where the connection broke, it was sent twice.
            if found is None or found.decode() == mine:
                return True, False
            # One that lives may be at it just now: the row's lock tells the two apart.
            life = found.decode().rpartition(" ")[0]
            return False, all(one.life != life for one in workers.fetch_live_workers(self._cache).workers)
        except CacheDownError:
            return False, False
