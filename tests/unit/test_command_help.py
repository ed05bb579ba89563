"""What ``--help`` shows of each command."""

from collections.abc import Iterator

import click

from commands.main import main


def every(group: click.Group, path: str = "marketplace") -> Iterator[tuple[str, click.Command]]:
    """Give all commands below a group, each with how it is called."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from every(command, f"{path} {name}")


def test_each_command_says_what_it_does_and_each_example_has_a_line_of_its_own() -> None:
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
