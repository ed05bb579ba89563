"""An installation for tests of the command line: separate servers, and commands as operators run commands."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg2

from sandbox.providers.server import ProvidersServer
from sandbox.servers import (
    OBJECT_STORAGE_PAIRED_PORTS,
    OBJECT_STORAGE_PORTS,
    EmbeddedObjectStorage,
)
from tests.support.encryption_keys import KEY_VARIABLES
from tests.support.fork_server import Start
from tests.support.forked_processes import kept_environment, run_to_end
from tests.support.ports import free_ports
from tests.support.servers import Addresses, create_database, drop_database

PROJECT = Path(__file__).parents[2]
GATEWAY_KEY = "sk_test_of_these_tests"
_PASSWORD = "of-the-tests-only"
_KEY = "of-these-tests-only-0123456789abcdef"
_COMMAND_SECONDS = 120


class Installation:
    """Separate databases and servers, and the environment variables that configure commands."""

    def __init__(
        self, addresses: Addresses, prefix: str, storage: EmbeddedObjectStorage, providers: ProvidersServer
    ) -> None:
        """Describe an installation whose database has all tables. A prefix starts the names of the databases."""
        self._addresses = addresses
        self._prefix = prefix
        self._databases: list[str] = []
        self.storage = storage
        self.providers = providers
        self.database_url = self.create_migrated_database("main")
        self.environment = {
            "ENVIRONMENT": "embedded",
            "DATABASE_URL": self.database_url,
            "REDIS_URL": addresses.redis(0),
            "S3_ENDPOINT_URL": storage.url,
            "S3_ACCESS_KEY_ID": storage.access_key_id,
            "S3_SECRET_ACCESS_KEY": storage.secret_access_key,
            "GATEWAY_URL": providers.gateway_url,
            "ASSISTANT_URL": providers.ai_url,
            "GATEWAY_SECRET_KEY": GATEWAY_KEY,
            "SMS_URL": providers.sms_url,
            "SMS_API_KEY": _KEY,
            "IDENTITY_ISSUER": providers.identity_issuer,
            "IDENTITY_JWKS_URL": f"{providers.identity_issuer}/.well-known/jwks.json",
            "DELIVERY_PIN_KEY": _KEY,
            "CURSOR_KEY": _KEY,
            "FUNCTIONS_KEY": _KEY,
            **KEY_VARIABLES,
        }

    def run(self, *arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
        """Run ``marketplace`` with arguments. ``changes`` sets variables; an empty value drops a variable."""
        return marketplace(*arguments, environment={**self.environment, **changes})

    def ok(self, *arguments: str, **changes: str) -> str:
        """Run ``marketplace``, expect success and only warnings on standard error, and return the output."""
        done = self.run(*arguments, **changes)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout

    def create_database(self, name: str) -> str:
        """Create a database without tables and return the address."""
        self._databases.append(f"{self._prefix}_{name}")
        return create_database(self._addresses, self._databases[-1], template="template1")

    def create_migrated_database(self, name: str) -> str:
        """Create a database with all tables and return the address."""
        self._databases.append(f"{self._prefix}_{name}")
        return create_database(self._addresses, self._databases[-1])

    def copy_database(self, name: str) -> str:
        """Copy the main database, which nobody may use meanwhile, and return the address."""
        self._databases.append(f"{self._prefix}_{name}")
        return create_database(self._addresses, self._databases[-1], template=f"{self._prefix}_main")

    def drop_databases(self) -> None:
        """Remove all databases that were created."""
        for name in self._databases:
            drop_database(self._addresses, name)


def marketplace(*arguments: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run ``marketplace`` in a separate process with only the given environment."""
    given = {**kept_environment(), "DATA_DIR": "/nonexistent", **environment}
    if "PYTHONHASHSEED" in environment:
        # Copies of the fork server share a hash seed, so another seed needs a new process.
        return subprocess.run(
            [sys.executable, "-W", "error", "-m", "commands.main", *arguments],
            cwd=PROJECT,
            env=given,
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
            check=False,
        )
    start = Start("commands.main", list(arguments), given, strict=True)
    return run_to_end(start, timeout_seconds=_COMMAND_SECONDS)


def query(url: str, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
    """Run SQL in autocommit and return the rows, if any."""
    connection = psycopg2.connect(url, connect_timeout=5)
    connection.autocommit = True
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql, parameters or None)
            return cursor.fetchall() if cursor.description else []
    finally:
        connection.close()


@contextmanager
def start_installation(directory: Path, addresses: Addresses) -> Iterator[Installation]:
    """Start object storage and the sandbox providers, beside the servers that all tests share."""
    ports = free_ports("storage", *OBJECT_STORAGE_PORTS, paired=OBJECT_STORAGE_PAIRED_PORTS)
    storage = EmbeddedObjectStorage(
        directory / "objects", ports, access_key_id="key", secret_access_key=_PASSWORD
    )
    providers = ProvidersServer(
        "127.0.0.1",
        0,
        directory / "providers",
        secret_key=GATEWAY_KEY,
        # No process listens at the webhook address.
        webhook_url="http://127.0.0.1:1/hook",
        public_base_url="http://127.0.0.1:1",
    )
    with ExitStack() as stack:
        stack.enter_context(providers)
        # The data is of no use, and an orderly stop takes ten seconds.
        stack.callback(storage.stop, timeout_seconds=0)
        storage.start()
        installation = Installation(addresses, f"installation_{uuid4().hex[:8]}", storage, providers)
        stack.callback(installation.drop_databases)
        yield installation
