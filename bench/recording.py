"""Notes the SQL that the application itself sends for a request, so that the floors run exactly the same.

``python -m bench.recording CALLS RECORDED``: both are files of JSON; ``Recording`` tells what is in them.
"""

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg2.extensions
from sqlalchemy import Engine, event


@dataclass(frozen=True)
class Recorded:
    """What a request sent to the database.

    :param prepared: statements that a connection must know beforehand
    :param statements: all others in their order, BEGIN and COMMIT included, values written into them
    :param answer: the ``data`` that was answered
    """

    prepared: list[str]
    statements: list[str]
    answer: Any


_noted: list[str] = []


class _NotingCursor(psycopg2.extensions.cursor):
    """The driver's cursor, which notes what it has sent."""

    def execute(self, query: Any, vars: Any = None) -> None:  # noqa: A002 - the driver's own name
        """This function will run a statement and note it as it was sent."""
        super().execute(query, vars)
        _noted.append((self.query or b"").decode().strip())


def note_statements(engine: Engine, *, transactions: bool) -> None:
    """This function will have an engine's connections note what they send.

    :param transactions: whether BEGIN and COMMIT are sent too
    """

    @event.listens_for(engine, "connect")
    def _note(connection: Any, _record: Any) -> None:
        connection.cursor_factory = _NotingCursor

    if transactions:
        event.listen(engine, "begin", lambda _connection: _noted.append("BEGIN"))
        event.listen(engine, "commit", lambda _connection: _noted.append("COMMIT"))


def main(calls_file: Path, recorded_file: Path) -> None:
    """This function will serve the calls twice and note the second time.

    The first one connects, prepares statements and fetches the identity provider's keys; only what every
    later request sends too is wanted. A call is ``[method, path, headers, body]``, a pair of them an entry.
    """
    import wsgi  # noqa: PLC0415 - reads the settings when it is imported

    database = wsgi.services.database
    note_statements(database.engine, transactions=True)
    note_statements(database._reading_engine, transactions=False)  # no one else's business
    client = wsgi.app.test_client()
    recorded = {}
    for name, pair in json.loads(calls_file.read_text(encoding="utf-8")).items():
        prepared: list[str] = []
        answer: Any = None
        for method, path, headers, body in pair:
            prepared += [statement for statement in _noted if statement.startswith("PREPARE ")]
            _noted.clear()
            response = client.open(
                path,
                method=method,
                headers=headers,
                data=body,
                content_type="application/json" if body else None,
            )
            if response.status_code >= 300:
                raise SystemExit(f"{name}: {response.status_code} {response.get_data(as_text=True)}")
            answer = response.get_json().get("data")
        recorded[name] = asdict(Recorded(prepared, list(_noted), answer))
    recorded_file.write_text(json.dumps(recorded), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
