"""The guard of the escrow: find contact and payment details in messages.

The guard extends ``detect_contacts``, which serves listings, with number words of five languages, numbers that are
split over words or messages, and the phrases of chats ("my ig na ..."). Prices, sizes, times, dates, order numbers,
matriculation numbers and room numbers are no details.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from marketplace.chat.contact_words import detect_in_words
from marketplace.chat.number_words import replace_number_words
from marketplace.kernel.contact_detection import ContactKind, detect_contacts
from marketplace.kernel.text_normalization import normalize_text

# Split messages are joined up to this length.
_MAX_JOINED_LENGTH = 4_000


@dataclass(frozen=True)
class ContactDetails:
    """Details in a message.

    :ivar earlier_messages: messages that contain the details together with the message; empty if the message suffices
    """

    kinds: frozenset[ContactKind]
    earlier_messages: tuple[str, ...] = ()


def find_contact_details(body: str, *, earlier: Sequence[str] = ()) -> ContactDetails | None:
    """Find contact and payment details in a message.

    :param earlier: the latest messages of the same sender, the oldest first
    :return: none for a message without details
    """
    kinds = detect_in_message(body)
    if kinds:
        return ContactDetails(kinds)
    if not earlier:
        return None
    # The joined messages must contain more than the earlier messages alone, which were sent.
    for start in range(len(earlier) - 1, -1, -1):
        part = earlier[start:]
        joined = "\n".join((*part, body))
        if len(joined) > _MAX_JOINED_LENGTH:
            return None
        kinds = detect_in_message(joined) | frozenset(_detect_in_pieces((*part, body)))
        if kinds:
            return ContactDetails(kinds, tuple(part))
    return None


def detect_in_message(text: str) -> frozenset[ContactKind]:
    """Return the kinds of details in a text."""
    normalized = normalize_text(text)
    if not _BANK_WORD.search(normalized):
        text = normalized = _REFERENCE.sub(_hide_reference, normalized)
    kinds = detect_contacts(text)
    folded = _SYMBOLS.sub(" ", normalized.translate(_DIGIT_SIGNS))
    spelled = replace_number_words(folded)
    if spelled != folded:
        kinds |= detect_contacts(spelled)
    if _BANK_WORD.search(spelled) and _ACCOUNT_NUMBER.search(spelled):
        kinds |= {ContactKind.ACCOUNT}
    return (
        kinds
        | frozenset(detect_in_words(_POINTERS.sub(": ", normalized)))
        | frozenset(detect_in_words(folded))
        | frozenset(_detect_scattered(spelled))
        | frozenset(_detect_lookalikes(spelled))
    )


# Numbers of orders, parcels and payments, which are as long as account numbers.
_REFERENCE = re.compile(
    r"\b(?:order|tracking|waybill|receipt|transaction|txn|trx|parcel|shipment|invoice|ref|reference|delivery"
    r"|payment\s(?:ref|reference|id))\b"
    r"[^\d\n]{0,24}(\d{10,24})\b"
)


def _hide_reference(match: re.Match[str]) -> str:
    is_mobile = _MOBILE.fullmatch(match[1]) or _MOBILE_WITHOUT_ZERO.fullmatch(match[1])
    return match[0] if is_mobile else " reference "


# Signs and letters of other scripts that look like digits.
_DIGIT_SIGNS = str.maketrans(
    dict.fromkeys("\u00f8\u03b8\u043e\u03bf\u0585\u25cb\u25ef\u2b55\u00b0\u2205", "0")
    | dict.fromkeys("\u0131\u0142\u01c0\u2223", "1")
    | {"\u0437": "3", "\u0292": "3", "\u0447": "4", "\u01bd": "5", "\u0431": "6", "\u00df": "8"}
)

# Near the name of a bank, any ten digits are an account number.
_ACCOUNT_NUMBER = re.compile(r"(?<!\d)\d{10}(?!\d)")
# Arrows and pointing hands between a network and a name.
_POINTERS = re.compile(
    r"\s?[\u2190-\u21ff\u2794\u2799\u27a1\u27a4\u25b6\u261e\U0001f446-\U0001f449][\ufe0f\U0001f3fb-\U0001f3ff]*\s?"
)

# Emoji and other symbols between digits, and boxes around them.
_SYMBOLS = re.compile(r"[^\x00-\x7f]+")

# Numbers with a meaning of their own are no part of a scattered phone number.
_MONEY_WORDS = "k|m|naira|bucks|kobo|ngn|thousand|hundred|million|percent"
_PRICE = rf"(?<![a-z])(?:n|ngn|#|=n=)\s?\d[\d,.]*k?\b|\b\d[\d,.]*\s?(?:%|\$|(?:{_MONEY_WORDS})\b)"
_TIME = r"\b\d{1,2}[:.]\d{2}\s?(?:am|pm)?\b|\b\d{1,2}\s?(?:am|pm|o'?clock)\b"
_DATE = r"\b\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\b|\b(?:19|20)\d\d\b"
_LABELS = (
    "sizes?|room|rm|block|blk|flat|hall|hostel|level|floor|pages?|qty|quantity|order|cm|chapter|unit|week|day|group"
    "|seat|row|bus|route|isbn|matric|reg|jamb|sku|model|serial|imei|barcode|version|v"
)
_LABELLED = rf"\b(?:{_LABELS})\b\s?(?:numbers?|no|num)?\.?\s?[:#-]?\s?[a-z]{{0,3}}[\s/-]?\d[\d/-]*"
_CODE = r"\b[a-z]{1,5}\d[a-z0-9/-]*|\b\d{1,3}[a-z]{1,4}\d*[a-z0-9/-]*"
_UNIT_WORDS = (
    "pcs|pieces?|pairs?|yards?|kg|g|gb|tb|mb|ram|rom|mah|inch(?:es)?|in|cm|mm|hz|w|watts?|v|litres?|l|ml|ft|people"
    "|persons?|days?|hours?|hrs?|mins?|minutes?|weeks?|months?|years?|yrs?|units?|copies|bags?|cartons?|plates?"
)
_QUANTITY = rf"\b\d+\s?(?:{_UNIT_WORDS})\b"
_OTHER_NUMBER = re.compile("|".join((_PRICE, _TIME, _DATE, _LABELLED, _CODE, _QUANTITY)))
_DIGIT_GROUP = re.compile(r"\d{1,11}")
_MOBILE = re.compile(r"(?:234|0)[789][01]\d{8}")
_MOBILE_WITHOUT_ZERO = re.compile(r"[789][01]\d{8}")
_BANK_WORD = re.compile(
    r"\b(?:acct|acc(?:oun)?t|a/c|aza|bank|nuban|gt\s?b(?:ank)?|gtco|uba|zenith|access|fidelity|fcmb|wema|alat|o[\s-]?pay|palm[\s-]?pay|fbn"
    r"|kuda|monie?\s?point|sterling|polaris|ecobank|stanbic|first\s?bank|union\s?bank|keystone|providus|jaiz|globus"
    r"|titan|parallex|fair\s?money|vfd|9psb|smart\s?cash|guaranty|piggyvest|carbon|raven)\b"
)
# Characters between two groups of one number.
_MAX_GAP = 24
_MAX_GROUPS = 14


def _detect_scattered(spelled: str) -> Iterator[ContactKind]:
    """Find numbers whose groups stand between words, as in "0803 my dear 123 then 4567"."""
    text = _OTHER_NUMBER.sub("\x00", spelled)
    groups = list(_DIGIT_GROUP.finditer(text))
    has_bank_word = _BANK_WORD.search(text) is not None
    for first in range(len(groups)):
        digits = ""
        for last in range(first, min(first + _MAX_GROUPS, len(groups))):
            if last > first:
                gap = text[groups[last - 1].end() : groups[last].start()]
                if len(gap) > _MAX_GAP or "\x00" in gap:
                    break
            digits += groups[last][0]
            if len(digits) > 13:
                break
            if last > first and _MOBILE.fullmatch(digits):
                yield ContactKind.PHONE
            if last > first and has_bank_word and len(digits) == 10 and not _ends_inside(groups, last):
                yield ContactKind.ACCOUNT


# Letters and signs that replace digits.
# Some letters look like two digits.
_LOOKALIKES = (
    str.maketrans("oqdilj|!zeasbgt", "000111112345867"),
    str.maketrans("oqdilj|!zeasbgt", "090111112345697"),
    str.maketrans("oqdilj|!zeasbgt", "000111112345897"),
)
_LOOKALIKE_GAP = r"[\s.,/_*()-]{0,2}"
_LOOKALIKE_RUN = re.compile(
    rf"(?<![a-z0-9])[0-9oqdilj|!zeasbgt](?:{_LOOKALIKE_GAP}[0-9oqdilj|!zeasbgt]){{9,24}}(?![a-z0-9])"
)
_LOOKALIKE_GROUP = re.compile(r"[0-9oqdilj|!zeasbgt]+")
_NO_LOOKALIKE = re.compile("|".join((_PRICE, _TIME, _DATE, _LABELLED)))
_MAX_MOBILE_LENGTH = 13
_MIN_REAL_DIGITS = 4


def _detect_lookalikes(spelled: str) -> Iterator[ContactKind]:
    """Find numbers with letters for some digits, as in "o8o3 l2e 4s67"."""
    for run in _LOOKALIKE_RUN.finditer(_NO_LOOKALIKE.sub("\x00", spelled)):
        groups = _LOOKALIKE_GROUP.findall(run[0])
        # A word before or after the number can consist of the same letters.
        for first in range(len(groups)):
            part = ""
            for group in groups[first:]:
                part += group
                if len(part) > _MAX_MOBILE_LENGTH:
                    break
                real_digits = sum(character.isdigit() for character in part)
                if real_digits < len(part):
                    yield from _classify_lookalike(part, real_digits, spelled)


def _classify_lookalike(part: str, real_digits: int, spelled: str) -> Iterator[ContactKind]:
    readings = {part.translate(table) for table in _LOOKALIKES}
    has_more_digits = real_digits > _MIN_REAL_DIGITS
    is_mobile = any(map(_MOBILE.fullmatch, readings)) and real_digits >= _MIN_REAL_DIGITS
    if is_mobile or (has_more_digits and any(map(_MOBILE_WITHOUT_ZERO.fullmatch, readings))):
        yield ContactKind.PHONE
    elif has_more_digits and len(part) == 10 and _BANK_WORD.search(spelled):
        yield ContactKind.ACCOUNT


def _ends_inside(groups: list[re.Match[str]], last: int) -> bool:
    """Return whether another digit follows directly, so that the number is longer."""
    return last + 1 < len(groups) and groups[last + 1].start() - groups[last].end() <= 1


# A message that is little more than a part of a number.
_PIECE = re.compile(r"[\s\W]*(?:[a-z']{1,12}[\s\W]+){0,4}(?:\d[\s\W]*){1,10}(?:[a-z']{1,12}[\s\W]*){0,3}")


def _detect_in_pieces(messages: Sequence[str]) -> Iterator[ContactKind]:
    """Find a number that is split over messages, each of which is little more than a part of the number."""
    folded = [_SYMBOLS.sub(" ", normalize_text(message)) for message in messages]
    # "the last one 4567" has a number word that is no digit.
    for pieces in ([replace_number_words(piece) for piece in folded], folded):
        yield from _detect_in_folded_pieces(pieces)


def _detect_in_folded_pieces(pieces: Sequence[str]) -> Iterator[ContactKind]:
    digits = []
    for piece in pieces:
        if _OTHER_NUMBER.search(piece) or not _PIECE.fullmatch(piece):
            return
        digits.append("".join(character for character in piece if character.isdigit()))
    joined = "".join(digits)
    if _MOBILE.fullmatch(joined) or (len(digits) > 1 and _MOBILE_WITHOUT_ZERO.fullmatch(joined)):
        yield ContactKind.PHONE
    elif len(joined) == 10 and any(_BANK_WORD.search(piece) for piece in pieces):
        yield ContactKind.ACCOUNT
