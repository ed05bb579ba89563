"""The inbox's work behind bare HTTP: charges are applied by a worker's task, which nobody sends requests to.

So the figure and its floor bear the same load; the queue, which hands workers their messages, is no part of it.
"""

import random
from collections.abc import Iterable
from typing import Any
from uuid import UUID
from wsgiref.types import StartResponse

import wsgi
from bench.stand import INBOX_PATH
from marketplace.webhooks.inbox import process_event


def app(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
    """Process the row of the inbox that the query names; other paths are the application's.

    It answers 409 where somebody else has the row or has processed it, and 500 where it could not be processed.
    """
    if environ["PATH_INFO"] != INBOX_PATH:
        return wsgi.app(environ, start_response)
    services = wsgi.services
    result = process_event(
        services.database,
        inbox_id=UUID(environ["QUERY_STRING"]),
        fee_bearer=services.settings.gateway_fee_bearer,
        now=services.clock(),
        random=random.random,
    )
    if result is None:
        status = "409 Conflict"
    else:
        status = "200 OK" if result.status == "processed" else "500 Internal Server Error"
    start_response(status, [("Content-Type", "application/json"), ("Content-Length", "2")])
    return [b"{}"]
