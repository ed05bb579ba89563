"""Ids of seeded rows: the same in every run."""

import hashlib
from enum import IntEnum
from uuid import UUID


class SeededKind(IntEnum):
    """What a seeded row is. The numbers are part of the ids: never change one."""

    CAMPUS = 1
    HOSTEL = 2
    HUB = 3
    CATEGORY = 4
    PERSON = 5
    VENDOR = 6
    PRODUCT = 7
    IMAGE = 8
    ADDRESS = 9
    PAYOUT_ACCOUNT = 10


def seeded_id(kind: SeededKind, number: int) -> UUID:
    """Give the id of a seeded row.

    The layout is that of version 7, with a time of the first minutes of 1970 that counts kinds and numbers: in
    the order of their numbers, and before every id that the service makes.

    :param kind: what the row is
    :param number: which one of its kind, below 2^32
    """
    digest = int.from_bytes(hashlib.blake2b(f"{kind.value}:{number}".encode(), digest_size=10).digest())
    moment = kind.value << 32 | number
    return UUID(
        int=moment << 80 | 7 << 76 | (digest >> 64 & 0xFFF) << 64 | 0b10 << 62 | digest & ((1 << 62) - 1)
    )
