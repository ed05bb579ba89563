"""Network isolation: tests connect only to the local machine."""

import socket

import pytest
from pytest_socket import SocketConnectBlockedError


@pytest.mark.parametrize("address", [("192.0.2.1", 80), ("10.255.255.1", 443)])
def test_connection_to_another_machine_is_blocked(address: tuple[str, int]) -> None:
    with (
        socket.socket() as one,
        pytest.warns(UserWarning, match=r"socket\.connect"),
        pytest.raises(SocketConnectBlockedError),
    ):
        one.connect(address)


def test_connection_to_this_machine_is_allowed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=5).close()
