"""The four queues, each with a separate Huey instance on Redis. Messages are JSON, never pickles."""

import time
from datetime import datetime
from typing import Any, ClassVar, Protocol

import orjson
import redis
import structlog
from huey import RedisHuey
from huey.api import Task
from huey.consumer import Consumer, Scheduler
from huey.registry import Message
from huey.serializer import Serializer
from huey.storage import RedisStorage
from redis import ConnectionPool

from marketplace.infra.wire import LeanRedisClient

# Work in parallel, so that work that waits for a lock or a provider does not block other work.
WORKER_THREADS = 8
_UNREACHABLE_PAUSE_SECONDS = 0.5

_log = structlog.get_logger(__name__)


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
        """Add a message, at the front of the queue with a priority.

        A duplicate message is harmless, because workers lock the row.
        """
        self._wire.send("RPUSH" if priority else "LPUSH", self.queue_key, data)


class PeriodicTasks(Protocol):
    """The periodic tasks of a worker."""

    def read_due_tasks(self) -> list[Task]:
        """Return messages of due tasks."""

    def run_unsent_task(self) -> bool:
        """Run a due task that could not be enqueued, if there is one."""


class Queue(RedisHuey):  # type: ignore[misc]
    """A Huey queue. In a worker, the database's schedule replaces Huey's schedule of periodic tasks."""

    periodic: PeriodicTasks | None = None
    _is_unreachable = False

    def read_periodic(self, _timestamp: datetime | None) -> list[Task]:
        """Return due tasks for Huey's scheduler to enqueue."""
        return self.periodic.read_due_tasks() if self.periodic else []

    def dequeue(self) -> Task | None:
        """Wait for a message for a Huey worker. First run a task that could not be enqueued.

        An outage of the queue server is logged once, where Huey would log each attempt of each thread.
        """
        if self.periodic and self.periodic.run_unsent_task():
            return None
        try:
            message = super().dequeue()
        except (redis.ConnectionError, OSError) as error:
            if not self._is_unreachable:
                self._is_unreachable = True
                _log.warning("queue unreachable", queue=self.name, failure=type(error).__name__)
            time.sleep(_UNREACHABLE_PAUSE_SECONDS)
            return None
        if self._is_unreachable:
            self._is_unreachable = False
            _log.info("queue reachable", queue=self.name)
        return message

    def is_reachable(self) -> bool:
        """Return whether the queue server answers."""
        try:
            return bool(self.storage.conn.ping())
        except (redis.RedisError, OSError):
            return False

    def create_consumer(self, **options: Any) -> Consumer:
        """Create a consumer, which reads periodic tasks every second."""
        return _Consumer(self, workers=WORKER_THREADS, periodic=True, **options)


class _Scheduler(Scheduler):  # type: ignore[misc]
    periodic_task_seconds = 1


class _Consumer(Consumer):  # type: ignore[misc]
    scheduler_class: ClassVar = _Scheduler


def make_queue(name: str, redis_url: str) -> Queue:
    """Create a queue, which connects to Redis on first use.

    :param name: one of ``marketplace.kernel.queues.NAMES``
    """
    # A worker waits up to a second for a message, so the timeout must be longer.
    pool = ConnectionPool.from_url(redis_url, socket_connect_timeout=0.25, socket_timeout=3.0)
    return Queue(
        name,
        results=False,
        utc=True,
        serializer=JsonSerializer(),
        storage_class=_Storage,
        connection_pool=pool,
    )
