"""The part ``ingest-messages``: webhooks of customers' messages from the messaging provider."""

import hashlib
import hmac
import itertools
from collections.abc import Iterator

import orjson

from bench.figures import Target
from bench.load import Call, request
from bench.parts import Part, http_side
from bench.stand import Stand

# Senders may rely on this on any machine: at most 500 ms, and at most 200 ms for 99 % of the messages.
_PROMISED = Target(p99_ms=200, longest_ms=500)


def messages_part(stand: Stand, *, clients: int) -> Part:
    """Build the part. Each delivery has the provider's signature.

    :param clients: number of concurrent senders
    """
    numbers = itertools.count()

    def calls() -> Iterator[Call]:
        secret = stand.messaging_secret.encode()
        for number in numbers:
            body = _envelope(number)
            signature = hmac.digest(secret, body, hashlib.sha256).hex()
            headers = {"X-Hub-Signature-256": f"sha256={signature}"}
            yield Call("", request("POST", "/api/whatsapp/webhook", body=body, headers=headers))

    side = http_side(stand, "message ingest", server="web", calls=calls, clients=clients)
    return Part("ingest-messages", side, target=_PROMISED)


def _envelope(number: int) -> bytes:
    """Build the envelope of a customer's message."""
    sender = f"234803{number % 10**7:07d}"
    message = {
        "from": sender,
        "id": f"wamid.bench{number}",
        "timestamp": "1767607200",
        "text": {"body": "Good morning, my order has not come yet. Could you look into it, please?"},
        "type": "text",
    }
    value = {
        "messaging_product": "whatsapp",
        "metadata": {"display_phone_number": "2348000000001", "phone_number_id": "106540352242922"},
        "contacts": [{"profile": {"name": "Ada"}, "wa_id": sender}],
        "messages": [message],
    }
    change = {"field": "messages", "value": value}
    return orjson.dumps(
        {"object": "whatsapp_business_account", "entry": [{"id": "102290129340398", "changes": [change]}]}
    )
