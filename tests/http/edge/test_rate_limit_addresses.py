"""Rate limits by client address: addresses behind proxies, and counting without the cache or the database."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from flask.testing import FlaskClient

from blueprints.http import Context
from blueprints.http.contract import AUTHENTICATED, PUBLIC, SharedLimit
from marketplace.infra.cache import Cache
from marketplace.infra.db import Database
from marketplace.services import Services
from sandbox.servers import EmbeddedValkey
from tests.support.market import Bearer
from tests.support.probes import (
    assert_problem,
    closed_port,
    eventually,
    from_address,
    probe_area,
    serve,
    unique_address,
)

area = probe_area()
PROXY = "192.0.2.1"


@area.get("/twice", auth=PUBLIC, limit="2/minute")
def twice(_ctx: Context) -> None:
    """Count by address."""


@area.get("/signed-in", auth=AUTHENTICATED, limit=SharedLimit.CALLER_TIER)
def signed_in(_ctx: Context) -> None:
    """Count by user."""


@area.get("/open", auth=PUBLIC, limit=SharedLimit.CALLER_TIER)
def open_to_all(_ctx: Context) -> None:
    """Count by user or address, also without the database."""


@pytest.fixture(params=[0, 1, 2])
def hops(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def fetch(probe: FlaskClient, peer: str, *forwarded: str, path: str = "twice") -> Any:
    headers = [("X-Forwarded-For", line) for line in forwarded]
    return probe.get(f"/api/probe/{path}", headers=headers, environ_base={"REMOTE_ADDR": peer})


def remaining(probe: FlaskClient, peer: str, *forwarded: str) -> int:
    return int(fetch(probe, peer, *forwarded).headers["RateLimit-Remaining"])


def behind(services: Services, hops: int) -> FlaskClient:
    return serve(services, area, rate_limit_scale=1, trusted_proxy_hops=hops)


def test_forged_forwarded_addresses_are_ignored(services: Services, hops: int) -> None:
    """A client can forge the start of the header; trusted proxies append the caller's address."""
    probe = behind(services, hops)
    client = unique_address()
    peer = client if hops == 0 else PROXY
    proxy_entries = {0: [], 1: [client], 2: [client, PROXY]}[hops]
    for expected, spoofed in ((1, ()), (0, (unique_address(),))):
        assert remaining(probe, peer, ", ".join([*spoofed, *proxy_entries])) == expected
    for spoofed in ((), (unique_address(), unique_address()), ("unknown",), ("",), ("\x7f", ",", " ")):
        line = ",".join([*spoofed, *proxy_entries])
        assert_problem(fetch(probe, peer, line), 429, "RATE_LIMIT_EXCEEDED")


def test_clients_behind_same_proxy_are_counted_separately(services: Services, hops: int) -> None:
    probe = behind(services, hops)
    for _ in range(3):
        client = unique_address()
        peer = client if hops == 0 else PROXY
        assert remaining(probe, peer, *{0: [], 1: [client], 2: [f"{client}, {PROXY}"]}[hops]) == 1


def test_several_forwarded_headers_are_joined(services: Services) -> None:
    probe = behind(services, 2)
    client = unique_address()
    assert remaining(probe, PROXY, unique_address(), f"{client}, {PROXY}") == 1
    assert remaining(probe, PROXY, client, PROXY) == 0


def test_client_behind_fewer_proxies_than_configured_is_rate_limited(services: Services) -> None:
    probe = behind(services, 2)
    client = unique_address()
    assert [remaining(probe, PROXY, client) for _ in range(2)] == [1, 0]
    assert fetch(probe, PROXY, client).status_code == 429


def test_request_on_unix_socket_without_forwarded_address_is_counted(services: Services) -> None:
    probe = behind(services, 1)
    client = unique_address()
    assert remaining(probe, "", client) == 1
    assert fetch(probe, "").status_code in (200, 429)


def test_addresses_of_same_ipv6_64_network_share_count(services: Services) -> None:
    probe = behind(services, 0)
    network = f"2001:db8:{uuid4().hex[:4]}:{uuid4().hex[:4]}"
    assert [remaining(probe, address) for address in (f"{network}::1", f"{network}:aaaa:bbbb:cccc:dddd")] == [
        1,
        0,
    ]
    assert fetch(probe, f"{network}::2").status_code == 429
    assert remaining(probe, f"2001:db9:{network[9:]}::1") == 1


def test_ipv4_clients_on_ipv6_socket_are_counted_separately(services: Services) -> None:
    """All IPv4 clients appear as ::ffff:a.b.c.d, within a single 64-bit network."""
    probe = behind(services, 0)
    first, second = unique_address(), unique_address()
    assert remaining(probe, f"::ffff:{first}") == 1
    assert remaining(probe, first) == 0
    assert remaining(probe, f"::ffff:{second}") == 1


@pytest.mark.parametrize("odd", ["[::1]:5000", "fe80::1%eth0", "::gggg", ":" * 500, "a" * 5000])
def test_malformed_forwarded_address_causes_no_error(services: Services, odd: str) -> None:
    assert fetch(behind(services, 1), PROXY, odd).status_code in (200, 429)


def test_counts_continue_in_memory_while_cache_is_unreachable(
    services: Services, bearer: Bearer, tmp_path: Path
) -> None:
    port = closed_port()
    probe = serve(services, area, rate_limit_scale=1, cache=Cache(f"redis://127.0.0.1:{port}/0"))
    client, user = unique_address(), bearer(uuid4())
    assert [remaining(probe, client) for _ in range(2)] == [1, 0]
    refused = fetch(probe, client)
    assert_problem(refused, 429, "RATE_LIMIT_EXCEEDED")
    assert 1 <= int(refused.headers["Retry-After"]) <= 60
    assert remaining(probe, unique_address()) == 1
    answer = probe.get("/api/probe/signed-in", headers=user)
    assert (answer.status_code, answer.headers["RateLimit-Remaining"]) == (200, "299")
    valkey = EmbeddedValkey(tmp_path / "valkey", port, durable=False)
    valkey.start()
    try:
        # The restarted cache has no counts: a passing request was counted in the cache.
        eventually(lambda: fetch(probe, client).status_code == 200)
        assert remaining(probe, client) == 0
        assert fetch(probe, client).status_code == 429
    finally:
        valkey.stop()
    assert fetch(probe, client).status_code == 429
    assert remaining(probe, unique_address()) == 1


def test_signed_in_callers_are_counted_by_user_while_database_is_unreachable(
    services: Services, bearer: Bearer
) -> None:
    url = f"postgresql://nobody:secret@127.0.0.1:{closed_port()}/none"
    database = Database(url, pool_size=1, application_name="probe")
    probe = serve(services, area, rate_limit_scale=1, database=database)
    from_campus = from_address(unique_address())

    answers = [
        probe.get("/api/probe/open", headers=headers, **from_campus)
        for headers in (bearer(uuid4()), bearer(uuid4()), {})
    ]

    assert [answer.headers["RateLimit-Limit"] for answer in answers] == ["300", "300", "60"]
    assert [answer.headers["RateLimit-Remaining"] for answer in answers] == ["299", "299", "59"]
