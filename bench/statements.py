"""The SQL of the floors: what the application sent for a request, other rows put in for the request's own."""

import json
import re
from dataclasses import dataclass
from typing import Any

from bench.recording import Recorded


@dataclass(frozen=True)
class Floor:
    """The SQL of a floor, with ``%(name)s`` where each call has its own value.

    :param captures: the number of the statement whose one value is ``new_id`` to those after it, or none
    """

    prepared: list[str]
    statements: list[str]
    captures: int | None = None

    def described(self, *, shape: str) -> dict[str, Any]:
        """Describe the floor as ``bench.floors`` takes it."""
        return {
            "prepared": self.prepared,
            "statements": self.statements,
            "captures": self.captures,
            "shape": shape,
        }


def read_recorded(text: str) -> dict[str, Recorded]:
    """Read what ``bench.recording`` wrote."""
    return {name: Recorded(**fields) for name, fields in json.loads(text).items()}


def floor_of(recorded: Recorded, replacements: dict[str, str], *, new_id: str | None = None) -> Floor:
    """Make a floor of what was recorded.

    :param recorded: of one request
    :param replacements: what stands in its SQL, such as an id, and the name of the value that takes its place
    :param new_id: the id that the recorded request made, if it made one
    :raises LookupError: something to be replaced stands nowhere: the floor would not do what it is meant to
    """
    wanted = dict(replacements) | ({new_id: "new_id"} if new_id else {})
    statements = []
    met: set[str] = set()
    # The longest first, so that none is cut up by a shorter one that is part of it.
    pattern = re.compile("|".join(re.escape(text) for text in sorted(wanted, key=len, reverse=True)))

    def put_in(match: re.Match[str]) -> str:
        met.add(match[0])
        return f"%({wanted[match[0]]})s"

    for statement in recorded.statements:
        escaped = statement.replace("%", "%%")
        statements.append(pattern.sub(put_in, escaped) if wanted else escaped)
    if met != set(wanted):
        raise LookupError(f"the recorded SQL lacks {sorted(set(wanted) - met)}")
    return Floor(recorded.prepared, statements, recorded.gave[new_id] if new_id else None)
