"""Identifiers as clients write them. Rows get theirs (UUID version 7) from the database."""

import re
from uuid import UUID

_CANONICAL_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


def parse_uuid(text: str, *, version: int | None = None) -> UUID | None:
    """Read a UUID in its canonical form of 36 characters.

    :param text: what the client wrote
    :param version: the version that it must have, or none for any
    :return: the UUID, or none if the text is not one
    """
    if not _CANONICAL_UUID.fullmatch(text):
        return None
    parsed = UUID(text)
    return parsed if version is None or parsed.version == version else None
