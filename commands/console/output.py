"""Output of commands: tables on a terminal, tab-separated lines in a pipe."""

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, wrapped_columns: Sequence[str] = ()
) -> None:
    """Print a table. In a pipe, print a line of column names and a tab-separated line for each row.

    :param wrapped_columns: columns that wrap over several lines instead of being cut
    """
    if not sys.stdout.isatty():
        for row in (columns, *rows):
            click.echo("\t".join(_tab_separated_field(value) for value in row))
        return
    shown = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        shown.add_column(column, overflow="fold", no_wrap=column not in wrapped_columns)
    for row in rows:
        shown.add_row(*(Text(display_value(value)) for value in row))
    Console().print(shown)


def warn_truncated(max_limit: int) -> None:
    """Print to standard error that a list was truncated.

    :param max_limit: maximum value of ``--limit``
    """
    click.echo(f"More rows match. Use --limit to show up to {max_limit:,}.", err=True)


def print_facts(pairs: Iterable[tuple[str, Any]]) -> None:
    """Print names and values, one pair per line."""
    for name, value in pairs:
        click.echo(
            f"{name}\t{_tab_separated_field(value)}"
            if not sys.stdout.isatty()
            else f"{name:<16} {display_value(value)}"
        )


def display_value(value: Any) -> str:
    """Format a value for people: times in UTC to the second, missing values as a dash."""
    if value is None or value == "":
        return "-"
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    return _printable(str(value))


def _printable(text: str) -> str:
    """Replace control characters, which could steer the terminal."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "\ufffd" for letter in text)


def _tab_separated_field(value: Any) -> str:
    """Format a field of a tab-separated line, without tabs and line breaks."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return "" if value is None else _printable(" ".join(str(value).split()))
