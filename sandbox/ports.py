"""Finding free ports, and keeping them from others until the server that needs them starts."""

import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

HOST = "127.0.0.1"
# Searching stays below the range from which Linux takes the ports of outgoing connections (32768 up), also
# with the distance of PAIRED_DISTANCE added.
_LAST_FIRST_PORT = 21_000
_FALLBACK_FIRST_PORT = 10_240
_SEARCHED = 1_000
# SeaweedFS's maintenance worker looks for the admin server's gRPC port at this distance, whatever it is told.
PAIRED_DISTANCE = 10_000


class NoFreePortError(Exception):
    """Of all ports that were tried, too few were free."""


class PortReservation:
    """Ports that are held by listening sockets of this process until they are released one by one.

    Holding them lets two stacks that start at the same moment see each other's choice.
    """

    def __init__(self) -> None:
        self._sockets: dict[str, list[socket.socket]] = {}
        self.ports: dict[str, int] = {}

    def take(self, name: str, port: int, *, paired: bool = False) -> bool:
        """Reserve a port, if it is free.

        :param paired: the port at a distance of 10,000 is needed too
        :return: whether it was free
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
        """Free ports for the servers that are about to listen on them."""
        for name in names:
            for listener in self._sockets.pop(name, []):
                listener.close()

    def close(self) -> None:
        """Free all ports that are still held."""
        self.release(*list(self._sockets))


def reserve_ports(
    names: Sequence[str], *, first: int, remembered: Mapping[str, int], paired: frozenset[str] = frozenset()
) -> PortReservation:
    """Reserve a port for each name: the remembered one if it is free, else the next free.

    :param first: where the search starts
    :param remembered: ports of the last time
    :param paired: names whose port at a distance of 10,000 is needed too
    :raises NoFreePortError: fewer ports were free than needed
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
            raise NoFreePortError(f"No port is free between {start} and {start + _SEARCHED} for {name}.")
    return reservation


def is_free(port: int) -> bool:
    """Tell whether a server could listen on a port of the loopback address now."""
    return port_fault(port) is None


def port_fault(port: int) -> int | None:
    """Tell why nobody could listen on a port of the loopback address now.

    :return: the error's number, such as ``errno.EADDRINUSE``; none when the port is free
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
    """Listen, since only listening keeps others off: two sockets with SO_REUSEADDR may bind the same port."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        # As servers do: connections that linger after their end don't make a port taken.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen(1)
    except OSError:
        listener.close()
        raise
    return listener


def _has_foreign_socket_file(port: int) -> bool:
    """Tell whether another user's SeaweedFS left a socket file for this port that we could not replace."""
    if os.geteuid() == 0:
        return False
    return any(
        path.lstat().st_uid != os.geteuid()
        for path in Path("/tmp").glob(f"seaweedfs-*-{port}.sock")  # noqa: S108 - where SeaweedFS puts them
    )
