"""Commands for the database schema: upgrade a database, and compare database, migrations and models."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import alembic.command
import click
from alembic.autogenerate import produce_migrations
from alembic.config import Config
from alembic.operations.ops import OpContainer
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, pool, text

import migrations
from commands.console.environment import get_settings
from commands.console.failures import CommandFailedError
from marketplace.infra.encryption import EncryptionError, make_keyring, use_keyring
from marketplace.models import metadata
from migrations.comparing import default_text, drop_equal_defaults

_UPGRADE_WAIT_SECONDS = 120.0
_UPGRADE_POLL_SECONDS = 0.2
# Key of the advisory lock that an upgrade holds. The number is arbitrary.
_UPGRADE_LOCK = 7_269_011
# Revisions 0001 to 0029 were replaced by the baseline before the first release.
_BEFORE_BASELINE = re.compile(r"00[0-2]\d")


@click.group(help="Upgrade and check the database schema.")
def db() -> None:
    """Group the commands."""


@db.command(
    help="""Upgrade the database schema to the latest revision.

    Run this command before you start a new version of the service. You can repeat it, and several hosts can run
    it at once.

    \b
    Example:
      marketplace db upgrade"""
)
def upgrade() -> None:
    """Upgrade the database, and print each step."""
    settings = get_settings()
    if settings.database_prepared_statements == "off":
        raise CommandFailedError(
            "An upgrade needs a direct connection to PostgreSQL, without a pooler. Set DATABASE_URL to the server and"
            " DATABASE_PREPARED_STATEMENTS=on."
        )
    use_keyring(make_keyring(settings.data_encryption_keys, settings.blind_index_key))
    try:
        steps = upgrade_database(settings.database_url)
    except EncryptionError as error:
        raise CommandFailedError(f"The upgrade encrypts values. {error}") from error
    for step in steps:
        click.echo(f"applied {step}")
    click.echo(f"The database is {'now' if steps else 'already'} at revision {latest_revision()}.")


@db.command(
    help="""Check that the database schema is up to date and matches the models.

    Exits with status 1 if it does not, and prints the differences. Changes nothing.

    \b
    Example:
      marketplace db check"""
)
@click.pass_context
def check(ctx: click.Context) -> None:
    """Check the schema."""
    url = get_settings().database_url
    revision = current_revision(url)
    _require_known_revision(revision)
    if revision != latest_revision():
        raise CommandFailedError(
            f"The database is at {revision or 'no revision'}, but the latest revision is {latest_revision()}."
            " Run `marketplace db upgrade`."
        )
    differing = list_differences(url)
    if differing:
        click.secho("The database differs from the models. A migration is missing for:", err=True, fg="red")
        for line in differing:
            click.echo(f"  {line}")
        ctx.exit(1)
    click.echo(f"The database is at revision {latest_revision()} and agrees with the models.")


@db.command(help="Print the revision of the database and the latest revision.")
def current() -> None:
    """Print the revisions."""
    click.echo(f"database\t{current_revision(get_settings().database_url) or 'none'}")
    click.echo(f"latest\t{latest_revision()}")


def alembic_config(url: str) -> Config:
    """Build Alembic's configuration.

    :param url: database URL in the form of DATABASE_URL
    """
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent).replace("%", "%%"))
    config.attributes["database_url"] = url
    return config


def latest_revision() -> str:
    """Return the latest revision.

    :raises LookupError: there are no migrations
    """
    revision = ScriptDirectory.from_config(alembic_config("")).get_current_head()
    if revision is None:
        raise LookupError("there are no migrations")
    return revision


def current_revision(url: str) -> str | None:
    """Return a database's revision, or None for a database without tables of this service."""
    with _autocommit_connection(url) as connection:
        return MigrationContext.configure(connection).get_current_revision()


def upgrade_database(url: str) -> list[str]:
    """Upgrade a database to the latest revision. Concurrent upgrades run one after the other.

    :param url: database URL in the form of DATABASE_URL
    :return: applied steps, each a revision with its summary
    :raises CommandFailedError: this version does not know the database's revision
    """
    config = alembic_config(url)
    scripts = ScriptDirectory.from_config(config)
    with _autocommit_connection(url) as lock:
        _acquire_upgrade_lock(lock)
        before = MigrationContext.configure(lock).get_current_revision()
        _require_known_revision(before)
        alembic.command.upgrade(config, "head")
    steps = list(scripts.iterate_revisions("head", before or "base"))
    return [f"{step.revision}: {step.doc}" for step in reversed(steps)]


def _acquire_upgrade_lock(connection: Connection) -> None:
    """Wait until no other process upgrades the database.

    A statement that waits for the lock would keep a snapshot, for whose end CREATE INDEX CONCURRENTLY of the running
    upgrade waits.

    :raises CommandFailedError: another upgrade takes longer than ``_UPGRADE_WAIT_SECONDS``
    """
    deadline = time.monotonic() + _UPGRADE_WAIT_SECONDS
    while not connection.scalar(text("SELECT pg_try_advisory_lock(:key)"), {"key": _UPGRADE_LOCK}):
        if time.monotonic() > deadline:
            raise CommandFailedError("Another process is upgrading the database. Try again later.")
        time.sleep(_UPGRADE_POLL_SECONDS)


def _require_known_revision(revision: str | None) -> None:
    scripts = ScriptDirectory.from_config(alembic_config(""))
    if revision is None or revision in {script.revision for script in scripts.walk_revisions()}:
        return
    if _BEFORE_BASELINE.fullmatch(revision):
        raise CommandFailedError(
            f"The database is at revision {revision}, which is too old to upgrade. Run `make reset` for the embedded"
            " stack, or create a new database."
        )
    raise CommandFailedError(
        f"The database is at revision {revision}, which this version does not know. A newer version has"
        " upgraded the database: use that version."
    )


def list_differences(url: str) -> list[str]:
    """Compare a database with the models.

    :param url: database URL in the form of DATABASE_URL
    :return: the steps of a migration that would remove the differences, one per line; empty if there are no differences
    """
    with _autocommit_connection(url) as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        script = produce_migrations(context, metadata)
    drop_equal_defaults(None, None, [script])
    return [] if script.upgrade_ops is None else list(_describe_differences(script.upgrade_ops))


def _describe_differences(container: OpContainer) -> Iterator[str]:
    for operation in container.ops:
        if isinstance(operation, OpContainer):
            yield from _describe_differences(operation)
        else:
            yield _describe_difference(operation.to_diff_tuple())


def _describe_difference(diff: Any) -> str:
    """Describe a difference found by Alembic, such as ('add_column', None, 'products', Column(...))."""
    if isinstance(diff, list):
        return "; ".join(_describe_difference(part) for part in diff)
    kind, *details = diff
    if kind.startswith("modify_"):
        _schema, table, column, _existing, before, after = details
        there, here = (default_text(value) or str(value) for value in (before, after))
        change = f"the database has {there}, the model has {here}"
        return f"{kind.replace('_', ' ')} of {table}.{column}: {change}"
    names = [str(getattr(part, "name", None) or part) for part in details if part is not None]
    return f"{kind.replace('_', ' ')}: {' '.join(names[:3])}"


@contextmanager
def _autocommit_connection(url: str) -> Iterator[Connection]:
    """Open a connection in autocommit mode, so that table locks end with each statement."""
    engine = create_engine(
        url.replace("postgresql://", "postgresql+psycopg2://", 1),
        poolclass=pool.NullPool,
        isolation_level="AUTOCOMMIT",
        connect_args={"connect_timeout": 5, "application_name": "marketplace db"},
    )
    with engine.connect() as connection:
        yield connection
    engine.dispose()
