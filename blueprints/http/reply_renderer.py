"""Replies in the API's names: each reply schema is compiled once into a function that renames fields.

The domain gives rows and views in snake_case, as dataclasses or dicts. marshmallow's dump would do the same for
about ten times the processor time, so replies are renamed here, and tests validate them against their schema.
"""

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter, itemgetter
from typing import Any

from marshmallow import Schema, fields

Renderer = Callable[[Any], Any]


def compile_renderer(schema: Schema, *, partial: bool = False) -> Renderer:
    """Compile the function that renders replies of a schema.

    :param schema: names the fields to take and their keys in JSON; with ``many`` the reply is a list
    :param partial: whether required fields of the schema itself may be missing
    :return: takes a dataclass, a dict or a list of them; gives dicts and lists, ready for JSON
    """
    return _Compiler().compile_schema(schema, partial=partial)


class _Compiler:
    """Compiles a schema and the schemas within, each class once: a schema may contain itself."""

    def __init__(self) -> None:
        self._renderers: dict[type[Schema], Renderer] = {}

    def compile_schema(self, schema: Schema, *, partial: bool = False) -> Renderer:
        renderer = self._renderers.get(type(schema)) or self._compile_object(schema, partial)
        return _render_each(renderer) if schema.many else renderer

    def _compile_object(self, schema: Schema, partial: bool) -> Renderer:
        schema_fields = schema.dump_fields
        required = {name: field for name, field in schema_fields.items() if field.required and not partial}
        optional = {name: field for name, field in schema_fields.items() if name not in required}
        nested: list[tuple[str, Renderer]] = []
        render = _object_renderer(_keys_by_name(required), _keys_by_name(optional), nested)
        self._renderers[type(schema)] = render
        for name, field in schema_fields.items():
            inner = self._compile_field(field)
            if inner is not None:
                nested.append((field.data_key or name, inner))
        return render

    def _compile_field(self, field: fields.Field[Any]) -> Renderer | None:
        """Compile what is below a field; scalars and free objects stay as they are."""
        if isinstance(field, fields.Nested):
            return self.compile_schema(field.schema)
        if isinstance(field, fields.List):
            inner = self._compile_field(field.inner)
            return inner and _render_each(inner)
        if isinstance(field, fields.Dict) and field.value_field is not None:
            inner = self._compile_field(field.value_field)
            return inner and _render_values(inner)
        return None


def _keys_by_name(schema_fields: Mapping[str, fields.Field[Any]]) -> dict[str, str]:
    return {field.attribute or name: field.data_key or name for name, field in schema_fields.items()}


def _object_renderer(
    required: Mapping[str, str], optional: Mapping[str, str], nested: Iterable[tuple[str, Renderer]]
) -> Renderer:
    keys = tuple(required.values())
    take_items, take_attributes = (_taker(getter, tuple(required)) for getter in (itemgetter, attrgetter))

    def render(value: Any) -> Any:
        if isinstance(value, dict):
            rendered = dict(zip(keys, take_items(value), strict=True))
            rendered.update((key, value[name]) for name, key in optional.items() if name in value)
        else:
            rendered = dict(zip(keys, take_attributes(value), strict=True))
            rendered.update((key, getattr(value, name)) for name, key in optional.items())
        for key, inner in nested:
            if rendered.get(key) is not None:
                rendered[key] = inner(rendered[key])
        return rendered

    return render


def _taker(getter: Callable[..., Any], names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """Take all names at once, always as a tuple."""
    if not names:
        return lambda _value: ()
    take = getter(*names)
    return take if len(names) > 1 else lambda value: (take(value),)


def _render_each(inner: Renderer) -> Renderer:
    return lambda values: [inner(value) for value in values]


def _render_values(inner: Renderer) -> Renderer:
    return lambda values: {key: inner(value) for key, value in values.items()}
