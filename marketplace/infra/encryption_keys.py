"""Encryption keys as settings give them: base64 texts with ids."""

import base64
import binascii
import re


def parse_data_keys(value: str) -> dict[str, bytes]:
    """Read DATA_ENCRYPTION_KEYS: ``id:base64`` pairs with commas between them; the first one writes.

    :raises ValueError: says what is wrong, without the keys
    """
    keys: dict[str, bytes] = {}
    for number, pair in enumerate(value.split(","), start=1):
        key_id, separator, encoded = pair.strip().partition(":")
        if not separator or not re.fullmatch(r"[a-z0-9_-]{1,32}", key_id):
            raise ValueError(
                f"must be id:base64 pairs with commas between them; pair {number} has no id of up to 32 lowercase"
                " letters, digits, '-' and '_'"
            )
        if key_id in keys:
            raise ValueError(f"names the key {key_id} twice")
        try:
            keys[key_id] = parse_key(encoded)
        except ValueError as error:
            raise ValueError(f"has a key {key_id} that {error}") from error
    if len(set(keys.values())) < len(keys):
        raise ValueError("has the same key under two ids")
    return keys


def parse_key(value: str) -> bytes:
    """Read a key of 32 bytes in base64.

    :raises ValueError: says what is wrong, without the key
    """
    try:
        key = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != 32:
        raise ValueError("must be 32 bytes in base64, as `openssl rand -base64 32` writes them")
    return key
