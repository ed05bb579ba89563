"""Commands for the keys of encrypted columns."""

import click

from commands.console.database import build_services
from commands.console.failures import CommandFailedError
from commands.console.output import print_table
from commands.console.progress import Stages
from marketplace.infra.encryption import EncryptionError
from marketplace.models import metadata
from marketplace.privacy import key_rotation


@click.group(help="Show and rotate the keys of encrypted columns.")
def keys() -> None:
    """Group the commands."""


@keys.command(
    help="""Count the values that are not encrypted with the first key of DATA_ENCRYPTION_KEYS.

    A key without values can be removed from the setting.

    \b
    Example:
      marketplace keys status"""
)
def status() -> None:
    """Show the number of stale values by column."""
    database = build_services().database
    columns = key_rotation.list_encrypted_columns(metadata.tables)
    with database.transaction() as session:
        counts = key_rotation.count_stale_values(session, columns)
    database.close()
    print_table(("Column", "Values of other keys"), [(name, count) for name, count in counts.items()])


@keys.command(
    help="""Encrypt all values again with the first key of DATA_ENCRYPTION_KEYS, while the service runs.

    An interrupted run goes on with the next call.

    \b
    Example:
      marketplace keys rotate"""
)
def rotate() -> None:
    """Rotate the keys."""
    database = build_services().database
    columns = key_rotation.list_encrypted_columns(metadata.tables)
    with database.transaction() as session:
        counts = key_rotation.count_stale_values(session, columns)
    stages = Stages()
    try:
        for encrypted in columns:
            with stages.stage(encrypted.name, total=counts[encrypted.name]) as advance:
                key_rotation.rotate_column(database, encrypted, advance=advance)
    except EncryptionError as error:
        raise CommandFailedError(
            f"{error} Add the old key behind the first one, and run this again."
        ) from error
    database.close()
    click.echo(
        "All values have the first key. Other keys can be removed when `marketplace keys status` shows 0."
    )
