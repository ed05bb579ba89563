"""The database: its pool, transactions and autocommit, retries, statements compiled or prepared once."""

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Any, ClassVar, Concatenate, Generic, ParamSpec
from uuid import UUID

import orjson
import psycopg2
import psycopg2.extras
import structlog
from psycopg2.extensions import adapt
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
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import DBAPIError, TimeoutError as PoolTimeoutError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.sql.elements import ClauseElement
from typing_extensions import TypeVar

from marketplace.infra.encryption import EncryptedText
from marketplace.infra.sessions import (
    DROP_STALE_CONTENT_KEY,
    NO_PREPARED_STATEMENTS_KEY,
    PooledSession,
    driver_connection,
    driver_cursor,
)
from marketplace.infra.settings import SettingsError
from marketplace.kernel.errors import ConcurrentChangeError, ServiceUnavailableError

MAX_TRANSACTION_ATTEMPTS = 3
_RETRYABLE_SQLSTATES = frozenset({"40001", "40P01"})  # serialization failure, deadlock detected
# A lock or an answer was waited for longer than a request may wait.
_OVERLOADED_SQLSTATES = frozenset({"55P03", "57014"})

# What every session runs with. Behind a pooler the role must have them, since a pooler passes no start-up options on.
SESSION_SETTINGS = {
    "TimeZone": "UTC",
    "statement_timeout": "30s",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "1min",
}

_PREPARED_NAMES_KEY = "prepared_statements"  # in a driver connection's info: the names that it knows

_log = structlog.get_logger(__name__)
Row = dict[str, Any]
_RowT = TypeVar("_RowT", default=Row)
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class Base(DeclarativeBase):
    """The base of all models; constraints get predictable names, so that migrations can name them."""

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
    """The base of models whose key is an id that the database gives."""

    __abstract__ = True

    id: Mapped[Id]


class Timestamped:
    """The columns of a table whose rows tell when they were created and last changed."""

    created_at: Mapped[CreatedAt]
    updated_at: Mapped[CreatedAt]


class Database:
    """The one way to the database.

    A transaction is opened and committed by ``transaction()`` alone; ``reading()`` serves single statements
    in autocommit, which spares hot reads the BEGIN and ROLLBACK.
    """

    def __init__(
        self,
        url: str,
        *,
        pool_size: int,
        application_name: str,
        prepared_statements: bool = True,
        drop_stale_content: Callable[[Sequence[str]], None] | None = None,
    ) -> None:
        """Make the pool; nothing is connected to until it is used.

        :param url: ``postgresql://…``
        :param pool_size: connections that the pool keeps; under load it opens as many again
        :param application_name: names the process in the database's own views
        :param prepared_statements: false behind a pooler in transaction mode: nothing is kept on a connection
        :param drop_stale_content: takes the tags of content that a committed transaction made stale; it
            must not raise
        """
        self._reading_info = {NO_PREPARED_STATEMENTS_KEY: not prepared_statements}
        self._session_info = {**self._reading_info, DROP_STALE_CONTENT_KEY: drop_stale_content}
        options = " ".join(f"-c {name}={value}" for name, value in SESSION_SETTINGS.items())
        self.engine = create_engine(
            url.replace("postgresql://", "postgresql+psycopg2://", 1),
            pool_size=pool_size,
            max_overflow=pool_size,
            pool_timeout=5,
            pool_recycle=1800,
            connect_args={"connect_timeout": 4, "application_name": application_name}
            | ({"options": options} if prepared_statements else {}),
            json_serializer=lambda value: orjson.dumps(value).decode(),
            json_deserializer=orjson.loads,
            use_native_hstore=False,
            # An error's text must not carry what was to be written.
            hide_parameters=True,
        )
        if not prepared_statements:
            event.listen(self.engine, "connect", _ensure_session_settings)

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """Open a transaction, commit it at the end and roll it back on any error.

        :raises ServiceUnavailableError: the database can't be reached
        """
        with (
            self._translating_unavailability(),
            PooledSession(self.engine, info=self._session_info) as session,
        ):
            yield session
            session.commit()

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Give a session in autocommit: each statement stands, and commits, alone.

        :raises ServiceUnavailableError: the database can't be reached
        """
        with (
            self._translating_unavailability(),
            PooledSession(self.engine, autocommit=True, info=self._reading_info) as session,
        ):
            yield session

    def in_transaction(
        self,
        work: Callable[Concatenate[Session, _Arguments], _Result],
        *args: _Arguments.args,
        **kwargs: _Arguments.kwargs,
    ) -> _Result:
        """Run work in a transaction, again (three tries) when the server asks for that.

        :param work: takes the session first; it must be fit to run more than once
        :return: what work returns
        :raises ConcurrentChangeError: every try met a serialization failure or a deadlock
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
            if isinstance(error, PoolTimeoutError) or sqlstate(error) in _OVERLOADED_SQLSTATES:
                raise ServiceUnavailableError("The database is too busy.", retry_after_seconds=5) from error
            if not is_unavailable(error):
                raise
            # What the pool keeps is as dead as the connection that failed: the next caller gets a new one.
            self.close()
            raise ServiceUnavailableError("The database can't be reached.", retry_after_seconds=5) from error

    def close(self) -> None:
        """Close all idle connections: the process has no more use for the database."""
        self.engine.dispose()

    def dispose(self) -> None:
        """Forget the connections of the process that this one was forked from."""
        self.engine.dispose(close=False)


def _ensure_session_settings(connection: Any, _record: Any) -> None:
    """Refuse a pooler's connection whose role lacks the session settings.

    :raises SettingsError: the message names each setting
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
        raise SettingsError(
            f"The database role must have {', '.join(missing)} (docs/operations.md, Connections)."
        )


def run_with_retries(attempt: Callable[[], _Result]) -> _Result:
    """Run an attempt up to three times while the server answers 40001 or 40P01.

    :param attempt: opens a transaction of its own each time
    :return: what the attempt returns
    :raises ConcurrentChangeError: the last try failed likewise
    """
    for number in range(1, MAX_TRANSACTION_ATTEMPTS + 1):
        try:
            return attempt()
        except (DBAPIError, psycopg2.Error) as error:
            if sqlstate(error) not in _RETRYABLE_SQLSTATES:
                raise
            _log.warning("transaction retried", sqlstate=sqlstate(error), attempt=number)
    raise ConcurrentChangeError("Others changed the same rows at the same time. Try again.")


def _driver_error(error: BaseException) -> BaseException | None:
    return error.orig if isinstance(error, DBAPIError) else error


def sqlstate(error: BaseException) -> str | None:
    """Give the SQLSTATE of a database error, or none where the server sent none."""
    return getattr(_driver_error(error), "pgcode", None)


def violated_constraint(error: BaseException) -> str | None:
    """Name the constraint that a database error says was violated, if any."""
    diagnostics = getattr(_driver_error(error), "diag", None)
    return getattr(diagnostics, "constraint_name", None)


def is_unavailable(error: BaseException) -> bool:
    """Tell whether a database error means that the server can't be reached."""
    state = sqlstate(error)
    is_operational = isinstance(_driver_error(error), psycopg2.OperationalError | psycopg2.InterfaceError)
    # Connection exceptions, shutdowns and start-up: the server is away, not the statement wrong.
    return is_operational and (state is None or state.startswith(("08", "57P", "53")))


def is_transient(error: BaseException) -> bool:
    """Tell whether a database error is nobody's fault, so that the same may succeed in a moment."""
    return sqlstate(error) in _RETRYABLE_SQLSTATES | _OVERLOADED_SQLSTATES or is_unavailable(error)


class Statement(Generic[_RowT]):
    """A statement that is compiled once, at import, and runs on the driver's own cursor.

    Building and compiling a statement costs more than PostgreSQL takes to answer it; hot paths pay it once.
    Values go to the driver as they are: UUIDs, datetimes, lists (as arrays) and ``Json`` are adapted by it.

    A row is an instance of ``row``, a dataclass without slots whose fields are the statement's columns in their
    order. Without ``row`` it is a dict by column label, for use within one module.
    """

    def __init__(
        self,
        clause: ClauseElement,
        *,
        row: type[_RowT] | None = None,
        columns: Sequence[str] | None = None,
        encrypted: Mapping[str, EncryptedText] | None = None,
    ) -> None:
        """Compile a statement.

        :param clause: SQL text or a Core statement; a ``bindparam`` without a value is given at each execution
        :param row: the dataclass of its rows
        :param columns: of an INSERT: the columns that each execution gives
        :param encrypted: types of encrypted columns, by the row's labels and by parameters' names; both are plain here
        """
        self.encrypted = dict(encrypted or {})
        compiled = clause.compile(
            dialect=_DIALECT, column_keys=columns, compile_kwargs={"render_postcompile": True}
        )
        self.sql = str(compiled)
        self.row = row
        self._build_row: Callable[[tuple[Any, ...]], _RowT] | None = None
        binds = compiled.binds  # type: ignore[attr-defined]
        self._constants: dict[str, Any] = {
            name: value for name, value in compiled.params.items() if not binds[name].required
        }
        self._given_names = [name for name in compiled.params if binds[name].required]

    def _execute(self, session: Session, parameters: Mapping[str, Any]) -> Any:
        cursor = driver_cursor(session)
        if self.encrypted:
            parameters = {
                name: self.encrypted[name].encrypt(value) if name in self.encrypted else value
                for name, value in parameters.items()
            }
        cursor.execute(self.sql, {**self._constants, **parameters} if self._constants else parameters)
        return cursor

    def _row_builder(self, cursor: Any) -> Callable[[tuple[Any, ...]], _RowT]:
        """Read the columns' labels off the first answer: a statement's are always the same."""
        if self._build_row is None:
            build = _row_builder(self.row, [column.name for column in cursor.description])
            types = self._encrypted_positions(cursor)
            self._build_row = _decrypting_builder(build, types) if types else build
        return self._build_row

    def _encrypted_positions(self, cursor: Any) -> dict[int, EncryptedText]:
        """Give the types of the answer's encrypted columns by their positions."""
        labels = [column.name for column in cursor.description]
        return {
            position: self.encrypted[name] for position, name in enumerate(labels) if name in self.encrypted
        }

    def all(self, session: Session, /, **parameters: Any) -> list[_RowT]:
        """Run the statement and give all rows."""
        with self._execute(session, parameters) as cursor:
            build = self._row_builder(cursor)
            return [build(values) for values in cursor.fetchall()]

    def tuples(self, session: Session, /, **parameters: Any) -> list[tuple[Any, ...]]:
        """Run the statement and give all rows as they come, in the columns' order."""
        with self._execute(session, parameters) as cursor:
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            if self.encrypted:
                decrypt = _decrypting_builder(tuple, self._encrypted_positions(cursor))
                return [decrypt(values) for values in rows]
            return rows

    def first(self, session: Session, /, **parameters: Any) -> _RowT | None:
        """Run the statement and give its first row, or none."""
        with self._execute(session, parameters) as cursor:
            values = cursor.fetchone()
            return None if values is None else self._row_builder(cursor)(values)

    def one(self, session: Session, /, **parameters: Any) -> _RowT:
        """Run the statement and give its one row.

        :raises LookupError: there was no row
        """
        row = self.first(session, **parameters)
        if row is None:
            raise LookupError("the statement gave no row")
        return row

    def scalar(self, session: Session, /, **parameters: Any) -> Any:
        """Run the statement and give the first column of its first row, or none."""
        if self.encrypted:
            return next(iter(self.scalars(session, **parameters)), None)
        with self._execute(session, parameters) as cursor:
            values = cursor.fetchone()
            return None if values is None else values[0]

    def scalars(self, session: Session, /, **parameters: Any) -> list[Any]:
        """Run the statement and give the first column of all rows."""
        return [values[0] for values in self.tuples(session, **parameters)]

    def run(self, session: Session, /, **parameters: Any) -> int:
        """Run the statement and give the number of rows that it touched."""
        with self._execute(session, parameters) as cursor:
            return int(cursor.rowcount)


def _row_builder(row: Any, labels: list[str]) -> Callable[[tuple[Any, ...]], Any]:
    if row is None:
        return lambda values: dict(zip(labels, values, strict=True))
    names = [field.name for field in dataclasses.fields(row)]
    if names != labels:
        raise TypeError(f"{row.__name__} has the fields {names}, its statement gives {labels}")

    def build(values: tuple[Any, ...]) -> Any:
        # As fast as a dict. A frozen dataclass sets its fields one by one, which takes twice as long.
        instance = object.__new__(row)
        vars(instance).update(zip(names, values, strict=True))
        return instance

    return build


def _decrypting_builder(
    build: Callable[[tuple[Any, ...]], _RowT], types: Mapping[int, EncryptedText]
) -> Callable[[tuple[Any, ...]], _RowT]:
    def build_decrypted(values: tuple[Any, ...]) -> _RowT:
        plain = list(values)
        for position, type_ in types.items():
            if plain[position] is not None:
                plain[position] = type_.decrypt(plain[position])
        return build(tuple(plain))

    return build_decrypted


_DIALECT = postgresql.psycopg2.dialect(paramstyle="pyformat")  # type: ignore[no-untyped-call]
Json = functools.partial(psycopg2.extras.Json, dumps=lambda value: orjson.dumps(value).decode())


class Prepared(Statement[_RowT]):
    """A statement under a name on the server: parsed once for each connection, planned a few times.

    The server's plan does not know the values that it will be given: this is for statements whose best plan
    is the same for all of them. Values that never change, a LIMIT above all, belong into the clause itself:
    they are written into the text, where the planner sees them.

    Behind a pooler in transaction mode it is a plain ``Statement``: DATABASE_PREPARED_STATEMENTS=off.
    """

    def __init__(
        self, clause: ClauseElement, *, row: type[_RowT] | None = None, columns: Sequence[str] | None = None
    ) -> None:
        """Compile a statement, as ``Statement`` does."""
        super().__init__(clause, row=row, columns=columns)
        literals = {name: adapt(value).getquoted().decode() for name, value in self._constants.items()}
        placeholders = {name: f"${number}" for number, name in enumerate(self._given_names, start=1)}
        body = self.sql % (literals | placeholders)
        # Of what it says, so that a name means the same on every connection of every process.
        self._name = f"s_{hashlib.blake2b(body.encode(), digest_size=12).hexdigest()}"
        self._prepare = f"PREPARE {self._name} AS {body}".replace("%", "%%")
        arguments = ", ".join(f"%({name})s" for name in self._given_names)
        self._call = f"EXECUTE {self._name} ({arguments})" if arguments else f"EXECUTE {self._name}"

    def _execute(self, session: Session, parameters: Mapping[str, Any]) -> Any:
        if session.info.get(NO_PREPARED_STATEMENTS_KEY):
            return super()._execute(session, parameters)
        connection = driver_connection(session)
        cursor = connection.cursor()
        prepared_names: set[str] = connection.info.setdefault(_PREPARED_NAMES_KEY, set())
        if self._name not in prepared_names:
            cursor.execute(self._prepare, ())
            prepared_names.add(self._name)
        cursor.execute(self._call, parameters)
        return cursor
