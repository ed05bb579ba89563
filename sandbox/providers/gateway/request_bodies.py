"""Request bodies as JSON or as a form, and the members that clients send as text."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from flask import Request

from sandbox.providers import fields

FORM_TYPES = ("application/x-www-form-urlencoded", "multipart/form-data")
MAXIMUM_DEPTH = 5
# Form clients cannot send objects and lists, and some JSON clients encode these members twice.
_STRUCTURED = ("bank_transfer", "batch", "channels", "transfers")
_STEP = re.compile(r"\[([^\[\]]*)\]")


def read(request: Request) -> dict[str, Any]:
    """Read a request's body as an object.

    A form becomes nested through names such as ``transfers[0][amount]`` and ``channels[]``. A JSON object counts
    as JSON whatever the content type says, because ``curl -d`` labels each body as a form.

    :raises InvalidFieldError: the body is neither a JSON object nor a form
    """
    is_form = request.mimetype in FORM_TYPES and not request.get_data(cache=True).lstrip().startswith(b"{")
    body = nested(request.form.items(multi=True)) if is_form else dict(fields.json_object(request))
    for name in _STRUCTURED:
        if name in body:
            body[name] = structured(body[name])
    return body


def structured(value: object) -> Any:
    """Parse a text that contains a JSON object or list. Return other values unchanged."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def nested(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Build an object from a form's names and values.

    :raises InvalidFieldError: a name is nested too deeply, or a member is both a value and an object
    """
    body: dict[str, Any] = {}
    for key, value in pairs:
        name, bracket, _ = key.partition("[")
        path = [name, *_STEP.findall(key[len(name) :])] if bracket else [name]
        if len(path) > MAXIMUM_DEPTH:
            raise fields.InvalidFieldError(name, f"{name} is nested too deeply")
        node = body
        for step in path[:-1]:
            inner = node.setdefault(step or str(len(node)), {})
            if not isinstance(inner, dict):
                raise fields.InvalidFieldError(name, f"{name} is both a value and an object")
            node = inner
        node[path[-1] or str(len(node))] = value
    return {name: _with_lists(value) for name, value in body.items()}


def _with_lists(value: Any) -> Any:
    """Convert objects with the keys 0, 1, 2 and so on to lists."""
    if not isinstance(value, Mapping):
        return value
    members = {name: _with_lists(member) for name, member in value.items()}
    if list(members) == [str(index) for index in range(len(members))]:
        return list(members.values())
    return members
