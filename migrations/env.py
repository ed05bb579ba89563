"""Alembic's environment: online alone, since the migrations look at what is there."""

import os

from alembic import context
from sqlalchemy import create_engine, pool

from marketplace.models import metadata
from migrations.comparing import drop_equal_defaults


def run_migrations() -> None:
    """Run the migrations asked for, each in a transaction of its own."""
    url = context.config.attributes.get("database_url") or os.environ["DATABASE_URL"]
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg2://", 1), poolclass=pool.NullPool)
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


run_migrations()
