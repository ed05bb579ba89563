"""Rendering of replies: each reply schema is compiled once into a function that renames fields.

The domain returns rows and views in snake_case, as dataclasses or dicts. marshmallow's dump takes about ten times
the processor time, so this module renames fields instead. Tests validate replies against their schemas.
"""

from collections.abc import Callable
from typing import Any

from marshmallow import Schema, fields

Renderer = Callable[[Any], Any]


def compile_renderer(schema: Schema, *, partial: bool = False) -> Renderer:
    """Compile the function that renders replies of a schema.

    :param schema: fields to take, with their names in JSON. With ``many`` the reply is a list
    :param partial: whether required fields of the schema itself may be missing
    :return: function from a dataclass, a dict or a list of either to dicts and lists, ready for JSON
    """
    render: Renderer = _functions[_define_function(schema, partial=partial)]
    return (lambda values: [render(value) for value in values]) if schema.many else render


# Each function renders an object by one dict display. Loops over the names took twice the processor time.
# Functions call each other by name, because a schema may contain itself.
_functions: dict[str, Any] = {}
_function_names: dict[tuple[type[Schema], tuple[str, ...], bool], str] = {}


def _define_function(schema: Schema, *, partial: bool = False) -> str:
    """Define the function that renders a schema's objects, once, and return the function's name."""
    identity = (type(schema), tuple(schema.dump_fields), partial)
    if identity in _function_names:
        return _function_names[identity]
    name = _function_names[identity] = f"render_{len(_function_names)}"
    attributes: list[str] = []
    required: list[str] = []
    optional: list[str] = []
    for field_name, field in schema.dump_fields.items():
        source, key = field.attribute or field_name, field.data_key or field_name
        item = _field_expression(field, f"value[{source!r}]")
        # An attribute may be a path, such as period.starts.
        attributes.append(f"{key!r}: {_field_expression(field, f'value.{source}')}")
        if field.required and not partial:
            required.append(f"{key!r}: {item}")
        else:
            optional.append(f"        if {source!r} in value: rendered[{key!r}] = {item}")
    lines = [
        f"def {name}(value):",
        "    if isinstance(value, dict):",
        f"        rendered = {{{', '.join(required)}}}",
        *optional,
        "        return rendered",
        f"    return {{{', '.join(attributes)}}}",
    ]
    exec("\n".join(lines), _functions)  # noqa: S102 - made only of names in our own schemas
    return name


def _field_expression(field: fields.Field[Any], value: str) -> str:
    """Return the expression for a field's rendered value."""
    rendered = _nested_expression(field, "below")
    return value if rendered is None else f"None if (below := {value}) is None else {rendered}"


def _nested_expression(field: fields.Field[Any], value: str) -> str | None:
    """Return the expression for a value that contains objects; None for scalars and free-form objects."""
    if isinstance(field, fields.Nested):
        render = _define_function(field.schema)
        return f"[{render}(each) for each in {value}]" if field.schema.many else f"{render}({value})"
    if isinstance(field, fields.List):
        inner = _nested_expression(field.inner, "each")
        return inner and f"[{inner} for each in {value}]"
    if isinstance(field, fields.Dict) and field.value_field is not None:
        inner = _nested_expression(field.value_field, "each")
        return inner and f"{{key: {inner} for key, each in {value}.items()}}"
    return None
