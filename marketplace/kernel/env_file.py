"""Environment files with one ``KEY=value`` per line. A shell can read the same file (``. ./stack.env``)."""

import shlex
from collections.abc import Mapping


def format_variables(variables: Mapping[str, str]) -> str:
    """Format variables, with shell quotes around values that need quotes.

    :param variables: values by name; a value must not contain a line break
    """
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in variables.items())


def parse_variables(text: str) -> dict[str, str]:
    """Parse variables like a shell without expansions.

    Empty lines, comments and lines without a variable are ignored. A value that is not exactly one shell word stays
    unchanged, because a hand-written file may lack quotes. Examples are values with blanks or an unclosed quote.
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
