"""A site in separate processes: database, cache, web and workers, which tests may stop or kill."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import psycopg2
import requests
from redis import Redis

from marketplace.infra.db import Database
from marketplace.infra.settings import load_settings
from marketplace.services import Services
from sandbox.ports import is_free
from sandbox.process import Process, wait_until
from sandbox.providers.server import ProvidersServer
from sandbox.servers import EmbeddedPostgres, EmbeddedValkey
from tasks.dispatcher import Dispatcher
from tests.support.empty_database import EmptiedDatabase
from tests.support.encryption_keys import KEY_VARIABLES
from tests.support.fork_server import Start
from tests.support.forked_processes import Forked, kept_environment, launch
from tests.support.gateway import GATEWAY_KEY
from tests.support.installation import query
from tests.support.ports import free_port, free_ports
from tests.support.servers import migrate

BOUND_SECONDS = 30.0
# The sweep of a killed worker is detected after this time and runs again.
SWEPT_SECONDS = 90.0
_KEY = "of-these-tests-only-0123456789abcdef"
Found = TypeVar("Found")


class SiteServers:
    """A database and a cache shared in turn by the sites of a test process."""

    def __init__(self, directory: Path) -> None:
        """Start the servers and migrate the database."""
        ports = free_ports("site", "database", "cache")
        self.postgres = EmbeddedPostgres(
            directory / "postgresql", ports["database"], password=_KEY, durable=False
        )
        self.valkey = EmbeddedValkey(directory / "valkey", ports["cache"], durable=False)
        self.start_stopped()
        migrate(self.postgres.url)
        self._database = Database(self.postgres.url, pool_size=1, application_name="tests")
        self._emptied = EmptiedDatabase(self._database)

    def start_stopped(self) -> None:
        """Start the servers that a test stopped."""
        for server in (self.postgres, self.valkey):
            if server.process is None or not server.process.running:
                server.start()

    def empty(self) -> None:
        """Start both servers if necessary and delete all data of tests."""
        self.start_stopped()
        self._database.close()  # the connection is dead after a restart
        self._emptied.disconnect_others()
        self._emptied.empty()
        with Redis.from_url(self.valkey.url) as cache:
            cache.flushall()

    def stop(self) -> None:
        """Stop both servers."""
        self._database.close()
        self.valkey.stop()
        self.postgres.stop()


class ServiceProcesses:
    """The running processes and the addresses."""

    def __init__(self, directory: Path, servers: SiteServers, port: int) -> None:
        self.directory = directory
        self._servers = servers
        self.postgres = servers.postgres
        self.valkey = servers.valkey
        self.url = f"http://127.0.0.1:{port}"
        self.providers = ProvidersServer(
            "127.0.0.1",
            0,
            directory / "providers",
            secret_key=GATEWAY_KEY,
            public_base_url=self.url,
            retry_scale=0.001,
            webhook_timeout_seconds=5,
        )
        self.environment = {
            **kept_environment(),
            "ENVIRONMENT": "test",
            "PUBLIC_BASE_URL": self.url,
            "DATABASE_URL": self.postgres.url,
            "REDIS_URL": self.valkey.url,
            "GATEWAY_URL": self.providers.gateway_url,
            "SMS_URL": self.providers.sms_url,
            "GATEWAY_SECRET_KEY": GATEWAY_KEY,
            "IDENTITY_ISSUER": self.providers.identity_issuer,
            "IDENTITY_JWKS_URL": f"{self.providers.identity_issuer}/.well-known/jwks.json",
            "DELIVERY_PIN_KEY": _KEY,
            "CURSOR_KEY": _KEY,
            **KEY_VARIABLES,
            "WEB_BIND": f"127.0.0.1:{port}",
            "WEB_CONCURRENCY": "2",
            "WEB_GRACEFUL_SECONDS": "2",
            # Tests run beside others on slow machines.
            "DATABASE_WAIT_SCALE": "20",
        }
        self.database = Database(self.postgres.url, pool_size=5, application_name="tests")
        self._processes: list[Forked] = []

    def web(self) -> Forked:
        """Start the web processes and wait for the first response."""
        process = self._launch("web", "gunicorn", "-c", "gunicorn.conf.py", "wsgi:app")
        self.wait_until(lambda: self.is_serving("/health/live"), process)
        return process

    def worker(self, queue: str = "webhooks", *, module: str = "tasks.worker") -> Forked:
        """Start a worker without waiting."""
        return self._launch(f"worker-{queue}", module, queue)

    def enqueue(self, queue: str, table: str, row_id: UUID) -> None:
        """Enqueue a row, as a commit does."""
        services = Services.from_settings(load_settings(self.environment), application_name="tests")
        assert Dispatcher(services).send_wakeup(queue, table, row_id)

    def _launch(self, name: str, module: str, *arguments: str) -> Forked:
        start = Start(module, list(arguments), self.environment, strict=False)
        process = launch(name, self.directory / f"{name}.log", start)
        self._processes.append(process)
        return process

    def is_serving(self, path: str) -> bool:
        """Return whether the web processes answer 200."""
        try:
            return requests.get(f"{self.url}{path}", timeout=5).status_code == 200
        except requests.RequestException:
            return False

    def wait_until(
        self, look: Callable[[], Found], process: Forked | None = None, *, seconds: float = BOUND_SECONDS
    ) -> Found:
        """Wait, with a time limit, until a search succeeds, and return the result."""
        found: list[Found] = []

        def looked() -> bool:
            found[:] = [look()]
            return bool(found[0]) or (process is not None and not process.running)

        assert wait_until(looked, timeout_seconds=seconds), self.logs()
        assert found[0], self.logs()
        return found[0]

    def logs(self) -> str:
        """Return the ends of all logs, for the message of a failed test."""
        return "\n".join(f"{process.name}:\n{process.log_tail(30)}" for process in self._processes)

    def query(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Run SQL in autocommit and return the rows."""
        return query(self.postgres.url, sql, *parameters)

    def connections(self, name: str, *, waiting: bool = False) -> int:
        """Count a process's database connections by name, or only those that wait for a lock."""
        [[count]] = self.query(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
            " AND (wait_event_type = 'Lock' OR NOT %s)",
            name,
            waiting,
        )
        return int(count)

    def stop_processes(self) -> None:
        """Stop web and workers without waiting for running work."""
        for process in self._processes:
            process.stop(timeout_seconds=0)
        self._processes.clear()

    def restart_servers(self) -> None:
        """Restart stopped servers and drop the test's dead connections."""
        self.database.close()
        self._servers.start_stopped()


class Blocker:
    """A transaction of the test that locks a row."""

    def __init__(self, site: ServiceProcesses) -> None:
        self._connection = psycopg2.connect(site.postgres.url)

    def __enter__(self) -> "Blocker":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def lock(self, table: str, **key: object) -> None:
        """Lock a row until ``release``."""
        [[name, value]] = key.items()
        with self._connection.cursor() as cursor:
            cursor.execute(f"SELECT FROM {table} WHERE {name} = %s FOR UPDATE", (str(value),))
            assert cursor.rowcount == 1

    def release(self) -> None:
        """Release the row lock."""
        self._connection.rollback()


def kill(process: Process | Forked) -> None:
    """Kill a process without warning."""
    assert process.process_id is not None
    os.kill(process.process_id, signal.SIGKILL)
    assert wait_until(lambda: not process.running, timeout_seconds=BOUND_SECONDS)


@contextmanager
def running_site(directory: Path, servers: SiteServers) -> Iterator[ServiceProcesses]:
    """Yield a site with an empty database. Tests start web processes and workers."""
    port = free_port("site")
    assert is_free(port)
    servers.empty()
    site = ServiceProcesses(directory, servers, port)
    try:
        site.providers.start()
        yield site
    finally:
        site.stop_processes()
        site.database.close()
        site.providers.stop()
