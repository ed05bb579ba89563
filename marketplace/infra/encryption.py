"""Encryption of columns: AES-256-GCM with rotatable keys, and blind indexes for equality look-ups.

An encrypted value is ``v1:<key id>:<nonce, ciphertext and tag in base64>``. The associated data contain the key id,
table and column, so decryption fails for a value of another column. A value copied from another row still decrypts.
"""

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from typing import Any, ClassVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from sqlalchemy import Dialect, LargeBinary, Text
from sqlalchemy.sql.operators import is_, is_not
from sqlalchemy.types import TypeDecorator

from marketplace.infra.encryption_keys import parse_data_keys, parse_key

ENCRYPTED_VALUE_PATTERN = "^v1:[a-z0-9_-]{1,32}:[A-Za-z0-9_-]{38,}$"  # nonce and tag alone have 28 bytes
_NONCE_BYTES = 12


class EncryptionError(Exception):
    """A value cannot be encrypted or decrypted. The message never contains the value or a key."""


class Keyring:
    """The keys of encrypted columns. The first data key encrypts, and all data keys decrypt."""

    def __init__(self, data_keys: Mapping[str, bytes], index_key: bytes) -> None:
        """Create the keyring.

        :param data_keys: keys of 32 bytes by id; the first key encrypts
        :param index_key: the key of the blind indexes
        """
        self._ciphers = {key_id: AESGCM(key) for key_id, key in data_keys.items()}
        self.writing_key_id = next(iter(data_keys))
        self._index_key = index_key

    def encrypt(self, text: str, context: str) -> str:
        """Encrypt a text.

        :param context: the table and column of the value
        """
        nonce = secrets.token_bytes(_NONCE_BYTES)
        key_id = self.writing_key_id
        sealed = self._ciphers[key_id].encrypt(nonce, text.encode(), f"v1:{key_id}:{context}".encode())
        return f"v1:{key_id}:{base64.urlsafe_b64encode(nonce + sealed).rstrip(b'=').decode()}"

    def decrypt(self, value: str, context: str) -> str:
        """Decrypt a value.

        :param context: the table and column of the value
        :raises EncryptionError: the value is not encrypted, was changed, belongs to another column, or lacks its key
        """
        if not re.fullmatch(ENCRYPTED_VALUE_PATTERN, value):
            raise EncryptionError(f"A value of {context} is not encrypted.")
        _version, key_id, encoded = value.split(":")
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise EncryptionError(
                f"A value of {context} was encrypted with the key {key_id}, which is missing in DATA_ENCRYPTION_KEYS."
            )
        try:
            sealed = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
            return cipher.decrypt(
                sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], f"v1:{key_id}:{context}".encode()
            ).decode()
        except (InvalidTag, ValueError) as error:
            raise EncryptionError(
                f"A value of {context} can't be decrypted: the value was changed or belongs to another column,"
                f" or the key {key_id} has changed."
            ) from error

    def blind_index(self, text: str, context: str) -> bytes:
        """Compute the keyed hash of a text. Equal texts of a column have equal hashes."""
        return hmac.digest(self._index_key, f"{context}\0{text}".encode(), hashlib.sha256)


class _ProcessKeys:
    """The keyring of this process. A global is necessary because column types are module constants."""

    keyring: ClassVar[Keyring | None] = None


def use_keyring(keyring: Keyring | None) -> None:
    """Set the keyring of this process's encrypted columns."""
    _ProcessKeys.keyring = keyring


def make_keyring(data_encryption_keys: str, blind_index_key: str) -> Keyring | None:
    """Create the keyring from settings, or return none if a setting is empty."""
    if not data_encryption_keys or not blind_index_key:
        return None
    return Keyring(parse_data_keys(data_encryption_keys), parse_key(blind_index_key))


def _require_keyring() -> Keyring:
    if _ProcessKeys.keyring is None:
        raise EncryptionError("DATA_ENCRYPTION_KEYS and BLIND_INDEX_KEY are missing.")
    return _ProcessKeys.keyring


def writing_key_id() -> str:
    """Return the id of the key that encrypts new values."""
    return _require_keyring().writing_key_id


def derive_secret(text: str, context: str) -> bytes:
    """Derive a secret of 32 bytes from a text and the key of the blind indexes.

    :param context: the use of the secret; other uses have other secrets
    """
    return _require_keyring().blind_index(text, context)


class EncryptedText(TypeDecorator[str]):
    """An encrypted text. Equal texts have different stored values, so compare the blind index instead."""

    impl = Text
    cache_ok = True

    class Comparator(TypeDecorator.Comparator[str]):
        """A comparator that refuses comparisons, because comparisons would never find a row."""

        def operate(self, op: Any, *other: Any, **kwargs: Any) -> Any:
            """Allow only IS NULL and IS NOT NULL.

            :raises TypeError: the statement compares or sorts by the column
            """
            if op not in (is_, is_not):
                raise TypeError("an encrypted column can't be compared: compare its blind index")
            return super().operate(op, *other, **kwargs)

        reverse_operate = operate

    comparator_factory = Comparator

    def __init__(self, context: str) -> None:
        """Bind the values to a column.

        :param context: ``table.column``, which stored values depend on
        """
        super().__init__()
        self.context = context

    def encrypt(self, text: str) -> str:
        """Encrypt a text for statements that bypass SQLAlchemy."""
        return _require_keyring().encrypt(text, self.context)

    def decrypt(self, value: str) -> str:
        """Decrypt a stored value for statements that bypass SQLAlchemy.

        :raises EncryptionError: the value cannot be decrypted
        """
        return _require_keyring().decrypt(value, self.context)

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Encrypt a value before the statement runs."""
        return None if value is None else self.encrypt(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:
        """Decrypt a value of the result."""
        return None if value is None else self.decrypt(value)


class BlindIndex(TypeDecorator[Any]):
    """The blind index of an encrypted column. Writes and comparisons take plain texts and use the keyed hashes."""

    impl = LargeBinary
    cache_ok = True

    def __init__(self, context: str) -> None:
        """Bind the hashes to a column.

        :param context: ``table.column`` of the encrypted column, which stored hashes depend on
        """
        super().__init__()
        self.context = context

    def compute(self, text: str) -> bytes:
        """Hash a text for statements that bypass SQLAlchemy."""
        return _require_keyring().blind_index(text, self.context)

    def process_bind_param(self, value: Any, dialect: Dialect) -> bytes | None:
        """Hash a plain text before the statement runs."""
        return None if value is None else self.compute(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> bytes | None:
        """Return the stored hash."""
        return None if value is None else bytes(value)
