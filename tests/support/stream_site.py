"""A site with one gevent process, for tests of event streams."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from uuid import UUID, uuid4

import jwt
import requests

from marketplace.infra.settings import load_settings
from marketplace.services import Services
from sandbox.process import Process
from tests.support.ports import free_port
from tests.support.proxied_site import make_waiting_process
from tests.support.purchases import make_person
from tests.support.service_processes import ServiceProcesses
from tests.support.tokens import claims_of

SECRET = "of-the-tests-only-and-long-enough-for-HS256"
SECONDS = 30.0


class EventReader:
    """The events of an open stream."""

    def __init__(self, response: requests.Response) -> None:
        self.response = response
        self._lines = response.iter_lines(chunk_size=1)

    def next_event(self) -> tuple[str, dict[str, Any], str | None]:
        """Return the name, the data and the id of the next event."""
        fields: dict[str, str] = {}
        for line in self._lines:
            name, _, value = line.decode().partition(": ")
            if line and name:
                fields[name] = value
            elif not line and "event" in fields:
                return fields["event"], json.loads(fields["data"]), fields.get("id")
        raise EOFError

    def is_closed(self) -> bool:
        """Read the rest of the stream, and return whether the stream ended without further events."""
        return not list(self._lines)

    def skip_events(self, *names: str) -> tuple[str, dict[str, Any]]:
        """Return the first event with another name."""
        while True:
            name, data, _ = self.next_event()
            if name not in names:
                return name, data

    def rest(self) -> list[tuple[str, dict[str, Any]]]:
        """Read all further events."""
        events = []
        while True:
            try:
                name, data, _ = self.next_event()
            except EOFError:
                return events
            events.append((name, data))


class GeventSite:
    """The site, the address of the gevent process, and the domain of the site."""

    def __init__(self, site: ServiceProcesses, port: int) -> None:
        self.site = site
        self.url = f"http://127.0.0.1:{port}"
        self.services = Services.from_settings(load_settings(site.environment), application_name="tests")
        self.stack = ExitStack()

    def person(self, **columns: Any) -> UUID:
        """Add a person."""
        return self.services.database.in_transaction(make_person, **columns).id

    def authorization(self, user_id: UUID, **claims: Any) -> dict[str, str]:
        """Return the header with a token of a person."""
        return {
            "Authorization": f"Bearer {jwt.encode(claims_of(user_id, **claims), SECRET, algorithm='HS256')}"
        }

    def wait_for(self, look: Callable[[], Any], *, seconds: float = SECONDS) -> None:
        """Wait for a condition."""
        self.site.wait_until(look, seconds=seconds)


@contextmanager
def gevent_process(site: ServiceProcesses, **variables: str) -> Iterator[tuple[Process, int]]:
    """Make the gevent process of a site, not launched, and stop it at the end."""
    site.environment |= {
        "IDENTITY_ALGORITHMS": "HS256",
        "IDENTITY_SHARED_SECRET": SECRET,
        "IDENTITY_ISSUER": claims_of(uuid4())["iss"],
        "IDENTITY_AUDIENCE": claims_of(uuid4())["aud"],
        "RATE_LIMIT_SCALE": "1000",
        **variables,
    }
    port = free_port("server")
    process = make_waiting_process(site, port=port)
    yield process, port
    process.stop(SECONDS)


def ensure_launched(site: ServiceProcesses, process: Process, port: int) -> None:
    """Launch the process if it is not running, and wait for the first response."""
    if not process.running:
        process.launch()
        site.wait_until(lambda: _is_live(port))


def _is_live(port: int) -> bool:
    try:
        return requests.get(f"http://127.0.0.1:{port}/health/live", timeout=5).status_code == 200
    except requests.RequestException:
        return False
