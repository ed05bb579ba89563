"""One child process: in a session of its own, tied to this process's life, with a log file."""

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

_LAUNCHER = Path(__file__).with_name("launcher.py")
_POLL_SECONDS = 0.02
_KILL_SECONDS = 5.0
_TAIL_BYTES = 16_384

Pause = Callable[[float], None]


class ProcessFailedError(Exception):
    """A process ended, or was not ready, when it had to run; the message ends with its log's last lines."""


@dataclass(frozen=True)
class Account:
    """Whom a process runs as. ``override``: it must reach files below directories closed to that user."""

    user_id: int
    group_id: int
    override: bool = False


class Process:
    """A command that runs in the background, with all that it starts itself.

    It gets ``death_signal`` when this process dies, however that happens, so nothing is ever left behind.
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
        """Describe the process; ``launch`` starts it.

        :param command: the program's path and its arguments
        :param environment: all its variables; none means this process's own
        :param stop_signal: what asks it to stop in good order
        :param death_signal: what it gets when this process dies; none means the stop signal
        :param inherited: file descriptors that it keeps open
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

    def launch(self) -> None:
        """Start the process and not wait for it.

        Call it from a thread that lives as long as the process shall: Linux sends the death signal when the
        thread that started a process ends.
        """
        account = self._account
        launcher = [
            *(sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid()), str(int(self._death_signal))),
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
                pass_fds=self._inherited,
                start_new_session=True,
            )

    @property
    def process_id(self) -> int | None:
        """Give the process's id, or none before it was started."""
        return self._popen.pid if self._popen else None

    @property
    def running(self) -> bool:
        """Tell whether the process was started and has not ended."""
        return self._popen is not None and self.exit_status is None

    @property
    def exit_status(self) -> int | None:
        """Give the exit status, negative for a signal; none while it has not ended.

        What an ended process leaves of its group is killed with it.
        """
        if self._popen is None:
            return None
        if self._popen.returncode is None and _has_ended(self._popen.pid):
            # Before the process is reaped, since until then nobody else can get the number of its group.
            _kill_group(self._popen.pid)
            self._popen.wait(_KILL_SECONDS)
        return self._popen.returncode

    def request_stop(self) -> None:
        """Ask the process to stop in good order, and not wait for it."""
        if self._popen is not None and self.running:
            self._popen.send_signal(self._stop_signal)

    def stop(self, timeout_seconds: float = 10.0) -> bool:
        """Stop the process and all that it started: in good order, or else by force.

        :param timeout_seconds: how long it may take before it is killed
        :return: whether it stopped by itself in that time
        """
        self.request_stop()
        orderly = wait_until(lambda: not self.running, timeout_seconds=timeout_seconds)
        if not orderly and self._popen is not None:
            _kill_group(self._popen.pid)
            self._popen.wait(_KILL_SECONDS)
        return orderly

    def log_tail(self, lines: int = 15) -> str:
        """Give the last lines of the process's log."""
        return log_tail(self.log_path, lines)

    def failure(self, what: str) -> ProcessFailedError:
        """Make the error that tells what went wrong, with the end of the log."""
        status = self.exit_status
        ending = "" if status is None else f" ({describe_status(status)})"
        return ProcessFailedError(
            f"{self.name} {what}{ending}. The end of {self.log_path}:\n{self.log_tail()}"
        )


def _has_ended(process_id: int) -> bool:
    return os.waitid(os.P_PID, process_id, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _kill_group(process_id: int) -> None:
    # No such group: nothing is left of it.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process_id, signal.SIGKILL)


def describe_status(status: int) -> str:
    """Say in words how a process ended.

    :param status: as subprocess gives it: negative for a signal
    """
    if status >= 0:
        return f"exit status {status}"
    return f"killed by {signal.Signals(-status).name}"


def log_tail(path: Path, lines: int) -> str:
    """Give the last lines of a file, indented, of its last 16 KB at most."""
    if not path.is_file():
        return "    (no log)"
    with path.open("rb") as log:
        log.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        text = log.read().decode("utf-8", errors="replace")
    return "\n".join(f"    {line}" for line in text.splitlines()[-lines:]) or "    (nothing logged)"


def wait_until(condition: Callable[[], bool], *, timeout_seconds: float, pause: Pause = time.sleep) -> bool:
    """Wait for a condition, asking every 20 ms.

    :param pause: sleeps for the given seconds; it may raise to break off the wait
    :return: whether the condition came true in time
    """
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        pause(_POLL_SECONDS)
    return True


def unprivileged_account(*paths: Path) -> Account | None:
    """Find whom a server runs as that refuses to run as root.

    :param paths: what it must reach; the first is its data directory, whose owner it becomes if that is not
        root, so that a directory made by a user stays that user's
    :return: the account, or none when this process is not root itself
    :raises ProcessFailedError: there is no user to become
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
            raise ProcessFailedError("This runs as root, and there is no user 'nobody' to run as.") from error
        user_id, group_id = entry.pw_uid, entry.pw_gid
    closed = any(not _open_to_all(parent) for path in paths for parent in path.resolve().parents)
    return Account(user_id, group_id, override=closed)


def _open_to_all(directory: Path) -> bool:
    return bool(directory.exists() and directory.stat().st_mode & 0o001)
