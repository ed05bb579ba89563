"""Parts of the measurement. A part is a figure with its floors, put under load in turns.

Other programs must not change the figures. A round during which they use more than a tenth of the processors is
repeated, and a part without enough quiet rounds is marked.
"""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bench.figures import Run, Target
from bench.load import Call, put_under_load
from bench.processes import Foreign, machine_seconds
from bench.reference import Reference
from bench.stand import Stand

WARM_UP_SECONDS = 0.5
MOST_TRIES = 5


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
    """The runs of a part's sides, and the application's own times if the part calls a provider.

    :param busy_rounds: rounds without a quiet try
    :param scaled_rounds: rounds whose durations were scaled, because the machine was slower or faster than recorded
    """

    part: Part
    figure: Run | None
    floors: tuple[Run, ...]
    own_seconds: list[float] | None
    rounds: int = 0
    busy_rounds: int = 0
    scaled_rounds: int = 0


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


@dataclass(frozen=True)
class _Round:
    runs: tuple[Run, ...]
    foreign_share: float
    factor: float

    @property
    def quiet(self) -> bool:
        return self.foreign_share <= Foreign.MOST_SHARE


def measure(
    part: Part, *, seconds: float, rounds: int, reference: Reference, tell: Callable[[str], None]
) -> Measured:
    """Put a part's sides under load in turns, so that changes of the machine's speed affect all sides.

    :param seconds: total load per side
    :param rounds: number of times that each side is put under load
    :param reference: the machine's speed, measured before each round
    :param tell: receives progress messages
    """
    sides = [*part.floors, *((part.figure,) if part.figure else ())]
    for side in sides:
        side.load(WARM_UP_SECONDS)
    totals, busy, scaled = [Run() for _ in sides], 0, 0
    own: list[float] | None = [] if part.own_seconds else None
    for number in range(rounds):
        measured = _quiet_round(part.name, sides, seconds=seconds / rounds, reference=reference, tell=tell)
        busy += not measured.quiet
        scaled += measured.factor != 1
        totals = [
            total + run.scaled(measured.factor) for total, run in zip(totals, measured.runs, strict=True)
        ]
        if part.own_seconds and own is not None:
            own += [took * measured.factor for took in part.own_seconds(measured.runs[-1])]
        rates = ", ".join(
            f"{side.title} {total.per_second:.0f}/s" for side, total in zip(sides, totals, strict=True)
        )
        tell(f"{part.name} {number + 1}/{rounds}: {rates}")
    figure = totals[-1] if part.figure else None
    return Measured(part, figure, tuple(totals[: len(part.floors)]), own, rounds, busy, scaled)


def _quiet_round(
    name: str, sides: list[Side], *, seconds: float, reference: Reference, tell: Callable[[str], None]
) -> _Round:
    """Load all sides once, repeat until other programs are quiet, and return the quietest try."""
    tries = []
    for number in range(MOST_TRIES):
        factor = reference.factor()
        foreign = Foreign(os.getpid())
        tries.append(_Round(tuple(side.load(seconds) for side in sides), foreign.share(), factor))
        if tries[-1].quiet:
            break
        tell(
            f"{name}: other programs used {tries[-1].foreign_share:.0%} of the processors"
            f" (try {number + 1} of {MOST_TRIES})"
        )
    return min(tries, key=lambda one: one.foreign_share)
