"""What starts the project's programs fast: a process that has imported them, and is copied for each start.

``tests.support.forked_processes`` starts ``python -W error -m tests.support.fork_server`` and asks it over the socket
that is its standard input. What it starts is a process as any other, with an environment, an output, a group and an
end of its own; it merely finds its modules imported already, which is most of what such a start takes.
"""

import contextlib
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import threading
import warnings
from dataclasses import dataclass

from sandbox.launcher import _PR_SET_PDEATHSIG, _prctl

# What runs as a program is imported anew, as ``__main__``: these must not be there already.
_PROGRAMS = ("commands.main", "tasks.worker")
_LIBRARIES = (
    "blueprints.areas",
    "blueprints.http.application",
    "gunicorn.app.wsgiapp",
    "gunicorn.workers.sync",
)
# Python's own, where no ``-W`` says otherwise.
_IGNORED = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)
_MOST_BYTES = 1 << 20
_DESCRIPTORS = 3  # of two outputs and a report


@dataclass(frozen=True)
class Start:
    """What to start: ``python -m module arguments``. A strict one takes warnings for errors, as ``-W error`` does."""

    module: str
    arguments: list[str]
    environment: dict[str, str]
    strict: bool


def serve(channel: socket.socket) -> Start:
    """Start what is asked for, until nobody can ask any more; returns in each process that was started."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for a keeper
    while True:
        asked, descriptors, _, _ = socket.recv_fds(channel, _MOST_BYTES, _DESCRIPTORS)
        if not asked:
            os._exit(0)
        if os.fork() == 0:
            channel.close()
            start = Start(**json.loads(asked))
            _keep(descriptors)
            return start
        for descriptor in descriptors:
            os.close(descriptor)


def _keep(descriptors: list[int]) -> None:
    """Start one process, tell its number and in the end how it ended; returns in that process."""
    *outputs, report = descriptors
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _die_with(os.getppid())
    keeper = os.getpid()
    started = os.fork()
    if started == 0:
        os.close(report)
        _become_its_own(keeper, outputs)
        return
    with socket.socket(fileno=report) as teller:
        teller.sendall(f"{started}\n".encode())
        os.waitid(os.P_PID, started, os.WEXITED | os.WNOWAIT)
        # What it leaves of its group ends with it; before it is gone, since its number is another's then.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started, signal.SIGKILL)
        _, status = os.waitpid(started, 0)
        teller.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _become_its_own(parent: int, outputs: list[int]) -> None:
    os.setsid()
    _die_with(parent)
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a descriptor is wanted
        os.dup2(nothing.fileno(), 0)
    for number, output in enumerate(outputs, 1):
        os.dup2(output, number)
        os.close(output)


def _die_with(parent: int) -> None:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def run(start: Start) -> None:
    """Be the program."""
    os.environ.clear()
    os.environ.update(start.environment)
    sys.argv = [start.module, *start.arguments]
    if not start.strict:
        warnings.resetwarnings()
        for category in _IGNORED:
            warnings.simplefilter("ignore", category)
    runpy.run_module(start.module, run_name="__main__", alter_sys=True)


def main() -> None:
    """Import everything, serve, and be what was asked for."""
    modules = importlib.import_module("commands.main").MODULES
    for name in (*modules.values(), *_PROGRAMS, *_LIBRARIES):
        importlib.import_module(name)
    for name in _PROGRAMS:
        del sys.modules[name]
    # The child of a process with threads may find locks held for ever.
    assert threading.active_count() == 1
    # Or each copy would go through all of it in its end, for what it could free, and make it its own by that.
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=os.dup(0)) as channel:
        start = serve(channel)
    run(start)


if __name__ == "__main__":
    main()
