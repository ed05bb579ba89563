"""Queue messages: plain JSON with times, without executable content, and outages of the queue server."""

import pickle
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import orjson
import pytest
import structlog
from huey.registry import Message

from marketplace.kernel import queues
from marketplace.services import Services
from sandbox.servers import EmbeddedValkey
from tasks.dispatcher import Dispatcher
from tasks.queues import JsonSerializer, make_queue
from tests.support.probes import closed_port

SERIALIZER = JsonSerializer()


def message(**values: object) -> Message:
    given = {
        "id": uuid4().hex,
        "name": "run_row",
        "eta": None,
        "retries": 0,
        "retry_delay": 0,
        "priority": None,
        "args": ["webhooks", "inbox", str(uuid4())],
        "kwargs": {},
        "on_complete": None,
        "on_error": None,
        "expires": None,
        "expires_resolved": None,
    }
    unknown = (given | values).keys() - set(Message._fields)
    assert unknown <= given.keys()
    return Message(**{name: value for name, value in (given | values).items() if name in Message._fields})


@pytest.mark.parametrize(
    "eta",
    [
        None,
        datetime(2026, 11, 20, 9, 30, 0, 123456),  # noqa: DTZ001 - Huey's own times have no zone
        datetime(2026, 11, 20, 9, 30, tzinfo=UTC),
    ],
)
def test_message_survives_serialization(eta: datetime | None) -> None:
    sent = message(eta=eta, expires_resolved=eta)

    got = SERIALIZER.deserialize(SERIALIZER.serialize(sent))

    assert isinstance(got, Message)
    assert got == sent


def test_message_is_plain_json() -> None:
    raw = orjson.loads(SERIALIZER.serialize(message()))

    assert raw["name"] == "run_row"
    assert raw["args"][:2] == ["webhooks", "inbox"]


@pytest.mark.parametrize("data", [7, "x", [1], {"some": "dict"}, None, True])
def test_other_json_data_survive_serialization(data: object) -> None:
    assert SERIALIZER.deserialize(SERIALIZER.serialize(data)) == data


def test_pickled_message_is_refused() -> None:
    with pytest.raises(ValueError, match="not valid UTF-8"):
        SERIALIZER.deserialize(pickle.dumps(message()))


def test_queue_connects_on_first_use() -> None:
    for name in queues.NAMES:
        assert make_queue(name, "redis://127.0.0.1:1/0").name == name


def test_scheduled_message_waits_until_due(relay: Dispatcher, paying_services: Services) -> None:
    row_id = uuid4()

    relay.send_wakeup(queues.WEBHOOKS, "inbox", row_id, delay_seconds=30)

    queue = relay.queues[queues.WEBHOOKS]
    # A worker that takes the message too early schedules it.
    assert queue.execute(queue.dequeue()) is None
    assert queue.pending() == []
    [task] = queue.scheduled()
    # Huey keeps UTC without a zone.
    due_in = task.eta.replace(tzinfo=UTC) - datetime.now(UTC)
    assert timedelta(seconds=20) < due_in <= timedelta(seconds=30)
    assert list(task.args) == ["webhooks", "inbox", str(row_id)]
    later = (datetime.now(UTC) + timedelta(seconds=31)).replace(tzinfo=None)
    assert [one.id for one in queue.read_schedule(later)] == [task.id]


def test_message_is_pending_in_addressed_queue_only(relay: Dispatcher) -> None:
    relay.send_wakeup(queues.NOTIFICATIONS, "outbox", uuid4())

    waiting = {name: len(queue.pending()) for name, queue in relay.queues.items()}
    assert waiting == dict.fromkeys(queues.NAMES, 0) | {queues.NOTIFICATIONS: 1}


def test_outage_of_the_queue_server_is_logged_once(tmp_path: Path) -> None:
    port = closed_port()
    queue = make_queue(queues.WEBHOOKS, f"redis://127.0.0.1:{port}/0")

    with structlog.testing.capture_logs() as logged:
        assert [queue.dequeue() for _ in range(3)] == [None, None, None]
        valkey = EmbeddedValkey(tmp_path / "valkey", port, durable=False)
        valkey.start()
        try:
            assert queue.dequeue() is None
        finally:
            valkey.stop()

    assert [line["event"] for line in logged] == ["queue unreachable", "queue reachable"]
