"""Opaque cursors: a position in one listing under one set of filters, signed so that it can't be altered."""

import hmac
from hashlib import sha256
from typing import Any

import orjson
from itsdangerous import BadSignature, Signer
from itsdangerous.encoding import base64_decode, base64_encode
from itsdangerous.signer import SigningAlgorithm

_MAX_LENGTH = 1024


class InvalidCursorError(ValueError):
    """The cursor was altered, or was made for another listing or other filters."""


class _ShortHmac(SigningAlgorithm):
    """The first 128 bits of HMAC-SHA-256 in one call. The library's own HMAC doubles the time of a cursor."""

    def get_signature(self, key: bytes, value: bytes) -> bytes:
        return hmac.digest(key, value, "sha256")[:16]


_SIGNING_ALGORITHM = _ShortHmac()


def _signer(key: bytes, listing: str) -> Signer:
    return Signer(
        key,
        salt=listing,
        key_derivation="django-concat",
        digest_method=sha256,
        algorithm=_SIGNING_ALGORITHM,
    )


def encode_cursor(key: bytes, *, listing: str, position: list[Any]) -> str:
    """Write a position as a URL-safe cursor.

    :param key: the secret that signs cursors
    :param listing: names the listing and its filters; the cursor is good for these alone
    :param position: the sort key's values of the last row shown, as JSON scalars
    :return: URL-safe text
    """
    payload = base64_encode(orjson.dumps(position))
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
    try:
        payload = _signer(key, listing).unsign(cursor)
    except (BadSignature, UnicodeError) as error:
        raise InvalidCursorError from error
    # itsdangerous reads a signature leniently: only the one spelling that was given out is accepted.
    signature = cursor.rpartition(".")[2]
    if base64_encode(base64_decode(signature)).decode() != signature:
        raise InvalidCursorError
    position: list[Any] = orjson.loads(base64_decode(payload))
    return position
