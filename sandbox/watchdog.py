"""A process that signals the children of a dead process, where the kernel does not.

Each process that starts children has one watchdog. The watchdog reads the process's pipe and signals the remaining
children when the pipe closes. The kernel closes the pipe when the process dies, however that happens.

The program runs by path in an isolated interpreter (``python -I -S watchdog.py``), so it imports only the standard
library.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from functools import cache

_STOP_SECONDS = 5.0
_BLOCKED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Watchdog:
    """The watchdog of this process. Each child registers itself, before its command starts."""

    def __init__(self) -> None:
        read_end, self.descriptor = os.pipe()
        # The watchdog inherits the blocked signals. A stop request to all processes must not end the watchdog first.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__], stdin=read_end, cwd="/", start_new_session=True
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            os.close(read_end)

    def forget(self, process_id: int) -> None:
        """Unregister a child that has ended. Call this before the kernel may reuse the id."""
        os.write(self.descriptor, f"-{process_id}\n".encode())

    def close(self) -> None:
        """End the watchdog, which signals the remaining children."""
        os.close(self.descriptor)
        self._process.wait(_STOP_SECONDS)


@cache
def watchdog_of(process_id: int) -> Watchdog:
    """Return the watchdog of this process, started at the first call.

    :param process_id: the id of this process. A fork has another id and gets another watchdog
    """
    import atexit  # noqa: PLC0415 - the program below does not need the module

    made = Watchdog()
    atexit.register(made.close)
    return made


def main(lines: Iterable[bytes]) -> None:
    """Read registrations until the pipe closes, then signal the children that are left.

    :param lines: ``+ID SIGNAL`` for a new child, written by `sandbox.launcher`; ``-ID`` for an ended child
    """
    children: dict[int, int] = {}
    for line in lines:
        process_id, _, death_signal = line[1:].decode().partition(" ")
        if line.startswith(b"+"):
            children[int(process_id)] = int(death_signal)
        else:
            children.pop(int(process_id), None)
    for child, number in children.items():
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)


if __name__ == "__main__":
    main(sys.stdin.buffer)
