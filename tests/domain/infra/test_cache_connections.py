"""The wire to the cache: connections are reused, and those that died meanwhile replaced."""

from collections.abc import Iterator

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


def test_one_connection_serves_one_command_after_another(wire: LeanRedisClient) -> None:
    assert len({connection_id(wire) for _ in range(5)}) == 1


def test_words_and_answers_are_bytes_and_numbers(wire: LeanRedisClient) -> None:
    assert wire.send("SET", "wire:kept", b"\x00\xff", "EX", 5) == b"OK"
    assert wire.send("GET", "wire:kept") == b"\x00\xff"
    assert wire.send("GET", "wire:absent") is None
    assert wire.send("DEL", "wire:kept") == 1


def test_a_connection_that_the_server_closed_is_replaced(wire: LeanRedisClient, client: redis.Redis) -> None:
    first = connection_id(wire)
    assert client.client_kill_filter(_id=str(first)) == 1
    assert connection_id(wire) != first


def test_what_is_not_answered_is_done_all_the_same(wire: LeanRedisClient) -> None:
    first = connection_id(wire)
    wire.send_without_reply("SET", "wire:unanswered", b"kept", "EX", 5)
    assert wire.send("GET", "wire:unanswered") == b"kept"
    wire.send_without_reply("NO-SUCH-COMMAND")
    assert connection_id(wire) == first


def test_a_server_that_is_gone_is_told_nothing(wire: LeanRedisClient, client: redis.Redis) -> None:
    assert client.client_kill_filter(_id=str(connection_id(wire))) == 1
    wire.send_without_reply("PING")
    assert wire.send("PING") == b"PONG"
    with (
        redis.Redis.from_url(f"redis://127.0.0.1:{closed_port()}/0") as nobody,
        pytest.raises(redis.ConnectionError),
    ):
        LeanRedisClient(nobody).send_without_reply("PING")


def test_a_refusal_leaves_the_connection_good(wire: LeanRedisClient) -> None:
    first = connection_id(wire)
    with pytest.raises(redis.ResponseError):
        wire.send("NO-SUCH-COMMAND")
    assert connection_id(wire) == first


def test_a_server_that_is_gone_is_an_error() -> None:
    with (
        redis.Redis.from_url(f"redis://127.0.0.1:{closed_port()}/0") as client,
        pytest.raises(redis.ConnectionError),
    ):
        LeanRedisClient(client).send("PING")


def test_an_answer_that_does_not_come_is_an_error_and_not_taken_for_the_next_ones(
    settings: Settings,
) -> None:
    with redis.Redis.from_url(settings.redis_url, socket_timeout=0.1) as client:
        wire = LeanRedisClient(client)
        first = connection_id(wire)
        with pytest.raises(redis.TimeoutError):
            wire.send("BLPOP", "wire:nothing", 1)
        assert wire.send("PING") == b"PONG"
        assert connection_id(wire) != first


def test_a_server_that_forgot_the_script_is_sent_it_again(settings: Settings, client: redis.Redis) -> None:
    cache = Cache(settings.redis_url)
    window = RateLimitWindow("wire", limit=10, period_seconds=5)
    used = cache.look_up(window=window).used
    client.script_flush()
    assert cache.look_up(window=window).used == used + 1


def test_hurried_command_waits_less_than_the_client_timeout(client: redis.Redis) -> None:
    """The client's own two seconds would let the server answer."""
    with pytest.raises(redis.TimeoutError):
        LeanRedisClient(client, answer_timeout_seconds=0.05).send("BLPOP", "wire:nothing", 1)
