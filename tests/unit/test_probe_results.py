"""Probes: statuses by duration and by failure, and results that requests share."""

import threading
from collections.abc import Callable
from typing import Any

from marketplace.health.probes import DEGRADED, DOWN, OK, UNAVAILABLE, Probe, ProbeFailedError, ProbeResults


def probe(check: Callable[[], Any], *, timeout_seconds: float = 60.0, slow_seconds: float = 60.0) -> Probe:
    return Probe("database", "PostgreSQL", OK, check, timeout_seconds, slow_seconds)


def test_check_without_fault_has_the_healthy_status() -> None:
    [result] = ProbeResults().collect([probe(lambda: {"rows": 1})])
    assert (result.status, result.details) == (OK, {"rows": 1})


def test_slow_check_is_degraded() -> None:
    [result] = ProbeResults().collect([probe(lambda: None, slow_seconds=0.0)])
    assert (result.status, result.details) == (DEGRADED, {"reason": "slow"})


def test_check_beyond_the_timeout_is_down_and_not_repeated() -> None:
    release, calls = threading.Event(), []

    def hang() -> None:
        calls.append(1)
        release.wait(60)

    results = ProbeResults()
    for _ in range(2):
        [result] = results.collect([probe(hang, timeout_seconds=0.05)])
        assert (result.status, result.latency_ms) == (DOWN, 50.0)
    release.set()
    assert calls == [1]


def test_late_result_counts_as_a_timeout() -> None:
    release = threading.Event()
    results = ProbeResults()
    late = probe(lambda: release.wait(60), timeout_seconds=0.05, slow_seconds=0.01)
    results.collect([late])
    release.set()
    results._checks["database"]._finished.wait(60)
    [result] = results.collect([late])
    assert (result.status, result.latency_ms, result.details) == (DOWN, 50.0, {"reason": "timeout"})


def test_failure_has_the_given_status() -> None:
    def refuse() -> None:
        raise ProbeFailedError(UNAVAILABLE, reason="refused")

    [result] = ProbeResults().collect([probe(refuse)])
    assert (result.status, result.details) == (UNAVAILABLE, {"reason": "refused"})


def test_unexpected_error_is_down_without_the_text() -> None:
    def fail() -> None:
        raise RuntimeError("postgresql://user:secret@host")

    [result] = ProbeResults().collect([probe(fail)])
    assert (result.status, result.details) == (DOWN, {"reason": "RuntimeError"})


def test_fresh_result_is_shared() -> None:
    calls: list[int] = []
    results = ProbeResults()
    for _ in range(3):
        results.collect([probe(lambda: calls.append(1))])
    assert calls == [1]
