"""Calculations: percentiles, costs per request, shares of a floor, and targets."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Cpu:
    """Processor time (user and system) in seconds of the web processes, PostgreSQL and Valkey."""

    web: float = 0.0
    database: float = 0.0
    cache: float = 0.0

    @property
    def total(self) -> float:
        """The processor time of all servers."""
        return self.web + self.database + self.cache

    def __add__(self, other: "Cpu") -> "Cpu":
        return Cpu(self.web + other.web, self.database + other.database, self.cache + other.cache)

    def scaled(self, factor: float) -> "Cpu":
        """Multiply all times by a factor."""
        return Cpu(self.web * factor, self.database * factor, self.cache * factor)

    def __sub__(self, other: "Cpu") -> "Cpu":
        return Cpu(self.web - other.web, self.database - other.database, self.cache - other.cache)


@dataclass(frozen=True)
class Run:
    """The result of one or more rounds of load.

    :param seconds: duration
    :param timings: key and duration in seconds of each request, in the order of responses
    :param statuses: number of responses by status
    :param cpu: processor time of the servers
    :param machine_seconds: busy time of all processors during the load
    :param client_seconds: processor time of the load generator
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

    def scaled(self, factor: float) -> "Run":
        """Multiply all durations by a factor, as on a machine of another speed."""
        if factor == 1:
            return self
        return Run(
            self.seconds * factor,
            [(key, took * factor) for key, took in self.timings],
            self.statuses,
            self.cpu.scaled(factor),
            self.machine_seconds * factor,
            self.client_seconds * factor,
        )

    @property
    def requests(self) -> int:
        """The number of answered requests."""
        return len(self.timings)

    @property
    def per_second(self) -> float:
        """The requests per second."""
        return self.requests / self.seconds if self.seconds else 0.0

    @property
    def others_seconds(self) -> float:
        """The processor time spent on neither the servers nor the load generator."""
        return max(self.machine_seconds - self.client_seconds - self.cpu.total, 0.0)

    @property
    def failures(self) -> dict[int, int]:
        """The number of responses by status, without successes."""
        return {status: count for status, count in self.statuses.items() if not 200 <= status < 300}

    def percentile_ms(self, percent: float) -> float:
        """Return a percentile of the durations in milliseconds."""
        return percentile([seconds for _, seconds in self.timings], percent) * 1000

    def cpu_ms(self, seconds: float) -> float:
        """Divide processor time by the number of requests, in milliseconds per request."""
        return seconds / self.requests * 1000 if self.requests else 0.0


@dataclass(frozen=True)
class Target:
    """The target of a figure.

    :param share: minimum share of the floor
    :param better: a better share, for information
    :param p95_ms: maximum 95th percentile in milliseconds
    :param p99_ms: maximum 99th percentile in milliseconds
    :param longest_ms: maximum duration in milliseconds
    :param own_p95_ms: maximum 95th percentile of the application's own time, without the provider's, in
        milliseconds
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
        """Return whether a figure meets all conditions of the target."""
        return (
            _at_least(share, self.share)
            and _at_most(run.percentile_ms(95), self.p95_ms)
            and _at_most(run.percentile_ms(99), self.p99_ms)
            and _at_most(run.percentile_ms(100), self.longest_ms)
            and _at_most(own_p95_ms, self.own_p95_ms)
        )


def percentile(values: Sequence[float], percent: float) -> float:
    """Calculate a percentile by nearest rank.

    :param values: in any order; the percentile of no values is 0
    :param percent: above 0, at most 100
    """
    if not 0 < percent <= 100:
        raise ValueError(f"percentile must be above 0 and at most 100, not {percent}")
    if not values:
        return 0.0
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1]


def share(figure: Run, floor: Run) -> float:
    """Calculate a figure's requests per second as a share of the floor's."""
    return figure.per_second / floor.per_second if floor.per_second else 0.0


def cpu_share(figure: Run, floor: Run) -> float:
    """Calculate the floor's processor time per request divided by the figure's, for all servers."""
    spent = [run.cpu_ms(run.cpu.total) for run in (floor, figure)]
    return spent[0] / spent[1] if spent[1] else 0.0


def _at_least(value: float | None, least: float | None) -> bool:
    return least is None or (value is not None and value >= least)


def _at_most(value: float | None, most: float | None) -> bool:
    return most is None or (value is not None and value <= most)
