"""Loading of demo data: JSON files, rows by COPY, and fixed ids."""

import io
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from importlib import resources
from itertools import count, islice
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

import orjson
from marshmallow import Schema, ValidationError
from marshmallow.fields import Boolean, Field, Float, Integer, List, Nested, String
from sqlalchemy import event
from sqlalchemy.orm import Session

from marketplace.infra.sessions import driver_cursor
from marketplace.kernel.demo_ids import SeededKind, seeded_id

Record = TypeVar("Record")

# Called with the number of further finished steps of a stage.
ProgressCallback = Callable[[int], None]

_SCALARS: Final[dict[Any, type[Field[Any]]]] = {str: String, int: Integer, float: Float, bool: Boolean}
_BATCH_ROWS = 5_000
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_QUOTES = str.maketrans({"\\": "\\\\", '"': '\\"'})


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
    if isinstance(value, bytes):
        return f"\\\\x{value.hex()}"
    if isinstance(value, list | tuple):
        value = "{" + ",".join(f'"{str(item).translate(_QUOTES)}"' for item in value) + "}"
    return str(value).translate(_ESCAPES)


@contextmanager
def fixed_ids(session: Session, kinds: Mapping[type[Any], SeededKind]) -> Iterator[None]:
    """Give new rows of some tables seeded ids instead of ids of the database, numbered from 1 within the block.

    :param kinds: the kind of seeded id for each mapped class
    """
    numbers = {model: count(1) for model in kinds}

    def assign_ids(flushing: Session, *_facts: object) -> None:
        for row in flushing.new:
            if type(row) in kinds and row.id is None:
                row.id = seeded_id(kinds[type(row)], next(numbers[type(row)]))

    event.listen(session, "before_flush", assign_ids)
    try:
        yield
    finally:
        event.remove(session, "before_flush", assign_ids)
