"""Counters in the cache for events that are too frequent for database rows.

Increments go to a hash, the buffer. Renaming the buffer atomically turns the buffer into a batch, so each increment is
in exactly one batch. A batch stays listed until the consumer has added the counts to the database and discards the
batch. The keys have no time to live, so that the cache does not evict the counts.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID, uuid4

from marketplace.infra.cache import Cache, Script

# A buffer with this number of fields becomes a batch, which limits the work of one transaction.
MAX_BATCH_FIELDS = 20_000

_INCREMENT = Script(
    """
    -- KEYS: buffer, list of batches, key of the new batch
    -- ARGV: field, maximum number of fields, id of the new batch
    redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
    if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[2]) then
      redis.call('RENAME', KEYS[1], KEYS[3])
      redis.call('RPUSH', KEYS[2], ARGV[3])
    end
    return 1
    """
)
# The client sends a script again after a lost response. The mark makes the repeated call add nothing.
_ADD = Script(
    """
    -- KEYS: buffer, list of batches, key of the new batch, totals, mark of this call
    -- ARGV: maximum number of fields, id of the new batch, prefix of the buffer's fields, whether to add to the totals,
    --   then fields and numbers
    if not redis.call('SET', KEYS[5], 1, 'NX', 'EX', 60) then
      return 0
    end
    for position = 5, #ARGV, 2 do
      redis.call('HINCRBY', KEYS[1], ARGV[3] .. ARGV[position], ARGV[position + 1])
      if ARGV[4] == '1' then
        redis.call('HINCRBY', KEYS[4], ARGV[position], ARGV[position + 1])
      end
    end
    if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[1]) then
      redis.call('RENAME', KEYS[1], KEYS[3])
      redis.call('RPUSH', KEYS[2], ARGV[2])
    end
    return 1
    """
)
# A repeated call must not overwrite the batch of the first call.
_CLOSE_BATCH = Script(
    """
    -- KEYS: buffer, list of batches, key of the new batch
    -- ARGV: id of the new batch, maximum number of returned batches
    if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('EXISTS', KEYS[3]) == 0 then
      redis.call('RENAME', KEYS[1], KEYS[3])
      redis.call('RPUSH', KEYS[2], ARGV[1])
    end
    return redis.call('LRANGE', KEYS[2], 0, tonumber(ARGV[2]) - 1)
    """
)
_READ_FIELDS = Script("return redis.call('HGETALL', KEYS[1])")
_DISCARD_BATCH = Script(
    """
    -- KEYS: batch, list of batches
    -- ARGV: id of the batch
    redis.call('DEL', KEYS[1])
    return redis.call('LREM', KEYS[2], 0, ARGV[1])
    """
)


class Counters:
    """A named set of counters that all processes share."""

    def __init__(self, cache: Cache, name: str) -> None:
        """Open a set of counters.

        :param name: identifies the set in the cache
        """
        self._cache = cache
        # The braces keep all keys of the set on the same server of a cluster.
        self._buffer = f"n1:{{{name}}}:buffer"
        self._batches = f"n1:{{{name}}}:batches"
        self._totals = f"n1:{{{name}}}:totals"

    def increment(self, field: str) -> None:
        """Add 1 to the counter of a field.

        :raises CacheDownError: the cache is unavailable; a lost response can hide a successful increment
        """
        batch_id = uuid4().hex
        self._cache.run(
            _INCREMENT,
            (self._buffer, self._batches, self._batch(batch_id)),
            field,
            MAX_BATCH_FIELDS,
            batch_id,
        )

    def add(self, counts: Mapping[str, int], *, batch_prefix: str, to_totals: bool) -> None:
        """Add numbers to fields of the buffer, and maybe of the totals, in one command.

        :param counts: at most about a thousand fields, since the server does nothing else meanwhile
        :param batch_prefix: the start of the buffer's fields, such as the time; the totals have the fields without it
        :param to_totals: whether to add to the totals, which keep each field for the life of the cache
        :raises CacheDownError: the cache is unavailable; the last lost response can hide a successful addition
        """
        batch_id = uuid4().hex
        self._cache.run(
            _ADD,
            (
                *(self._buffer, self._batches, self._batch(batch_id), self._totals),
                f"{self._batch(batch_id)}:sent",
            ),
            MAX_BATCH_FIELDS,
            batch_id,
            batch_prefix,
            int(to_totals),
            *(part for field, number in counts.items() for part in (field, number)),
        )

    def read_totals(self) -> Mapping[str, int]:
        """Return the sums of all additions by field.

        :raises CacheDownError: the cache is unavailable
        """
        return self._read(self._totals)

    def close_batch(self, *, limit: int) -> list[UUID]:
        """Turn the buffer into a batch, and list the batches that are not yet discarded, oldest first.

        :param limit: the maximum number of listed batches
        :raises CacheDownError: the cache is unavailable
        """
        batch_id = uuid4().hex
        keys = (self._buffer, self._batches, self._batch(batch_id))
        return [UUID(name.decode()) for name in self._cache.run(_CLOSE_BATCH, keys, batch_id, limit)]

    def read_batch(self, batch_id: UUID) -> Mapping[str, int]:
        """Return the counts of a batch by field, empty for a discarded batch.

        :raises CacheDownError: the cache is unavailable
        """
        return self._read(self._batch(batch_id.hex))

    def discard_batch(self, batch_id: UUID) -> None:
        """Discard a batch after the consumer has added the counts to the database.

        :raises CacheDownError: the cache is unavailable; a lost response can hide a successful discard
        """
        self._cache.run(_DISCARD_BATCH, (self._batch(batch_id.hex), self._batches), batch_id.hex)

    def _read(self, key: str) -> Mapping[str, int]:
        pairs: Sequence[bytes] = self._cache.run(_READ_FIELDS, (key,))
        return {field.decode(): int(count) for field, count in zip(pairs[::2], pairs[1::2], strict=True)}

    def _batch(self, batch_id: str) -> str:
        return f"{self._buffer}:{batch_id}"
