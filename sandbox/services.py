"""The application's processes and the embedded servers of the stack."""

import sys
from pathlib import Path

from sandbox.configuration import PROJECT, Configuration
from sandbox.ports import HOST
from sandbox.process import Process
from sandbox.servers import (
    OBJECT_STORAGE_PORTS,
    EmbeddedObjectStorage,
    EmbeddedPostgres,
    EmbeddedProxy,
    EmbeddedValkey,
    Server,
)

# A short grace period keeps Ctrl-C quick. Clients repeat an interrupted request.
_WEB_GRACEFUL_SECONDS = "8"
EXPECTED_FAILURE_STATUS = 78  # EX_CONFIG: the log ends with a readable message, without a traceback
# One process upgrades and seeds the database, because starting Python costs as much as the work itself.
_PREPARE = f"""
import sys

import click
from commands.main import main

try:
    for arguments in (["db", "upgrade"], ["seed", "--if-empty"]):
        main(arguments, standalone_mode=False)
except click.ClickException as error:
    sys.stderr.write(error.format_message())
    sys.exit({EXPECTED_FAILURE_STATUS})
"""


class Services:
    """A factory for the processes of a configuration. Each process holds the stack's lock."""

    def __init__(self, configuration: Configuration, *, lock: int) -> None:
        self._configuration = configuration
        self._inherited = (lock,)

    def log_path(self, name: str) -> Path:
        """Return the log path of a process. The previous run's log is renamed to ``.log.1``."""
        path = self._configuration.layout.logs / f"{name}.log"
        if path.exists():
            path.replace(path.with_name(f"{path.name}.1"))
        return path

    def servers(self) -> list[tuple[Server, tuple[str, ...]]]:
        """Create the embedded servers, each with the names of its ports."""
        configuration = self._configuration
        ports, own, root = configuration.ports, configuration.secrets, configuration.layout.root
        made: list[tuple[Server, tuple[str, ...]]] = []
        # Object storage starts slowest, so it is launched first. PostgreSQL's first start blocks, so it comes last.
        if configuration.embedded_storage:
            storage = EmbeddedObjectStorage(
                root / "objects",
                {name: ports[name] for name in OBJECT_STORAGE_PORTS},
                access_key_id=configuration.variables["S3_ACCESS_KEY_ID"],
                secret_access_key=configuration.variables["S3_SECRET_ACCESS_KEY"],
                public_bucket=configuration.variables["S3_PUBLIC_BUCKET"],
                private_bucket=configuration.variables["S3_PRIVATE_BUCKET"],
                log_path=self.log_path("object-storage"),
                inherited=self._inherited,
            )
            made.append((storage, OBJECT_STORAGE_PORTS))
        if configuration.embedded_cache:
            cache = EmbeddedValkey(
                root / "valkey",
                ports["cache"],
                password=own["cache_password"],
                log_path=self.log_path("valkey"),
                inherited=self._inherited,
            )
            made.append((cache, ("cache",)))
        if configuration.embedded_database:
            database = EmbeddedPostgres(
                root / "postgresql",
                ports["database"],
                password=own["database_password"],
                log_path=self.log_path("postgresql"),
                inherited=self._inherited,
            )
            made.append((database, ("database",)))
        return made

    def providers(self) -> Process:
        """Create the process of the simulated providers."""
        data = self._configuration.layout.root / "providers"
        data.mkdir(mode=0o700, exist_ok=True)
        port = str(self._configuration.ports["providers"])
        return self._python(
            "providers", "-m", "sandbox.providers", "--host", HOST, "--port", port, "--data", str(data)
        )

    def prepare(self) -> Process:
        """Create the process that upgrades the database and seeds an empty one."""
        return self._python("prepare", "-c", _PREPARE)

    def web(self) -> Process:
        """Create the web processes for CPU-bound requests."""
        return self._gunicorn("web", WORKER_CLASS="sync")

    def waiting(self) -> Process:
        """Create the web process for requests that wait for external services."""
        # One process serves many requests at once. A waiting request holds no database connection, so a pool of
        # 10 suffices.
        return self._gunicorn("waiting", WORKER_CLASS="gevent", WEB_CONCURRENCY="1", DATABASE_POOL_SIZE="10")

    def worker(self, queue: str, *, name: str | None = None) -> Process:
        """Create a worker of a queue."""
        return self._python(name or f"worker-{queue}", "-m", "tasks.worker", queue)

    def metrics(self) -> Process:
        """Create the process that serves the metrics of all processes."""
        port = str(self._configuration.ports["metrics"])
        return self._python(
            "metrics", "-m", "commands.main", "metrics", "serve", "--host", HOST, "--port", port
        )

    def proxy(self) -> EmbeddedProxy:
        """Create the proxy, which listens on the public port."""
        configuration = self._configuration
        return EmbeddedProxy(
            configuration.layout.root / "proxy",
            configuration.port,
            caddyfile=PROJECT / "deploy" / "Caddyfile",
            environment={
                "SITE_ADDRESS": f"http://:{configuration.port}",
                "BIND_ADDRESS": HOST,
                "API_UPSTREAM": f"{HOST}:{configuration.ports['web']}",
                "WAITING_UPSTREAM": f"{HOST}:{configuration.ports['waiting']}",
                "MEDIA_UPSTREAM": configuration.media_upstream,
                "MEDIA_BUCKET": configuration.variables["S3_PUBLIC_BUCKET"],
                "PUBLIC_BASE_URL": configuration.variables["PUBLIC_BASE_URL"],
            },
            log_path=self.log_path("proxy"),
            inherited=self._inherited,
        )

    def _gunicorn(self, name: str, **more: str) -> Process:
        bind = f"{HOST}:{self._configuration.ports[name]}"
        return self._python(
            name,
            *("-m", "gunicorn", "-c", str(PROJECT / "gunicorn.conf.py"), "wsgi:app"),
            WEB_BIND=bind,
            WEB_GRACEFUL_SECONDS=_WEB_GRACEFUL_SECONDS,
            **more,
        )

    def _python(self, name: str, *arguments: str, **more: str) -> Process:
        return Process(
            name,
            [sys.executable, *arguments],
            log_path=self.log_path(name),
            directory=PROJECT,
            environment=self._configuration.environment(**more),
            inherited=self._inherited,
        )
