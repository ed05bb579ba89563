"""Retries of the HTTP client of all providers."""

import socket
import threading
from collections.abc import Iterator

import pytest

from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.providers.client import ProviderClient

BUSY = b"HTTP/1.1 503 Busy\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
GOOD = b'HTTP/1.1 200 OK\r\nContent-Length: 11\r\nConnection: close\r\n\r\n{"data": 1}'
SILENCE = b""


class Provider:
    """A provider that sends the given answers in order, one per connection, and counts the requests."""

    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.request_count = 0
        self._held: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.recv(65_536)
            answer = self.answers[min(self.request_count, len(self.answers) - 1)]
            self.request_count += 1
            if answer == SILENCE:
                self._held.append(connection)
            else:
                connection.sendall(answer)
                connection.close()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._held:
            connection.close()
        self._thread.join(5)


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider()
    yield made
    made.close()


def client(provider: Provider, timeout_seconds: float = 5) -> ProviderClient:
    return ProviderClient("provider", provider.url, timeout_seconds=timeout_seconds)


def test_read_is_retried_if_provider_was_busy(provider: Provider) -> None:
    provider.answers = [BUSY, GOOD]

    assert client(provider).get("/thing") == {"data": 1}

    assert provider.request_count == 2


def test_read_that_timed_out_is_not_retried(provider: Provider) -> None:
    provider.answers = [SILENCE]

    with pytest.raises(ProviderUnavailableError):
        client(provider, timeout_seconds=0.1).get("/thing")

    assert provider.request_count == 1


def test_write_is_not_retried(provider: Provider) -> None:
    provider.answers = [BUSY, GOOD]

    with pytest.raises(ProviderUnavailableError):
        client(provider).post("/thing", {})

    assert provider.request_count == 1
