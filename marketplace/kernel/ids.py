"""Identifiers: ids from clients, and ids by time. The database generates the ids of rows (UUID version 7)."""

import re
from datetime import datetime
from uuid import UUID

_CANONICAL_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


def parse_uuid(text: str, *, version: int | None = None) -> UUID | None:
    """Parse a UUID in the canonical form of 36 characters.

    :param version: the required UUID version; none accepts any version
    :return: none if the text is not such a UUID
    """
    if not _CANONICAL_UUID.fullmatch(text):
        return None
    parsed = UUID(text)
    return parsed if version is None or parsed.version == version else None


def first_id_of(moment: datetime) -> UUID:
    """Return the smallest UUID of version 7 of a time. Rows that were created later have greater ids."""
    return UUID(int=int(moment.timestamp() * 1000) << 80 | 7 << 76 | 0b10 << 62)
