"""A recorder of the application's SQL per request, so that floors run exactly the same SQL.

``python -m bench.recording CALLS RECORDED`` reads calls from a JSON file and writes the ``Recorded`` of each.
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
    """The SQL of a request.

    :param prepared: PREPARE statements that a connection needs beforehand
    :param statements: all other statements in order, with BEGIN, COMMIT and literal values
    :param answer: the ``data`` of the response
    :param gave: for each value of a first column, the index of the statement that first returned that value
    """

    prepared: list[str]
    statements: list[str]
    answer: Any
    gave: dict[str, int] = field(default_factory=dict)


_noted: list[str] = []
_gave: dict[str, int] = {}


class _NotingCursor(psycopg2.extensions.cursor):
    """A cursor that records sent statements."""

    def execute(self, query: Any, vars: Any = None) -> None:  # noqa: A002 - the driver's own name
        """Execute a statement and record the sent text, preceded by the driver's BEGIN."""
        begins = self.connection.status == STATUS_READY and not self.connection.autocommit
        super().execute(query, vars)
        if begins:
            _noted.append("BEGIN")
        _noted.append((self.query or b"").decode().strip())

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row, and record the value of its first column."""
        row: tuple[Any, ...] | None = super().fetchone()
        if row is not None:
            _gave.setdefault(str(row[0]), len(_noted) - 1)
        return row


def note_statements(engine: Engine) -> list[str]:
    """Make an engine's connections record statements and commits.

    The connections remain those of the application, since its sessions set limits on them.

    :return: the sent texts, to which each statement adds
    """

    @event.listens_for(engine, "do_connect")
    def _note(_dialect: Any, _record: Any, _arguments: Any, parameters: dict[str, Any]) -> None:
        application_class = parameters.get("connection_factory", psycopg2.extensions.connection)

        class NotingConnection(application_class):  # type: ignore[misc,valid-type]
            def commit(self) -> None:
                """Commit, and record the COMMIT of an open transaction."""
                if self.status == STATUS_BEGIN:
                    _noted.append("COMMIT")
                super().commit()

        parameters |= {"connection_factory": NotingConnection, "cursor_factory": _NotingCursor}

    return _noted


def main(calls_file: Path, recorded_file: Path) -> None:
    """Serve each call twice and record the second.

    The first call connects, prepares statements and fetches the identity provider's keys. Only SQL that every
    later request sends is wanted. A call is ``[method, path, headers, body]``, and an entry is a pair of
    calls.
    """
    import wsgi  # noqa: PLC0415 - reads the settings on import
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
            # Different calls share statements, which only the first call prepares.
            known |= {text.split()[1]: text for text in _noted if text.startswith("PREPARE ")}
        used = [text.split()[1] for text in _noted if text.startswith("EXECUTE ")]
        prepared = [known[statement] for statement in dict.fromkeys(used)]
        recorded[name] = asdict(Recorded(prepared, list(_noted), answer, dict(_gave)))
    recorded_file.write_text(json.dumps(recorded), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
