"""Workers' heartbeats: each worker process tells the cache every second who it is and what it does.

What was not repeated for a few seconds counts no more, and is cleared away by whoever looks next. The times that
decide are those of the cache's own clock.
"""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any

import orjson

from marketplace.infra.cache import Cache, CacheDownError, Script

HEARTBEAT_SECONDS = 1.0
STALE_SECONDS = 6
WORKER_CRASHED = "The worker died while it worked on this"

_KEY_PREFIX = "h1:begun:"
# A row whose worker died is begun again within a minute; no row takes so long.
_MARKER_TTL_SECONDS = 3_600

# In braces: where the cache is a cluster, both are on one of its servers.
_LAST_SEEN_KEY, _DETAILS_KEY = "h1:{workers}:seen", "h1:{workers}:told"

_RECORD_HEARTBEAT = Script(
    """
    -- KEYS: when each was seen, what each told. ARGV: name, what it tells, seconds to be forgotten after.
    local time = redis.call('TIME')
    redis.call('ZADD', KEYS[1], time[1] * 1000 + math.floor(time[2] / 1000), ARGV[1])
    redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
    redis.call('EXPIRE', KEYS[1], ARGV[3])
    redis.call('EXPIRE', KEYS[2], ARGV[3])
    return 1
    """
)
_REMOVE_WORKER = Script(
    """
    redis.call('ZREM', KEYS[1], ARGV[1])
    return redis.call('HDEL', KEYS[2], ARGV[1])
    """
)
_LIST_WORKERS = Script(
    """
    -- KEYS: as above. ARGV: milliseconds after which one is stale; so is one that was seen in the future.
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    for _, range in ipairs({{'-inf', now - ARGV[1]}, {now + ARGV[1], '+inf'}}) do
      for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], range[1], range[2])) do
        redis.call('ZREM', KEYS[1], name)
        redis.call('HDEL', KEYS[2], name)
      end
    end
    local memory = string.match(redis.call('INFO', 'memory'), 'used_memory:(%d+)')
    return {tonumber(memory), redis.call('HVALS', KEYS[2])}
    """
)


@dataclass(frozen=True, slots=True)
class WorkerActivity:
    """What a worker's thread is at: a row of a queue, or a periodic task."""

    what: str
    since: datetime
    queue: str | None = None
    row_id: str | None = None


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker process, as it tells of itself; ``name`` tells it from all others."""

    name: str
    queue: str
    host: str
    process_id: int
    started_at: datetime
    told_at: datetime
    doing: tuple[WorkerActivity, ...] = ()

    @property
    def incarnation(self) -> str:
        """Name this one life: who is started anew in a container has the name of before."""
        return f"{self.name} {self.started_at.isoformat()}"


@dataclass(frozen=True, slots=True)
class WorkersSnapshot:
    """The workers that live, and the memory that the cache's server uses."""

    workers: tuple[Worker, ...]
    memory_used_bytes: int


def record_heartbeat(cache: Cache, worker: Worker) -> None:
    """Tell that a worker lives, and what it does.

    :raises CacheDownError: the cache is not to be had
    """
    cache.run(
        _RECORD_HEARTBEAT,
        (_LAST_SEEN_KEY, _DETAILS_KEY),
        worker.name,
        orjson.dumps(asdict(worker)).decode(),
        STALE_SECONDS,
    )


def remove_worker(cache: Cache, name: str) -> None:
    """Tell that a worker has ended in good order.

    :raises CacheDownError: the cache is not to be had
    """
    cache.run(_REMOVE_WORKER, (_LAST_SEEN_KEY, _DETAILS_KEY), name)


def fetch_live_workers(cache: Cache) -> WorkersSnapshot:
    """Give the workers that live, sorted by queue and name, in one round trip.

    :raises CacheDownError: the cache is not to be had
    """
    memory, details = cache.run(_LIST_WORKERS, (_LAST_SEEN_KEY, _DETAILS_KEY), STALE_SECONDS * 1000)
    workers = [_parse_worker(orjson.loads(item)) for item in details]
    return WorkersSnapshot(tuple(sorted(workers, key=attrgetter("queue", "name"))), memory)


def _parse_worker(details: dict[str, Any]) -> Worker:
    doing = tuple(
        WorkerActivity(**(item | {"since": datetime.fromisoformat(item["since"])}))
        for item in details.pop("doing")
    )
    times = {name: datetime.fromisoformat(details[name]) for name in ("started_at", "told_at")}
    return Worker(**(details | times), doing=doing)


_SET_MARKER = Script(
    """
    -- KEYS: the row's. ARGV: the word that is left unless there is one, seconds to be forgotten after.
    return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'GET', 'EX', ARGV[2])
    """
)


class InFlightMarkers:
    """The in-flight markers of one process: a worker marks each row from its beginning to its end, also by an error.

    The marker of a worker that lives no more tells that it died at the row: whatever ended it, the row may end the next
    one too, and each time with what goes on beside it. So such a row is not simply tried again; the death is counted as
    a try that failed. All of it is lost with the cache, and nothing is counted then. A process that is no worker leaves
    no markers, since nobody could tell that it died.
    """

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
                worker.incarnation != incarnation for worker in fetch_live_workers(self._cache).workers
            )
        except CacheDownError:
            return False, False
