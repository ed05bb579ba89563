"""What commands print: tables on a terminal, lines of tab-separated fields in a pipe."""

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
    """Print a table; in a pipe one line for each row, after one with the columns' names.

    :param columns: the headings
    :param rows: as many values each as there are columns
    :param wrapped_columns: columns that are broken over lines rather than cut
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
    """Say, aside, that a list was cut.

    :param max_limit: what ``--limit`` takes at the most
    """
    click.echo(f"There are more; --limit shows up to {max_limit:,} of them.", err=True)


def print_facts(pairs: Iterable[tuple[str, Any]]) -> None:
    """Print names and values, one pair a line."""
    for name, value in pairs:
        click.echo(
            f"{name}\t{_tab_separated_field(value)}"
            if not sys.stdout.isatty()
            else f"{name:<16} {display_value(value)}"
        )


def display_value(value: Any) -> str:
    """Write a value for people: times to the second in UTC, nothing as a dash."""
    if value is None or value == "":
        return "-"
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    return _printable(str(value))


def _printable(text: str) -> str:
    """What somebody else wrote must not steer the terminal."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "\ufffd" for letter in text)


def _tab_separated_field(value: Any) -> str:
    """A field of a line: neither a tab nor a line break may be inside."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return "" if value is None else _printable(" ".join(str(value).split()))
