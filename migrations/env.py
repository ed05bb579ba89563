"""Alembic's environment: each migration in its own transaction, with time-outs that protect the running service."""

import os

from alembic import context
from sqlalchemy import Connection, create_engine, event, pool

from marketplace.models import metadata
from migrations.comparing import drop_equal_defaults

# A statement that waits for a lock blocks all later statements on the table. Requests time out after a few seconds, so
# the migration must fail first. A failed migration changes nothing and can run again at a quieter time.
LOCK_TIMEOUT = "4s"
STATEMENT_TIMEOUT = "5s"


def run_migrations_online() -> None:
    """Run the requested migrations on a database."""
    url = context.config.attributes.get("database_url") or os.environ["DATABASE_URL"]
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg2://", 1), poolclass=pool.NullPool)
    event.listen(engine, "begin", _limit_transaction)
    with engine.connect() as connection:
        context.configure(
            connection=connection,
            target_metadata=metadata,
            transaction_per_migration=True,
            compare_type=True,
            compare_server_default=True,
            process_revision_directives=drop_equal_defaults,
        )
        with context.begin_transaction():
            context.run_migrations()
    engine.dispose()


def _limit_transaction(connection: Connection) -> None:
    """Set the time-outs of a transaction. SET LOCAL has no effect in autocommit, where ``operations`` sets them."""
    if connection.get_execution_options().get("isolation_level") != "AUTOCOMMIT":
        connection.exec_driver_sql(
            f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'; SET LOCAL statement_timeout = '{STATEMENT_TIMEOUT}'"
        )


def run_migrations_offline() -> None:
    """Print the SQL of the requested migrations, for tests."""
    context.configure(dialect_name="postgresql", literal_binds=True, transaction_per_migration=True)
    with context.begin_transaction():
        context.run_migrations()


if context.is_offline_mode():
    run_migrations_offline()
else:
    run_migrations_online()
