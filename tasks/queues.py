"""The four queues, each with a separate Huey instance on Redis. Messages are JSON, never pickles."""

from datetime import datetime
from typing import Any

import orjson
from huey import RedisHuey
from huey.registry import Message
from huey.serializer import Serializer
from huey.storage import RedisStorage
from redis import ConnectionPool

from marketplace.infra.wire import LeanRedisClient


class JsonSerializer(Serializer):  # type: ignore[misc]
    """The JSON serializer of Huey messages. JSON is readable and, unlike pickles, cannot run code."""

    def _serialize(self, data: Any) -> bytes:
        return orjson.dumps(data._asdict() if isinstance(data, Message) else data)

    def _deserialize(self, data: bytes) -> Any:
        fields = orjson.loads(data)
        if not isinstance(fields, dict) or not fields.keys() <= set(Message._fields):
            return fields
        for name in ("eta", "expires_resolved"):
            if fields.get(name):
                fields[name] = datetime.fromisoformat(fields[name])
        return Message(**fields)


class _Storage(RedisStorage):  # type: ignore[misc]
    """Huey's Redis storage with faster enqueueing, because requests enqueue while a client waits."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # The timeout keeps requests fast: senders of webhooks expect a response within half a second.
        self._wire = LeanRedisClient(self.conn, answer_timeout_seconds=0.25)

    def enqueue(self, data: bytes, priority: float | None = None) -> None:
        """Add a message. A duplicate message is harmless, because workers lock the row.

        :raises NotImplementedError: a priority was given
        """
        if priority:
            raise NotImplementedError("queues do not support priorities")
        self._wire.send("LPUSH", self.queue_key, data)


def make_queue(name: str, redis_url: str) -> RedisHuey:
    """Create a queue, which connects to Redis on first use.

    :param name: one of ``marketplace.kernel.queues.NAMES``
    """
    # A worker waits up to a second for a message, so the timeout must be longer.
    pool = ConnectionPool.from_url(redis_url, socket_connect_timeout=0.25, socket_timeout=3.0)
    return RedisHuey(
        name,
        results=False,
        utc=True,
        serializer=JsonSerializer(),
        storage_class=_Storage,
        connection_pool=pool,
    )
