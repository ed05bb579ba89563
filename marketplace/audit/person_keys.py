"""Values sealed under a key of a person, for rows that can never change or be deleted.

An erasure destroys the person's key, so nobody can read the values any more. A sealed value is
``p1:<owner id>:<nonce, ciphertext and tag in base64>``. Hashes of rows cover the sealed values.
"""

import base64
import re
import secrets
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from sqlalchemy import delete, select, text
from sqlalchemy.orm import Session

from marketplace.audit.models import PERSON_SECRET, PersonKey
from marketplace.infra.encryption import derive_secret
from marketplace.infra.sql.statements import Statement

SEALED = re.compile(r"p1:([0-9a-f]{32}):([A-Za-z0-9_-]*)")
_NONCE_BYTES, _KEY_BYTES = 12, 32
_CACHE = "person_keys"


def owner_of_contact(sender: str) -> UUID:
    """Return the owner of values of a person without a profile, from the messaging provider's id of the sender."""
    return UUID(bytes=derive_secret(sender, "person_keys.contact")[:16], version=5)


def seal(session: Session, words: str, *, owner_id: UUID) -> str:
    """Seal a text under the key of a person. The first value of a person creates the key.

    Without a key, because the person is erased, the value is lost at once.
    """
    cipher = _cipher(session, owner_id)
    if cipher is None:
        return f"p1:{owner_id.hex}:"
    nonce = secrets.token_bytes(_NONCE_BYTES)
    sealed = cipher.encrypt(nonce, words.encode(), owner_id.bytes)
    return f"p1:{owner_id.hex}:{base64.urlsafe_b64encode(nonce + sealed).rstrip(b'=').decode()}"


def seal_bytes(session: Session, content: bytes, *, owner_id: UUID) -> bytes:
    """Seal bytes under the key of a person, like ``seal``."""
    return seal(session, content.decode("latin-1"), owner_id=owner_id).encode()


def unseal_bytes(session: Session, stored: bytes) -> bytes | None:
    """Return the content of sealed bytes, or none after the end of the key. Bytes that are not sealed stay."""
    if not stored.startswith(b"p1:"):
        return stored
    words = unseal(session, stored.decode("latin-1"))
    return None if words is None else words.encode("latin-1")


def unseal(session: Session, stored: str | None) -> str | None:
    """Return the text of a sealed value, or none after the end of the key. Texts that are not sealed stay."""
    match = SEALED.fullmatch(stored) if stored is not None else None
    if match is None or stored is None:
        return stored
    owner_id = UUID(match[1])
    cipher = _find_cipher(session, owner_id) if match[2] else None
    if cipher is None:
        return None
    content = base64.urlsafe_b64decode(match[2] + "=" * (-len(match[2]) % 4))
    try:
        return cipher.decrypt(content[:_NONCE_BYTES], content[_NONCE_BYTES:], owner_id.bytes).decode()
    except InvalidTag:
        return None


def unseal_values(session: Session, value: Any) -> Any:
    """Unseal all texts of a JSON value."""
    if isinstance(value, dict):
        return {name: unseal_values(session, item) for name, item in value.items()}
    if isinstance(value, list):
        return [unseal_values(session, item) for item in value]
    return unseal(session, value) if isinstance(value, str) else value


def load_keys(session: Session, stored: Iterable[str | None]) -> None:
    """Load the keys of many sealed values in one query, so that ``unseal`` needs no further queries."""
    matches = (SEALED.fullmatch(words) for words in stored if words is not None)
    known = _known(session)
    owners = {UUID(match[1]) for match in matches if match} - known.keys()
    if not owners:
        return
    rows = session.execute(
        select(PersonKey.owner_id, PersonKey.secret).where(PersonKey.owner_id.in_(owners))
    ).all()
    found = {row.owner_id: row.secret for row in rows}
    known.update({owner_id: _make_cipher(found.get(owner_id)) for owner_id in owners})


def remember_key(session: Session, *, owner_id: UUID, secret: str | None) -> None:
    """Keep the key of a person that another statement has read, so that ``seal`` needs no look-up.

    :param secret: as stored in ``person_keys``, decrypted; none if the person has no key yet
    """
    _known(session)[owner_id] = _make_cipher(secret)


def destroy_keys(session: Session, owner_ids: Iterable[UUID]) -> None:
    """Destroy the keys of a person. The sealed values cannot be read again."""
    owners = list(owner_ids)
    session.execute(delete(PersonKey).where(PersonKey.owner_id.in_(owners)))
    for owner_id in owners:
        _known(session).pop(owner_id, None)


def _known(session: Session) -> dict[UUID, AESGCM | None]:
    """Return the keys of this transaction. A later transaction must notice an erasure."""
    transaction = session.get_transaction()
    cached = session.info.get(_CACHE)
    if cached is None or cached[0] is not transaction:
        cached = session.info[_CACHE] = (transaction, {})
    known: dict[UUID, AESGCM | None] = cached[1]
    return known


def _find_cipher(session: Session, owner_id: UUID) -> AESGCM | None:
    known = _known(session)
    if owner_id not in known:
        known[owner_id] = _make_cipher(_read_secret(session, owner_id))
    return known[owner_id]


# An erased person gets no new key: late events are sealed without a key that anybody has.
_INSERT_SECRET = Statement(
    text(
        """
        INSERT INTO person_keys (owner_id, secret, created_at)
        SELECT CAST(:owner_id AS uuid), :secret, now()
        WHERE NOT EXISTS (SELECT FROM profiles WHERE id = :owner_id AND erased_at IS NOT NULL)
        ON CONFLICT (owner_id) DO NOTHING
        RETURNING owner_id
        """
    ),
    encrypted={"secret": PERSON_SECRET},
)


def _cipher(session: Session, owner_id: UUID) -> AESGCM | None:
    """Return the key of a person, and create a missing key."""
    cipher = _find_cipher(session, owner_id)
    if cipher is not None:
        return cipher
    secret = base64.b64encode(secrets.token_bytes(_KEY_BYTES)).decode()
    is_new = _INSERT_SECRET.first(session, owner_id=owner_id, secret=secret) is not None
    # A concurrent transaction may have created the key.
    stored = secret if is_new else _read_secret(session, owner_id)
    cipher = _known(session)[owner_id] = _make_cipher(stored)
    return cipher


def _read_secret(session: Session, owner_id: UUID) -> str | None:
    return session.scalar(select(PersonKey.secret).where(PersonKey.owner_id == owner_id))


def _make_cipher(secret: str | None) -> AESGCM | None:
    return AESGCM(base64.b64decode(secret)) if secret is not None else None
