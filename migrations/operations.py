"""Operations on tables with data that do not block the running service. Each runs outside a transaction.

A migration that uses one of them does nothing else: a failure leaves the finished part, and the migration is run again.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from alembic import op

# Lets replicas and autovacuum keep up with a backfill.
_PAUSE_SECONDS = 0.1


@contextmanager
def outside_transaction() -> Iterator[None]:
    """Run a block's statements in autocommit, without the time-outs that the role may have."""
    with op.get_context().autocommit_block():
        op.execute("SET statement_timeout = 0")
        op.execute("SET lock_timeout = 0")
        yield


def build_index(name: str, table: str, columns: Sequence[Any], **options: Any) -> None:
    """Build an index CONCURRENTLY, in place of an invalid one that an interrupted build has left.

    :param options: further arguments of ``op.create_index``
    """
    with outside_transaction():
        op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
        op.create_index(name, table, list(columns), postgresql_concurrently=True, **options)


def validate_constraint(table: str, name: str) -> None:
    """Validate a constraint that an earlier migration added as NOT VALID. Writes go on meanwhile."""
    with outside_transaction():
        op.execute(f"ALTER TABLE {table} VALIDATE CONSTRAINT {name}")


def backfill(statement: str) -> None:
    """Run an UPDATE, DELETE or INSERT ... SELECT again and again until it affects no row; each run commits.

    :param statement: affects a limited number of rows that still need the change
        (``WHERE id IN (SELECT id FROM the same table ... LIMIT 1000)``)
    """
    with outside_transaction():
        if op.get_context().as_sql:
            op.execute(statement)
            return
        while op.get_bind().execute(sa.text(statement)).rowcount:
            time.sleep(_PAUSE_SECONDS)
