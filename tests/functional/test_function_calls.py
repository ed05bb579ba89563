"""The function create-user through the proxy: signed calls in all shapes, and calls of strangers."""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
import requests

from tests.support.function_calls import (
    FUNCTIONS_KEY,
    KEYED,
    SIGNING_SECRET,
    encode,
    hook_body,
    signed,
    trigger_body,
)
from tests.support.ports import free_port
from tests.support.proxied_site import make_proxy
from tests.support.service_processes import ServiceProcesses

PATH = "/functions/v1/create-user"
SECONDS = 20
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def address(whole_site: ServiceProcesses) -> Iterator[str]:
    """The address of the function at the proxy."""
    with ExitStack() as stack:
        site = whole_site
        site.environment |= {
            "FUNCTIONS_KEY": FUNCTIONS_KEY,
            "FUNCTIONS_SIGNING_SECRETS": SIGNING_SECRET,
            "TRUSTED_PROXY_HOPS": "1",
        }
        site.web()
        port, web = free_port("site"), int(site.url.rsplit(":", 1)[1])
        proxy = make_proxy(site.directory / "proxy", port=port, sync=web, gevent=web, media=web)
        stack.callback(proxy.stop)
        proxy.start()
        yield f"http://127.0.0.1:{port}{PATH}"


def test_signed_calls_of_all_shapes_pass_the_proxy(address: str) -> None:
    own, hook, trigger = uuid4(), uuid4(), uuid4()
    for body in ({"userId": str(own)}, hook_body(hook), trigger_body(trigger)):
        data = encode(body)
        for created in (True, False):
            answer = requests.post(address, data=data, headers=JSON | signed(data), timeout=SECONDS)
            assert answer.status_code == 200, answer.text
            assert answer.json()["created"] is created
    ignored = requests.post(
        address, json=trigger_body(trigger, type="UPDATE"), headers=KEYED, timeout=SECONDS
    )
    assert (ignored.status_code, ignored.json()) == (200, {"ignored": True})


def test_calls_of_strangers_are_refused_behind_the_proxy(address: str) -> None:
    data = encode(hook_body(uuid4()))
    old = signed(data, at=datetime.now(UTC) - timedelta(minutes=6))
    for headers in ({}, old, signed(data + b" "), {"Authorization": "Bearer wrong"}):
        answer = requests.post(address, data=data, headers=JSON | headers, timeout=SECONDS)
        assert (answer.status_code, answer.json()["code"]) == (401, "AUTH_UNAUTHORIZED")


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"[" * 100_000, 400),
        (encode(hook_body(uuid4(), padding="x" * 1_000_000)), 200),
        (b" " * (1024 * 1024 + 1), 413),
        (encode(hook_body("no id")), 422),
        (encode(hook_body(uuid4(), email="a" * 488 + "@b.example")), 422),
    ],
    ids=["deep", "1 MB", "above 1 MB", "bad id", "long e-mail"],
)
def test_unusual_bodies_get_an_answer_through_the_proxy(address: str, data: bytes, status: int) -> None:
    answer = requests.post(address, data=data, headers=JSON | signed(data), timeout=SECONDS)
    assert answer.status_code == status, answer.text
