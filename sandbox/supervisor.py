"""A supervisor that restarts failed servers and services, and stops all processes in order."""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sandbox.configuration import StackError
from sandbox.process import Pause, Process, describe_status, log_tail, wait_until
from sandbox.reporting import Console
from sandbox.servers import Server

_WATCH_SECONDS = 0.5
# Delays before each restart. A process that ends again after the last restart ends the stack.
_RESTART_DELAYS_SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0)
# A process that ran this long counts as recovered, which resets its restart count.
_RECOVERED_SECONDS = 60.0
_LOG_CHECK_SECONDS = 10.0
_LOG_BYTES = 64 * 1024 * 1024


@dataclass
class _Watched:
    """A service, or a server, which describes a new process at each launch."""

    launched: Process | Server
    restarts: int = 0
    launched_at: float = field(default_factory=time.monotonic)
    due_at: float | None = None

    @property
    def process(self) -> Process:
        """The process of the last launch."""
        if isinstance(self.launched, Process):
            return self.launched
        if self.launched.process is None:
            raise StackError(f"{self.launched.name} was not launched")
        return self.launched.process


class Supervisor:
    """All processes of the stack, grouped by the order of stopping."""

    def __init__(
        self,
        console: Console,
        *,
        pause: Pause,
        restart_delays_seconds: Sequence[float] = _RESTART_DELAYS_SECONDS,
    ) -> None:
        """Begin without processes.

        :param restart_delays_seconds: pauses before the restarts of a process that ends again and again
        """
        self._console = console
        self._pause = pause
        self._restart_delays_seconds = restart_delays_seconds
        self._servers: list[Server] = []
        self._watched_servers: list[_Watched] = []
        self._early: list[_Watched] = []
        self._late: list[_Watched] = []
        self._logs_checked_at = time.monotonic()

    def add_server(self, server: Server, *, before_binding: Callable[[], None]) -> None:
        """Launch a server that is restarted when it ends. Servers stop last.

        :param before_binding: releases the server's ports
        """
        self._servers.append(server)
        server.launch(before_binding)
        self._watched_servers.append(_Watched(server))

    def add_service(self, process: Process, *, stops_late: bool = False) -> None:
        """Launch a process that is restarted when it ends.

        :param stops_late: stop after the other services, which need this one while they stop
        """
        (self._late if stops_late else self._early).append(_Watched(process))
        process.launch()

    def wait_for_servers(self) -> None:
        """Wait until all servers answer, and print each as it does.

        :raises ProcessFailedError: a server ended or did not answer in time
        """
        started = time.monotonic()
        for server in self._servers:
            server.wait_ready(pause=self._pause)
            self._console.step(server.name, f"is ready ({time.monotonic() - started:.1f} s)")

    def wait_for(self, condition: Callable[[], bool], *, what: str, timeout_seconds: float) -> None:
        """Wait for a condition of the stack and fail early when a process ends.

        :raises StackError: the condition was not met in time
        :raises ProcessFailedError: a process ended during the wait
        """

        def pause(seconds: float) -> None:
            self._pause(seconds)
            for process in self._processes():
                if not process.running:
                    raise process.failure("ended during the stack's start")

        if not wait_until(condition, timeout_seconds=timeout_seconds, pause=pause):
            tails = [
                f"{watched.process.name}:\n{log_tail(watched.process.log_path, 8)}" for watched in self._early
            ]
            raise StackError(f"{what} took longer than {timeout_seconds:.0f} s.\n" + "\n".join(tails))

    def remove_service(self, name: str) -> None:
        """Stop a process for good. Its current work is finished first."""
        for watched in [watched for watched in self._early if watched.process.name == name]:
            self._early.remove(watched)
            self._stop_group([watched.process], timeout_seconds=20)

    def watch(self, *, on_change: Callable[[], None], adjust: Callable[[], bool] = lambda: False) -> None:
        """Keep the stack running until ``pause`` raises.

        :param on_change: called after each restart of a process
        :param adjust: adds and removes services, and returns whether it did
        :raises StackError: a process ended too often
        :raises ProcessFailedError: a server's data could not be prepared for the restart
        """
        while True:
            self._pause(_WATCH_SECONDS)
            for watched in (*self._watched_servers, *self._early, *self._late):
                if self._tend(watched):
                    on_change()
            if adjust():
                on_change()
            self._bound_logs()

    def process_ids(self) -> dict[str, int]:
        """Return the ids of the running processes by name."""
        return {
            process.name: process.process_id
            for process in self._processes()
            if process.process_id is not None and process.running
        }

    def stop(self) -> None:
        """Stop all processes: first web processes and workers, then providers, then servers."""
        self._stop_group([watched.process for watched in self._early], timeout_seconds=20)
        self._stop_group([watched.process for watched in self._late], timeout_seconds=5)
        for server in self._servers:
            if server.process is not None:
                server.process.request_stop()
        deadline = time.monotonic() + 20
        for server in reversed(self._servers):
            if not server.stop(max(0.1, deadline - time.monotonic())):
                self._console.step(server.name, "did not stop in time: killed")

    def _stop_group(self, processes: Sequence[Process], *, timeout_seconds: float) -> None:
        for process in processes:
            process.request_stop()
        deadline = time.monotonic() + timeout_seconds
        for process in processes:
            if not process.stop(max(0.1, deadline - time.monotonic())):
                self._console.step(process.name, "did not stop in time: killed")

    def _tend(self, watched: _Watched) -> bool:
        """Restart an ended process when its restart is due, and return whether it was restarted now."""
        now = time.monotonic()
        if watched.process.running:
            if watched.restarts and now - watched.launched_at > _RECOVERED_SECONDS:
                watched.restarts = 0
        elif watched.due_at is None:
            self._plan_restart(watched, now)
        elif now >= watched.due_at:
            watched.due_at = None
            watched.launched_at = now
            watched.launched.launch()
            return True
        return False

    def _plan_restart(self, watched: _Watched, now: float) -> None:
        process = watched.process
        if watched.restarts == len(self._restart_delays_seconds):
            raise StackError(
                str(process.failure(f"ended again after {watched.restarts} restarts, so the stack stops"))
            )
        delay = self._restart_delays_seconds[watched.restarts]
        watched.restarts += 1
        watched.due_at = now + delay
        self._console.step(
            process.name,
            f"ended ({describe_status(process.exit_status or 0)}); restart {watched.restarts} of"
            f" {len(self._restart_delays_seconds)} in {delay:g} s, log: {process.log_path}",
        )

    def _bound_logs(self) -> None:
        """Truncate large logs after copying them. Processes append, so writing continues at the start."""
        now = time.monotonic()
        if now - self._logs_checked_at < _LOG_CHECK_SECONDS:
            return
        self._logs_checked_at = now
        for process in self._processes():
            path = process.log_path
            if path.exists() and path.stat().st_size > _LOG_BYTES:
                shutil.copyfile(path, path.with_name(f"{path.name}.1"))
                with path.open("r+b") as log:
                    log.truncate(0)

    def _processes(self) -> list[Process]:
        return [
            *(server.process for server in self._servers if server.process is not None),
            *(watched.process for watched in (*self._early, *self._late)),
        ]
