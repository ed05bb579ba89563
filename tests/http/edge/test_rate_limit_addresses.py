"""Rate limits: which address counts behind proxies, and what happens while the cache is gone."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from flask.testing import FlaskClient

from blueprints.http import Context
from blueprints.http.contract import AUTHENTICATED, PUBLIC, SharedLimit
from marketplace.infra.cache import Cache
from marketplace.services import Services
from sandbox.servers import EmbeddedValkey
from tests.support.market import Bearer
from tests.support.probes import assert_problem, closed_port, eventually, probe_area, serve, some_address

area = probe_area()
PROXY = "192.0.2.1"


@area.get("/twice", auth=PUBLIC, limit="2/minute")
def twice(_ctx: Context) -> None:
    """Count by address."""


@area.get("/signed-in", auth=AUTHENTICATED, limit=SharedLimit.CALLER_TIER)
def signed_in(_ctx: Context) -> None:
    """Count by user."""


@pytest.fixture(params=[0, 1, 2])
def hops(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def ask(probe: FlaskClient, peer: str, *forwarded: str, path: str = "twice") -> Any:
    headers = [("X-Forwarded-For", line) for line in forwarded]
    return probe.get(f"/api/probe/{path}", headers=headers, environ_base={"REMOTE_ADDR": peer})


def left(probe: FlaskClient, peer: str, *forwarded: str) -> int:
    return int(ask(probe, peer, *forwarded).headers["RateLimit-Remaining"])


def behind(services: Services, hops: int) -> FlaskClient:
    return serve(services, area, rate_limit_scale=1, trusted_proxy_hops=hops)


def test_only_what_our_proxies_wrote_is_believed(services: Services, hops: int) -> None:
    """The client writes what it likes; our proxies append the address that they were called from."""
    probe = behind(services, hops)
    client = some_address()
    peer = client if hops == 0 else PROXY
    written_by_us = {0: [], 1: [client], 2: [client, PROXY]}[hops]
    for expected, spoofed in ((1, ()), (0, (some_address(),))):
        assert left(probe, peer, ", ".join([*spoofed, *written_by_us])) == expected
    for spoofed in ((), (some_address(), some_address()), ("unknown",), ("",), ("\x7f", ",", " ")):
        line = ",".join([*spoofed, *written_by_us])
        assert_problem(ask(probe, peer, line), 429, "RATE_LIMIT_EXCEEDED")


def test_another_client_of_the_same_proxy_has_its_own_count(services: Services, hops: int) -> None:
    probe = behind(services, hops)
    for _ in range(3):
        client = some_address()
        peer = client if hops == 0 else PROXY
        assert left(probe, peer, *{0: [], 1: [client], 2: [f"{client}, {PROXY}"]}[hops]) == 1


def test_several_header_lines_are_one_list(services: Services) -> None:
    probe = behind(services, 2)
    client = some_address()
    assert left(probe, PROXY, some_address(), f"{client}, {PROXY}") == 1
    assert left(probe, PROXY, client, PROXY) == 0


def test_a_shorter_chain_than_configured_is_no_way_around_the_limit(services: Services) -> None:
    probe = behind(services, 2)
    client = some_address()
    assert [left(probe, PROXY, client) for _ in range(2)] == [1, 0]
    assert ask(probe, PROXY, client).status_code == 429


def test_a_unix_socket_without_forwarded_address_still_counts(services: Services) -> None:
    probe = behind(services, 1)
    client = some_address()
    assert left(probe, "", client) == 1
    assert ask(probe, "").status_code in (200, 429)


def test_an_ipv6_network_of_64_bits_is_one_caller(services: Services) -> None:
    probe = behind(services, 0)
    network = f"2001:db8:{uuid4().hex[:4]}:{uuid4().hex[:4]}"
    assert [left(probe, address) for address in (f"{network}::1", f"{network}:aaaa:bbbb:cccc:dddd")] == [1, 0]
    assert ask(probe, f"{network}::2").status_code == 429
    assert left(probe, f"2001:db9:{network[9:]}::1") == 1


def test_ipv4_clients_of_an_ipv6_socket_are_told_apart(services: Services) -> None:
    """They all show as ::ffff:a.b.c.d, of one network of 64 bits."""
    probe = behind(services, 0)
    first, second = some_address(), some_address()
    assert left(probe, f"::ffff:{first}") == 1
    assert left(probe, first) == 0
    assert left(probe, f"::ffff:{second}") == 1


@pytest.mark.parametrize("odd", ["[::1]:5000", "fe80::1%eth0", "::gggg", ":" * 500, "a" * 5000])
def test_odd_addresses_do_no_harm(services: Services, odd: str) -> None:
    assert ask(behind(services, 1), PROXY, odd).status_code in (200, 429)


def test_without_the_cache_counts_go_on_in_memory_and_then_back(
    services: Services, bearer: Bearer, tmp_path: Path
) -> None:
    port = closed_port()
    probe = serve(services, area, rate_limit_scale=1, cache=Cache(f"redis://127.0.0.1:{port}/0"))
    client, user = some_address(), bearer(uuid4())
    assert [left(probe, client) for _ in range(2)] == [1, 0]
    refused = ask(probe, client)
    assert_problem(refused, 429, "RATE_LIMIT_EXCEEDED")
    assert 1 <= int(refused.headers["Retry-After"]) <= 60
    assert left(probe, some_address()) == 1
    answer = probe.get("/api/probe/signed-in", headers=user)
    assert (answer.status_code, answer.headers["RateLimit-Remaining"]) == (200, "299")
    valkey = EmbeddedValkey(tmp_path / "valkey", port, durable=False)
    valkey.start()
    try:
        # Its counts are empty: where the request passes, it was counted there.
        eventually(lambda: ask(probe, client).status_code == 200)
        assert left(probe, client) == 0
        assert ask(probe, client).status_code == 429
    finally:
        valkey.stop()
    assert ask(probe, client).status_code == 429
    assert left(probe, some_address()) == 1
