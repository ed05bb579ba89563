"""The demo's data: JSON files of this package, validated as they are read."""

import types
from dataclasses import MISSING, fields, is_dataclass
from importlib import resources
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

import orjson
from marshmallow import Schema, ValidationError
from marshmallow.fields import Boolean, Field, Float, Integer, List, Nested, String

Record = TypeVar("Record")

_SCALARS: Final[dict[Any, type[Field[Any]]]] = {str: String, int: Integer, float: Float, bool: Boolean}


class InvalidDataError(ValueError):
    """A data file does not hold what its record type declares."""


def load_data(name: str, record_type: type[Record]) -> Record:
    """Read a data file.

    :param name: of the file in this package's ``data``, without its suffix
    :param record_type: a dataclass of texts, numbers, flags, tuples and further dataclasses, or a tuple of such
    :raises InvalidDataError: the file has unknown, missing or wrong values
    """
    content = (resources.files(__package__) / "data" / f"{name}.json").read_bytes()
    return parse_data(content, record_type, name=name)


def parse_data(content: bytes, record_type: type[Record], *, name: str) -> Record:
    """Build a record of a file's content; see ``load_data``."""
    try:
        value: Any = _field_for(record_type).deserialize(orjson.loads(content))
    except (ValidationError, ValueError) as error:
        raise InvalidDataError(f"{name}.json: {error}") from error
    record: Record = _freeze(value)
    return record


class _RecordField(Nested):
    """An object whose members are those of a dataclass."""

    def __init__(self, record_type: Any, **options: Any) -> None:
        super().__init__(lambda: Schema.from_dict(_member_fields(record_type)), **options)
        self._record_type = record_type

    def _deserialize(self, *args: Any, **kwargs: Any) -> Any:
        values = super()._deserialize(*args, **kwargs)
        return self._record_type(**{name: _freeze(value) for name, value in values.items()})


def _freeze(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


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
        return List(_field_for(arguments[0]), **options)
    if origin is types.UnionType:
        return _field_for(arguments[0], allow_none=True, **options)
    return _SCALARS[annotation](**options)
