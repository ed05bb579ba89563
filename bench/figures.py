"""The arithmetic of the measurements: percentiles, costs per request, shares of a floor, targets."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Cpu:
    """Processor time, user and system together, in seconds: of the web processes, PostgreSQL and Valkey."""

    web: float = 0.0
    database: float = 0.0
    cache: float = 0.0

    @property
    def total(self) -> float:
        """Give the time of all servers together."""
        return self.web + self.database + self.cache

    def __add__(self, other: "Cpu") -> "Cpu":
        return Cpu(self.web + other.web, self.database + other.database, self.cache + other.cache)

    def __sub__(self, other: "Cpu") -> "Cpu":
        return Cpu(self.web - other.web, self.database - other.database, self.cache - other.cache)


@dataclass(frozen=True)
class Run:
    """What one or more spells of load gave.

    :param seconds: how long they lasted
    :param timings: each request's key and its time in seconds, in the order of their answers
    :param statuses: how often each status was answered
    :param cpu: what the servers spent on it
    :param machine_seconds: what all processors of the machine spent meanwhile, on whatever
    :param client_seconds: what the load itself spent of that
    """

    seconds: float = 0.0
    timings: Sequence[tuple[str, float]] = ()
    statuses: Counter[int] = field(default_factory=Counter)
    cpu: Cpu = field(default_factory=Cpu)
    machine_seconds: float = 0.0
    client_seconds: float = 0.0

    def __add__(self, other: "Run") -> "Run":
        return Run(
            self.seconds + other.seconds,
            [*self.timings, *other.timings],
            self.statuses + other.statuses,
            self.cpu + other.cpu,
            self.machine_seconds + other.machine_seconds,
            self.client_seconds + other.client_seconds,
        )

    @property
    def requests(self) -> int:
        """Give the number of requests that were answered."""
        return len(self.timings)

    @property
    def per_second(self) -> float:
        """Give the requests per second."""
        return self.requests / self.seconds if self.seconds else 0.0

    @property
    def others_seconds(self) -> float:
        """Give the processors' time that went to nothing that was measured here."""
        return max(self.machine_seconds - self.client_seconds - self.cpu.total, 0.0)

    @property
    def failures(self) -> dict[int, int]:
        """Give the statuses other than success, with their counts."""
        return {status: count for status, count in self.statuses.items() if not 200 <= status < 300}

    def percentile_ms(self, percent: float) -> float:
        """Give a percentile of the times, in milliseconds."""
        return percentile([seconds for _, seconds in self.timings], percent) * 1000

    def cpu_ms(self, seconds: float) -> float:
        """Spread processor time over the requests, in milliseconds each."""
        return seconds / self.requests * 1000 if self.requests else 0.0


@dataclass(frozen=True)
class Target:
    """What a figure is held against.

    :param share: the least share of its floor
    :param better: a share that is better than that
    :param p95_ms: the longest 95th percentile, in milliseconds
    :param p99_ms: the longest 99th percentile, in milliseconds
    :param longest_ms: the longest of all, in milliseconds
    :param own_p95_ms: the longest 95th percentile of our own time beyond a provider's, in milliseconds
    """

    share: float | None = None
    better: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    longest_ms: float | None = None
    own_p95_ms: float | None = None

    def __str__(self) -> str:
        parts = []
        if self.share is not None:
            parts.append(f">= {self.share:.2f}" + (f" (better {self.better:.2f})" if self.better else ""))
        if self.p95_ms is not None:
            parts.append(f"p95 <= {self.p95_ms:.0f} ms")
        if self.p99_ms is not None:
            parts.append(f"p99 <= {self.p99_ms:.0f} ms")
        if self.longest_ms is not None:
            parts.append(f"max <= {self.longest_ms:.0f} ms")
        if self.own_p95_ms is not None:
            parts.append(f"own p95 <= {self.own_p95_ms:.0f} ms")
        return ", ".join(parts)

    def met(self, run: Run, *, share: float | None, own_p95_ms: float | None) -> bool:
        """Tell whether a figure meets every part of the target."""
        return (
            _at_least(share, self.share)
            and _at_most(run.percentile_ms(95), self.p95_ms)
            and _at_most(run.percentile_ms(99), self.p99_ms)
            and _at_most(run.percentile_ms(100), self.longest_ms)
            and _at_most(own_p95_ms, self.own_p95_ms)
        )


def percentile(values: Sequence[float], percent: float) -> float:
    """Give a percentile by the nearest rank: the least value that so many don't exceed.

    :param values: in any order; without any the answer is 0
    :param percent: above 0, at most 100
    """
    if not 0 < percent <= 100:
        raise ValueError(f"a percentile is above 0 and at most 100, not {percent}")
    if not values:
        return 0.0
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1]


def share(figure: Run, floor: Run) -> float:
    """Give what share of its floor's requests per second a figure reaches."""
    return figure.per_second / floor.per_second if floor.per_second else 0.0


def cpu_share(figure: Run, floor: Run) -> float:
    """Give the floor's processor time per request over the figure's, all servers together."""
    spent = [run.cpu_ms(run.cpu.total) for run in (floor, figure)]
    return spent[0] / spent[1] if spent[1] else 0.0


def _at_least(value: float | None, least: float | None) -> bool:
    return least is None or (value is not None and value >= least)


def _at_most(value: float | None, most: float | None) -> bool:
    return most is None or (value is not None and value <= most)
