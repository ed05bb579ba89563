"""Database access: models, connection pool, transactions, autocommit, retries and kinds of errors."""

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Any, ClassVar, Concatenate, ParamSpec, TypeVar
from uuid import UUID

import orjson
import psycopg2
import structlog
from sqlalchemy import (
    ARRAY,
    TIMESTAMP,
    BigInteger,
    MetaData,
    Text,
    Uuid,
    create_engine,
    event,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import DBAPIError, TimeoutError as PoolTimeoutError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.pool import QueuePool

from marketplace.infra import texts
from marketplace.infra.sessions import (
    DROP_STALE_CONTENT_KEY,
    NO_PREPARED_STATEMENTS_KEY,
    PUBLISH_EVENTS_KEY,
    PooledSession,
    driver_cursor,
)
from marketplace.infra.settings import SettingsError
from marketplace.infra.tracing.statements import trace_statements
from marketplace.infra.waits.limits import LOCK_TIMEOUT_SECONDS, STATEMENT_TIMEOUT_SECONDS, WaitLimits
from marketplace.infra.waits.watch import RETRY_AFTER_SECONDS, WaitExpiredError, Watch, WatchedConnection
from marketplace.kernel.errors import ConcurrentChangeError, ServiceUnavailableError
from marketplace.kernel.signals import RECORDER

MAX_TRANSACTION_ATTEMPTS = 3
_DEADLOCK = "40P01"
_RETRYABLE_SQLSTATES = frozenset({"40001", "40P01"})  # serialization failure, deadlock detected
_OVERLOADED_SQLSTATES = frozenset({"55P03", "57014"})  # lock time-out, statement time-out

# Settings of every session. A pooler does not forward start-up options, so behind a pooler the role must have these
# settings.
SESSION_SETTINGS = {
    "TimeZone": "UTC",
    "statement_timeout": f"{STATEMENT_TIMEOUT_SECONDS}s",
    "lock_timeout": f"{LOCK_TIMEOUT_SECONDS}s",
    "idle_in_transaction_session_timeout": "1min",
    # The server cancels the statement of a client that has stopped waiting and closed the connection.
    "client_connection_check_interval": "1s",
}
# A prepared plan stays until the next ANALYZE. A sequential scan, right for a small table, would stay while the table
# grows.
_PLANNER_SETTINGS = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off"}
# A dead host is noticed within a minute, while libpq would wait for hours. The kernel of a host with a frozen server
# still confirms that it lives.
_KEEPALIVE = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,  # in milliseconds
}

_RAISED_TIMEOUT_MARGIN_SECONDS = 5.0

_log = structlog.get_logger(__name__)
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class Base(DeclarativeBase):
    """The base of all models. Constraints get predictable names for use in migrations."""

    type_annotation_map: ClassVar[dict[Any, Any]] = {
        str: Text,
        int: BigInteger,
        datetime: TIMESTAMP(timezone=True),
        dict[str, Any]: JSONB(none_as_null=True),
        list[str]: ARRAY(Text),
        list[UUID]: ARRAY(Uuid),
    }

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


Id = Annotated[UUID, mapped_column(primary_key=True, server_default=text("uuidv7()"))]
CreatedAt = Annotated[datetime, mapped_column(server_default=text("now()"))]


class Entity(Base):
    """The base of models with a database-generated id as primary key."""

    __abstract__ = True

    id: Mapped[Id]


class Timestamped:
    """The columns with the times of a row's creation and last change."""

    created_at: Mapped[CreatedAt]
    updated_at: Mapped[CreatedAt]


class Database:
    """The connection pool and the only way to open sessions.

    Only ``transaction()`` opens and commits transactions. ``reading()`` runs single statements in autocommit, which
    saves BEGIN and ROLLBACK on hot reads.
    """

    def __init__(
        self,
        url: str,
        *,
        pool_size: int,
        application_name: str,
        prepared_statements: bool = True,
        drop_stale_content: Callable[[Sequence[str]], None] | None = None,
        publish_events: Callable[[Sequence[bytes]], None] | None = None,
        wait_limits: WaitLimits | None = None,
    ) -> None:
        """Create the pool without connecting.

        :param url: ``postgresql://…``
        :param pool_size: the number of kept connections; the same number can open in addition under load
        :param application_name: the name of the process in the database's system views
        :param prepared_statements: false behind a pooler in transaction mode, where connections keep no state
        :param drop_stale_content: receives the cache tags of a committed transaction; must not raise
        :param publish_events: receives the encoded live events of a committed transaction; must not raise
        :param wait_limits: limits on waits for the server, which forbid COPY in this process; None for no limits
        """
        self._max_connections = 2 * pool_size
        self._reading_info = {NO_PREPARED_STATEMENTS_KEY: not prepared_statements}
        self._session_info = {
            **self._reading_info,
            DROP_STALE_CONTENT_KEY: drop_stale_content,
            PUBLISH_EVENTS_KEY: publish_events,
        }
        settings = SESSION_SETTINGS | _PLANNER_SETTINGS
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
        self._watch = None
        if wait_limits is not None:
            self._watch = Watch(
                wait_limits, connect=functools.partial(_start_connecting, url, f"{application_name} probe")
            )
        self.engine = create_engine(
            url.replace("postgresql://", "postgresql+psycopg2://", 1),
            pool_size=pool_size,
            max_overflow=pool_size,
            pool_timeout=5,
            pool_recycle=1800,
            connect_args={"connect_timeout": 4, "application_name": application_name, **_KEEPALIVE}
            | ({"options": options} if prepared_statements else {})
            | ({"connection_factory": self._watch.connection_class} if self._watch else {}),
            json_serializer=lambda value: orjson.dumps(value).decode(),
            json_deserializer=orjson.loads,
            use_native_hstore=False,
            # Error messages must not contain values, which can be personal data.
            hide_parameters=True,
        )
        if not prepared_statements:
            event.listen(self.engine, "connect", _ensure_session_settings)
        trace_statements(self.engine)

    def sample_pool(self) -> None:
        """Record how many connections are in use, and how many may be in use at most."""
        pool = self.engine.pool
        if isinstance(pool, QueuePool):
            RECORDER.count("pool", "used", pool.checkedout())
            RECORDER.count("pool", "maximum", self._max_connections)

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """Open a transaction, commit the transaction at the end, and roll back on any error.

        :raises ServiceUnavailableError: the database is busy or unavailable
        """
        with (
            self._translating_unavailability(),
            PooledSession(self.engine, info=self._session_info, watch=self._watch) as session,
        ):
            yield session
            session.commit()

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Open a session in autocommit, in which each statement commits separately.

        :raises ServiceUnavailableError: the database is busy or unavailable
        """
        with (
            self._translating_unavailability(),
            PooledSession(
                self.engine, autocommit=True, info=self._reading_info, watch=self._watch
            ) as session,
        ):
            yield session

    def in_transaction(
        self,
        work: Callable[Concatenate[Session, _Arguments], _Result],
        *args: _Arguments.args,
        **kwargs: _Arguments.kwargs,
    ) -> _Result:
        """Run work in a transaction, with up to three attempts on serialization failures and deadlocks.

        :param work: receives the session as the first argument; must be safe to run more than once
        :return: the result of ``work``
        :raises ConcurrentChangeError: every attempt ended with a serialization failure or a deadlock
        """

        def attempt() -> _Result:
            with self.transaction() as session:
                return work(session, *args, **kwargs)

        return run_with_retries(attempt)

    @contextmanager
    def _translating_unavailability(self) -> Iterator[None]:
        try:
            yield
        except (PoolTimeoutError, DBAPIError, psycopg2.Error) as error:
            if isinstance(error, PoolTimeoutError):
                RECORDER.count("pool", "timeouts")
            if _is_overload(error):
                raise ServiceUnavailableError(
                    texts.DATABASE_BUSY, retry_after_seconds=RETRY_AFTER_SECONDS
                ) from error
            if not is_unavailable(error):
                raise
            # The other idle connections are broken too. Close the pool so that the next caller connects anew.
            self.close()
            raise ServiceUnavailableError(
                texts.DATABASE_UNAVAILABLE, retry_after_seconds=RETRY_AFTER_SECONDS
            ) from error

    def close(self) -> None:
        """Close all idle connections."""
        self.engine.dispose()

    def dispose(self) -> None:
        """Drop the parent process's connections after a fork, without closing the connections."""
        self.engine.dispose(close=False)


def _start_connecting(url: str, application_name: str) -> Any:
    """Start an asynchronous connection, which the caller polls."""
    return psycopg2.connect(url, application_name=application_name, async_=True)


def allow_long_statements(session: Session, *, seconds: int) -> None:
    """Let the statements of this transaction take longer than those of other sessions, and read whole tables.

    :param session: in a transaction
    """
    cursor = driver_cursor(session)
    cursor.execute(
        "SELECT set_config('statement_timeout', %s, true), set_config('enable_seqscan', 'on', true)",
        (f"{seconds}s",),
    )
    connection = cursor.connection
    if isinstance(connection, WatchedConnection):
        connection.wait_seconds = max(connection.wait_seconds, seconds + _RAISED_TIMEOUT_MARGIN_SECONDS)


def _ensure_session_settings(connection: Any, _record: Any) -> None:
    """Refuse a connection through a pooler if the role lacks the session settings.

    :raises SettingsError: the message names each missing setting
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT name, current_setting(name) FROM unnest(%s) AS name", (list(SESSION_SETTINGS),)
        )
        actual = dict(cursor.fetchall())
    connection.rollback()
    missing = [f"{name} = '{value}'" for name, value in SESSION_SETTINGS.items() if actual[name] != value]
    if missing:
        connection.close()
        raise SettingsError(texts.DATABASE_ROLE_INCOMPLETE.format(settings=", ".join(missing)))


def run_with_retries(attempt: Callable[[], _Result]) -> _Result:
    """Run an attempt up to three times on serialization failures (40001) and deadlocks (40P01).

    :param attempt: opens a new transaction on each call
    :return: the result of the attempt
    :raises ConcurrentChangeError: the last attempt failed with 40001 or 40P01
    """
    for number in range(1, MAX_TRANSACTION_ATTEMPTS + 1):
        try:
            return attempt()
        except (DBAPIError, psycopg2.Error) as error:
            if sqlstate(error) not in _RETRYABLE_SQLSTATES:
                raise
            if sqlstate(error) == _DEADLOCK:
                RECORDER.count("deadlock")
            _log.warning("transaction retried", sqlstate=sqlstate(error), attempt=number)
    raise ConcurrentChangeError(texts.CONCURRENT_CHANGE)


def _driver_error(error: BaseException) -> BaseException | None:
    return error.orig if isinstance(error, DBAPIError) else error


def _is_overload(error: BaseException) -> bool:
    """Return whether the server or the pool lives but took too long."""
    return (
        isinstance(error, PoolTimeoutError)
        or isinstance(_driver_error(error), WaitExpiredError)
        or sqlstate(error) in _OVERLOADED_SQLSTATES
    )


def sqlstate(error: BaseException) -> str | None:
    """Return the SQLSTATE of a database error, or none if the server sent no SQLSTATE."""
    return getattr(_driver_error(error), "pgcode", None)


def violated_constraint(error: BaseException) -> str | None:
    """Return the name of the violated constraint of a database error, if any."""
    diagnostics = getattr(_driver_error(error), "diag", None)
    return getattr(diagnostics, "constraint_name", None)


def is_unavailable(error: BaseException) -> bool:
    """Return whether a database error means that the server is unavailable."""
    state = sqlstate(error)
    is_operational = isinstance(_driver_error(error), psycopg2.OperationalError | psycopg2.InterfaceError)
    # Connection exceptions (08), shutdown and start-up (57P), insufficient resources (53).
    return is_operational and (state is None or state.startswith(("08", "57P", "53")))


def is_transient(error: BaseException) -> bool:
    """Return whether a database error is temporary, so that a retry can succeed."""
    return sqlstate(error) in _RETRYABLE_SQLSTATES | _OVERLOADED_SQLSTATES or is_unavailable(error)
