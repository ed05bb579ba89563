"""The speed of the machine: requests per second of a bare WSGI constant, compared with a recorded value.

Machines that are shared change their speed. Durations count as measured while the reference is within a tenth of the
recorded value; otherwise they are scaled by it and marked.
"""

import json
import os
import platform
from collections.abc import Callable
from pathlib import Path

RECORDED = Path(__file__).with_name("reference.json")
_TOLERANCE = 0.10
_SECONDS = 0.4


class Reference:
    """The recorded and the present speed of the machine."""

    def __init__(self, present: Callable[[float], float], *, recorded: float | None) -> None:
        """Keep the measurement.

        :param present: loads the bare WSGI constant for the given seconds and returns the requests per second
        :param recorded: requests per second of the same machine when quiet, or None if nothing was recorded
        """
        self._present = present
        self._recorded = recorded

    def factor(self) -> float:
        """Measure the machine and return the factor by which durations of the next round are multiplied.

        The factor is 1 within a tenth of the recorded speed, or without a recorded speed.
        """
        if self._recorded is None:
            return 1.0
        ratio = self._present(_SECONDS) / self._recorded
        return 1.0 if abs(ratio - 1) <= _TOLERANCE else ratio


def machine_name(processor: str) -> str:
    """Name the machine by processor and number of cores, the key of ``reference.json``."""
    return f"{processor or platform.machine()}, {os.cpu_count()} cores"


def recorded_speed(machine: str) -> float | None:
    """Read the recorded requests per second of a machine, or None."""
    value = json.loads(RECORDED.read_text(encoding="utf-8")).get(machine)
    return None if value is None else float(value)


def record(machine: str, per_second: float) -> None:
    """Write the requests per second of a machine to ``reference.json``."""
    known = json.loads(RECORDED.read_text(encoding="utf-8")) | {machine: round(per_second)}
    RECORDED.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n", encoding="utf-8")
