"""Opaque cursors: a position in one listing under one set of filters, signed so that it can't be altered."""

import hashlib
import json
from functools import partial
from typing import Any

from itsdangerous import BadSignature, Signer
from itsdangerous.encoding import base64_decode, base64_encode

_MAX_LENGTH = 1024


class InvalidCursorError(ValueError):
    """The cursor was altered, or was made for another listing or other filters."""


def _signer(key: bytes, listing: str) -> Signer:
    return Signer(
        key,
        salt=listing,
        key_derivation="hmac",
        digest_method=partial(hashlib.blake2b, digest_size=16),
    )


def encode_cursor(key: bytes, *, listing: str, position: list[Any]) -> str:
    """Write a position as a URL-safe cursor.

    :param key: the secret that signs cursors
    :param listing: names the listing and its filters; the cursor is good for these alone
    :param position: the sort key's values of the last row shown, as JSON scalars
    :return: URL-safe text
    """
    payload = base64_encode(json.dumps(position, separators=(",", ":")))
    return _signer(key, listing).sign(payload).decode()


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
    signer = _signer(key, listing)
    try:
        payload = signer.unsign(cursor)
    except (BadSignature, UnicodeError) as error:
        raise InvalidCursorError from error
    # itsdangerous reads a signature leniently: only the one spelling that was given out is accepted.
    if signer.sign(payload) != cursor.encode():
        raise InvalidCursorError
    position: list[Any] = json.loads(base64_decode(payload))
    return position
