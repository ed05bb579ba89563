"""Fixtures for all tests: real servers, a database for each worker process, tokens, and the application."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from uuid import UUID

import jwt
import pytest
import structlog
from flask import Flask
from flask.testing import FlaskClient
from hypothesis import HealthCheck, core as hypothesis_core, settings as hypothesis_settings
from hypothesis.internal.conjecture import providers as hypothesis_providers
from sqlalchemy import text
from sqlalchemy.orm import Session

from blueprints.areas import AREAS
from marketplace.infra.db import Database
from marketplace.infra.encryption import make_keyring, use_keyring
from marketplace.infra.settings import Settings, load_settings
from marketplace.services import Services
from tests.contract import specification
from tests.support.checked_client import checked_app
from tests.support.depth import DEEP
from tests.support.empty_database import EmptiedDatabase
from tests.support.encryption_keys import BLIND_INDEX_KEY, DATA_ENCRYPTION_KEYS, KEY_VARIABLES
from tests.support.function_calls import FUNCTIONS_KEY, SIGNING_SECRET
from tests.support.gateway import gateway_server
from tests.support.rewritten_modules import rewriting
from tests.support.servers import Addresses, Servers, create_database, drop_database

# All tests of a process share one gateway: a second gateway would repeat the charge numbers.
__all__ = ["gateway_server"]

SHARED_SECRET = "of-the-tests-only-0123456789abcdef"
ISSUER = "http://identity.test"
AUDIENCE = "campus-marketplace"

_LONGEST_FIRST = ("simulation", "browser", "property")
# Functional tests mostly wait for processes, so computing modules run between two functional modules.
_MODULES_BETWEEN = 10
# Modules that take minutes. A module runs in a single process, so a late start would prolong the whole run.
_LONGEST_MODULES = ("test_stack", "test_inbox_failures", "test_workers")

_ALWAYS: dict[str, Any] = {
    "deadline": None,
    "database": None,
    "suppress_health_check": [HealthCheck.too_slow],
    "print_blob": True,
}
# Each run uses the same examples, so that only a change can cause a new failure.
hypothesis_settings.register_profile("quick", derandomize=True, max_examples=40, **_ALWAYS)
# Each run draws other examples from the seed of the test order.
hypothesis_settings.register_profile("deep", max_examples=200, **_ALWAYS)
hypothesis_settings.load_profile("deep" if DEEP else "quick")
if not DEEP:
    # Hypothesis draws constants from all loaded modules: examples of a module would depend on other modules.
    assert hypothesis_providers._get_local_constants
    hypothesis_providers._get_local_constants = lambda: hypothesis_providers._local_constants


def pytest_configure(config: pytest.Config) -> None:
    """Start the servers once, in the main process."""
    # Variables of a developer's shell must not affect tests.
    for name in ("DATABASE_URL", "REDIS_URL", "GATEWAY_URL", "DATA_DIR", "PORT"):
        os.environ.pop(name, None)
    if not hasattr(config, "workerinput"):
        config.stash[_SERVERS] = Servers()
        # A single process rewrites only the imported modules.
        distributed = bool(config.getoption("numprocesses", None)) and not sys.dont_write_bytecode
        with rewriting(config, Path(__file__).parent) if distributed else nullcontext():
            config.stash[_ADDRESSES] = config.stash[_SERVERS].start()
    else:
        config.stash[_ADDRESSES] = Addresses.load(config.workerinput["addresses"])


# Logs omit colours and local variables: rendering the variables takes a third of a second per error.
structlog.configure(
    processors=[
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ],
    cache_logger_on_first_use=False,
)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Draw the random examples of a deep run from the seed that pytest-randomly prints."""
    if DEEP:
        hypothesis_core.global_force_seed = session.config.getoption("randomly_seed", None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mix modules that wait with modules that compute, and keep the order of pytest-randomly within a folder.

    Long modules run first, so that no process waits long for another at the end. Modules that try more cases
    in a deep run get the mark ``deep``. Quick runs omit tests marked ``deep(only=True)``.
    """
    tests = Path(__file__).parent
    for item in items:
        if {"case_count", "sample"} & vars(getattr(item, "module", None)).keys():
            item.add_marker("deep")

    def rank(module: Path) -> int:
        folder = module.relative_to(tests).parts[0]
        return _LONGEST_FIRST.index(folder) if folder in _LONGEST_FIRST else len(_LONGEST_FIRST)

    modules = list(dict.fromkeys(item.path for item in items))
    waiting = [module for module in modules if module.is_relative_to(tests / "functional")]
    waiting.sort(key=lambda module: module.stem not in _LONGEST_MODULES)
    computing = sorted((module for module in modules if module not in waiting), key=rank)
    places = {module: index * (_MODULES_BETWEEN + 1) for index, module in enumerate(waiting)}
    places |= {module: index + index // _MODULES_BETWEEN + 1 for index, module in enumerate(computing)}
    items.sort(key=lambda item: places[item.path])
    if not DEEP:
        skipped = [
            item for item in items if any(mark.kwargs.get("only") for mark in item.iter_markers("deep"))
        ]
        items[:] = [item for item in items if item not in skipped]
        config.hook.pytest_deselected(items=skipped)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the servers that this process started."""
    if _SERVERS in config.stash:
        config.stash[_SERVERS].stop()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the implemented share of the specification before pytest's closing line."""
    terminalreporter.write_line(specification.summary())


class _Distribution:
    """Send the addresses of the servers to each worker process of pytest-xdist."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["addresses"] = node.config.stash[_ADDRESSES].dump()


def pytest_plugin_registered(plugin: object, manager: pytest.PytestPluginManager) -> None:
    """Add the hook once the plugin manager is there."""
    if not manager.has_plugin("distribution"):
        manager.register(_Distribution(), "distribution")


_SERVERS = pytest.StashKey[Servers]()
_ADDRESSES = pytest.StashKey[Addresses]()


@pytest.fixture(scope="session")
def addresses(pytestconfig: pytest.Config) -> Addresses:
    """The addresses of the servers."""
    return pytestconfig.stash[_ADDRESSES]


@pytest.fixture(scope="session")
def worker_number(request: pytest.FixtureRequest) -> int:
    """The number of this worker process, from 1."""
    name = getattr(request.config, "workerinput", {}).get("workerid", "gw0")
    return int(name.removeprefix("gw")) + 1


@pytest.fixture(scope="session")
def database_url(addresses: Addresses, worker_number: int) -> Iterator[str]:
    """The database of this worker process. Tests share the database, so each test creates separate rows."""
    name = f"worker_{worker_number}"
    yield create_database(addresses, name)
    drop_database(addresses, name)


@pytest.fixture(scope="session")
def environment(database_url: str, addresses: Addresses, worker_number: int) -> dict[str, str]:
    """The environment variables of the application under test."""
    return {
        "ENVIRONMENT": "test",
        "PUBLIC_BASE_URL": "http://127.0.0.1:8000",
        "DATABASE_URL": database_url,
        "DATABASE_POOL_SIZE": "10",
        "REDIS_URL": addresses.redis(worker_number % 16),
        "GATEWAY_URL": "http://127.0.0.1:9/gateway",
        "GATEWAY_SECRET_KEY": "sk_test_of_the_tests_only",
        "SMS_URL": "http://127.0.0.1:9/sms",
        "SMS_API_KEY": "of-the-tests-only-sms",
        "IDENTITY_ISSUER": ISSUER,
        "IDENTITY_AUDIENCE": AUDIENCE,
        "IDENTITY_ALGORITHMS": "HS256",
        "IDENTITY_SHARED_SECRET": SHARED_SECRET,
        "DELIVERY_PIN_KEY": "of-these-tests-only-0123456789abcdef",
        "CURSOR_KEY": "of-the-tests-only-0123456789abcdef",
        "FUNCTIONS_KEY": FUNCTIONS_KEY,
        "FUNCTIONS_SIGNING_SECRETS": SIGNING_SECRET,
        **KEY_VARIABLES,
        "RATE_LIMIT_SCALE": "100000",
        "LOG_LEVEL": "ERROR",
    }


@pytest.fixture(scope="session")
def settings(environment: dict[str, str]) -> Settings:
    """The settings of the application under test."""
    return load_settings(environment)


@pytest.fixture(scope="session", autouse=True)
def keyring() -> None:
    """Let this process read and write encrypted columns, also through databases that a test opens."""
    use_keyring(make_keyring(DATA_ENCRYPTION_KEYS, BLIND_INDEX_KEY))


@pytest.fixture(scope="session")
def services(settings: Settings) -> Iterator[Services]:
    """The shared services of the application under test."""
    made = Services.from_settings(settings, application_name="tests")
    yield made
    made.database.close()


@pytest.fixture(scope="session")
def empty_database(database_url: str) -> Iterator[Callable[[], None]]:
    """A function that deletes all rows of this worker's database except rows of migrations."""
    database = Database(database_url, pool_size=1, application_name="tests")
    yield EmptiedDatabase(database).empty
    database.close()


@pytest.fixture(scope="session")
def modules_with_database(request: pytest.FixtureRequest) -> set[Path]:
    """The modules with a test that uses this worker process's database."""
    return {
        item.path
        for item in request.session.items
        if isinstance(item, pytest.Function) and "database_url" in item.fixturenames
    }


@pytest.fixture(scope="module", autouse=True)
def _begin_without_rows(request: pytest.FixtureRequest, modules_with_database: set[Path]) -> None:
    """Delete the rows that other modules committed before each module."""
    if request.path in modules_with_database:
        request.getfixturevalue("empty_database")()


@pytest.fixture
def database(services: Services) -> Database:
    """The database, with real commits."""
    return services.database


@pytest.fixture
def session(database: Database) -> Iterator[Session]:
    """A session in a transaction that is rolled back after a check of the deferred constraints."""
    with database.engine.connect() as connection:
        outer = connection.begin()
        with Session(connection, join_transaction_mode="create_savepoint", expire_on_commit=False) as one:
            yield one
            if outer.is_active:
                one.flush()
                one.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))
        outer.rollback()


@pytest.fixture(scope="session")
def committed_database(addresses: Addresses, worker_number: int) -> Iterator[Database]:
    """A separate database for tests that commit from many threads at once."""
    name = f"committed_{worker_number}"
    database = Database(create_database(addresses, name), pool_size=25, application_name="tests")
    yield database
    database.close()
    drop_database(addresses, name)


@pytest.fixture(scope="module")
def own_database(addresses: Addresses, worker_number: int) -> Iterator[Database]:
    """A separate database for one module, for query plans and ledger sums that depend on all rows."""
    name = f"own_{worker_number}"
    database = Database(create_database(addresses, name), pool_size=5, application_name="tests")
    yield database
    database.close()
    drop_database(addresses, name)


@pytest.fixture(scope="session")
def _reconciled_database(addresses: Addresses, worker_number: int) -> Iterator[tuple[str, EmptiedDatabase]]:
    name = f"reconciled_{worker_number}"
    url = create_database(addresses, name)
    database = Database(url, pool_size=1, application_name="tests")
    yield url, EmptiedDatabase(database)
    database.close()
    drop_database(addresses, name)


@pytest.fixture
def reconciled_database_url(_reconciled_database: tuple[str, EmptiedDatabase]) -> str:
    """The address of a database without rows of other tests, for tests that compare all rows."""
    url, database = _reconciled_database
    database.disconnect_others()
    database.empty()
    return url


@pytest.fixture(scope="session")
def app(services: Services) -> Flask:
    """The application with all areas. Clients check each response against the route's contract."""
    return checked_app(services, AREAS)


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    """A client of the application."""
    return app.test_client()


@pytest.fixture(scope="session")
def bearer() -> Callable[..., dict[str, str]]:
    """A function that builds the authorization header of a user."""

    def make(user_id: UUID, aal: str = "aal1", **claims: Any) -> dict[str, str]:
        given = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": str(user_id),
            "exp": time.time() + 600,
            "aal": aal,
        } | claims
        token = jwt.encode(given, SHARED_SECRET, algorithm="HS256")
        return {"Authorization": f"Bearer {token}"}

    return make
