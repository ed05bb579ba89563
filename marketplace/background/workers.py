"""Heartbeats of workers: each worker process writes state and current work to the cache every second.

A heartbeat expires after a few seconds by the cache's clock. The next reader deletes expired heartbeats.
"""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any

import orjson

from marketplace.background import texts
from marketplace.infra.cache import Cache, CacheDownError, Script

HEARTBEAT_SECONDS = 1.0
STALE_SECONDS = 6
WORKER_CRASHED = texts.WORKER_CRASHED

_KEY_PREFIX = "h1:begun:"
# Longer than any row takes. After a crash, another worker starts the row within a minute.
_MARKER_TTL_SECONDS = 3_600

# The braces place both keys on the same server of a cache cluster.
_LAST_SEEN_KEY, _DETAILS_KEY = "h1:{workers}:seen", "h1:{workers}:told"

_RECORD_HEARTBEAT = Script(
    """
    -- KEYS: times of heartbeats, details of workers
    -- ARGV: worker name, details, seconds until expiry
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
    -- KEYS: times of heartbeats, details of workers
    -- ARGV: milliseconds until a heartbeat is stale, in the past or in the future
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
    """The current work of a worker's thread: a row of a queue, or a periodic task."""

    what: str
    since: datetime
    queue: str | None = None
    row_id: str | None = None


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker process with a unique ``name``, as described by the latest heartbeat."""

    name: str
    queue: str
    host: str
    process_id: int
    started_at: datetime
    told_at: datetime
    doing: tuple[WorkerActivity, ...] = ()

    @property
    def incarnation(self) -> str:
        """The unique name of this process. A restarted container may reuse the worker's name."""
        return f"{self.name} {self.started_at.isoformat()}"


@dataclass(frozen=True, slots=True)
class WorkersSnapshot:
    """The live workers, and the memory used by the cache's server."""

    workers: tuple[Worker, ...]
    memory_used_bytes: int


def record_heartbeat(cache: Cache, worker: Worker) -> None:
    """Record a worker's heartbeat with the current work.

    :raises CacheDownError: the cache is unavailable
    """
    cache.run(
        _RECORD_HEARTBEAT,
        (_LAST_SEEN_KEY, _DETAILS_KEY),
        worker.name,
        orjson.dumps(asdict(worker)).decode(),
        STALE_SECONDS,
    )


def remove_worker(cache: Cache, name: str) -> None:
    """Remove a worker that stopped normally.

    :raises CacheDownError: the cache is unavailable
    """
    cache.run(_REMOVE_WORKER, (_LAST_SEEN_KEY, _DETAILS_KEY), name)


def fetch_live_workers(cache: Cache) -> WorkersSnapshot:
    """Fetch the live workers, sorted by queue and name, in one round trip.

    :raises CacheDownError: the cache is unavailable
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
    -- KEYS: marker of the row, which is kept if present
    -- ARGV: new marker, seconds until expiry
    return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'GET', 'EX', ARGV[2])
    """
)


class InFlightMarkers:
    """The in-flight markers of a worker process.

    A worker writes a marker when processing of a row starts, and deletes the marker at the end, also after an error.
    The marker of a dead worker shows that the worker crashed at the row. The row may crash the next worker too, with
    all work of that process. So the crash counts as a failed attempt of the row.

    Markers are lost with the cache, and then crashes do not count. A process without heartbeats writes no markers.
    """

    def __init__(self, cache: Cache, worker: Worker | None) -> None:
        """Prepare the markers of a process.

        :param worker: the process, as described in heartbeats; None for a process without heartbeats
        """
        self._cache = cache
        self._incarnation = worker.incarnation if worker else None
        self._numbers = itertools.count()

    @contextmanager
    def track(self, row: str) -> Iterator[bool]:
        """Mark a row as in flight during the context, unless a live worker has marked the row.

        Yields whether a worker crashed at the row. The caller then records the crash instead of processing the row.

        :param row: the unique name of the row
        """
        is_mine, worker_crashed = self._set_marker(row)
        try:
            yield worker_crashed
        finally:
            if is_mine or worker_crashed:
                self.clear(row)

    def clear(self, row: str) -> None:
        """Delete the marker of a row. If the cache is unavailable, a later stop of the worker counts as a crash."""
        if self._incarnation is not None:
            with suppress(CacheDownError):
                self._cache.remove(_KEY_PREFIX + row)

    def _set_marker(self, row: str) -> tuple[bool, bool]:
        """Set the marker of a row. Return whether the marker was set, and whether a dead worker's marker exists."""
        if self._incarnation is None:
            return False, False
        own_marker = f"{self._incarnation} {next(self._numbers)}"
        try:
            previous_marker = self._cache.run(
                _SET_MARKER, (_KEY_PREFIX + row,), own_marker, _MARKER_TTL_SECONDS
            )
            # After a broken connection the script may have run twice, so the own marker counts as new.
            if previous_marker is None or previous_marker.decode() == own_marker:
                return True, False
            # A live worker may be processing the row. The row's lock then prevents double processing.
            incarnation = previous_marker.decode().rpartition(" ")[0]
            return False, all(
                worker.incarnation != incarnation for worker in fetch_live_workers(self._cache).workers
            )
        except CacheDownError:
            return False, False
