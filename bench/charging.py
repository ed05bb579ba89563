"""An HTTP endpoint for processing events of the inbox, which the application does in workers.

With this endpoint the figure and its floor bear the same load. The queue is not part of the measurement.
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
    """Process the inbox row with the id in the query string. Other paths belong to the application.

    The status is 409 if another worker holds or has processed the row, and 500 if processing failed.
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
