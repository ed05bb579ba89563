"""The gateway's response envelopes: successes and failures."""

import secrets
from collections.abc import Mapping
from datetime import UTC, datetime

from flask import Response, jsonify

CODE_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"


class GatewayFailure(Exception):  # noqa: N818 - the gateway's term for a response with status false
    """A response with ``status: false``. The call has had no effect."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str = "invalid_params",
        kind: str = "validation_error",
        next_step: str = "Ensure that the value(s) you're passing are valid.",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = {
            "status": False,
            "message": message,
            "meta": {"nextStep": next_step},
            "type": kind,
            "code": code,
        }


def success(
    message: str, data: object, *, meta: Mapping[str, object] | None = None, status: int = 200
) -> Response:
    """Build the response to a successful call."""
    body: dict[str, object] = {"status": True, "message": message, "data": data}
    if meta is not None:
        body["meta"] = dict(meta)
    response = jsonify(body)
    response.status_code = status
    return response


def timestamp(moment: datetime) -> str:
    """Format a time as the gateway does: ISO 8601 in UTC with milliseconds.

    All such texts have the same length and zone, so they sort by time. The lists rely on this order.
    """
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def random_code(prefix: str, *, length: int = 15) -> str:
    """Generate an unguessable code such as ``TRF_x8..``."""
    return prefix + "".join(secrets.choice(CODE_ALPHABET) for _ in range(length))
