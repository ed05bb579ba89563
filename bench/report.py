"""The report: a table for people, and rows for JSON."""

import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.figures import Run, cpu_share, percentile, share
from bench.parts import Measured
from bench.reference import machine_name
from sandbox.capabilities import usable_processors

_COLUMNS = (
    "",
    "req/s",
    "p50",
    "p95",
    "p99",
    "max",
    "web",
    "pg",
    "valkey",
    "other",
    "share",
    "by CPU",
    "target",
    "",
)
_EXPLANATION = """\
req/s, p50, p95, p99, max (ms): measured by the clients. web, pg, valkey: CPU time (user and system) per request in ms.
other: share of the processors used by other programs. Above 10 %, the machine was busy during the measurement. The
load of pgbench and of the sandbox gateway counts as other.
BUSY: rounds during which other programs used more than a tenth of the processors, in each of five tries. Such a figure
decides nothing. scaled: rounds during which the bare WSGI constant was more than a tenth off its recorded speed; their
durations are multiplied by measured / recorded speed.
share: requests per second divided by those of the first floor above. by CPU: the CPU time per request of that floor,
divided by the CPU time per request of the figure."""


def machine() -> dict[str, Any]:
    """Describe the machine and the measured revision."""
    described = Path("/proc/cpuinfo")  # of Linux, and without a model on some processors
    lines = described.read_text(encoding="utf-8").splitlines() if described.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "name": machine_name(models[0] if models else ""),
        "processor": models[0] if models else platform.machine(),
        "cores": usable_processors(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "revision": _revision(),
    }


def rows_of(measured: Measured) -> list[dict[str, Any]]:
    """Build the rows of a part: the floors, then the figure."""
    part, floors = measured.part, measured.floors
    marks = {
        "busy_rounds": measured.busy_rounds,
        "scaled_rounds": measured.scaled_rounds,
        "rounds": measured.rounds,
    }
    rows = [_row(side.title, run) | {"floor": True} for side, run in zip(part.floors, floors, strict=True)]
    if part.figure is None or measured.figure is None:
        return [*rows[:-1], rows[-1] | marks]
    figure = measured.figure
    row = _row(part.figure.title, figure) | {"floor": False}
    reached = share(figure, floors[0]) if floors else None
    if floors:
        row |= {"share": reached, "cpu_share": cpu_share(figure, floors[0])}
        row["shares"] = {
            side.title: share(figure, run) for side, run in zip(part.floors, floors, strict=True)
        }
    own_p95_ms = None
    if measured.own_seconds is not None:
        own_p95_ms = percentile(measured.own_seconds, 95) * 1000
        row |= {
            "own_p50_ms": percentile(measured.own_seconds, 50) * 1000,
            "own_p95_ms": own_p95_ms,
            "own_p99_ms": percentile(measured.own_seconds, 99) * 1000,
        }
    if part.target is not None:
        row |= {
            "target": str(part.target),
            "met": not figure.failures and part.target.met(figure, share=reached, own_p95_ms=own_p95_ms),
        }
    return [*rows, row | marks]


def _row(title: str, run: Run) -> dict[str, Any]:
    cores = os.cpu_count() or 1
    return {
        "title": title,
        "requests": run.requests,
        "failures": run.failures,
        "requests_per_second": run.per_second,
        "p50_ms": run.percentile_ms(50),
        "p95_ms": run.percentile_ms(95),
        "p99_ms": run.percentile_ms(99),
        "max_ms": run.percentile_ms(100),
        "web_cpu_ms": run.cpu_ms(run.cpu.web),
        "database_cpu_ms": run.cpu_ms(run.cpu.database),
        "cache_cpu_ms": run.cpu_ms(run.cpu.cache),
        "others_share": run.others_seconds / (run.seconds * cores) if run.seconds else 0.0,
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Format rows as a table. Floors are indented above their figure."""
    cells = [_COLUMNS, *(_cells(row) for row in rows)]
    widths = [max(len(line[index]) for line in cells) for index in range(len(_COLUMNS))]
    lines = []
    for line in cells:
        first = line[0].ljust(widths[0])
        middle = [text.rjust(width) for text, width in zip(line[1:-2], widths[1:-2], strict=True)]
        lines.append("  ".join([first, *middle, line[-2].ljust(widths[-2]), line[-1]]).rstrip())
    lines.insert(1, "-" * max(len(line) for line in lines))
    return "\n".join([*lines, "", _EXPLANATION])


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    def number(name: str, form: str) -> str:
        return format(row[name], form) if row.get(name) is not None else ""

    target = row.get("target", "")
    if row.get("own_p95_ms") is not None:
        target += f"{': ' if target else 'own p95 '}{row['own_p95_ms']:.1f}"
    if row["failures"]:
        target += f" FAILURES {row['failures']}"
    return (
        f"  {row['title']}" if row["floor"] else row["title"],
        number("requests_per_second", ",.0f"),
        *(number(f"{name}_ms", ".1f") for name in ("p50", "p95", "p99", "max")),
        *(number(f"{server}_cpu_ms", ".2f") for server in ("web", "database", "cache")),
        number("others_share", ".0%"),
        number("share", ".2f"),
        number("cpu_share", ".2f"),
        target,
        _verdict(row),
    )


def _verdict(row: dict[str, Any]) -> str:
    """Say whether the target is met. A figure measured beside other programs decides nothing."""
    busy, scaled, rounds = (row.get(name, 0) for name in ("busy_rounds", "scaled_rounds", "rounds"))
    decided = "" if busy else {True: "met", False: "MISSED", None: ""}[row.get("met")]
    marks = [f"BUSY {busy}/{rounds}"] if busy else []
    marks += [f"scaled {scaled}/{rounds}"] if scaled else []
    return " ".join(part for part in (decided, *marks) if part)


def _revision() -> str:
    try:
        done = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
        )
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"
