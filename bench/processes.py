"""Processor time and memory of servers and all their children, read from /proc."""

import os
from pathlib import Path

from bench.figures import Cpu

_TICKS = os.sysconf("SC_CLK_TCK")
# In the first line of /proc/stat: user, nice, system, irq, softirq, steal.
_BUSY = (0, 1, 2, 5, 6, 7)
# Fields of /proc/<pid>/stat after the name in parentheses, counted from 0.
_PARENT, _USER, _SYSTEM, _CHILDREN_USER, _CHILDREN_SYSTEM = 1, 11, 12, 13, 14


def processor_seconds(process_id: int) -> float:
    """Give the user and system time of a process and its children, dead ones included.

    :param process_id: of a server's first process
    """
    ticks = 0
    for fields in _family(process_id):
        ticks += sum(int(fields[index]) for index in (_USER, _SYSTEM, _CHILDREN_USER, _CHILDREN_SYSTEM))
    return ticks / _TICKS


def snapshot(*, web: int, database: int, cache: int) -> Cpu:
    """Read the processor time of all servers, each named by its first process."""
    return Cpu(processor_seconds(web), processor_seconds(database), processor_seconds(cache))


def largest_child_mebibytes(process_id: int) -> float:
    """Give the resident memory of the largest of a process's children.

    What it shares with others, such as the pages of the master that it was forked from, is counted in full.

    :param process_id: the parent's
    """
    return max((resident_mebibytes(int(child)) for child in _children(process_id)), default=0.0)


def resident_mebibytes(process_id: int) -> float:
    """Give the resident memory of a process, in MiB."""
    rollup = Path(f"/proc/{process_id}/smaps_rollup").read_text(encoding="utf-8")
    return sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Rss:")) / 1024


def children_of(process_id: int) -> int:
    """Count the children of a process."""
    return len(_children(process_id))


def machine_seconds() -> float:
    """Give the time that the machine's processors have been busy, or taken by its host."""
    fields = Path("/proc/stat").read_text(encoding="utf-8").partition("\n")[0].split()[1:]
    return sum(int(fields[index]) for index in _BUSY) / _TICKS


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
        return None  # it ended meanwhile; its parent has its time
    # The name may hold blanks and parentheses; what follows its last one holds none.
    return content.rpartition(")")[2].split()
