"""Ports for the servers that tests start: each kind of them, and each worker process, searches from another place on.

A port that was found free is let go before its server listens there: nobody else may find it meanwhile.
"""

import os

from sandbox.ports import reserve_ports

# Where each kind searches from, and how far one worker process is from the next; four stay apart from one another.
# A stack takes 3,000 above its own port for its servers. Linux takes ports of outgoing connections from 32,768 up, and
# some servers need a port 10,000 above theirs.
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

    :param kind: of what listens there, one of those above
    :param paired: names whose port at a distance of 10,000 is needed too
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first, distance = _PLACES[kind]
    reservation = reserve_ports(
        names, first=first + distance * (worker % _PROCESSES), remembered={}, paired=paired
    )
    reservation.close()
    return reservation.ports


def free_port(kind: str) -> int:
    """Find one free port."""
    return free_ports(kind, kind)[kind]
