"""Answers that several stand-ins of the inbox share: errors, planned faults and refused tokens."""

from typing import Any

from flask import Response, jsonify, request

from sandbox.providers.inbox.context import Inbox, Outcome

Answer = Response | tuple[Response, int]


def failure(http_status: int, message: str, code: int | None = None, **details: Any) -> Answer:
    """Answer an error in the providers' format.

    :param code: the provider's code, by default the status
    """
    error = {"code": http_status if code is None else code, "message": message, **details}
    return jsonify({"error": error}), http_status


def planned_failure(inbox: Inbox, outcome: Outcome) -> Answer | None:
    """Answer a planned fault before the call has an effect."""
    if outcome == "timeout":
        inbox.stopping.wait(inbox.hang_seconds)
        return failure(504, "Gateway Timeout")
    statuses = {"error": 500, "refused": 400, "limited": 429}
    return failure(statuses[outcome], f"planned: {outcome}") if outcome in statuses else None


def token_failure(inbox: Inbox) -> Answer | None:
    """Refuse a call without the messaging provider's access token."""
    token = request.headers.get("Authorization", "").removeprefix("Bearer ")
    if not token or (inbox.access_token and token != inbox.access_token):
        return failure(401, "Invalid OAuth access token.", 190)
    return None
