"""Operations on tables with data that do not block the running service. Each operation runs outside a transaction.

A migration with such an operation must do nothing else. A failure keeps the finished part, and the migration can run
again.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from alembic import op

# Lets replicas and autovacuum keep up with a backfill.
_PAUSE_SECONDS = 0.1


@contextmanager
def outside_transaction() -> Iterator[None]:
    """Run a block of statements in autocommit, without the role's time-outs."""
    with op.get_context().autocommit_block():
        op.execute("SET statement_timeout = 0")
        op.execute("SET lock_timeout = 0")
        yield


def build_index(name: str, table: str, columns: Sequence[Any], **options: Any) -> None:
    """Build an index CONCURRENTLY, and replace an invalid index of an interrupted build.

    :param options: further arguments of ``op.create_index``
    """
    with outside_transaction():
        op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
        op.create_index(name, table, list(columns), postgresql_concurrently=True, **options)


def validate_constraint(table: str, name: str) -> None:
    """Validate a constraint that an earlier migration added as NOT VALID, without blocking writes."""
    with outside_transaction():
        op.execute(f"ALTER TABLE {table} VALIDATE CONSTRAINT {name}")


def backfill(statement: str) -> None:
    """Repeat an UPDATE, DELETE or INSERT ... SELECT until the statement affects no row. Each run commits.

    :param statement: must affect a limited number of rows that still need the change
        (``WHERE id IN (SELECT id FROM the same table ... LIMIT 1000)``)
    """
    with outside_transaction():
        if op.get_context().as_sql:
            op.execute(statement)
            return
        while op.get_bind().execute(sa.text(statement)).rowcount:
            time.sleep(_PAUSE_SECONDS)


def backfill_rows(
    select: str, update: str, convert: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> None:
    """Convert rows in Python until the SELECT returns no row. Each UPDATE commits. Offline, nothing is printed.

    :param select: must return a limited number of rows that still need the change
    :param update: changes a row, with the parameters that ``convert`` returns
    """
    if op.get_context().as_sql:
        return
    with outside_transaction():
        bind = op.get_bind()
        while rows := bind.execute(sa.text(select)).mappings().all():
            for row in rows:
                bind.execute(sa.text(update), dict(convert(row)))
            time.sleep(_PAUSE_SECONDS)
