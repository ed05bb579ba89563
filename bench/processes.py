"""Processor time and memory of processes and child processes, read from /proc."""

import os
import time
from collections.abc import Mapping
from pathlib import Path

from bench.figures import Cpu

_TICKS = os.sysconf("SC_CLK_TCK")
# Fields of the first line of /proc/stat: user, nice, system, irq, softirq, steal.
_BUSY = (0, 1, 2, 5, 6, 7)
# Fields of /proc/<pid>/stat after the name in parentheses, counted from 0.
_PARENT, _USER, _SYSTEM, _CHILDREN_USER, _CHILDREN_SYSTEM = 1, 11, 12, 13, 14


def processor_seconds(process_id: int) -> float:
    """Return the user and system time of a process and its children, including ended children.

    :param process_id: of a server's main process
    """
    ticks = 0
    for fields in _family(process_id):
        ticks += sum(int(fields[index]) for index in (_USER, _SYSTEM, _CHILDREN_USER, _CHILDREN_SYSTEM))
    return ticks / _TICKS


def snapshot(*, web: int, database: int, cache: int) -> Cpu:
    """Read the processor time of the servers, given the id of each main process."""
    return Cpu(processor_seconds(web), processor_seconds(database), processor_seconds(cache))


def largest_child_mebibytes(process_id: int) -> float:
    """Return the resident memory in MiB of a process's largest child.

    Shared memory, such as pages inherited from the parent, counts in full.
    """
    return max((resident_mebibytes(int(child)) for child in _children(process_id)), default=0.0)


def resident_mebibytes(process_id: int) -> float:
    """Return the resident memory of a process in MiB."""
    rollup = Path(f"/proc/{process_id}/smaps_rollup").read_text(encoding="utf-8")
    return sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Rss:")) / 1024


def children_of(process_id: int) -> int:
    """Count the children of a process."""
    return len(_children(process_id))


def machine_seconds() -> float:
    """Return the time in seconds that the machine's processors were busy or used by the host."""
    fields = Path("/proc/stat").read_text(encoding="utf-8").partition("\n")[0].split()[1:]
    return sum(int(fields[index]) for index in _BUSY) / _TICKS


class Foreign:
    """Processor time that neither the bench nor its servers use, from the creation of this object on.

    Time that the host gives to other machines (steal) counts too.
    """

    # Above this share of the processors, a round's figures say more about the machine than about the service.
    MOST_SHARE = 0.10

    def __init__(self, *roots: int) -> None:
        """Read the first state.

        :param roots: ids of processes that belong to the measurement, with all their descendants
        """
        self._roots = roots
        self._started = time.perf_counter()
        self._busy, self._own = machine_seconds(), _tree_seconds(roots)

    def seconds(self) -> float:
        """Return the foreign processor time since the start, in seconds."""
        own = _tree_seconds(self._roots) - self._own
        return max(machine_seconds() - self._busy - own, 0.0)

    def share(self) -> float:
        """Return the foreign share of all processors since the start: 0.1 on two cores is a fifth of one core."""
        elapsed = time.perf_counter() - self._started
        return self.seconds() / (elapsed * (os.cpu_count() or 1))


def _tree_seconds(roots: tuple[int, ...]) -> float:
    """Sum the processor time of processes and all descendants, including ended and awaited ones."""
    stats = {int(entry.name): _stat(int(entry.name)) for entry in os.scandir("/proc") if entry.name.isdigit()}
    found = {process_id: fields for process_id, fields in stats.items() if fields is not None}
    ticks = 0
    for process_id, fields in found.items():
        if _descends(process_id, roots, found):
            ticks += sum(int(fields[index]) for index in (_USER, _SYSTEM, _CHILDREN_USER, _CHILDREN_SYSTEM))
    return ticks / _TICKS


def _descends(process_id: int, roots: tuple[int, ...], stats: Mapping[int, list[str]]) -> bool:
    current = process_id
    while current in stats and current not in roots:
        current = int(stats[current][_PARENT])
    return current in roots


def _family(process_id: int) -> list[list[str]]:
    first = _stat(process_id)
    found = [] if first is None else [first]
    return [*found, *_children(process_id).values()]


def _children(process_id: int) -> dict[int, list[str]]:
    found = {}
    for entry in os.scandir("/proc"):
        fields = _stat(int(entry.name)) if entry.name.isdigit() else None
        if fields is not None and int(fields[_PARENT]) == process_id:
            found[int(entry.name)] = fields
    return found


def _stat(process_id: int) -> list[str] | None:
    try:
        content = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None  # the process ended meanwhile, and the parent's times include it
    # The name may contain blanks and parentheses, but the fields after its last parenthesis do not.
    return content.rpartition(")")[2].split()
