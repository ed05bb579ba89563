"""Connections to the cache: reuse, and replacement of closed connections."""

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from marketplace.infra.cache import Cache, RateLimitWindow
from marketplace.infra.settings import Settings
from marketplace.infra.wire import LeanRedisClient
from tests.support.probes import closed_port


@pytest.fixture
def client(settings: Settings) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(settings.redis_url, socket_timeout=2) as client:
        yield client


@pytest.fixture
def wire(client: redis.Redis) -> LeanRedisClient:
    return LeanRedisClient(client)


def connection_id(wire: LeanRedisClient) -> int:
    number: int = wire.send("CLIENT", "ID")
    return number


def test_connection_is_reused_for_successive_commands(wire: LeanRedisClient) -> None:
    assert len({connection_id(wire) for _ in range(5)}) == 1


def test_commands_and_replies_are_bytes_and_numbers(wire: LeanRedisClient) -> None:
    assert wire.send("SET", "wire:kept", b"\x00\xff", "EX", 5) == b"OK"
    assert wire.send("GET", "wire:kept") == b"\x00\xff"
    assert wire.send("GET", "wire:absent") is None
    assert wire.send("DEL", "wire:kept") == 1


def test_connection_closed_by_server_is_replaced(wire: LeanRedisClient, client: redis.Redis) -> None:
    first = connection_id(wire)
    assert client.client_kill_filter(_id=str(first)) == 1
    assert connection_id(wire) != first


def test_command_without_reply_is_executed(wire: LeanRedisClient) -> None:
    first = connection_id(wire)
    wire.send_without_reply("SET", "wire:unanswered", b"kept", "EX", 5)
    assert wire.send("GET", "wire:unanswered") == b"kept"
    wire.send_without_reply("NO-SUCH-COMMAND")
    assert connection_id(wire) == first


def test_command_without_reply_survives_closed_connection_but_fails_without_server(
    wire: LeanRedisClient, client: redis.Redis
) -> None:
    assert client.client_kill_filter(_id=str(connection_id(wire))) == 1
    wire.send_without_reply("PING")
    assert wire.send("PING") == b"PONG"
    with (
        redis.Redis.from_url(f"redis://127.0.0.1:{closed_port()}/0") as unreachable,
        pytest.raises(redis.ConnectionError),
    ):
        LeanRedisClient(unreachable).send_without_reply("PING")


def test_connection_is_reused_after_refused_command(wire: LeanRedisClient) -> None:
    first = connection_id(wire)
    with pytest.raises(redis.ResponseError):
        wire.send("NO-SUCH-COMMAND")
    assert connection_id(wire) == first


def test_unreachable_server_raises_error() -> None:
    with (
        redis.Redis.from_url(f"redis://127.0.0.1:{closed_port()}/0") as client,
        pytest.raises(redis.ConnectionError),
    ):
        LeanRedisClient(client).send("PING")


def test_timed_out_reply_is_not_read_by_next_command(
    settings: Settings,
) -> None:
    with redis.Redis.from_url(settings.redis_url, socket_timeout=0.1) as client:
        wire = LeanRedisClient(client)
        first = connection_id(wire)
        with pytest.raises(redis.TimeoutError):
            wire.send("BLPOP", "wire:nothing", 1)
        assert wire.send("PING") == b"PONG"
        assert connection_id(wire) != first


def test_flushed_script_is_sent_again(settings: Settings, client: redis.Redis) -> None:
    cache = Cache(settings.redis_url)
    window = RateLimitWindow("wire", limit=10, period_seconds=5)
    used = cache.look_up(window=window).used
    client.script_flush()
    assert cache.look_up(window=window).used == used + 1


def test_own_timeout_overrides_the_default_timeout_of_the_client(client: redis.Redis) -> None:
    """The client's default time-out of two seconds would be long enough for a reply."""
    with pytest.raises(redis.TimeoutError):
        LeanRedisClient(client, answer_timeout_seconds=0.05).send("BLPOP", "wire:nothing", 1)


def test_connection_that_another_thread_takes_first_is_replaced(wire: LeanRedisClient) -> None:
    class Emptied(list[Any]):
        """A list that another thread empties after the check."""

        def __bool__(self) -> bool:
            return True

    wire._idle = Emptied()
    assert wire.send("PING") == b"PONG"
