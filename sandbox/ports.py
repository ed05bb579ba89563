"""Find free ports and reserve each port until the server starts."""

import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

HOST = "127.0.0.1"
# Linux takes the ports of outgoing connections from 32768 upwards. The search stays below that range, even
# after PAIRED_DISTANCE is added.
_LAST_FIRST_PORT = 21_000
_FALLBACK_FIRST_PORT = 10_240
_SEARCHED = 1_000
# SeaweedFS's maintenance worker expects the admin server's gRPC port at this distance and ignores the setting.
PAIRED_DISTANCE = 10_000


class NoFreePortError(Exception):
    """Too few of the tried ports were free."""


class PortReservation:
    """Ports reserved by listening sockets of this process until each is released.

    Two stacks that start at the same moment thereby see each other's choice.
    """

    def __init__(self) -> None:
        self._sockets: dict[str, list[socket.socket]] = {}
        self.ports: dict[str, int] = {}

    def take(self, name: str, port: int, *, paired: bool = False) -> bool:
        """Reserve a port if the port is free.

        :param paired: reserve the port at a distance of 10,000 too
        :return: whether the port was free
        """
        wanted = (port, port + PAIRED_DISTANCE) if paired else (port,)
        held: list[socket.socket] = []
        for number in wanted:
            listener = None if _has_foreign_socket_file(number) else _try_listen(number)
            if listener is None:
                for other in held:
                    other.close()
                return False
            held.append(listener)
        self._sockets[name] = held
        self.ports[name] = port
        return True

    def release(self, *names: str) -> None:
        """Release ports to the servers that are about to listen on them."""
        for name in names:
            for listener in self._sockets.pop(name, []):
                listener.close()

    def close(self) -> None:
        """Release all remaining ports."""
        self.release(*list(self._sockets))


def reserve_ports(
    names: Sequence[str], *, first: int, remembered: Mapping[str, int], paired: frozenset[str] = frozenset()
) -> PortReservation:
    """Reserve a port for each name: the remembered port if free, otherwise the next free port.

    :param first: the first port to try
    :param remembered: ports of the previous run
    :param paired: names that also need the port at a distance of 10,000
    :raises NoFreePortError: too few ports are free
    """
    reservation = PortReservation()
    missing = [
        name
        for name in names
        if name not in remembered or not reservation.take(name, remembered[name], paired=name in paired)
    ]
    start = first if 1_024 <= first <= _LAST_FIRST_PORT else _FALLBACK_FIRST_PORT
    candidates = iter(range(start, start + _SEARCHED))
    for name in missing:
        if not any(reservation.take(name, port, paired=name in paired) for port in candidates):
            reservation.close()
            raise NoFreePortError(f"No free port for {name} between {start} and {start + _SEARCHED}.")
    return reservation


def is_free(port: int) -> bool:
    """Return whether a server could listen on a port of the loopback address now."""
    return port_fault(port) is None


def port_fault(port: int) -> int | None:
    """Return the error that prevents a server from listening on a port of the loopback address.

    :return: the error number, such as ``errno.EADDRINUSE``, or None when the port is free
    """
    try:
        _listen(port).close()
    except OSError as error:
        return error.errno
    return None


def _try_listen(port: int) -> socket.socket | None:
    try:
        return _listen(port)
    except OSError:
        return None


def _listen(port: int) -> socket.socket:
    """Open a listening socket. A bound socket is not enough: with SO_REUSEADDR two sockets may bind one port."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        # Servers set this option too: lingering closed connections do not occupy the port.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen(1)
    except OSError:
        listener.close()
        raise
    return listener


def _has_foreign_socket_file(port: int) -> bool:
    """Return whether another user's SeaweedFS left a socket file for this port that this user cannot replace."""
    if os.geteuid() == 0:
        return False
    return any(
        path.lstat().st_uid != os.geteuid()
        for path in Path("/tmp").glob(f"seaweedfs-*-{port}.sock")  # noqa: S108 - fixed by SeaweedFS
    )
