"""PgBouncer in transaction mode before the tests' PostgreSQL: two server connections for all clients."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg2
import pytest

from marketplace.infra.db import SESSION_SETTINGS
from sandbox.ports import HOST
from sandbox.process import Process, unprivileged_account
from sandbox.servers import Server
from tests.support.installation import query
from tests.support.ports import free_port
from tests.support.servers import Addresses, create_database, drop_database

POOL_SIZE = 2
_PROGRAM = Path("/usr/sbin/pgbouncer")


class PgBouncer(Server):
    """PgBouncer, as an unprivileged user on the loopback address."""

    name = "pgbouncer"

    def __init__(self, directory: Path, port: int, *, server_url: str) -> None:
        """Describe the pooler.

        :param server_url: of the server's default database, because a template with connections cannot be copied
        """
        super().__init__(directory, log_path=None)
        self.port = port
        self._server_url = server_url

    @property
    def url(self) -> str:
        """Return the address of the same database through the pooler."""
        return self.pooled(self._server_url)

    def pooled(self, database_url: str) -> str:
        """Return the address of a database through the pooler."""
        parts = urlsplit(database_url)
        credentials = parts.netloc.rpartition("@")[0]
        return parts._replace(netloc=f"{credentials}@{HOST}:{self.port}").geturl()

    def prepare(self) -> Process:
        """Write the configuration and describe the process."""
        self.directory.mkdir(mode=0o755)
        parts = urlsplit(self._server_url)
        users = self.directory / "users.txt"
        users.write_text(f'"{parts.username}" "{parts.password}"\n', encoding="utf-8")
        configuration = self.directory / "pgbouncer.ini"
        configuration.write_text(
            f"""
            [databases]
            * = host={parts.hostname} port={parts.port}
            [pgbouncer]
            listen_addr = {HOST}
            listen_port = {self.port}
            unix_socket_dir =
            auth_type = scram-sha-256
            auth_file = {users}
            pool_mode = transaction
            default_pool_size = {POOL_SIZE}
            max_client_conn = 200
            """.replace("            ", ""),
            encoding="utf-8",
        )
        return Process(
            self.name,
            [str(_PROGRAM), str(configuration)],
            log_path=self.log_path,
            directory=self.directory,
            account=unprivileged_account(self.directory, _PROGRAM),
        )

    def is_ready(self) -> bool:
        """Return whether the pooler answers."""
        try:
            psycopg2.connect(self.url, connect_timeout=2).close()
        except psycopg2.OperationalError:
            return False
        return True


@pytest.fixture(scope="session")
def pgbouncer(addresses: Addresses, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PgBouncer]:
    """The pooler of this worker process."""
    if not _PROGRAM.exists():
        pytest.skip(f"no PgBouncer at {_PROGRAM}; on Debian: apt-get install pgbouncer")
    directory = tmp_path_factory.mktemp("pooler") / "pgbouncer"
    pooler = PgBouncer(directory, free_port("server"), server_url=addresses.database("postgres"))
    pooler.start()
    yield pooler
    pooler.stop()


@pytest.fixture(scope="session")
def role_settings(database_url: str) -> None:
    """Give the role the session settings in this worker's database, as documented in operations.md."""
    name = urlsplit(database_url).path.removeprefix("/")
    for setting, value in SESSION_SETTINGS.items():
        query(database_url, f"ALTER ROLE CURRENT_USER IN DATABASE {name} SET {setting} = '{value}'")


@pytest.fixture
def bare_database(addresses: Addresses) -> Iterator[str]:
    """The address of a database in which the role has no settings."""
    name = f"bare_{uuid4().hex[:8]}"
    yield create_database(addresses, name, template="template1")
    drop_database(addresses, name)


@pytest.fixture(scope="session")
def pooled_url(pgbouncer: PgBouncer, role_settings: None, database_url: str) -> str:
    """The address of this worker's database through the pooler."""
    return pgbouncer.pooled(database_url)


@pytest.fixture(params=["prepared", "not prepared", "pooled"])
def connection_mode(request: pytest.FixtureRequest, database_url: str) -> tuple[str, bool]:
    """Each way to connect: database address, and whether statements are prepared."""
    if request.param == "prepared":
        return database_url, True
    request.getfixturevalue("role_settings")
    if request.param == "not prepared":
        return database_url, False
    return request.getfixturevalue("pooled_url"), False
