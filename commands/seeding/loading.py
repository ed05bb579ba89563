"""Loading of demo data: JSON files, ids that are stable across runs, and rows by COPY."""

import hashlib
import io
import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from enum import IntEnum
from importlib import resources
from itertools import islice
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints
from uuid import UUID

import orjson
from marshmallow import Schema, ValidationError
from marshmallow.fields import Boolean, Field, Float, Integer, List, Nested, String
from sqlalchemy.orm import Session

from marketplace.infra.sessions import driver_cursor

Record = TypeVar("Record")

# Called with the number of further finished steps of a stage.
ProgressCallback = Callable[[int], None]

_SCALARS: Final[dict[Any, type[Field[Any]]]] = {str: String, int: Integer, float: Float, bool: Boolean}
_BATCH_ROWS = 5_000
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_QUOTES = str.maketrans({"\\": "\\\\", '"': '\\"'})


class SeededKind(IntEnum):
    """The kind of a seeded row. The numbers are part of the ids and must never change."""

    CAMPUS = 1
    HOSTEL = 2
    HUB = 3
    CATEGORY = 4
    PERSON = 5
    VENDOR = 6
    PRODUCT = 7
    IMAGE = 8
    ADDRESS = 9
    PAYOUT_ACCOUNT = 10


def seeded_id(kind: SeededKind, number: int) -> UUID:
    """Return the id of a seeded row.

    The layout is that of a UUID of version 7. Kind and number form the timestamp, which is before 1972. Seeded ids of a
    kind sort by number, and before all ids that the service creates.

    :param number: number of the row within the kind, below 2^32
    """
    digest = int.from_bytes(hashlib.blake2b(f"{kind.value}:{number}".encode(), digest_size=10).digest())
    moment = kind.value << 32 | number
    return UUID(
        int=moment << 80 | 7 << 76 | (digest >> 64 & 0xFFF) << 64 | 0b10 << 62 | digest & ((1 << 62) - 1)
    )


class InvalidDataError(ValueError):
    """A data file does not match the declared record type."""


def load_data(name: str, record_type: type[Record]) -> Record:
    """Read a data file.

    :param name: file name in this package's ``data``, without the extension
    :param record_type: dataclass of texts, numbers, flags, tuples and dataclasses, or a tuple of such dataclasses
    :raises InvalidDataError: the file has unknown, missing or invalid values
    """
    file = resources.files(__package__) / "data" / f"{name}.json"
    return parse_data(file.read_bytes(), record_type, name=name)


def parse_data(content: bytes, record_type: type[Record], *, name: str) -> Record:
    """Build a record from a file's content; see ``load_data``."""
    try:
        record: Record = _field_for(record_type).deserialize(orjson.loads(content))
    except (ValidationError, ValueError) as error:
        raise InvalidDataError(f"{name}.json: {error}") from error
    return record


class _RecordField(Nested):
    """An object with the members of a dataclass."""

    def __init__(self, record_type: Any, **options: Any) -> None:
        super().__init__(lambda: Schema.from_dict(_member_fields(record_type)), **options)
        self._record_type = record_type

    def _deserialize(self, *args: Any, **kwargs: Any) -> Any:
        return self._record_type(**super()._deserialize(*args, **kwargs))


class _TupleField(List[Any]):
    def _deserialize(self, *args: Any, **kwargs: Any) -> Any:
        return tuple(super()._deserialize(*args, **kwargs))


def _member_fields(record_type: Any) -> dict[str, Field[Any]]:
    annotations = get_type_hints(record_type)
    return {
        member.name: _field_for(annotations[member.name], required=member.default is MISSING)
        for member in fields(record_type)
    }


def _field_for(annotation: Any, **options: Any) -> Field[Any]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if is_dataclass(annotation):
        return _RecordField(annotation, **options)
    if origin is tuple:
        return _TupleField(_field_for(arguments[0]), **options)
    if origin is types.UnionType:
        return _field_for(arguments[0], allow_none=True, **options)
    return _SCALARS[annotation](**options)


def copy_rows(
    session: Session,
    table: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    progress: ProgressCallback | None = None,
) -> int:
    """Add rows to a table by COPY, in batches. Existing rows stay unchanged.

    :param columns: columns of the rows. Other columns get their defaults
    :param rows: values in the columns' order
    :param progress: called with the number of rows of each batch
    :return: number of new rows
    """
    listed = ", ".join(columns)
    staging = f"seed_{table}"
    added = 0
    remaining = iter(rows)
    # Table and column names are constants of this package. Values go through COPY only.
    with driver_cursor(session) as cursor:
        cursor.execute(f"CREATE TEMP TABLE {staging} AS SELECT {listed} FROM {table} WITH NO DATA")
        while batch := list(islice(remaining, _BATCH_ROWS)):
            lines = "".join("\t".join(map(_format_copy_field, row)) + "\n" for row in batch)
            cursor.copy_expert(f"COPY {staging} ({listed}) FROM STDIN", io.StringIO(lines))
            cursor.execute(
                f"INSERT INTO {table} ({listed}) SELECT {listed} FROM {staging} ON CONFLICT DO NOTHING"
            )
            added += cursor.rowcount
            cursor.execute(f"TRUNCATE {staging}")
            if progress:
                progress(len(batch))
        cursor.execute(f"DROP TABLE {staging}")
    return added


def _format_copy_field(value: Any) -> str:
    """Format a value in COPY's text format."""
    if value is None:
        return "\\N"
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list | tuple):
        value = "{" + ",".join(f'"{str(item).translate(_QUOTES)}"' for item in value) + "}"
    return str(value).translate(_ESCAPES)
