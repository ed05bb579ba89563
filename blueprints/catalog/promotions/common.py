"""What the routes of all promotions share."""

from typing import Any

from blueprints.http.context import Context


def get_media_base_url(ctx: Context) -> str:
    """Tell where pictures are read."""
    return ctx.services.settings.media_base_url


def omit_fields(body: dict[str, Any], *names: str) -> dict[str, Any]:
    """Copy a body but for some fields: a transaction that is tried again is given the same."""
    return {name: value for name, value in body.items() if name not in names}
