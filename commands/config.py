"""Commands that show the settings in force, with secrets masked."""

import dataclasses
import difflib
from typing import Any

import click

from commands.console.environment import get_settings
from commands.console.failures import CommandFailedError
from commands.console.output import print_table
from marketplace.infra.settings import Settings, variable_name


@click.group(help="Show the settings in force, as the processes of the service read them.")
def config() -> None:
    """Group the commands."""


@config.command(
    help="""Show every setting with its value and purpose. Secrets are masked.

    \b
    Examples:
      marketplace config show
      marketplace config show | grep GATEWAY"""
)
def show() -> None:
    """Print all settings."""
    current = get_settings()
    print_table(
        ("Setting", "Value", "Purpose"),
        [
            (variable_name(item.name), _masked_text(item, getattr(current, item.name)), item.metadata["doc"])
            for item in dataclasses.fields(Settings)
        ],
        wrapped_columns=("Value", "Purpose"),
    )


@config.command(
    help="""Print the value of a setting, and nothing else.

    Secrets are printed only in the embedded stack, where they protect nothing but demo data.

    \b
    Examples:
      marketplace config get PUBLIC_BASE_URL
      psql "$(marketplace config get DATABASE_URL)\""""
)
@click.argument("name")
def get(name: str) -> None:
    """Print one setting."""
    settings_by_name = {variable_name(item.name): item for item in dataclasses.fields(Settings)}
    item = settings_by_name.get(name.upper())
    if item is None:
        near = difflib.get_close_matches(name.upper(), settings_by_name, n=3)
        hint = (
            f"Did you mean {' or '.join(near)}?"
            if near
            else "Run `marketplace config show` to list all settings."
        )
        raise click.BadParameter(f"there is no setting {name}. {hint}", param_hint="NAME")
    current = get_settings()
    if item.metadata["secret"] and current.environment != "embedded":
        raise CommandFailedError(
            f"{variable_name(item.name)} is a secret, and secrets are printed only in the embedded stack"
            f" (ENVIRONMENT is {current.environment}). Read the value where this installation keeps its secrets."
        )
    click.echo(_text(getattr(current, item.name)))


def _masked_text(item: "dataclasses.Field[Any]", value: Any) -> str:
    return "********" if value and item.metadata["secret"] else _text(value)


def _text(value: Any) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)
