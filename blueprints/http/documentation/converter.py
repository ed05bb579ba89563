"""Conversion of marshmallow schemas to the schemas of the OpenAPI document."""

import inspect
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from apispec.ext.marshmallow import MarshmallowPlugin
from apispec.ext.marshmallow.common import resolve_schema_instance
from apispec.ext.marshmallow.openapi import OpenAPIConverter
from marshmallow import Schema, fields

from blueprints.http.documentation.enumerations import ENUMERATIONS
from blueprints.http.fields import MAX_INT64, ClearList, SortKey, is_null_kept

_MAX_INT32 = 2**31 - 1
_ENUMERATION_OF_WORDS = {frozenset(words): name for name, words in ENUMERATIONS.items()}


def reachable_schemas(schemas: Iterable[Schema]) -> set[type[Schema]]:
    """Return the classes of schemas and of all schemas nested in them."""
    found: set[type[Schema]] = set()
    pending = list(schemas)
    while pending:
        schema = pending.pop()
        if type(schema) not in found:
            found.add(type(schema))
            pending.extend(inner for field in schema.fields.values() for inner in _nested_schemas(field))
    return found


def _nested_schemas(field: fields.Field[Any]) -> Iterator[Schema]:
    if isinstance(field, fields.Nested):
        yield field.schema
    elif isinstance(field, fields.List):
        yield from _nested_schemas(field.inner)
    elif isinstance(field, fields.Dict) and field.value_field is not None:
        yield from _nested_schemas(field.value_field)


class SchemaConverter(OpenAPIConverter):
    """A converter with named enumerations, nulls as the edge treats them, and replies that may get new fields.

    ``bodies`` are the schemas of request bodies, ``queries`` the schemas of query parameters. All others are replies.
    """

    bodies: frozenset[type[Schema]] = frozenset()
    queries: frozenset[type[Schema]] = frozenset()

    def schema2jsonschema(self, schema: Schema | type[Schema]) -> dict[str, Any]:
        """Describe a schema with its docstring. Only request bodies exclude unknown fields."""
        described: dict[str, Any] = super().schema2jsonschema(schema)  # type: ignore[no-untyped-call]
        kind = type(resolve_schema_instance(schema))
        if kind not in self.bodies:
            described.pop("additionalProperties", None)
        text = inspect.cleandoc(kind.__doc__ or "")
        return ({"description": text} if text else {}) | described

    field_mapping = OpenAPIConverter.field_mapping | {fields.Url: ("string", "uri")}

    def field2default(self, field: fields.Field[Any], **kwargs: Any) -> dict[str, Any]:
        """Describe a field's default. The default None only means that a field may be left out."""
        return {} if field.load_default is None else super().field2default(field, **kwargs)

    def field2range(self, field: fields.Field[Any], ret: dict[str, Any]) -> dict[str, Any]:
        """Describe the range of a number, without the bounds of 64-bit integers, which the format implies."""
        bounds: dict[str, Any] = super().field2range(field, ret)
        if bounds.get("maximum") == MAX_INT64:
            del bounds["maximum"]
        if isinstance(field, fields.Integer) and bounds.get("maximum", MAX_INT64) > _MAX_INT32:
            bounds["format"] = "int64"
        return bounds

    def field2choices(self, field: fields.Field[Any], **kwargs: Any) -> dict[str, Any]:
        """Refer to the component of an enumeration, which has a name of its own."""
        described: dict[str, Any] = super().field2choices(field, **kwargs)
        words = [word for word in described.pop("enum", ()) if word is not None]
        if words:
            kwargs["ret"].pop("type", None)
            described |= self.refer_to_enumeration(words, name=_name_of_schema_enumeration(field))
        return described

    def refer_to_enumeration(self, words: Sequence[str], *, name: str | None = None) -> dict[str, Any]:
        """Return a reference to the component of an enumeration, and add the component if it is missing.

        :param name: name of an enumeration that is not in ``ENUMERATIONS``, because it belongs to a schema
        :raises KeyError: no enumeration has these words
        """
        name = name or _ENUMERATION_OF_WORDS[frozenset(words)]
        listed = ENUMERATIONS.get(name, words)
        if name not in self.spec.components.schemas:
            self.spec.components.schema(name, {"type": "string", "enum": list(listed)})
        reference: dict[str, Any] = self.spec.components.get_ref("schema", name)
        return reference

    def field2nullable(self, field: fields.Field[Any], ret: dict[str, Any]) -> dict[str, Any]:
        """Describe null: never in a query, and in a body for all optional fields."""
        schema = type(field.root)
        if schema in self.queries:
            return {}
        # In a body, only optional fields may be null, not the items of a list.
        is_left_out = schema in self.bodies and field.parent is field.root and not is_null_kept(field)
        if not (field.allow_none or is_left_out):
            return {}
        if "$ref" in ret:
            return {"anyOf": [{"$ref": ret.pop("$ref")}, {"type": "null"}]}
        return {"type": [ret["type"], "null"]}


def _name_of_schema_enumeration(field: fields.Field[Any]) -> str | None:
    """Return the name of an enumeration of a schema's fields, such as the sort keys of a table."""
    schema = type(field.root).__name__
    if isinstance(field, SortKey):
        return f"{schema.removesuffix('Query')}Sort"
    if isinstance(field.parent, ClearList):
        return f"{schema}ClearableField"
    return None


class SchemaPlugin(MarshmallowPlugin):
    """The apispec plugin with this module's converter."""

    Converter = SchemaConverter
    converter: SchemaConverter

    def describe_as_inputs(self, *, bodies: Iterable[Schema], queries: Iterable[Schema]) -> None:
        """Mark schemas as request bodies and query parameters, before any schema is converted."""
        self.converter.bodies = frozenset(reachable_schemas(bodies))
        self.converter.queries = frozenset(reachable_schemas(queries))
