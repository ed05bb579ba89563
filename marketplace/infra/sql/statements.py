"""SQL statements that are compiled once, at import, and prepared statements."""

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic
from uuid import UUID

import orjson
import psycopg2.extras
from psycopg2.extensions import adapt
from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import Session
from sqlalchemy.sql.elements import ClauseElement
from typing_extensions import TypeVar

from marketplace.infra.encryption import EncryptedText
from marketplace.infra.sessions import NO_PREPARED_STATEMENTS_KEY, driver_connection, driver_cursor

_PREPARED_NAMES_KEY = "prepared_statements"  # in a driver connection's info: names of prepared statements

Row = dict[str, Any]
_RowT = TypeVar("_RowT", default=Row)


class Statement(Generic[_RowT]):
    """A statement that is compiled once at import and runs on the driver's cursor.

    Building and compiling a statement takes longer than PostgreSQL takes to run the statement. Values go to the
    driver unchanged. The driver adapts UUIDs, datetimes, lists (as arrays) and ``Json``.

    A row is an instance of ``row``, a dataclass without slots that has the statement's columns as fields, in the same
    order. Without ``row``, a row is a dict by column label, for use within one module.
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

        :param clause: SQL text or a Core statement; each execution supplies the bind parameters without a value
        :param row: the dataclass of a row
        :param columns: for an INSERT, the columns that each execution supplies
        :param encrypted: types of encrypted columns by column label and parameter name; callers see plain text
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
            parameters = self._encrypt(parameters)
        cursor.execute(self.sql, {**self._constants, **parameters} if self._constants else parameters)
        return cursor

    def _encrypt(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        return {
            name: self.encrypted[name].encrypt(value)
            if name in self.encrypted and value is not None
            else value
            for name, value in parameters.items()
        }

    def _row_builder(self, cursor: Any) -> Callable[[tuple[Any, ...]], _RowT]:
        """Return the function that builds a row. The first result determines the column labels."""
        if self._build_row is None:
            build = _row_builder(self.row, [column.name for column in cursor.description])
            types = self._encrypted_positions(cursor)
            self._build_row = _decrypting_builder(build, types) if types else build
        return self._build_row

    def _encrypted_positions(self, cursor: Any) -> dict[int, EncryptedText]:
        """Return the types of the result's encrypted columns by position."""
        labels = [column.name for column in cursor.description]
        return {
            position: self.encrypted[name] for position, name in enumerate(labels) if name in self.encrypted
        }

    def all(self, session: Session, /, **parameters: Any) -> list[_RowT]:
        """Run the statement and return all rows."""
        with self._execute(session, parameters) as cursor:
            build = self._row_builder(cursor)
            return [build(values) for values in cursor.fetchall()]

    def tuples(self, session: Session, /, **parameters: Any) -> list[tuple[Any, ...]]:
        """Run the statement and return all rows as tuples."""
        with self._execute(session, parameters) as cursor:
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            if self.encrypted:
                decrypt = _decrypting_builder(tuple, self._encrypted_positions(cursor))
                return [decrypt(values) for values in rows]
            return rows

    def first(self, session: Session, /, **parameters: Any) -> _RowT | None:
        """Run the statement and return the first row, or none."""
        with self._execute(session, parameters) as cursor:
            values = cursor.fetchone()
            return None if values is None else self._row_builder(cursor)(values)

    def one(self, session: Session, /, **parameters: Any) -> _RowT:
        """Run the statement and return the first row, which must exist.

        :raises LookupError: the result is empty
        """
        row = self.first(session, **parameters)
        if row is None:
            raise LookupError("the statement returned no row")
        return row

    def scalar(self, session: Session, /, **parameters: Any) -> Any:
        """Run the statement and return the first column of the first row, or none."""
        with self._execute(session, parameters) as cursor:
            values = cursor.fetchone()
            value = None if values is None else values[0]
            type_ = self._encrypted_positions(cursor).get(0) if self.encrypted else None
            return value if value is None or type_ is None else type_.decrypt(value)

    def scalars(self, session: Session, /, **parameters: Any) -> list[Any]:
        """Run the statement and return the first column of all rows."""
        return [values[0] for values in self.tuples(session, **parameters)]

    def run(self, session: Session, /, **parameters: Any) -> int:
        """Run the statement and return the number of affected rows."""
        with self._execute(session, parameters) as cursor:
            return int(cursor.rowcount)


def _row_builder(row: Any, labels: list[str]) -> Callable[[tuple[Any, ...]], Any]:
    if row is None:
        return lambda values: dict(zip(labels, values, strict=True))
    names = [field.name for field in dataclasses.fields(row)]
    if names != labels:
        raise TypeError(f"{row.__name__} has the fields {names}, but the statement returns {labels}")

    def build(values: tuple[Any, ...]) -> Any:
        # This is as fast as a dict. The constructor of a frozen dataclass takes twice as long.
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


def _argument(value: Any) -> Any:
    """Return an argument of EXECUTE as an untyped literal where possible.

    A prepared statement knows its types. The casts of the driver cost both sides as much as the values.
    """
    kind = type(value)
    if kind is UUID:
        return str(value)
    if kind is datetime:
        return value.isoformat()
    return value


class Prepared(Statement[_RowT]):
    """A prepared statement: the server parses the text once per connection and reuses the plan.

    The generic plan does not depend on the parameter values, so use this class only if the best plan is the same for
    all values. Write constant values such as a LIMIT into the clause, where the planner sees the values. Every session
    forces the generic plan: PostgreSQL expects ten elements of an array parameter, and would plan a statement for a
    single element again at each execution.

    With DATABASE_PREPARED_STATEMENTS=off, behind a pooler in transaction mode, this is a plain ``Statement``.
    """

    def __init__(
        self,
        clause: ClauseElement,
        *,
        row: type[_RowT] | None = None,
        columns: Sequence[str] | None = None,
        encrypted: Mapping[str, EncryptedText] | None = None,
    ) -> None:
        """Compile a statement, as ``Statement`` does."""
        super().__init__(clause, row=row, columns=columns, encrypted=encrypted)
        literals = {name: adapt(value).getquoted().decode() for name, value in self._constants.items()}
        placeholders = {name: f"${number}" for number, name in enumerate(self._given_names, start=1)}
        body = self.sql % (literals | placeholders)
        # The name is a hash of the text, so the name identifies the same statement on every connection.
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
        if self.encrypted:
            parameters = self._encrypt(parameters)
        cursor.execute(self._call, {name: _argument(value) for name, value in parameters.items()})
        return cursor
