"""Verification of the audit trail: each row contains the hash of the row before."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Row, Text, Uuid, cast, func, select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session

from marketplace.audit.models import AuditLog
from marketplace.audit.operations import GENESIS_HASH, LATER_COLUMNS

_BATCH_ROWS = 5_000
_TIME = func.to_char(func.timezone("UTC", AuditLog.at), 'YYYY-MM-DD"T"HH24:MI:SS.US')
# Texts are faster to read than the driver's objects. The format of times is that of ``compute_hash``.
_COLUMNS = (
    AuditLog.id,
    _TIME.label("at"),
    *(
        cast(column, Text).label(column.key) if isinstance(column.type, Uuid | JSONB) else column
        for column in AuditLog.__table__.columns
        if column.key not in ("id", "at")
    ),
)
_NAMES = tuple(column.key for column in _COLUMNS)


@dataclass(frozen=True)
class Link:
    """A position of the chain: the last row and its hash."""

    last_id: int
    last_hash: str


START = Link(0, GENESIS_HASH)


@dataclass(frozen=True)
class ChainRow:
    """A row of the trail: its id, its stored hashes, and the bytes that the hash covers."""

    id: int
    previous_hash: str
    hash: str
    content: bytes


class BrokenChainError(Exception):
    """A row of the trail was changed, or a row before it is missing.

    :ivar row_id: the first wrong row
    """

    def __init__(self, row_id: int) -> None:
        super().__init__(f"the audit trail is broken at row {row_id}")
        self.row_id = row_id


def read_rows(session: Session, *, after_id: int, up_to_id: int | None = None) -> Iterator[ChainRow]:
    """Read rows in the order of the chain, in batches.

    :param after_id: the last row that is not read
    :param up_to_id: the last row that is read; none for all rows
    """
    query = select(*_COLUMNS).order_by(AuditLog.id).limit(_BATCH_ROWS)
    if up_to_id is not None:
        query = query.where(AuditLog.id <= up_to_id)
    while batch := session.execute(query.where(AuditLog.id > after_id)).all():
        yield from map(_parse_row, batch)
        after_id = batch[-1][0]


def verify_rows(rows: Iterator[ChainRow], *, start: Link = START) -> Link:
    """Verify rows that follow a position, and return the position of the last row.

    :raises BrokenChainError: a row was changed, or a row is missing
    """
    last_id, last_hash = start.last_id, start.last_hash
    for row in rows:
        if row.previous_hash != last_hash or hashlib.sha256(row.content).hexdigest() != row.hash:
            raise BrokenChainError(row.id)
        last_id, last_hash = row.id, row.hash
    return Link(last_id, last_hash)


def _parse_row(values: Row[Any]) -> ChainRow:
    row = dict(zip(_NAMES, values, strict=True))
    row_id, stored_hash = row.pop("id"), row.pop("hash")
    row["at"] = f"{row['at'].removesuffix('.000000')}Z"
    for name in ("before", "after"):
        if row[name] is not None:
            row[name] = orjson.loads(row[name])
    for name in LATER_COLUMNS:
        if row[name] is None:
            del row[name]
    return ChainRow(row_id, row["previous_hash"], stored_hash, orjson.dumps(row, option=orjson.OPT_SORT_KEYS))
