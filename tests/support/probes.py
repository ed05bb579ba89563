"""Probes of the HTTP edge: small areas in a separate application, without business routes."""

import ipaddress
import random
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any, TypeVar
from unittest.mock import patch
from uuid import uuid4

from flask.testing import FlaskClient
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from blueprints.http import ContractBlueprint
from blueprints.http.application import build_app
from marketplace.infra.db import Database
from marketplace.infra.settings import Settings
from marketplace.platform.models import Campus
from marketplace.services import Services

WAIT_SECONDS = 20.0
_POLL_SECONDS = 0.02
_Result = TypeVar("_Result")
_SETTINGS = frozenset(item.name for item in fields(Settings))


def changed(services: Services, **changes: Any) -> Services:
    """Return a copy of the services with changed settings or services, selected by name."""
    settings = {name: value for name, value in changes.items() if name in _SETTINGS}
    others = {name: value for name, value in changes.items() if name not in _SETTINGS}
    return replace(services, settings=replace(services.settings, **settings), **others)


@contextmanager
def counted_connections() -> Iterator[list[object]]:
    """Collect the addresses that this process connects to within the block."""
    addresses: list[object] = []
    connect = socket.socket.connect

    def counted(connecting: socket.socket, address: Any) -> None:
        addresses.append(address)
        connect(connecting, address)

    with patch.object(socket.socket, "connect", counted):
        yield addresses


def serve(services: Services, *areas: ContractBlueprint, **changes: Any) -> FlaskClient:
    """Return a client of an application with these areas."""
    return build_app(changed(services, **changes), areas).test_client()


def probe_area() -> ContractBlueprint:
    """Create an area for declaring probes."""
    return ContractBlueprint("probe", "/api/probe", "Probes of the edge")


def unique_address() -> str:
    """Return a unique client address."""
    return str(ipaddress.IPv4Address(0x0A000000 + random.SystemRandom().randrange(1 << 24)))


def from_address(address: str) -> dict[str, Any]:
    """Return the arguments that set the client address of a test request."""
    return {"environ_base": {"REMOTE_ADDR": address}}


def closed_port() -> int:
    """Return a port where no server listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Effects:
    """Rows written by probes under a unique name, for counting."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.name = f"effect-{uuid4().hex}"

    def add(self, session: Session) -> str:
        """Write a row in the session's transaction and return the id."""
        row = Campus(name=self.name, slug=f"effect-{uuid4().hex}")
        session.add(row)
        session.flush()
        return str(row.id)

    def count(self) -> int:
        """Count the committed rows."""
        with self._database.reading() as session:
            found = session.scalar(select(func.count()).where(Campus.name == self.name))
        return int(found or 0)


def at_once(calls: Iterable[Callable[[], _Result]]) -> list[_Result]:
    """Make calls from concurrent threads and return the results in order."""
    given = list(calls)
    start = threading.Barrier(len(given), timeout=WAIT_SECONDS)

    def run(call: Callable[[], _Result]) -> _Result:
        start.wait()
        return call()

    with ThreadPoolExecutor(len(given)) as pool:
        return [future.result(WAIT_SECONDS) for future in [pool.submit(run, call) for call in given]]


def eventually(condition: Callable[[], _Result]) -> _Result:
    """Wait until a condition holds and return the result."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come to that in time"
        time.sleep(_POLL_SECONDS)
    return found


def assert_problem(response: Any, status: int, code: str) -> dict[str, Any]:
    """Assert that a response is complete, uncached problem details of a code, and return the body."""
    assert (response.status_code, response.content_type) == (status, "application/problem+json"), (
        response.text
    )
    body: dict[str, Any] = response.json
    assert (body["status"], body["code"]) == (status, code), body
    assert body["type"].endswith(f"/errors/{code.lower().replace('_', '-')}")
    assert {"title", "detail", "instance", "requestId", "timestamp"} <= body.keys()
    assert body["requestId"] == response.headers["X-Request-ID"]
    assert response.headers["Cache-Control"] == "no-store"
    waits = status in (429, 503) or (status == 409 and "in progress" in body["detail"])
    assert ("Retry-After" in response.headers) == waits or "just ended" in body["detail"], response.headers
    return body


def faults(response: Any) -> list[str]:
    """List the names of the invalid parameters in a response."""
    return [item["name"] for item in assert_problem(response, 422, "VALIDATION_FAILED")["invalid_params"]]
