"""Parsing of encryption keys in settings."""

import base64
import binascii
import re


def parse_data_keys(value: str) -> dict[str, bytes]:
    """Parse DATA_ENCRYPTION_KEYS: comma-separated ``id:base64`` pairs. The first key encrypts.

    :raises ValueError: the value is invalid; the message names the fault without a key
    """
    keys: dict[str, bytes] = {}
    for number, pair in enumerate(value.split(","), start=1):
        key_id, separator, encoded = pair.strip().partition(":")
        if not separator or not re.fullmatch(r"[a-z0-9_-]{1,32}", key_id):
            raise ValueError(
                f"must be id:base64 pairs separated by commas, but pair {number} has no id of up to 32 lowercase"
                " letters, digits, '-' and '_'"
            )
        if key_id in keys:
            raise ValueError(f"must not contain the id {key_id} twice")
        try:
            keys[key_id] = parse_key(encoded)
        except ValueError as error:
            raise ValueError(f"has an invalid key {key_id}, which {error}") from error
    if len(set(keys.values())) < len(keys):
        raise ValueError("must not contain the same key under two ids")
    return keys


def parse_key(value: str) -> bytes:
    """Parse a key of 32 bytes in base64.

    :raises ValueError: the key is invalid; the message does not contain the key
    """
    try:
        key = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != 32:
        raise ValueError("must be 32 bytes in base64, such as the output of `openssl rand -base64 32`")
    return key
