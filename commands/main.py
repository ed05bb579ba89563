"""Entry point of ``marketplace``. A command's module is imported on use, so that every command starts fast."""

import difflib
import importlib
import os
from typing import Any

import click

from commands.console.failures import CommandFailedError, explain_error

# A command is an attribute of the module with the same name, unless MODULES names another module.
COMMAND_SUMMARIES = {
    "db": "Upgrade and check the database schema.",
    "seed": "Load demo data, or many products for load tests.",
    "token": "Print an access token for a demo persona.",
    "config": "Show the settings in force.",
    "webhooks": "List, inspect and replay received webhooks.",
    "analytics": "Rebuild the figures of stores.",
    "counts": "List the daily counts of the service.",
    "metrics": "Serve metrics for Prometheus, and generate rules and a dashboard.",
    "alerts": "List, explain and resolve alerts.",
    "ledger": "Check the invariants of the ledger.",
    "payouts": "Inspect payout batches, and reconcile with the payment gateway.",
    "audit": "Verify the audit trail.",
    "keys": "Show and rotate the keys of encrypted columns.",
    "privacy": "Repeat erasures after a restored backup, and verify receipts.",
    "reviews": "Verify and repair the ratings of stores.",
    "periodic": "List, run, pause and reschedule periodic tasks.",
    "queues": "Show the waiting, active and failed work in each queue.",
    "workers": "List the workers with their current work.",
    "proxy": "Generate the configuration of the reverse proxy.",
}
MODULES = {name: f"commands.{name}" for name in COMMAND_SUMMARIES} | {"workers": "commands.queues"}


class LazyGroup(click.Group):
    """A group that imports a command only when that command is called."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, which must be valid UTF-8 for every command.

        :raises click.UsageError: an argument is not valid UTF-8
        """
        for argument in args:
            argument_bytes = os.fsencode(argument)
            shown = argument_bytes.decode("utf-8", "replace")
            if shown.encode() != argument_bytes:
                ctx.fail(f"{shown!r} is not valid UTF-8.")
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(COMMAND_SUMMARIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command.

        :raises CommandFailedError: the command needs the embedded stack, which an image does not contain
        """
        if cmd_name not in MODULES:
            return None
        try:
            command: click.Command = getattr(importlib.import_module(MODULES[cmd_name]), cmd_name)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != "sandbox":
                raise
            raise CommandFailedError(
                f"`marketplace {cmd_name}` needs the embedded stack, which this installation does not include."
            ) from error
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the called command. For a typing error, suggest a similar command."""
        if args and args[0] not in COMMAND_SUMMARIES and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], COMMAND_SUMMARIES, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"Use one of: {', '.join(COMMAND_SUMMARIES)}."
            ctx.fail(f"There is no command {args[0]}. {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands in the help."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMAND_SUMMARIES.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. An expected failure becomes a message instead of a traceback.

        :raises CommandFailedError: an expected failure, explained in words
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

    Settings come from environment variables. If DATABASE_URL is not set, the settings of the embedded stack
    (`make run`) are used. Set DATA_DIR if the embedded stack's directory is not .data.

    \b
    Examples:
      marketplace db upgrade               upgrade the database schema
      marketplace token buyer              print a token for curl, while `make run` runs
      marketplace config get GATEWAY_URL   print one setting
      marketplace ledger verify            check the ledger

    Run `marketplace COMMAND --help` for details of a command.""",
)
def main() -> None:
    """Run the console script. click calls the named command."""


if __name__ == "__main__":
    main()
