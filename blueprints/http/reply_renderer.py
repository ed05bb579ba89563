"""Replies in the API's names: each reply schema is compiled once into a function that renames fields.

The domain gives rows and views in snake_case, as dataclasses or dicts. marshmallow's dump would do the same for
about ten times the processor time, so replies are renamed here, and tests validate them against their schema.
"""

from collections.abc import Callable, Iterable
from itertools import chain
from operator import attrgetter
from typing import Any

from marshmallow import Schema, fields

Renderer = Callable[[Any], Any]
# Names in the domain, each with its key in JSON.
_Keys = list[tuple[str, str]]


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
        required: _Keys = []
        optional: _Keys = []
        for name, field in schema_fields.items():
            kind = required if field.required and not partial else optional
            kind.append((field.attribute or name, field.data_key or name))
        nested: list[tuple[str, Renderer]] = []
        render = _object_renderer(required, optional, nested)
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


def _object_renderer(required: _Keys, optional: _Keys, nested: Iterable[tuple[str, Renderer]]) -> Renderer:
    names = [(name, key) for name, key in chain(required, optional) if "." not in name]
    # A name may be a path, such as period.starts.
    paths = [(attrgetter(name), key) for name, key in chain(required, optional) if "." in name]

    def render(value: Any) -> Any:
        if isinstance(value, dict):
            rendered = {key: value[name] for name, key in required}
            if optional:
                rendered |= {key: value[name] for name, key in optional if name in value}
        else:
            rendered = {key: getattr(value, name) for name, key in names}
            for take, key in paths:
                rendered[key] = take(value)
        for key, inner in nested:
            below = rendered.get(key)
            if below is not None:
                rendered[key] = inner(below)
        return rendered

    return render


def _render_each(inner: Renderer) -> Renderer:
    return lambda values: [inner(value) for value in values]


def _render_values(inner: Renderer) -> Renderer:
    return lambda values: {key: inner(value) for key, value in values.items()}
