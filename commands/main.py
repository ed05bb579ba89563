"""The entry of ``marketplace``. A command's module is imported when it is called, so that each starts fast."""

import difflib
import importlib
import os
from typing import Any

import click

from commands.console.failures import CommandFailedError, explain_error

# Each is an attribute of its name in the module of that name, unless it says otherwise.
COMMAND_SUMMARIES = {
    "db": "Bring the database's schema up to date, and check it.",
    "seed": "Fill the database with demo data, or with many products.",
    "token": "Print an access token of a demo persona.",
    "config": "Show the settings that are in force.",
    "webhooks": "List, inspect and replay webhooks that came in.",
    "alerts": "List and explain alerts, and resolve one that was seen to.",
    "ledger": "Check that the books are whole.",
    "payouts": "Look at batches of payouts, and reconcile the gateway.",
    "audit": "Check that the audit trail is as it was written.",
    "periodic": "List, run, pause and re-schedule periodic tasks.",
    "queues": "Show how much work waits, goes on, failed and was done.",
    "workers": "List the workers, and what each does.",
    "proxy": "Write the reverse proxy's configuration.",
}
MODULES = {name: f"commands.{name}" for name in COMMAND_SUMMARIES} | {"workers": "commands.queues"}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called, not to be listed."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read what is given to any command; no command can do anything with what is no text.

        :raises click.UsageError: it is not in UTF-8
        """
        for argument in args:
            argument_bytes = os.fsencode(argument)
            shown = argument_bytes.decode("utf-8", "replace")
            if shown.encode() != argument_bytes:
                ctx.fail(f"{shown!r} is not in UTF-8.")
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands."""
        return list(COMMAND_SUMMARIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command.

        :raises CommandFailedError: it needs the embedded stack, which an image does not hold
        """
        if cmd_name not in MODULES:
            return None
        try:
            command: click.Command = getattr(importlib.import_module(MODULES[cmd_name]), cmd_name)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != "sandbox":
                raise
            raise CommandFailedError(
                f"`marketplace {cmd_name}` belongs to the embedded stack, which this installation leaves out."
            ) from error
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is called, suggesting one for a slip of the pen."""
        if args and args[0] not in COMMAND_SUMMARIES and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], COMMAND_SUMMARIES, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join(COMMAND_SUMMARIES)}."
            ctx.fail(f"There is no command {args[0]}. {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands in the help."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMAND_SUMMARIES.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; an expected failure becomes a message instead of a trace.

        :raises CommandFailedError: what failed, in words
        """
        try:
            return super().invoke(ctx)
        except Exception as error:
            message = explain_error(error)
            if message is None:
                raise
            raise CommandFailedError(message) from error


@click.command(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="""Operate the campus marketplace.

    Settings come from environment variables. Where DATABASE_URL is not set, those of the embedded stack
    (`make run`) are used; DATA_DIR names its directory if that is not .data.

    \b
    Examples:
      marketplace db upgrade               bring the schema up to date
      marketplace token buyer              a token for curl, while `make run` runs
      marketplace config get GATEWAY_URL   one setting, clear
      marketplace ledger verify            are the books whole?

    `marketplace COMMAND --help` tells more.""",
)
def main() -> None:
    """Be the entry of the console script; click calls the command that is named."""


if __name__ == "__main__":
    main()
