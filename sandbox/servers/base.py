"""What all embedded servers have in common."""

import http.client
import importlib.util
import sysconfig
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path

from sandbox.ports import HOST
from sandbox.process import Pause, Process, ProcessFailedError, wait_until

READY_SECONDS = 30.0
ANSWER_SECONDS = 1.0


class Server(ABC):
    """A server that runs as a child process and dies with this one."""

    name: str

    def __init__(self, directory: Path, *, log_path: Path | None, inherited: Sequence[int] = ()) -> None:
        """Describe the server; ``launch`` or ``start`` runs it.

        :param directory: where it keeps its data; made when missing
        :param log_path: where its output goes; none means a file in its directory
        :param inherited: file descriptors that it keeps open
        """
        self.directory = directory
        self.log_path = log_path or directory.with_name(f"{directory.name}.log")
        self._inherited = tuple(inherited)
        self.process: Process | None = None

    @property
    @abstractmethod
    def url(self) -> str:
        """Give the address under which clients reach the server."""

    @abstractmethod
    def prepare(self) -> Process:
        """Make the directory ready and describe the process.

        :raises ProcessFailedError: the data could not be prepared
        """

    @abstractmethod
    def is_ready(self) -> bool:
        """Tell whether the server answers now; it waits a second at most."""

    def launch(self, before_binding: Callable[[], None] = lambda: None) -> None:
        """Start the server and not wait for it.

        :param before_binding: frees the server's ports, which somebody holds for it until this last moment
        :raises ProcessFailedError: its data could not be prepared
        """
        self.process = self.prepare()
        before_binding()
        self.process.launch()

    def wait_ready(self, timeout_seconds: float = READY_SECONDS, pause: Pause = time.sleep) -> None:
        """Wait until the launched server answers.

        :raises ProcessFailedError: it ended, or did not answer in time; the message has the end of its log
        """
        process = self.process
        if process is None:
            raise ProcessFailedError(f"{self.name} was not launched")
        answered = wait_until(
            lambda: not process.running or self.is_ready(), timeout_seconds=timeout_seconds, pause=pause
        )
        if not process.running:
            raise process.failure("ended while it started")
        if not answered:
            raise process.failure(f"did not answer within {timeout_seconds:.0f} s")

    def start(self, timeout_seconds: float = READY_SECONDS) -> None:
        """Start the server and wait until it answers; else it is stopped again.

        :raises ProcessFailedError: it did not start; the message has the end of its log
        """
        self.launch()
        try:
            self.wait_ready(timeout_seconds)
        except BaseException:
            self.stop()
            raise

    def stop(self, timeout_seconds: float = 10.0) -> bool:
        """Stop the server in good order, or by force when that takes too long.

        :return: whether it stopped by itself in that time
        """
        return self.process is None or self.process.stop(timeout_seconds)


def http_status(port: int, path: str) -> int | None:
    """Ask a local server for a path.

    :return: the answer's status, or none when there was no answer within a second
    """
    connection = http.client.HTTPConnection(HOST, port, timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def package_directory(package: str) -> Path:
    """Find a package without importing it, which would run code that we have no use for.

    :raises ProcessFailedError: it is not installed
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ProcessFailedError(f"The package {package} is missing: install the extra 'embedded'.")
    return Path(spec.submodule_search_locations[0])


def script_path(name: str) -> Path:
    """Find a program that a package put into this environment.

    :raises ProcessFailedError: it is not installed
    """
    path = Path(sysconfig.get_path("scripts")) / name
    if not path.exists():
        raise ProcessFailedError(f"The program {name} is missing: install the extra 'embedded'.")
    return path
