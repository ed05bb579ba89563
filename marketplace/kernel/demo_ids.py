"""Fixed ids of the demo data. The seed creates these rows, and the examples of the API documentation name them."""

import hashlib
from enum import IntEnum
from typing import Final
from uuid import UUID


class SeededKind(IntEnum):
    """The kind of a seeded row. The numbers are part of the ids and must never change."""

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
    ORDER = 11
    FLASH_SALE = 12
    BANNER = 13
    VIBE = 14
    FEATURED_PRODUCT = 15
    PROPOSAL = 16
    PAYOUT_BATCH = 17
    RECONCILIATION = 18
    WEBHOOK = 19
    REVIEW = 25
    PUBLIC_HOLIDAY = 26
    REP_SHIFT = 27
    ACCOUNT_DECISION = 28
    APPEAL = 29
    REPORT_CASE = 30
    REPORT = 31
    DEVICE = 32
    REVIEW_IMAGE = 33
    APPLICATION = 34
    DOCUMENT = 35
    NOTIFICATION = 36
    CONVERSATION = 37
    MESSAGE = 38
    BLOCKED_MESSAGE = 39
    TICKET = 40
    TICKET_MESSAGE = 41
    TICKET_ATTACHMENT = 42
    CANNED_REPLY = 43
    SAVED_VIEW = 44
    DISPUTE = 45
    DISPUTE_OFFER = 46
    DISPUTE_EVIDENCE = 47
    ASSISTANT_THREAD = 48
    ASSISTANT_EVALUATION = 49
    PRIVACY_EXPORT = 50
    INCIDENT = 51


def seeded_id(kind: SeededKind, number: int) -> UUID:
    """Return the id of a seeded row.

    The layout is that of a UUID of version 7. Kind and number form the timestamp, which is before 1972. Seeded ids of a
    kind sort by number, and before all ids that the service creates.

    :param number: number of the row within the kind, below 2^32
    """
    digest = int.from_bytes(hashlib.blake2b(f"{kind.value}:{number}".encode(), digest_size=10).digest())
    moment = kind.value << 32 | number
    return UUID(
        int=moment << 80 | 7 << 76 | (digest >> 64 & 0xFFF) << 64 | 0b10 << 62 | digest & ((1 << 62) - 1)
    )


def category_id(slug: str) -> UUID:
    """Return the id of a seeded category. Ids derive from slugs, so a later category changes no other id."""
    return seeded_id(SeededKind.CATEGORY, int.from_bytes(slug.encode()) % 4_294_967_291)


def persona_id(number: int) -> UUID:
    """Return the user id of a persona of the sandbox.

    The version is 7 with a timestamp of zero, so the id sorts before every id that the service creates.
    """
    return UUID(f"00000000-0000-7000-8000-{number:012d}")


# Personas
BUYER: Final = persona_id(1)
VENDOR_OWNER: Final = persona_id(3)
ADMIN: Final = persona_id(5)
FINANCE: Final = persona_id(7)
FINANCE_2: Final = persona_id(8)
SUPPORT_OFFICER: Final = persona_id(10)
MODERATOR: Final = persona_id(11)
CAMPUS_REP: Final = persona_id(13)
STUDENT: Final = seeded_id(SeededKind.PERSON, 1)

# Rows that examples name. The order is the buyer's delivered order of the product. The store is the vendor persona's.
CAMPUS: Final = seeded_id(SeededKind.CAMPUS, 1)
HUB: Final = seeded_id(SeededKind.HUB, 1)
CATEGORY: Final = category_id("textbooks")
STORE: Final = seeded_id(SeededKind.VENDOR, 1)
PRODUCT: Final = seeded_id(SeededKind.PRODUCT, 1)
SECOND_PRODUCT: Final = seeded_id(SeededKind.PRODUCT, 2)
IMAGE: Final = seeded_id(SeededKind.IMAGE, 1)
ADDRESS: Final = seeded_id(SeededKind.ADDRESS, 1)
PAYOUT_ACCOUNT: Final = seeded_id(SeededKind.PAYOUT_ACCOUNT, 1)
ORDER: Final = seeded_id(SeededKind.ORDER, 1)
REFUNDED_ORDER: Final = seeded_id(SeededKind.ORDER, 9)
DISPUTABLE_ORDER: Final = seeded_id(SeededKind.ORDER, 12)
UNPAID_ORDER: Final = seeded_id(SeededKind.ORDER, 19)
FLASH_SALE: Final = seeded_id(SeededKind.FLASH_SALE, 1)
BANNER: Final = seeded_id(SeededKind.BANNER, 1)
VIBE: Final = seeded_id(SeededKind.VIBE, 1)
FEATURED_PRODUCT: Final = seeded_id(SeededKind.FEATURED_PRODUCT, 1)
PROPOSAL: Final = seeded_id(SeededKind.PROPOSAL, 1)
PAYOUT_BATCH: Final = seeded_id(SeededKind.PAYOUT_BATCH, 1)
RECONCILIATION: Final = seeded_id(SeededKind.RECONCILIATION, 1)
WEBHOOK: Final = seeded_id(SeededKind.WEBHOOK, 1)
REVIEW: Final = seeded_id(SeededKind.REVIEW, 1)
# The unused upload of the persona buyer2.
STUDENT_ID_PATH: Final = "student-ids/7c9e6679-7425-40de-944b-e07fc1f90ae7.pdf"
APPLICATION: Final = seeded_id(SeededKind.APPLICATION, 1)
DEVICE: Final = seeded_id(SeededKind.DEVICE, 1)
NOTIFICATION: Final = seeded_id(SeededKind.NOTIFICATION, 1)
CONVERSATION: Final = seeded_id(SeededKind.CONVERSATION, 1)
MESSAGE: Final = seeded_id(SeededKind.MESSAGE, 1)
TICKET: Final = seeded_id(SeededKind.TICKET, 1)
SECOND_TICKET: Final = seeded_id(SeededKind.TICKET, 2)
TICKET_MESSAGE: Final = seeded_id(SeededKind.TICKET_MESSAGE, 1)
TICKET_ATTACHMENT: Final = seeded_id(SeededKind.TICKET_ATTACHMENT, 1)
CANNED_REPLY: Final = seeded_id(SeededKind.CANNED_REPLY, 1)
SAVED_VIEW: Final = seeded_id(SeededKind.SAVED_VIEW, 1)
DISPUTE: Final = seeded_id(SeededKind.DISPUTE, 1)
DISPUTE_OFFER: Final = seeded_id(SeededKind.DISPUTE_OFFER, 1)
DISPUTE_EVIDENCE: Final = seeded_id(SeededKind.DISPUTE_EVIDENCE, 1)
ASSISTANT_THREAD: Final = seeded_id(SeededKind.ASSISTANT_THREAD, 1)
# The demo has no evaluation. Examples name this id.
ASSISTANT_EVALUATION: Final = seeded_id(SeededKind.ASSISTANT_EVALUATION, 1)
# The demo has no export. Examples name this id.
PRIVACY_EXPORT: Final = seeded_id(SeededKind.PRIVACY_EXPORT, 1)
INCIDENT: Final = seeded_id(SeededKind.INCIDENT, 1)
BLOCKED_MESSAGE: Final = seeded_id(SeededKind.BLOCKED_MESSAGE, 1)
ACCOUNT_DECISION: Final = seeded_id(SeededKind.ACCOUNT_DECISION, 2)
APPEAL: Final = seeded_id(SeededKind.APPEAL, 1)
REPORT_CASE: Final = seeded_id(SeededKind.REPORT_CASE, 1)
PUBLIC_HOLIDAY: Final = seeded_id(SeededKind.PUBLIC_HOLIDAY, 1)
REP_SHIFT: Final = seeded_id(SeededKind.REP_SHIFT, 1)
