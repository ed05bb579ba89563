"""Processor time and memory of processes and child processes, and frozen processes.

Times of ended children are counted on Linux only. Elsewhere the system does not report those times.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil

from bench.figures import Cpu

_MEBIBYTE = 1024 * 1024
# The states in which a processor works, for this machine or for its host. A system reports some of these states.
_BUSY = ("user", "nice", "system", "irq", "softirq", "steal")


def processor_seconds(process_id: int) -> float:
    """Return the user and system time of a process and its children, including ended children.

    :param process_id: of a server's main process
    """
    return sum(map(_seconds, (psutil.Process(process_id), *_children(process_id))))


def snapshot(*, web: int, database: int, cache: int) -> Cpu:
    """Read the processor time of the servers, given the id of each main process."""
    return Cpu(processor_seconds(web), processor_seconds(database), processor_seconds(cache))


def largest_child_mebibytes(process_id: int) -> float:
    """Return the resident memory in MiB of a process's largest child.

    Shared memory, such as pages inherited from the parent, counts in full.
    """
    return max((resident_mebibytes(child.pid) for child in _children(process_id)), default=0.0)


def resident_mebibytes(process_id: int) -> float:
    """Return the resident memory of a process in MiB."""
    return psutil.Process(process_id).memory_info().rss / _MEBIBYTE


def children_of(process_id: int) -> int:
    """Count the children of a process."""
    return len(_children(process_id))


def children_ids(process_id: int) -> set[int]:
    """Return the ids of a process's children."""
    return {child.pid for child in _children(process_id)}


@contextmanager
def frozen(process_id: int) -> Iterator[float]:
    """Freeze a process and its children: their sockets accept data, but nothing answers.

    Yields the time of the monotonic clock.
    """
    # The parent first, so that no child is missed.
    os.kill(process_id, signal.SIGSTOP)
    stopped = [process_id, *children_ids(process_id)]
    try:
        for child in stopped[1:]:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGSTOP)
        yield time.monotonic()
    finally:
        for number in reversed(stopped):
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGCONT)


def machine_seconds() -> float:
    """Return the time in seconds that the machine's processors were busy or used by the host."""
    times = psutil.cpu_times()
    return sum(getattr(times, name, 0.0) for name in _BUSY)


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
    found: set[psutil.Process] = set()
    for root in roots:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(root)
            found |= {process, *process.children(recursive=True)}
    return sum(map(_seconds, found))


def _seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0  # the process ended meanwhile, and the parent's times include it
    return times.user + times.system + times.children_user + times.children_system


def _children(process_id: int) -> list[psutil.Process]:
    try:
        return psutil.Process(process_id).children()
    except psutil.NoSuchProcess:
        return []
