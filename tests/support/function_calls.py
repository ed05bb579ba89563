"""Calls of the serverless functions, with the functions key or a Standard Webhooks signature."""

import base64
import json
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from standardwebhooks import Webhook

FUNCTIONS_KEY = "of-the-tests-only-functions-0123456789"
SIGNING_SECRET = f"v1,whsec_{base64.b64encode(b'of-the-tests-only-0123456789abcdef').decode()}"
KEYED = {"Authorization": f"Bearer {FUNCTIONS_KEY}"}


def signed(
    body: bytes, *, secret: str = SIGNING_SECRET, at: datetime | None = None, **changes: str
) -> dict[str, str]:
    """Return the headers of a signed body.

    :param at: the time of the signature, by default the present
    :param changes: other values of headers, such as ``signature``
    """
    sent_at, message_id = at or datetime.now(UTC), f"msg_{uuid4().hex}"
    signature = Webhook(secret.removeprefix("v1,")).sign(message_id, sent_at, body.decode())
    headers = {"id": message_id, "timestamp": str(int(sent_at.timestamp())), "signature": signature} | changes
    return {f"webhook-{name}": value for name, value in headers.items() if value}


def hook_body(user_id: Any, **user: Any) -> dict[str, Any]:
    """Return the body of the identity provider's hook on account creation."""
    return {
        "metadata": {
            "uuid": str(uuid4()),
            "time": "2026-04-29T13:13:24.755552-07:00",
            "name": "before-user-created",
            "ip_address": "127.0.0.1",
        },
        "user": {
            "id": str(user_id),
            "aud": "authenticated",
            "role": "",
            "email": "ada@unilag.example",
            "phone": "",
            "app_metadata": {"provider": "email", "providers": ["email"]},
            "user_metadata": {"full_name": "Ada Obi"},
            "identities": [],
            "created_at": "0001-01-01T00:00:00Z",
            "updated_at": "0001-01-01T00:00:00Z",
            "is_anonymous": False,
        }
        | user,
    }


def trigger_body(user_id: Any, **changes: Any) -> dict[str, Any]:
    """Return the body of the database's trigger on a new row."""
    return {
        "type": "INSERT",
        "schema": "auth",
        "table": "users",
        "old_record": None,
        "record": {
            "id": str(user_id),
            "email": "ada@unilag.example",
            "phone": None,
            "raw_app_meta_data": {"provider": "email"},
            "raw_user_meta_data": {"full_name": "Ada Obi"},
            "email_confirmed_at": None,
            "created_at": "2026-04-29T20:13:24.755552+00:00",
        },
    } | changes


def encode(body: dict[str, Any]) -> bytes:
    """Encode a body as JSON."""
    return json.dumps(body).encode()
