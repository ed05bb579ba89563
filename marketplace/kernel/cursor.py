"""Opaque cursors: a position in one listing under one set of filters, signed so that it can't be altered."""

import base64
import binascii
import hashlib
import hmac
import json
from typing import Any

_SIGNATURE_BYTES = 16
_MAX_LENGTH = 1024


class InvalidCursorError(ValueError):
    """The cursor was altered, or was made for another listing or other filters."""


def _signature(key: bytes, listing: str, payload: bytes) -> bytes:
    return hmac.digest(key, listing.encode() + b"\0" + payload, hashlib.sha256)[:_SIGNATURE_BYTES]


def encode_cursor(key: bytes, *, listing: str, position: list[Any]) -> str:
    """Write a position as a URL-safe cursor.

    :param key: the secret that signs cursors
    :param listing: names the listing and its filters; the cursor is good for these alone
    :param position: the sort key's values of the last row shown, as JSON scalars
    :return: URL-safe text
    """
    payload = json.dumps(position, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(_signature(key, listing, payload) + payload).rstrip(b"=").decode()


def decode_cursor(key: bytes, *, listing: str, cursor: str) -> list[Any]:
    """Read a cursor that ``encode_cursor`` made for the same listing.

    :param key: the secret that signs cursors
    :param listing: as given when the cursor was made
    :param cursor: what the client sent
    :return: the position
    :raises InvalidCursorError: it is not such a cursor
    """
    if len(cursor) > _MAX_LENGTH:
        raise InvalidCursorError
    try:
        decoded = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidCursorError from error
    signature, payload = decoded[:_SIGNATURE_BYTES], decoded[_SIGNATURE_BYTES:]
    if not hmac.compare_digest(signature, _signature(key, listing, payload)):
        raise InvalidCursorError
    # base64 has spare bits at its end: only the one spelling that was given out is accepted.
    if base64.urlsafe_b64encode(decoded).rstrip(b"=").decode() != cursor:
        raise InvalidCursorError
    position: list[Any] = json.loads(payload)
    return position
