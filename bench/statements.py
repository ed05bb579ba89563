"""The floors' SQL: the application's recorded statements with placeholders for ids and values."""

import json
import re
from dataclasses import dataclass
from typing import Any

from bench.recording import Recorded


@dataclass(frozen=True)
class Floor:
    """The SQL of a floor, with ``%(name)s`` for values that differ in each call.

    :param captures: index of the statement that returns ``new_id`` for later statements, or None
    """

    prepared: list[str]
    statements: list[str]
    captures: int | None = None

    def described(self, *, shape: str) -> dict[str, Any]:
        """Describe the floor for ``bench.floors``."""
        return {
            "prepared": self.prepared,
            "statements": self.statements,
            "captures": self.captures,
            "shape": shape,
        }


def read_recorded(text: str) -> dict[str, Recorded]:
    """Parse the output of ``bench.recording``."""
    return {name: Recorded(**fields) for name, fields in json.loads(text).items()}


def floor_of(recorded: Recorded, replacements: dict[str, str], *, new_id: str | None = None) -> Floor:
    """Build a floor from the recorded SQL of a request.

    :param replacements: texts in the SQL, such as an id, and the names of the values that replace these texts
    :param new_id: the id of the row that the recorded request created, if any
    :raises LookupError: the SQL lacks a text to replace
    """
    wanted = dict(replacements) | ({new_id: "new_id"} if new_id else {})
    statements = []
    met: set[str] = set()
    # Match longer texts first, because a shorter text may be part of a longer one.
    pattern = re.compile("|".join(re.escape(text) for text in sorted(wanted, key=len, reverse=True)))

    def put_in(match: re.Match[str]) -> str:
        met.add(match[0])
        return f"%({wanted[match[0]]})s"

    for statement in recorded.statements:
        escaped = statement.replace("%", "%%")
        statements.append(pattern.sub(put_in, escaped) if wanted else escaped)
    if met != set(wanted):
        raise LookupError(f"the recorded SQL does not contain {sorted(set(wanted) - met)}")
    return Floor(recorded.prepared, statements, recorded.gave[new_id] if new_id else None)
