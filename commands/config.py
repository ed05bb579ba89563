"""The settings in force, secrets masked."""

import dataclasses
import difflib
from typing import Any

import click

from commands.console.environment import get_settings
from commands.console.failures import CommandFailedError
from commands.console.output import print_table
from marketplace.infra.settings import Settings, variable_name


@click.group(help="Show the settings that are in force, as the processes of the service read them.")
def config() -> None:
    """Group the commands."""


@config.command(
    help="""Show every setting with its value and what it is for; secrets are masked.

    \b
    Examples:
      marketplace config show
      marketplace config show | grep GATEWAY"""
)
def show() -> None:
    """Print all settings."""
    current = get_settings()
    print_table(
        ("Setting", "Value", "What it is"),
        [
            (variable_name(item.name), _masked_text(item, getattr(current, item.name)), item.metadata["doc"])
            for item in dataclasses.fields(Settings)
        ],
        wrapped_columns=("Value", "What it is"),
    )


@config.command(
    help="""Print the value of the setting NAME, alone and clear.

    Secrets are printed in the embedded stack alone, whose secrets protect nothing but a demo.

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
        hint = f"Did you mean {' or '.join(near)}?" if near else "`marketplace config show` lists them all."
        raise click.BadParameter(f"there is no setting {name}. {hint}", param_hint="NAME")
    current = get_settings()
    if item.metadata["secret"] and current.environment != "embedded":
        raise CommandFailedError(
            f"{variable_name(item.name)} is a secret, and ENVIRONMENT is {current.environment}: secrets are"
            " printed in the embedded stack alone. Ask where the installation's secrets are kept."
        )
    click.echo(_text(getattr(current, item.name)))


def _masked_text(item: "dataclasses.Field[Any]", value: Any) -> str:
    return "********" if value and item.metadata["secret"] else _text(value)


def _text(value: Any) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)
