"""The four queues, each its own Huey on Redis with its own worker process; messages are JSON, never pickles."""

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
    """Writes Huey's messages as JSON: what a queue holds can be read, and can't run code."""

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
    """Huey's own, with a quicker way in: requests enqueue while a client waits."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Who enqueues has a client waiting, such as a sender of webhooks, who is to be answered within half a second.
        self._wire = LeanRedisClient(self.conn, answer_timeout_seconds=0.25)

    def enqueue(self, data: bytes, priority: float | None = None) -> None:
        """Add a message; one that is added twice does no harm, since rows are locked.

        :raises NotImplementedError: a priority was given
        """
        if priority:
            raise NotImplementedError("a queue knows no priorities")
        self._wire.send("LPUSH", self.queue_key, data)


def make_queue(name: str, redis_url: str) -> RedisHuey:
    """Make a queue; nothing is connected to until it is used.

    :param name: one of ``marketplace.kernel.queues.NAMES``
    :param redis_url: the server that holds it
    """
    # A worker waits a second for a message, so an answer may take longer than that.
    pool = ConnectionPool.from_url(redis_url, socket_connect_timeout=0.25, socket_timeout=3.0)
    return RedisHuey(
        name,
        results=False,
        utc=True,
        serializer=JsonSerializer(),
        storage_class=_Storage,
        connection_pool=pool,
    )
