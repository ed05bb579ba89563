"""A child process with a session and a log file of its own that ends when this process ends."""

import contextlib
import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from sandbox import capabilities
from sandbox.watchdog import Watchdog, watchdog_of

_LAUNCHER = Path(__file__).with_name("launcher.py")
# The pause between two checks grows with the wait, because a check can cost a connection or a request.
_POLL_SECONDS = 0.02
_MAXIMUM_POLL_SECONDS = 0.2
_KILL_SECONDS = 5.0
_TAIL_BYTES = 16_384

Pause = Callable[[float], None]


class ProcessFailedError(Exception):
    """A process ended or was not ready when it had to run. The message ends with the last lines of the log."""


@dataclass(frozen=True)
class Account:
    """The user and group that a process runs as.

    :param override: keep root's file access, because files lie below directories that are closed to this user
    """

    user_id: int
    group_id: int
    override: bool = False


class Process:
    """A background command, including all processes that the command starts.

    The command receives ``death_signal`` when this process dies for any reason. Nothing is left behind.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log_path: Path,
        directory: Path,
        environment: Mapping[str, str] | None = None,
        stop_signal: signal.Signals = signal.SIGTERM,
        death_signal: signal.Signals | None = None,
        account: Account | None = None,
        inherited: Sequence[int] = (),
    ) -> None:
        """Describe the process. ``launch`` starts it.

        :param command: the program's path and arguments
        :param environment: the full environment; None means this process's own
        :param stop_signal: requests an orderly stop
        :param death_signal: sent when this process dies; None means the stop signal
        :param inherited: file descriptors that stay open in the child
        """
        self.name = name
        self.log_path = log_path
        self._command = list(command)
        self._directory = directory
        self._environment = environment
        self._stop_signal = stop_signal
        self._death_signal = death_signal or stop_signal
        self._account = account
        self._inherited = tuple(inherited)
        self._popen: subprocess.Popen[bytes] | None = None
        self._watchdog: Watchdog | None = None

    def launch(self) -> None:
        """Start the process and return immediately.

        Call this from a thread that lives as long as the process. Linux sends the death signal when the
        thread that started a process ends.
        """
        account = self._account
        self._watchdog = None if capabilities.HAS_PARENT_DEATH_SIGNAL else watchdog_of(os.getpid())
        descriptors = () if self._watchdog is None else (self._watchdog.descriptor,)
        launcher = [
            *(sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid()), str(int(self._death_signal))),
            str(descriptors[0]) if descriptors else "",
            *((str(account.user_id), str(account.group_id)) if account else ("", "")),
            "override" if account and account.override else "",
        ]
        with self.log_path.open("ab") as log:
            self._popen = subprocess.Popen(
                [*launcher, *self._command],
                cwd=self._directory,
                env=None if self._environment is None else dict(self._environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=(*self._inherited, *descriptors),
                start_new_session=True,
            )

    @property
    def process_id(self) -> int | None:
        """The process id, or None before the start."""
        return self._popen.pid if self._popen else None

    @property
    def running(self) -> bool:
        """Whether the process was started and has not ended."""
        return self._popen is not None and self.exit_status is None

    @property
    def exit_status(self) -> int | None:
        """The exit status, negative for a signal, or None while the process runs.

        Reading the status of an ended process kills the rest of its process group.
        """
        if self._popen is None:
            return None
        if self._popen.returncode is None and _has_ended(self._popen.pid):
            self._kill(self._popen)
        return self._popen.returncode

    def request_stop(self) -> None:
        """Request an orderly stop and return immediately."""
        if self._popen is not None and self.running:
            self._popen.send_signal(self._stop_signal)

    def stop(self, timeout_seconds: float = 10.0) -> bool:
        """Stop the process and its descendants, by force after the timeout.

        :return: whether the process stopped by itself in time
        """
        self.request_stop()
        orderly = wait_until(lambda: not self.running, timeout_seconds=timeout_seconds)
        if not orderly and self._popen is not None:
            self._kill(self._popen)
        return orderly

    def _kill(self, popen: subprocess.Popen[bytes]) -> None:
        # Reap last: until then the number of the process and of its group cannot be reused.
        _kill_group(popen.pid)
        if self._watchdog is not None:
            self._watchdog.forget(popen.pid)
        popen.wait(_KILL_SECONDS)

    def log_tail(self, lines: int = 15) -> str:
        """Return the last lines of the process's log."""
        return log_tail(self.log_path, lines)

    def failure(self, what: str) -> ProcessFailedError:
        """Build an error that describes the failure and ends with the end of the log."""
        status = self.exit_status
        ending = "" if status is None else f" ({describe_status(status)})"
        return ProcessFailedError(
            f"{self.name} {what}{ending}. The end of {self.log_path}:\n{self.log_tail()}"
        )


def _has_ended(process_id: int) -> bool:
    """Return whether a child has ended, without reaping the child."""
    if capabilities.HAS_WAITID:
        return os.waitid(os.P_PID, process_id, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    try:
        return psutil.Process(process_id).status() == psutil.STATUS_ZOMBIE
    except psutil.ZombieProcess:
        return True


def _kill_group(process_id: int) -> None:
    # A missing group means that no process is left.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process_id, signal.SIGKILL)


def describe_status(status: int) -> str:
    """Describe an exit status in words.

    :param status: in the notation of subprocess, negative for a signal
    """
    if status >= 0:
        return f"exit status {status}"
    return f"killed by {signal.Signals(-status).name}"


def log_tail(path: Path, lines: int) -> str:
    """Return the last lines of a file, indented, from at most its last 16 KB."""
    if not path.is_file():
        return "    (no log)"
    with path.open("rb") as log:
        log.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        text = log.read().decode("utf-8", errors="replace")
    return "\n".join(f"    {line}" for line in text.splitlines()[-lines:]) or "    (nothing logged)"


def wait_until(condition: Callable[[], bool], *, timeout_seconds: float, pause: Pause = time.sleep) -> bool:
    """Wait for a condition, checking every 20 ms at first and less often in a long wait.

    :param pause: sleeps for the given seconds and may raise to abort the wait
    :return: whether the condition became true in time
    """
    started = time.monotonic()
    while not condition():
        waited_seconds = time.monotonic() - started
        if waited_seconds > timeout_seconds:
            return False
        pause(min(max(_POLL_SECONDS, waited_seconds / 10), _MAXIMUM_POLL_SECONDS))
    return True


def unprivileged_account(*paths: Path) -> Account | None:
    """Find an account for a server that refuses to run as root.

    :param paths: paths that the server must reach. The first is the data directory. If the owner of
        that directory is not root, the server runs as the owner, so that the files keep their owner
    :return: the account, or None when this process is not root
    :raises ProcessFailedError: there is no unprivileged user
    """
    if os.geteuid() != 0:
        return None
    owner = paths[0].stat() if paths[0].exists() else None
    if owner is not None and owner.st_uid != 0:
        user_id, group_id = owner.st_uid, owner.st_gid
    else:
        try:
            entry = pwd.getpwnam("nobody")
        except KeyError as error:
            raise ProcessFailedError(
                "Servers cannot run as root, and there is no user nobody. Start the stack as another user."
            ) from error
        user_id, group_id = entry.pw_uid, entry.pw_gid
    closed = any(not _open_to_all(parent) for path in paths for parent in path.resolve().parents)
    return Account(user_id, group_id, override=closed and capabilities.HAS_AMBIENT_CAPABILITIES)


def _open_to_all(directory: Path) -> bool:
    return bool(directory.exists() and directory.stat().st_mode & 0o001)
