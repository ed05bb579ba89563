"""Parsing of identifiers from clients. The database generates the ids of rows (UUID version 7)."""

import re
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
