"""Rotation of data keys: encrypt values again with the first key, in batches that can be interrupted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Column, ColumnElement, Table, Text, func, select, tuple_, type_coerce, update
from sqlalchemy.orm import Session

from marketplace.infra.db import Database, allow_long_statements
from marketplace.infra.encryption import EncryptedText, writing_key_id

BATCH_ROWS = 200
_STATEMENT_SECONDS = 60


@dataclass(frozen=True)
class EncryptedColumn:
    """An encrypted column of a table."""

    table: Table
    column: Column[str]

    @property
    def name(self) -> str:
        """The name as ``table.column``."""
        return f"{self.table.name}.{self.column.name}"

    def is_stale(self, key_id: str) -> ColumnElement[bool]:
        """Return the condition for values of another key."""
        stored = type_coerce(self.column, Text)
        return stored.is_not(None) & stored.not_like(f"v1:{key_id}:%")


def list_encrypted_columns(tables: Mapping[str, Table]) -> list[EncryptedColumn]:
    """List the encrypted columns of all tables of the models, by name."""
    return [
        EncryptedColumn(table, column)
        for _, table in sorted(tables.items())
        for column in table.columns
        if isinstance(column.type, EncryptedText)
    ]


def count_stale_values(session: Session, columns: Sequence[EncryptedColumn]) -> dict[str, int]:
    """Count the values of other keys than the first, by column."""
    allow_long_statements(session, seconds=_STATEMENT_SECONDS)
    key_id = writing_key_id()
    return {
        encrypted.name: session.scalar(
            select(func.count()).select_from(encrypted.table).where(encrypted.is_stale(key_id))
        )
        or 0
        for encrypted in columns
    }


def rotate_column(database: Database, encrypted: EncryptedColumn, *, advance: Callable[[int], None]) -> int:
    """Encrypt the values of other keys again, each batch in a transaction of its own.

    The blind index of a value does not change, because the text does not. A second run goes on where the first ended.

    :param advance: is called with the number of values of each batch
    :return: the number of values
    :raises EncryptionError: a value needs a key that is missing
    """
    total = 0
    while done := database.in_transaction(_rotate_batch, encrypted=encrypted):
        advance(done)
        total += done
    return total


def _rotate_batch(session: Session, *, encrypted: EncryptedColumn) -> int:
    key = list(encrypted.table.primary_key.columns)
    rows = session.execute(
        select(*key, encrypted.column)
        .where(encrypted.is_stale(writing_key_id()))
        .limit(BATCH_ROWS)
        .with_for_update()
    ).all()
    for *identity, plain in rows:
        session.execute(
            update(encrypted.table).where(tuple_(*key) == tuple_(*identity)).values({encrypted.column: plain})
        )
    return len(rows)
