"""Statements that the server plans once for a connection, for reads so hot that planning is what they cost."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from psycopg2.extensions import adapt
from sqlalchemy.orm import Session
from sqlalchemy.sql.elements import ClauseElement
from typing_extensions import TypeVar

from marketplace.infra.db import NO_PREPARED_STATEMENTS_KEY, Row, Statement, driver_connection

_RowT = TypeVar("_RowT", default=Row)
_PREPARED_NAMES_KEY = "prepared_statements"  # in a driver connection's info: the names that it knows


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
