"""Fixtures of the contract tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.sandbox_client import Client, Receiver, providers


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    one = Receiver()
    yield one
    one.close()


@pytest.fixture
def gateway(receiver: Receiver, tmp_path: Path) -> Iterator[Client]:
    with providers(receiver, tmp_path / "data") as server:
        yield Client(server.gateway_url)
