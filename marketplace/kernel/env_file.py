"""Environment variables in a file, one ``KEY=value`` in a line, as a shell reads them too (``. ./stack.env``)."""

import shlex
from collections.abc import Mapping


def format_variables(variables: Mapping[str, str]) -> str:
    """Write variables, their values quoted for a shell where they need it.

    :param variables: by name; values of one line
    """
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in variables.items())


def parse_variables(text: str) -> dict[str, str]:
    """Read variables as a shell does that expands nothing.

    Empty lines, comments and lines without a variable count for nothing. A value that is no one word of a shell's
    (blanks, or a quote that is left open) is taken as it stands, since somebody may have written it without quotes.
    """
    lines = (line.strip() for line in text.split("\n"))
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    return {name: _unquote(value) for name, value in pairs}


def _unquote(value: str) -> str:
    try:
        words = shlex.split(value)
    except ValueError:
        return value
    return words[0] if len(words) == 1 else value
