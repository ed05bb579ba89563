"""Probes of the service's dependencies: run in parallel, each with its own time-out, and reused for five seconds."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

import structlog

ProbeStatus = Literal["ok", "operational", "degraded", "unavailable", "down"]
OK: ProbeStatus = "ok"
OPERATIONAL: ProbeStatus = "operational"
DEGRADED: ProbeStatus = "degraded"
UNAVAILABLE: ProbeStatus = "unavailable"
DOWN: ProbeStatus = "down"
# Requests within this time share the results, so public probes cannot overload the providers.
FRESH_SECONDS = 5.0

_log = structlog.get_logger(__name__)


class ProbeFailedError(Exception):
    """The dependency is not usable. ``status`` is ``unavailable`` or ``down``."""

    def __init__(self, status: ProbeStatus, **details: Any) -> None:
        super().__init__(status)
        self.status = status
        self.details = details


@dataclass(frozen=True)
class Probe:
    """A check of a dependency.

    :ivar service: the name of the dependency for people
    :ivar healthy: the status of a check without faults
    :ivar check: returns details, and a status if it is not ``healthy``; raises an error if the dependency fails
    :ivar timeout_seconds: the time after which the dependency is ``down``
    :ivar slow_seconds: the time after which the dependency is ``degraded``
    """

    name: str
    service: str
    healthy: ProbeStatus
    check: Callable[[], Mapping[str, Any] | None]
    timeout_seconds: float
    slow_seconds: float


@dataclass(frozen=True)
class ProbeResult:
    """The result of a probe.

    :ivar latency_ms: the duration in milliseconds, at most the time-out
    :ivar details: facts without addresses and secrets
    """

    service: str
    name: str
    status: ProbeStatus
    latency_ms: float
    last_checked_at: datetime
    details: Mapping[str, Any] = field(default_factory=dict)


class ProbeResults:
    """The latest results of a process. Requests at the same time wait for the same check."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._checks: dict[str, _Check] = {}

    def collect(self, probes: Sequence[Probe]) -> list[ProbeResult]:
        """Return a result for each probe, in the order of the probes.

        Results are at most ``FRESH_SECONDS`` old, except the result of a check that still runs, which stays ``down``.
        """
        checks = [self._fresh_check(probe) for probe in probes]
        return [check.wait() for check in checks]

    def _fresh_check(self, probe: Probe) -> "_Check":
        with self._lock:
            check = self._checks.get(probe.name)
            if check is None or check.is_stale:
                # A check that still runs counts as down. Do not start a second check.
                if check is not None and check.is_running:
                    return check
                check = self._checks[probe.name] = _Check(probe)
        return check


class _Check:
    """A running or finished check, in a thread of its own."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._started = time.monotonic()
        self._started_at = datetime.now(UTC)
        self._result: ProbeResult | None = None
        self._finished = threading.Event()
        threading.Thread(target=self._run, name=f"probe-{probe.name}", daemon=True).start()

    @property
    def is_stale(self) -> bool:
        """Whether the result is too old."""
        return time.monotonic() - self._started > FRESH_SECONDS

    @property
    def is_running(self) -> bool:
        """Whether the check has not finished."""
        return not self._finished.is_set()

    def wait(self) -> ProbeResult:
        """Wait for the result until the time-out of the probe."""
        remaining = self._started + self._probe.timeout_seconds - time.monotonic()
        if self._finished.wait(max(0.0, remaining)) and self._result is not None:
            return self._result
        return self._make_result(DOWN, self._probe.timeout_seconds, {"reason": "timeout"})

    def _run(self) -> None:
        status, details = self._probe.healthy, dict[str, Any]()
        try:
            details = dict(self._probe.check() or {})
        except ProbeFailedError as error:
            status, details = error.status, error.details
        except Exception as error:  # noqa: BLE001 - every failure of a dependency is a result
            status, details = DOWN, {"reason": type(error).__name__}
            _log.warning("probe failed", probe=self._probe.name, error=type(error).__name__)
        seconds = time.monotonic() - self._started
        status = details.pop("status", status)
        if seconds > self._probe.timeout_seconds:
            seconds, status, details = self._probe.timeout_seconds, DOWN, {"reason": "timeout"}
        if status == self._probe.healthy and seconds > self._probe.slow_seconds:
            status, details = DEGRADED, details | {"reason": "slow"}
        self._result = self._make_result(status, seconds, details)
        self._finished.set()

    def _make_result(self, status: ProbeStatus, seconds: float, details: Mapping[str, Any]) -> ProbeResult:
        return ProbeResult(
            service=self._probe.service,
            name=self._probe.name,
            status=status,
            latency_ms=round(seconds * 1000, 1),
            last_checked_at=self._started_at,
            details=details,
        )
