"""A frozen database: requests are refused at once, cached lists and liveness are served, and nothing is lost."""

import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import requests

from bench.load import request
from bench.paced_load import Answers, Kind, PacedLoad, request_status
from bench.processes import children_ids, frozen
from sandbox.process import wait_until
from tests.support.forked_processes import Forked
from tests.support.gateway import charge_data, event_of, sign
from tests.support.ports import free_ports
from tests.support.proxied_site import make_proxy, make_waiting_process
from tests.support.purchases import make_product, make_shop
from tests.support.service_processes import BOUND_SECONDS, ServiceProcesses

PROJECT = Path(__file__).parents[2]
# The number of answers of each kind that must arrive while the database is frozen.
ANSWERS = 40
LISTING = "/api/products"
KINDS = ("webhook", "listing", "detail", "live")


class ProxiedSite:
    """Both groups of web processes behind the proxy."""

    def __init__(self, site: ServiceProcesses, directory: Path) -> None:
        """Start the processes."""
        site.environment |= {"DATABASE_WAIT_SCALE": "1", "RATE_LIMIT_SCALE": "1000"}
        self.site = site
        self.web: Forked = site.web()
        self.web_port = int(site.environment["WEB_BIND"].rpartition(":")[2])
        ports = free_ports("site", "waiting", "proxy")
        self.waiting = make_waiting_process(site, port=ports["waiting"])
        self.waiting.launch()
        self.port = ports["proxy"]
        self.proxy = make_proxy(
            directory / "proxy", port=self.port, sync=self.web_port, gevent=ports["waiting"], media=9
        )
        self.proxy.start()

    def stop(self) -> None:
        """Stop the processes that the site does not stop."""
        self.proxy.stop()
        self.waiting.stop(timeout_seconds=0)

    def status(self, content: bytes) -> int:
        """Return the status of a request through the proxy."""
        return request_status(self.port, content)

    @property
    def database_process(self) -> int:
        """The id of PostgreSQL's main process."""
        process = self.site.postgres.process
        assert process is not None
        assert process.process_id is not None
        return process.process_id

    @property
    def workers(self) -> set[int]:
        """The ids of all web workers."""
        assert self.waiting.process_id is not None
        return children_ids(self.web.process_id) | children_ids(self.waiting.process_id)


@pytest.fixture(scope="module")
def proxied(whole_site: ServiceProcesses, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedSite]:
    """The running site of this module."""
    made = ProxiedSite(whole_site, tmp_path_factory.mktemp("proxied"))
    try:
        assert wait_until(
            lambda: made.status(request("GET", "/health/live")) == 200, timeout_seconds=BOUND_SECONDS
        )
        yield made
    finally:
        made.stop()


def delivery(body: bytes) -> bytes:
    return request("POST", "/api/payments/webhook", body=body, headers={"x-gateway-signature": sign(body)})


def is_served(proxied: ProxiedSite, content: bytes) -> bool:
    return proxied.status(content) == 200


def deliver(proxied: ProxiedSite, body: bytes) -> requests.Response:
    """Deliver a webhook. The time-out is shorter than that after which gunicorn kills a worker."""
    url, headers = f"{proxied.proxy.url}/api/payments/webhook", {"x-gateway-signature": sign(body)}
    return requests.post(url, data=body, headers=headers, timeout=BOUND_SECONDS)


def test_frozen_database_is_answered_at_once_and_service_recovers_by_itself(
    proxied: ProxiedSite,
) -> None:
    site = proxied.site
    product_id = site.database.in_transaction(make_product, site.database.in_transaction(make_shop))
    detail = request("GET", f"/api/products/{product_id}")
    bodies = [event_of(charge_data(f"unknown-{number}", 100, id=number)) for number in range(2_000)]
    kinds = [
        Kind("webhook", lambda number: delivery(bodies[number]), 10),
        Kind("listing", lambda _number: request("GET", LISTING), 10),
        Kind("detail", lambda _number: detail, 10),
        Kind("live", lambda _number: request("GET", "/health/live"), 10),
    ]
    for warmed in (request("GET", LISTING), detail):
        assert wait_until(partial(is_served, proxied, warmed), timeout_seconds=BOUND_SECONDS)
    workers = proxied.workers

    with PacedLoad(proxied.port, kinds) as load:
        with frozen(proxied.database_process) as frozen_at:

            def answers(kind: str) -> Answers:
                return load.between(frozen_at, float("inf"), kind)

            assert wait_until(
                lambda: all(len(answers(kind).samples) >= ANSWERS for kind in KINDS),
                timeout_seconds=BOUND_SECONDS,
            )
            answered = {kind: answers(kind) for kind in KINDS}
        recovery = itertools.count(len(bodies) - 1, -1)
        assert wait_until(
            lambda: proxied.status(delivery(bodies[next(recovery)])) == 200, timeout_seconds=BOUND_SECONDS
        ), site.logs()
        assert wait_until(lambda: proxied.status(detail) == 200, timeout_seconds=BOUND_SECONDS)

    statuses = {kind: set(answered[kind].statuses) for kind in KINDS}
    assert statuses == {"webhook": {503}, "listing": {200}, "detail": {503}, "live": {200}}
    # Most requests do not even wait as long as a webhook's insert may.
    assert answered["webhook"].percentile_ms(50) < 400
    assert proxied.workers == workers
    acknowledged = {one.number for one in load.samples if one.kind == "webhook" and one.status == 200}
    stored = site.query("SELECT CAST(convert_from(body, 'UTF8') AS json) #>> '{data,id}' FROM webhook_inbox")
    assert acknowledged <= {int(number) for (number,) in stored}


def test_refusal_names_the_time_of_a_retry(proxied: ProxiedSite) -> None:
    body = event_of(charge_data("unknown", 100))
    with frozen(proxied.database_process):
        refused = [deliver(proxied, body) for _ in range(5)]

    for answer in refused:
        assert answer.status_code == 503
        assert int(answer.headers["Retry-After"]) > 0
        assert answer.json()["code"] == "SERVICE_UNAVAILABLE"


def test_large_delivery_does_not_wait_for_a_frozen_database(proxied: ProxiedSite) -> None:
    """The statement is larger than the buffers of the connection, so that not even sending it ends."""
    small, large = (event_of(charge_data("unknown", 100, message="x" * length)) for length in (1, 900 * 1024))
    # Connect both workers first.
    assert wait_until(
        lambda: {proxied.status(delivery(small)) for _ in range(8)} == {200}, timeout_seconds=BOUND_SECONDS
    )

    with frozen(proxied.database_process):
        assert deliver(proxied, large).status_code == 503


def test_liveness_is_answered_while_sync_workers_are_stuck_which_a_sync_route_shows(
    proxied: ProxiedSite,
) -> None:
    with frozen(proxied.web.process_id):
        assert proxied.status(request("GET", "/health/live")) == 200
        # The deployment also probes the sync processes themselves.
        with pytest.raises(requests.Timeout):
            requests.get(f"http://127.0.0.1:{proxied.web_port}/health/live", timeout=1)
