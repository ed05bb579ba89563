"""A part of the measurements: a figure beside its floors, and how both are put under load in turns."""

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
    """One thing under load: a name for the table, and a function that puts it under load for so many seconds."""

    title: str
    load: Callable[[float], Run]


@dataclass(frozen=True)
class Part:
    """A figure beside its floors.

    :param name: as ``--part`` names it
    :param figure: the application; none where floors are all there is
    :param floors: the first is the one that the share is of
    :param target: what the figure is held against
    :param own_seconds: gives, of the figure's run, our own time in each call beyond a provider's
    """

    name: str
    figure: Side | None
    floors: tuple[Side, ...] = ()
    target: Target | None = None
    own_seconds: Callable[[Run], list[float]] | None = None


@dataclass(frozen=True)
class Measured:
    """What came of a part: the runs of all its sides, and our own times where a provider was asked."""

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
    """Make a side of calls to one of the stand's servers.

    :param server: web, waiting or floors
    :param calls: gives the calls of each spell
    :param clients: how many calls are under way at any time
    :param pause_seconds: how long each client rests between an answer and its next call
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
    """Put a part's sides under load in turns, so that a drift of the machine meets all alike.

    :param seconds: of load on each side, all its spells together
    :param rounds: into how many spells that is split
    :param tell: takes lines of progress
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
