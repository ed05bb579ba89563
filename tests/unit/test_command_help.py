"""Help texts of all commands."""

import re
from collections.abc import Iterator

import click

from commands.main import main

COMMANDS = (
    *("db", "seed", "token", "config", "webhooks", "alerts", "ledger", "payouts", "audit", "reviews"),
    *("periodic", "queues", "workers", "proxy", "metrics"),
)


def every(group: click.Group, path: str = "marketplace") -> Iterator[tuple[str, click.Command]]:
    """List all commands below a group with full names."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from every(command, f"{path} {name}")


def test_every_command_has_help_with_examples_on_separate_lines() -> None:
    seen = 0
    for path, command in every(main):
        shown = [
            line.strip() for line in command.get_help(click.Context(command, info_name=path)).splitlines()
        ]
        assert command.help, path
        examples = [
            line.strip() for line in command.help.splitlines() if line.strip().startswith("marketplace ")
        ]
        assert all(example in shown for example in examples), path
        seen += len(examples)
    assert seen > 20


def test_help_names_every_command_with_an_example() -> None:
    shown = main.get_help(click.Context(main, info_name="marketplace"))
    for name in COMMANDS:
        assert re.search(rf"^  {name} +[A-Z]", shown, re.MULTILINE), name
    helps = {path: command.get_help(click.Context(command, info_name=path)) for path, command in every(main)}
    for name in ("seed", "token", "db upgrade", "config get", "webhooks replay"):
        assert "Example" in helps[f"marketplace {name}"]
