"""A lock per data directory. The stack's child processes hold the lock too, so that no child is overlooked."""

import fcntl
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from sandbox.configuration import StackError
from sandbox.process import Pause, wait_until
from sandbox.reporting import Report

_ENDING_SECONDS = 20.0
_KILLED_SECONDS = 5.0


@contextmanager
def held_lock(path: Path, *, report: Report, pause: Pause = time.sleep) -> Iterator[int]:
    """Hold the lock of a data directory.

    Every child process inherits the descriptor. The kernel frees the lock when the last child is gone, even
    after the parent was killed. A lock without a running stack belongs to children of a killed run. This
    function waits for these children to end and kills them after 20 seconds.

    :param report: receives progress messages
    :return: the descriptor of the lock file
    :raises StackError: another stack runs there, or remaining processes cannot be ended
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _try_lock(descriptor):
            owner = lock_owner(path)
            # Process ids are reused, so the id alone proves nothing.
            if owner is not None and owner in lock_holders(path):
                raise StackError(
                    f"A stack is already running in {path.parent} (process {owner})."
                    " Stop that stack, or choose another directory and port: DATA_DIR=.data2 PORT=8001 make run"
                )
            report(f"Waiting for processes of a killed run (process {owner}) to end")
            if not wait_until(lambda: _try_lock(descriptor), timeout_seconds=_ENDING_SECONDS, pause=pause):
                _kill_holders(path, descriptor, report=report, pause=pause)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield descriptor
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Return whether a stack, or a remaining process of a stack, holds the data directory's lock."""
    if not path.exists():
        return False
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        return not _try_lock(descriptor)
    finally:
        os.close(descriptor)


def lock_owner(path: Path) -> int | None:
    """Return the process id of the stack that last held the lock, if any."""
    text = path.read_text(encoding="ascii", errors="replace").strip() if path.exists() else ""
    return int(text) if text.isdecimal() else None


def lock_holders(path: Path) -> list[int]:
    """List other processes that have the lock file open."""
    wanted = str(path.resolve())
    holders = []
    for process in psutil.process_iter():
        if process.pid == os.getpid():
            continue
        try:
            if any(file.path == wanted for file in process.open_files()):
                holders.append(process.pid)
        except (psutil.Error, OSError):
            continue  # the process ended meanwhile, or belongs to another user
    return holders


def _kill_holders(path: Path, descriptor: int, *, report: Report, pause: Pause) -> None:
    holders = lock_holders(path)
    report(
        f"Killing the remaining processes of the killed run: {', '.join(map(str, holders)) or 'none found'}"
    )
    for holder in holders:
        try:
            os.kill(holder, signal.SIGKILL)
        except ProcessLookupError:
            continue  # the process ended by itself
    if not wait_until(lambda: _try_lock(descriptor), timeout_seconds=_KILLED_SECONDS, pause=pause):
        raise StackError(
            f"Processes of a killed run still hold {path} and cannot be stopped. Choose another DATA_DIR."
        )


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
