"""Processes of the project's programs, started by ``fork_server``."""

import atexit
import contextlib
import functools
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict
from pathlib import Path
from typing import IO

from sandbox.process import log_tail, wait_until
from tests.support.fork_server import LENGTH, Start

PROJECT = Path(__file__).parents[2]
_START_SECONDS = 60.0
_KILL_SECONDS = 5.0
# Requests of several threads must not mix.
_asking = threading.Lock()


class Forked:
    """A process that runs a program like ``sandbox.process.Process``, started by the fork server."""

    def __init__(
        self, name: str, start: Start, *, outputs: tuple[IO[bytes], IO[bytes]], log_path: Path
    ) -> None:
        """Start the program without waiting.

        :param outputs: the files for standard output and standard error
        """
        self.name = name
        self.log_path = log_path
        self._status: int | None = None
        self._told, report = socket.socketpair()
        with report:
            descriptors = [*(output.fileno() for output in outputs), report.fileno()]
            _ask(json.dumps(asdict(start)).encode(), descriptors)
        self.process_id = int(self._line(_START_SECONDS))

    def _line(self, timeout_seconds: float) -> bytes:
        self._told.settimeout(timeout_seconds)
        line = b""
        while not line.endswith(b"\n"):
            part = self._told.recv(1)
            if not part:
                raise RuntimeError(f"nobody tells any more how {self.name} ends")
            line += part
        return line

    def wait(self, timeout_seconds: float) -> int | None:
        """Wait for the end and return the exit status, or None after the time-out."""
        if self._status is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._told, selectors.EVENT_READ)
                if selector.select(timeout_seconds):
                    self._status = int(self._line(_KILL_SECONDS))
                    self._told.close()
        return self._status

    @property
    def exit_status(self) -> int | None:
        """Return the exit status: negative for a signal, None while running."""
        return self.wait(0)

    @property
    def running(self) -> bool:
        """Return whether the process is running."""
        return self.exit_status is None

    def request_stop(self) -> None:
        """Request a graceful stop without waiting."""
        # The process may end at this moment.
        with contextlib.suppress(ProcessLookupError):
            if self.running:
                os.kill(self.process_id, signal.SIGTERM)

    def stop(self, timeout_seconds: float = 10.0) -> bool:
        """Stop the process and all children: gracefully, or else by force."""
        self.request_stop()
        orderly = wait_until(lambda: not self.running, timeout_seconds=timeout_seconds)
        if not orderly:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process_id, signal.SIGKILL)
            assert self.wait(_KILL_SECONDS) is not None
        return orderly

    def log_tail(self, lines: int = 15) -> str:
        """Return the last lines of the log."""
        return log_tail(self.log_path, lines)


def launch(name: str, log_path: Path, start: Start) -> Forked:
    """Start a program with output to a log file."""
    with log_path.open("ab") as log:
        return Forked(name, start, outputs=(log, log), log_path=log_path)


def run_to_end(start: Start, *, timeout_seconds: float) -> subprocess.CompletedProcess[str]:
    """Run a program to the end and return output and exit status."""
    command = [start.module, *start.arguments]
    with tempfile.TemporaryFile() as output, tempfile.NamedTemporaryFile() as errors:
        process = Forked(start.module, start, outputs=(output, errors), log_path=Path(errors.name))
        status = process.wait(timeout_seconds)
        if status is None:
            process.stop(timeout_seconds=0)
            raise subprocess.TimeoutExpired(command, timeout_seconds, stderr=process.log_tail())
        said = []
        for file in (output, errors):
            file.seek(0)
            said.append(file.read().decode())
        return subprocess.CompletedProcess(command, status, *said)


def kept_environment() -> dict[str, str]:
    """Return the part of the environment that is passed on."""
    return {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}


def _ask(request: bytes, descriptors: list[int]) -> None:
    channel = _channel()
    with _asking:
        socket.send_fds(channel, [LENGTH.pack(len(request))], descriptors)
        channel.sendall(request)


@functools.cache
def _channel() -> socket.socket:
    """Start the fork server of this test process. The server ends when this end of the channel closes."""
    ours, its = socket.socketpair()
    with its:
        server = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "tests.support.fork_server"],
            cwd=PROJECT,
            env=kept_environment(),
            stdin=its,
        )

    def end() -> None:
        ours.close()
        server.wait(_KILL_SECONDS)

    atexit.register(end)
    return ours
