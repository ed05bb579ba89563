"""The database's schema: upgrade it, and check that database, migrations and models agree."""

import re
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
from marketplace.models import metadata
from migrations.comparing import default_text, drop_equal_defaults

# Any number, the same in every process: whoever upgrades holds this advisory lock.
_UPGRADE_LOCK = 7_269_011
# Revisions 0001 to 0029 were replaced by the baseline before the first release.
_BEFORE_BASELINE = re.compile(r"00[0-2]\d")


@click.group(help="Bring the database's schema up to date, and check it.")
def db() -> None:
    """Group the commands."""


@db.command(
    help="""Bring the database's schema to the latest revision.

    It may be run again, and by several hosts at once: they take turns. Run it before the new version of the
    service starts.

    \b
    Example:
      marketplace db upgrade"""
)
def upgrade() -> None:
    """Upgrade the database, and tell each step."""
    settings = get_settings()
    if settings.database_prepared_statements == "off":
        raise CommandFailedError(
            "An upgrade needs a direct connection, not a pooler's. Run it with DATABASE_URL naming PostgreSQL itself"
            " and DATABASE_PREPARED_STATEMENTS=on."
        )
    steps = upgrade_database(settings.database_url)
    for step in steps:
        click.echo(f"applied {step}")
    click.echo(f"The database is at {latest_revision()}{'' if steps else ' already'}.")


@db.command(
    help="""Check that the database is at the latest revision and has exactly the tables of the models.

    Ends with status 1 and tells what differs; nothing is changed.

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
            f"The database is at {revision or 'no revision'}, the latest is {latest_revision()}."
            " Run `marketplace db upgrade`."
        )
    differing = list_differences(url)
    if differing:
        click.secho("The database differs from the models; a migration is missing for:", err=True, fg="red")
        for line in differing:
            click.echo(f"  {line}")
        ctx.exit(1)
    click.echo(f"The database is at {latest_revision()}, and agrees with the models.")


@db.command(help="Print the revision that the database is at, and the latest one.")
def current() -> None:
    """Print the revisions."""
    click.echo(f"database\t{current_revision(get_settings().database_url) or 'none'}")
    click.echo(f"latest\t{latest_revision()}")


def alembic_config(url: str) -> Config:
    """Make Alembic's configuration.

    :param url: the database, as DATABASE_URL names it
    """
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent).replace("%", "%%"))
    config.attributes["database_url"] = url
    return config


def latest_revision() -> str:
    """Give the latest revision.

    :raises LookupError: there is none, or more than one
    """
    revision = ScriptDirectory.from_config(alembic_config("")).get_current_head()
    if revision is None:
        raise LookupError("there are no migrations")
    return revision


def current_revision(url: str) -> str | None:
    """Give the revision that a database is at, or none for a database without our tables."""
    with _autocommit_connection(url) as connection:
        return MigrationContext.configure(connection).get_current_revision()


def upgrade_database(url: str) -> list[str]:
    """Bring a database to the latest revision; of several callers one works at a time.

    :param url: the database, as DATABASE_URL names it
    :return: the steps taken, each a revision and its summary
    :raises CommandFailedError: this version does not know the database's revision
    """
    config = alembic_config(url)
    scripts = ScriptDirectory.from_config(config)
    with _autocommit_connection(url) as lock:
        lock.execute(text("SET lock_timeout = '120s'; SET statement_timeout = 0"))
        lock.execute(text("SELECT pg_advisory_lock(:key)"), {"key": _UPGRADE_LOCK})
        before = MigrationContext.configure(lock).get_current_revision()
        _require_known_revision(before)
        alembic.command.upgrade(config, "head")
    steps = list(scripts.iterate_revisions("head", before or "base"))
    return [f"{step.revision}: {step.doc}" for step in reversed(steps)]


def _require_known_revision(revision: str | None) -> None:
    scripts = ScriptDirectory.from_config(alembic_config(""))
    if revision is None or revision in {script.revision for script in scripts.walk_revisions()}:
        return
    if _BEFORE_BASELINE.fullmatch(revision):
        raise CommandFailedError(
            f"The database is at revision {revision} from before the migrations' baseline and can't be upgraded:"
            " `make reset` removes the embedded stack's database, any other must be created anew."
        )
    raise CommandFailedError(
        f"The database is at revision {revision}, which this version does not know: a newer version has"
        " upgraded it. Deploy that version."
    )


def list_differences(url: str) -> list[str]:
    """Compare a database with the models.

    :param url: the database, as DATABASE_URL names it
    :return: what a migration would have to do, one line each; none if they agree
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
    """Write one of Alembic's differences, such as ('add_column', None, 'products', Column(...))."""
    if isinstance(diff, list):
        return "; ".join(_describe_difference(part) for part in diff)
    kind, *details = diff
    if kind.startswith("modify_"):
        _schema, table, column, _existing, before, after = details
        there, here = (default_text(value) or str(value) for value in (before, after))
        change = f"the database has {there}, the model {here}"
        return f"{kind.replace('_', ' ')} of {table}.{column}: {change}"
    names = [str(getattr(part, "name", None) or part) for part in details if part is not None]
    return f"{kind.replace('_', ' ')}: {' '.join(names[:3])}"


@contextmanager
def _autocommit_connection(url: str) -> Iterator[Connection]:
    """Open a connection in autocommit, so that no lock of ours outlives its statement."""
    engine = create_engine(
        url.replace("postgresql://", "postgresql+psycopg2://", 1),
        poolclass=pool.NullPool,
        isolation_level="AUTOCOMMIT",
        connect_args={"connect_timeout": 5, "application_name": "marketplace db"},
    )
    with engine.connect() as connection:
        yield connection
    engine.dispose()
