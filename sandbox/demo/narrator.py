"""The demo's output: requests, responses and ledger entries."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from marketplace.kernel.money import format_decimal

_PIPE_WIDTH = 160
_LABEL_WIDTH = 10


class DemoFailedError(Exception):
    """A step failed. The message says which step and why."""


class Narrator:
    """A printer of the demo's narration, in colour on a terminal and plain in a pipe."""

    def __init__(self) -> None:
        console = Console(highlight=False)
        self._console = console if console.is_terminal else Console(highlight=False, width=_PIPE_WIDTH)
        self._steps = 0

    def say(self, text: str = "") -> None:
        """Print a line."""
        self._console.print(Text(text), soft_wrap=True)

    def step(self, title: str) -> None:
        """Print a step's number and title."""
        self._steps += 1
        self._console.print()
        self._console.print(Text(f"{self._steps}. {title}", style="bold"), soft_wrap=True)

    def asked(self, method: str, address: str, *, by: str, body: Any = None) -> None:
        """Print a request."""
        shown = Text(f"{method} {address}", style="cyan")
        if body is not None:
            shown.append(f" {compact(body)}", style="dim")
        shown.append(f"  ({by})", style="magenta")
        self._line("send", shown)

    def answered(self, status: int, content: Any) -> None:
        """Print a response on a single line."""
        colour = "green" if status < 400 else "red"
        self._line("reply", Text.assemble((f"{status} ", colour), compact(content)), cut=True)

    def ledger(self, text: str) -> None:
        """Print the ledger entries of a step."""
        self._line("ledger", Text(text, style="yellow"))

    def note(self, text: str) -> None:
        """Print a remark."""
        self._line("", Text(text))

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Print a table."""
        table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
        for column in columns:
            table.add_column(column, justify="right" if column.endswith("(NGN)") else "left", no_wrap=True)
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        indented = Table.grid(padding=(0, 0, 0, 3))
        indented.add_row("", table)
        self._console.print(indented)

    def done(self, text: str) -> None:
        """Print the last line of a successful demo."""
        self._console.print()
        self._console.print(Text(text, style="bold green"), soft_wrap=True)

    def failed(self, text: str) -> None:
        """Print to standard error why the demo failed."""
        Console(stderr=True, highlight=False).print(Text(f"\n{text}", style="bold red"), soft_wrap=True)

    def _line(self, label: str, content: Text, *, cut: bool = False) -> None:
        line = Text(f"   {label:<{_LABEL_WIDTH - 3}}", style="dim")
        line.append_text(content)
        if cut:
            line.truncate(self._console.width, overflow="ellipsis")
        self._console.print(line, soft_wrap=True)


def compact(content: Any) -> str:
    """Format a value as JSON on a single line."""
    return json.dumps(content, ensure_ascii=False)


def naira(amount_minor: int) -> str:
    """Format an amount in naira.

    :param amount_minor: kobo
    """
    whole, _, decimals = format_decimal(amount_minor).partition(".")
    return f"{int(whole):,}.{decimals:0<2}"


def picked(content: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Select the fields of a response that are worth printing.

    :param names: field names; a dot selects a field of a nested object, such as ``vendor.displayName``
    """
    found: dict[str, Any] = {}
    for name in names:
        value: Any = content
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        found[name] = value
    return found
