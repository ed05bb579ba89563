"""The diagnostic of all dependencies, and the readiness with all dependencies."""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from marketplace.health import texts
from marketplace.health.dependencies import Dependencies, diagnostic_probes, readiness_probes
from marketplace.health.probes import DEGRADED, DOWN, OK, OPERATIONAL, UNAVAILABLE, ProbeResult, ProbeResults

# The diagnostic is ok only if these dependencies have no fault.
_DECISIVE = ("cache", "database", "ai_model", "gateway")
_HEALTHY = (OK, OPERATIONAL)
# The keys of the readiness with all dependencies. Their names are from the interface specification.
READINESS_KEYS: Mapping[str, str] = {
    "database": "database",
    "auth": "auth",
    "cache": "redis",
    "gateway": "paymentGateway",
    "ai_model": "geminiAssistant",
    "object_storage": "storageR2",
    "feature_flags": "featureFlags",
}
_READINESS_STATUS = {
    OK: "up",
    OPERATIONAL: "up",
    DEGRADED: "degraded",
    UNAVAILABLE: "unavailable",
    DOWN: "down",
}
_REQUIRED = ("database", "cache")
# The process starts when the application is imported.
_STARTED = time.monotonic()


def uptime_seconds() -> int:
    """Return the seconds since the application was loaded."""
    return int(time.monotonic() - _STARTED)


def diagnose(results: ProbeResults, given: Dependencies, *, now: datetime, request_id: str) -> dict[str, Any]:
    """Run the seven probes, and return the body of the diagnostic. No dependency makes the diagnostic fail."""
    found = results.collect(diagnostic_probes(given))
    faulty = [result.name for result in found if result.name in _DECISIVE and result.status not in _HEALTHY]
    return {
        "status": DEGRADED if faulty else OK,
        "message": texts.DEPENDENCIES_FAULTY.format(names=", ".join(faulty))
        if faulty
        else texts.DEPENDENCIES_HEALTHY,
        "version": given.settings.build_revision,
        "uptime": uptime_seconds(),
        "timestamp": now,
        "requestId": request_id,
        "checks": {result.name: _show_result(result) for result in found},
    }


def _show_result(result: ProbeResult) -> dict[str, Any]:
    return {
        "service": result.service,
        "name": result.name,
        "status": result.status,
        "latencyMs": result.latency_ms,
        "lastCheckedAt": result.last_checked_at,
        "details": dict(result.details),
    }


def check_all(results: ProbeResults, given: Dependencies, *, now: datetime) -> tuple[bool, dict[str, Any]]:
    """Check the seven dependencies of the readiness.

    :return: whether database and cache are up, and the body
    """
    found = results.collect(readiness_probes(given))
    is_healthy = _are_up(found)
    body = {
        "status": "healthy" if is_healthy else "unhealthy",
        "timestamp": now,
        "version": given.settings.build_revision,
        "uptimeSeconds": uptime_seconds(),
        "checks": {
            READINESS_KEYS[result.name]: {
                "status": _READINESS_STATUS[result.status],
                "latencyMs": result.latency_ms,
            }
            for result in found
        },
    }
    return is_healthy, body


def _are_up(found: Sequence[ProbeResult]) -> bool:
    # A slow database or cache still serves requests.
    return all(result.status in (*_HEALTHY, DEGRADED) for result in found if result.name in _REQUIRED)
