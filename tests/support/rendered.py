"""Domain views as rendered by the API."""

from typing import Any

from marshmallow import Schema

from blueprints.http.reply_renderer import compile_renderer


def render(schema: type[Schema], view: Any) -> dict[str, Any]:
    """Render a view by the reply schema."""
    reply: dict[str, Any] = compile_renderer(schema())(view)
    return reply
