"""A fork server that starts the project's programs fast: all modules are imported already.

``tests.support.forked_processes`` starts ``python -W error -m tests.support.fork_server``. The socket on standard
input carries the requests. Each started program is a normal process with a separate environment, output and process
group. Only the imports, which take most of the start time, are done before.
"""

import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import sys
import threading
import warnings
from dataclasses import dataclass

import psutil

# These modules run as ``__main__`` and must not be imported already.
_PROGRAMS = ("commands.main", "tasks.worker")
_LIBRARIES = (
    "blueprints.areas",
    "blueprints.http.application",
    "gunicorn.app.wsgiapp",
    "gunicorn.workers.sync",
)
# Python's own, where no ``-W`` says otherwise.
_IGNORED = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)
_DESCRIPTORS = 3  # of two outputs and a report
LENGTH = struct.Struct("!I")  # of a request, sent before the request together with the descriptors


@dataclass(frozen=True)
class Start:
    """A request to start ``python -m module arguments``. If strict, warnings are errors, as with ``-W error``."""

    module: str
    arguments: list[str]
    environment: dict[str, str]
    strict: bool


def serve(channel: socket.socket) -> Start:
    """Start requested programs until the socket closes. The function returns in each started process."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no process waits for a keeper
    while True:
        header, descriptors, _, _ = socket.recv_fds(channel, LENGTH.size, _DESCRIPTORS)
        if not header:
            os._exit(0)
        [length] = LENGTH.unpack(header)
        asked = channel.recv(length, socket.MSG_WAITALL)
        if os.fork() == 0:
            channel.close()
            start = Start(**json.loads(asked))
            _keep(descriptors)
            return start
        for descriptor in descriptors:
            os.close(descriptor)


def _keep(descriptors: list[int]) -> None:
    """Start a process, then report the id and exit status. The function returns in the started process.

    The other end of the report is in the test process. When that process dies, the keeper kills the started process.
    """
    *outputs, report = descriptors
    signal.signal(signal.SIGCHLD, _noted)
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end)
    started = os.fork()
    if started == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for descriptor in (report, read_end, write_end):
            os.close(descriptor)
        _become_its_own(outputs)
        return
    with socket.socket(fileno=report) as teller:
        teller.sendall(f"{started}\n".encode())
        # The test process writes nothing, so its end is readable only after its death.
        ready, _, _ = select.select([read_end, teller], [], [])
        while teller not in ready and psutil.Process(started).status() != psutil.STATUS_ZOMBIE:
            os.read(read_end, 1)  # the signal also reports a process that was stopped or continued
            ready, _, _ = select.select([read_end, teller], [], [])
        # Kill the rest of the process group before the id can be reused. The group may not exist yet.
        os.kill(started, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started, signal.SIGKILL)
        _, status = os.waitpid(started, 0)
        if teller not in ready:
            teller.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _noted(_number: int, _frame: object) -> None:
    """Do nothing. The interpreter has already written the signal's number to the pipe."""


def _become_its_own(outputs: list[int]) -> None:
    os.setsid()
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a descriptor is wanted
        os.dup2(nothing.fileno(), 0)
    for number, output in enumerate(outputs, 1):
        os.dup2(output, number)
        os.close(output)


def run(start: Start) -> None:
    """Run the program in this process."""
    os.environ.clear()
    os.environ.update(start.environment)
    sys.argv = [start.module, *start.arguments]
    if not start.strict:
        warnings.resetwarnings()
        for category in _IGNORED:
            warnings.simplefilter("ignore", category)
    runpy.run_module(start.module, run_name="__main__", alter_sys=True)


def main() -> None:
    """Import all modules, serve, and run the requested program in the copy."""
    modules = importlib.import_module("commands.main").MODULES
    for name in (*modules.values(), *_PROGRAMS, *_LIBRARIES):
        importlib.import_module(name)
    for name in _PROGRAMS:
        del sys.modules[name]
    # The child of a process with threads may find locks held for ever.
    assert threading.active_count() == 1
    # Otherwise each copy's final garbage collection would copy all memory pages.
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=os.dup(0)) as channel:
        start = serve(channel)
    run(start)


if __name__ == "__main__":
    main()
