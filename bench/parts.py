"""Parts of the measurement. A part is a figure with its floors, put under load in turns."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bench.figures import Run, Target
from bench.load import Call, put_under_load
from bench.processes import machine_seconds
from bench.stand import Stand

WARM_UP_SECONDS = 0.5


@dataclass(frozen=True)
class Side:
    """A measured server: a title for the table, and a function that applies load for the given seconds."""

    title: str
    load: Callable[[float], Run]


@dataclass(frozen=True)
class Part:
    """A figure and its floors.

    :param name: the value of ``--part``
    :param figure: the application's side; None if the part has only floors
    :param floors: the share refers to the first floor
    :param own_seconds: returns the application's own time of each call, without the provider's
    """

    name: str
    figure: Side | None
    floors: tuple[Side, ...] = ()
    target: Target | None = None
    own_seconds: Callable[[Run], list[float]] | None = None


@dataclass(frozen=True)
class Measured:
    """The runs of a part's sides, and the application's own times if the part calls a provider."""

    part: Part
    figure: Run | None
    floors: tuple[Run, ...]
    own_seconds: list[float] | None


def http_side(
    stand: Stand,
    title: str,
    *,
    server: str,
    calls: Callable[[], Iterator[Call]],
    clients: int,
    pause_seconds: float = 0.0,
) -> Side:
    """Build a side of HTTP calls to a server of the stand.

    :param server: such as web, waiting or floors
    :param calls: returns the calls of a round
    :param clients: number of concurrent calls
    :param pause_seconds: pause of each client between a response and the next call
    """

    def load(seconds: float) -> Run:
        machine, own, before = machine_seconds(), time.process_time(), stand.cpu(server)
        run = put_under_load(
            stand.ports[server], calls(), clients=clients, seconds=seconds, pause_seconds=pause_seconds
        )
        cpu = stand.cpu(server) - before
        own = time.process_time() - own
        return run + Run(cpu=cpu, machine_seconds=machine_seconds() - machine, client_seconds=own)

    return Side(title, load)


def measure(part: Part, *, seconds: float, rounds: int, tell: Callable[[str], None]) -> Measured:
    """Put a part's sides under load in turns, so that changes of the machine's speed affect all sides.

    :param seconds: total load per side
    :param rounds: number of times that each side is put under load
    :param tell: receives progress messages
    """
    sides = [*part.floors, *((part.figure,) if part.figure else ())]
    for side in sides:
        side.load(WARM_UP_SECONDS)
    totals = [Run() for _ in sides]
    for number in range(rounds):
        for index, side in enumerate(sides):
            totals[index] += side.load(seconds / rounds)
        rates = ", ".join(
            f"{side.title} {total.per_second:.0f}/s" for side, total in zip(sides, totals, strict=True)
        )
        tell(f"{part.name} {number + 1}/{rounds}: {rates}")
    figure = totals[-1] if part.figure else None
    floors = tuple(totals[: len(part.floors)])
    own = part.own_seconds(figure) if part.own_seconds and figure else None
    return Measured(part, figure, floors, own)
