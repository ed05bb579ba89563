"""Notes the SQL that the application itself sends for a request, so that the floors run exactly the same.

``python -m bench.recording CALLS RECORDED``: both are files of JSON; ``Recording`` tells what is in them.
"""

import json
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psycopg2.extensions
from psycopg2.extensions import STATUS_BEGIN, STATUS_READY
from sqlalchemy import Engine, event
from werkzeug.test import Client


@dataclass(frozen=True)
class Recorded:
    """What a request sent to the database.

    :param prepared: statements that a connection must know beforehand
    :param statements: all others in their order, BEGIN and COMMIT included, values written into them
    :param answer: the ``data`` that was answered
    :param gave: the number of the statement that a value was first given by, at the head of its first row
    """

    prepared: list[str]
    statements: list[str]
    answer: Any
    gave: dict[str, int] = field(default_factory=dict)


_noted: list[str] = []
_gave: dict[str, int] = {}


class _NotingCursor(psycopg2.extensions.cursor):
    """The driver's cursor, which notes what it has sent."""

    def execute(self, query: Any, vars: Any = None) -> None:  # noqa: A002 - the driver's own name
        """Run a statement and note it as it was sent, after the BEGIN that the driver sends."""
        begins = self.connection.status == STATUS_READY and not self.connection.autocommit
        super().execute(query, vars)
        if begins:
            _noted.append("BEGIN")
        _noted.append((self.query or b"").decode().strip())

    def fetchone(self) -> tuple[Any, ...] | None:
        """Give the next row, and note what stands at its head."""
        row: tuple[Any, ...] | None = super().fetchone()
        if row is not None:
            _gave.setdefault(str(row[0]), len(_noted) - 1)
        return row


class _NotingConnection(psycopg2.extensions.connection):
    """The driver's connection, which notes its commits."""

    def commit(self) -> None:
        """Commit, and note it where there is something to commit."""
        if self.status == STATUS_BEGIN:
            _noted.append("COMMIT")
        super().commit()


def note_statements(engine: Engine) -> None:
    """Have an engine's connections note what they send."""

    @event.listens_for(engine, "do_connect")
    def _note(_dialect: Any, _record: Any, _arguments: Any, parameters: dict[str, Any]) -> None:
        parameters |= {"connection_factory": _NotingConnection, "cursor_factory": _NotingCursor}


def main(calls_file: Path, recorded_file: Path) -> None:
    """Serve the calls twice and note the second time.

    The first one connects, prepares statements and fetches the identity provider's keys; only what every
    later request sends too is wanted. A call is ``[method, path, headers, body]``, a pair of them an entry.
    """
    import wsgi  # noqa: PLC0415 - reads the settings when it is imported
    from bench import charging  # noqa: PLC0415 - likewise

    note_statements(wsgi.services.database.engine)
    client = Client(charging.app)
    recorded = {}
    known: dict[str, str] = {}
    for name, pair in json.loads(calls_file.read_text(encoding="utf-8")).items():
        answer: Any = None
        for method, path, headers, body in pair:
            _noted.clear()
            _gave.clear()
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
            # Kinds of calls share statements; the first of them has them prepared.
            known |= {text.split()[1]: text for text in _noted if text.startswith("PREPARE ")}
        used = [text.split()[1] for text in _noted if text.startswith("EXECUTE ")]
        prepared = [known[statement] for statement in dict.fromkeys(used)]
        recorded[name] = asdict(Recorded(prepared, list(_noted), answer, dict(_gave)))
    recorded_file.write_text(json.dumps(recorded), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
