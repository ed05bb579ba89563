"""Encryption of columns: AES-256-GCM under keys that can be rotated, and blind indexes for look-up by equality.

An encrypted value is ``v1:<key id>:<nonce, ciphertext and tag in base64>``. Its associated data name key, table and
column, so a value that is moved to another column is refused. Rows of one column are not told apart.
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

ENCRYPTED_VALUE_PATTERN = "^v1:[a-z0-9_-]{1,32}:[A-Za-z0-9_-]{38,}$"  # of nonce and tag alone: 28 bytes
_NONCE_BYTES = 12


class EncryptionError(Exception):
    """A value can't be encrypted or decrypted. The message never contains the value or a key."""


class Keyring:
    """The keys of encrypted columns: one writes, all read. Another one makes the blind indexes."""

    def __init__(self, data_keys: Mapping[str, bytes], index_key: bytes) -> None:
        """Take the keys.

        :param data_keys: keys of 32 bytes by id; the first one writes
        """
        self._ciphers = {key_id: AESGCM(key) for key_id, key in data_keys.items()}
        self._writing_key_id = next(iter(data_keys))
        self._index_key = index_key

    def encrypt(self, text: str, context: str) -> str:
        """Encrypt a text.

        :param context: the table and column of the value
        """
        nonce = secrets.token_bytes(_NONCE_BYTES)
        key_id = self._writing_key_id
        sealed = self._ciphers[key_id].encrypt(nonce, text.encode(), f"v1:{key_id}:{context}".encode())
        return f"v1:{key_id}:{base64.urlsafe_b64encode(nonce + sealed).rstrip(b'=').decode()}"

    def decrypt(self, value: str, context: str) -> str:
        """Decrypt a value.

        :param context: the table and column of the value
        :raises EncryptionError: the value is not encrypted, was changed or moved, or its key is missing
        """
        if not re.fullmatch(ENCRYPTED_VALUE_PATTERN, value):
            raise EncryptionError(f"A value of {context} is not encrypted.")
        _version, key_id, encoded = value.split(":")
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise EncryptionError(
                f"A value of {context} was encrypted with the key {key_id}, which DATA_ENCRYPTION_KEYS lacks."
            )
        try:
            sealed = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
            return cipher.decrypt(
                sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], f"v1:{key_id}:{context}".encode()
            ).decode()
        except (InvalidTag, ValueError) as error:
            raise EncryptionError(
                f"A value of {context} can't be decrypted: the value was changed, belongs to another column,"
                f" or the key {key_id} is another one than then."
            ) from error

    def blind_index(self, text: str, context: str) -> bytes:
        """Compute the keyed hash of a text: equal texts of one column have equal hashes."""
        return hmac.digest(self._index_key, f"{context}\0{text}".encode(), hashlib.sha256)


class _ProcessKeys:
    """The keyring of this process. Column types are module constants, so they can't be given the keys."""

    keyring: ClassVar[Keyring | None] = None


def use_keyring(keyring: Keyring | None) -> None:
    """Set the keyring that this process's columns are read and written with."""
    _ProcessKeys.keyring = keyring


def make_keyring(data_encryption_keys: str, blind_index_key: str) -> Keyring | None:
    """Make the keyring from the settings' texts, or none where they are empty."""
    if not data_encryption_keys or not blind_index_key:
        return None
    return Keyring(parse_data_keys(data_encryption_keys), parse_key(blind_index_key))


def _require_keyring() -> Keyring:
    if _ProcessKeys.keyring is None:
        raise EncryptionError("DATA_ENCRYPTION_KEYS and BLIND_INDEX_KEY are missing.")
    return _ProcessKeys.keyring


class EncryptedText(TypeDecorator[str]):
    """A text that is stored encrypted. Compare its blind index: equal texts are stored as different values."""

    impl = Text
    cache_ok = True

    class Comparator(TypeDecorator.Comparator[str]):
        """Refuse comparisons, which would never find a row."""

        def operate(self, op: Any, *other: Any, **kwargs: Any) -> Any:
            """Allow IS NULL alone.

            :raises TypeError: the column is compared or sorted by
            """
            if op not in (is_, is_not):
                raise TypeError("an encrypted column can't be compared: compare its blind index")
            return super().operate(op, *other, **kwargs)

        reverse_operate = operate

    comparator_factory = Comparator

    def __init__(self, context: str) -> None:
        """Bind the values to a place.

        :param context: ``table.column``; stored values depend on it
        """
        super().__init__()
        self.context = context

    def encrypt(self, text: str) -> str:
        """Encrypt a text, for writers that go past SQLAlchemy."""
        return _require_keyring().encrypt(text, self.context)

    def decrypt(self, value: str) -> str:
        """Decrypt a stored value, for readers that go past SQLAlchemy.

        :raises EncryptionError: the value can't be decrypted
        """
        return _require_keyring().decrypt(value, self.context)

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Encrypt what is written."""
        return None if value is None else self.encrypt(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:
        """Decrypt what is read."""
        return None if value is None else self.decrypt(value)


class BlindIndex(TypeDecorator[Any]):
    """The blind index of an encrypted column: takes plain texts, also in comparisons, and stores their hashes."""

    impl = LargeBinary
    cache_ok = True

    def __init__(self, context: str) -> None:
        """Bind the hashes to a place.

        :param context: ``table.column`` of the encrypted column; stored hashes depend on it
        """
        super().__init__()
        self.context = context

    def compute(self, text: str) -> bytes:
        """Hash a text, for writers that go past SQLAlchemy."""
        return _require_keyring().blind_index(text, self.context)

    def process_bind_param(self, value: Any, dialect: Dialect) -> bytes | None:
        """Hash a plain text."""
        return None if value is None else self.compute(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> bytes | None:
        """Give the stored hash."""
        return None if value is None else bytes(value)
