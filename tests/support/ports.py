"""Ports for servers of tests. Each kind and each worker process searches in a separate range.

A free port is released before the server listens, so ranges must not overlap.
"""

import os

from sandbox.ports import reserve_ports

# The first port of each kind, and the distance between worker processes. Four processes do not overlap.
# The servers of a stack use ports 3,000 above the stack's port. Linux takes ports of outgoing connections from
# 32,768 up, and some servers also need the port 10,000 above the first port.
_PLACES = {
    "stack": (9_000, 250),
    "site": (13_000, 300),
    "server": (14_300, 500),
    "storage": (16_400, 500),
    "image": (18_500, 200),
}
_PROCESSES = 4


def free_ports(kind: str, *names: str, paired: frozenset[str] = frozenset()) -> dict[str, int]:
    """Find a free port for each name.

    :param kind: the kind of server, a key of the table above
    :param paired: names that also need the port 10,000 above
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first, distance = _PLACES[kind]
    reservation = reserve_ports(
        names, first=first + distance * (worker % _PROCESSES), remembered={}, paired=paired
    )
    reservation.close()
    return reservation.ports


def free_port(kind: str) -> int:
    """Find a free port."""
    return free_ports(kind, kind)[kind]
