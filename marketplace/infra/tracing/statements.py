"""Spans of SQL statements, of the ORM and of the statements that bypass the ORM."""

import re
from contextlib import AbstractContextManager
from typing import Any

from psycopg2 import extensions
from sqlalchemy import Engine, event

from marketplace.kernel.tracing import Span, is_tracing, span

_OPERATION = re.compile(r"\s*(\w+)")
_TABLE = re.compile(r"\b(?:FROM|INTO|UPDATE)\s+([a-z_]+)")
_MAX_TEXT_LENGTH = 2_000


def trace_statements(engine: Engine) -> None:
    """Give each statement on the connections of an engine a span, if this process creates spans."""
    if is_tracing():
        event.listen(engine, "connect", _trace_connection)


def _trace_connection(connection: Any, _record: Any) -> None:
    cursor = connection.cursor_factory or extensions.cursor
    connection.cursor_factory = type("TracedCursor", (_TracedCursor, cursor), {"prepared": {}})


class _TracedCursor:
    """A cursor that gives each statement a span with the text, in which placeholders stand for values.

    :ivar prepared: the texts of the connection's prepared statements by name
    """

    prepared: dict[str, str]

    def execute(self, query: Any, vars: Any = None) -> None:  # noqa: A002 - the driver's name
        """Execute a statement."""
        with self._span(query):
            super().execute(query, vars)  # type: ignore[misc]

    def executemany(self, query: Any, vars_list: Any) -> None:
        """Execute a statement with each of several lists of parameters, in one span."""
        with self._span(query):
            super().executemany(query, vars_list)  # type: ignore[misc]

    def _span(self, query: Any) -> AbstractContextManager[Span]:
        # The driver's helpers send bytes with values.
        sent = self._text_of(query) if isinstance(query, str) else ""
        return span(
            name_statement(sent),
            kind="client",
            db__system__name="postgresql",
            db__query__text=" ".join(sent.split())[:_MAX_TEXT_LENGTH],
        )

    def _text_of(self, query: str) -> str:
        operation, _, rest = query.partition(" ")
        if operation == "PREPARE":
            name, _, body = rest.partition(" AS ")
            self.prepared[name] = body
        elif operation == "EXECUTE":
            return self.prepared.get(rest.partition(" ")[0], query)
        return query


def name_statement(statement: str) -> str:
    """Return the operation and the first table of a statement, such as ``SELECT orders``."""
    operation, table = _OPERATION.match(statement), _TABLE.search(statement)
    name = operation[1].upper() if operation else "statement"
    return f"{name} {table[1]}" if table else name
