"""Counters that are too hot for a row: kept in the cache, and handed out in batches to be added up.

Each increment goes to one hash, the buffer. Renaming it makes a batch of it, at once and whole, so that an
increment is in one batch and no other. A batch stays, and is listed, until whoever added it up discards it.
Nothing here has a time to live, so that the cache does not evict it.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID, uuid4

from marketplace.infra.cache import Cache, Script

# So many fields make a batch by themselves: what one transaction adds up is bounded.
MAX_BATCH_FIELDS = 20_000

_INCREMENT = Script(
    """
    -- KEYS: the buffer, the list of batches, the key of a batch to be. ARGV: field, most fields, the batch's id.
    redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
    if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[2]) then
      redis.call('RENAME', KEYS[1], KEYS[3])
      redis.call('RPUSH', KEYS[2], ARGV[3])
    end
    return 1
    """
)
_CLOSE_BATCH = Script(
    """
    -- KEYS: as above. ARGV: the batch's id, how many batches are told at most.
    if redis.call('EXISTS', KEYS[1]) == 1 then
      redis.call('RENAME', KEYS[1], KEYS[3])
      redis.call('RPUSH', KEYS[2], ARGV[1])
    end
    return redis.call('LRANGE', KEYS[2], 0, tonumber(ARGV[2]) - 1)
    """
)
_READ_BATCH = Script("return redis.call('HGETALL', KEYS[1])")
_DISCARD_BATCH = Script(
    """
    -- KEYS: the batch, the list of batches. ARGV: the batch's id.
    redis.call('DEL', KEYS[1])
    return redis.call('LREM', KEYS[2], 0, ARGV[1])
    """
)


class Counters:
    """Counters of one name, which all processes share."""

    def __init__(self, cache: Cache, name: str) -> None:
        """Name counters.

        :param cache: where they are kept
        :param name: what tells them from others
        """
        self._cache = cache
        # In braces: where the cache is a cluster, all of it is on one of its servers.
        self._buffer = f"n1:{{{name}}}:buffer"
        self._batches = f"n1:{{{name}}}:batches"

    def increment(self, field: str) -> None:
        """Count one.

        :param field: what is counted
        :raises CacheDownError: the cache is not to be had; it may have been counted, if the answer was lost
        """
        batch_id = uuid4().hex
        self._cache.run(
            _INCREMENT,
            (self._buffer, self._batches, self._batch(batch_id)),
            field,
            MAX_BATCH_FIELDS,
            batch_id,
        )

    def close_batch(self, *, limit: int) -> list[UUID]:
        """Make a batch of what was counted, and name the batches that are not discarded yet.

        :param limit: how many are named at most, the oldest first
        :raises CacheDownError: the cache is not to be had
        """
        batch_id = uuid4().hex
        keys = (self._buffer, self._batches, self._batch(batch_id))
        return [UUID(name.decode()) for name in self._cache.run(_CLOSE_BATCH, keys, batch_id, limit)]

    def read_batch(self, batch_id: UUID) -> Mapping[str, int]:
        """Give what a batch counted, by field; nothing if it is not there any more.

        :raises CacheDownError: the cache is not to be had
        """
        pairs: Sequence[bytes] = self._cache.run(_READ_BATCH, (self._batch(batch_id.hex),))
        return {field.decode(): int(count) for field, count in zip(pairs[::2], pairs[1::2], strict=True)}

    def discard_batch(self, batch_id: UUID) -> None:
        """Forget a batch that was added up.

        :raises CacheDownError: the cache is not to be had; it may be forgotten nevertheless
        """
        self._cache.run(_DISCARD_BATCH, (self._batch(batch_id.hex), self._batches), batch_id.hex)

    def _batch(self, batch_id: str) -> str:
        return f"{self._buffer}:{batch_id}"
