"""The guard of the escrow: find contact and payment details in messages.

The guard extends ``detect_contacts``, which serves listings, with number words of five languages, numbers that are
split over words or messages, and the phrases of chats ("my ig na ..."). Prices, sizes, times, dates, order numbers,
matriculation numbers and room numbers are no details.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
    kinds = detect_contacts(text)
    folded = _SYMBOLS.sub(" ", normalize_text(text))
    spelled = replace_number_words(folded)
    if spelled != folded:
        kinds |= detect_contacts(spelled)
    return kinds | frozenset(_detect_in_chat(folded)) | frozenset(_detect_scattered(spelled))


# Emoji and other symbols between digits, and boxes around them.
_SYMBOLS = re.compile(r"[^\x00-\x7f]+")

_NETWORK = (
    r"(?:ig|insta(?:gram)?|snap(?:chat)?|sc|twitter|x|tele(?:gram)?|tg|tik\s?tok|face\s?book|fb|messenger|whats\s?app|wa"
    r"|watsapp|whatsap|thread[sz]|discord|linkedin|signal|imo|bbm|pin(?:terest)?)"
)
_PAYMENT = r"(?:opay|palm\s?pay|kuda|monie\s?point|moniepoint|paypal|cash\s?app|chipper|bybit|binance|trust\s?wallet)"
_NAME = r"@?(?=[a-z0-9_.]{0,30}[a-z])[a-z0-9][a-z0-9_.]{2,30}"
# A name with a digit, an underscore or a point inside is no ordinary word.
_TELLING_NAME = r"@?(?=[a-z]{1,30}[0-9_.][a-z0-9_]|[0-9_]{1,10}[a-z])[a-z0-9_][a-z0-9_.]{2,30}"
_KIND_OF_NAME = r"(?:handle|page|user\s?name|user|name|id|tag|acc(?:oun)?t|profile|dm|link)"
_CHAT_HANDLE = re.compile(
    # my ig is ada_sells / ig handle na ada.sells / on snap as queen_bee
    rf"\b{_NETWORK}(?:\s{_KIND_OF_NAME})?(?:\s(?:is|na|be|as|called|dey|s))?[\s:;=\u2013-]{{1,3}}{_TELLING_NAME}"
    rf"|\b{_NETWORK}\s{_KIND_OF_NAME}\s?(?:is|na|be|:|=|-)\s?{_NAME}"
    rf"|\bmy\s{_NETWORK}(?:\s{_KIND_OF_NAME})?\s?(?:na|:|=)\s?{_NAME}"
    # ada_sells on ig / follow ada closet on instagram
    rf"|{_TELLING_NAME}\s(?:on|for|inside|@)\s(?:my\s)?{_NETWORK}\b"
    rf"|\b(?:search|find|follow|add|look\sup|check\sout|check|dm|hit\sup|type)\s"
    rf"(?!(?:me|us|it|am|this|that|them|you|your|my|the|out|d)\b)"
    rf"(?:for\s)?{_NAME}(?:\s[a-z0-9_.]{{2,20}}){{0,2}}\s(?:on|for|inside)\s{_NETWORK}\b"
    rf"|\b(?:follow|add|dm|find|reach|text|message|search|hit)\s(?:me|us)?\s?(?:up\s)?(?:on|for|via|at)?\s?{_NETWORK}?"
    rf"\s?[:@]\s?{_TELLING_NAME}"
    rf"|(?<![a-z0-9])@[a-z_](?=[a-z0-9_.]{{2,30}})[a-z0-9_.]{{2,30}}"
)
_AT_A_PLACE = re.compile(
    r"(?<![a-z0-9])@\s?(?:the|my|your|moremi|gate|hostel|hall|library|lib|faculty|dept|sub|cafe|school|campus|block|room)\b"
)
_PAYMENT_HANDLE = re.compile(
    rf"\b{_PAYMENT}\s(?:{_KIND_OF_NAME}\s?)?(?:is|na|:|=|@)\s?{_NAME}"
    rf"|\b{_PAYMENT}\s{_KIND_OF_NAME}\s{_NAME}"
    rf"|\b(?:cash\s?tag|opay\s?tag|kuda\s?tag|pay\s?tag)\s?(?:is|na|:|=|-)?\s?[@$]?{_NAME}"
    rf"|\b{_PAYMENT}\s(?:id|uid|number)\s?(?:is|na|:|=|-)?\s?\d{{6,12}}\b"
    # Addresses of crypto wallets: Ethereum, Bitcoin (bech32 and base58), Tron.
    r"|\b0x[0-9a-f]{40}\b|\bbc1[0-9a-z]{25,60}\b|\b[13t][1-9a-hj-np-z]{26,34}\b"
)
_CHAT_EMAIL = re.compile(
    r"\b(?:gmail|yahoo|hotmail|outlook|email|e-mail|mail)\s?(?:address|addy|id|acct)?\s?(?:is|na|:|=)\s?"
    rf"{_TELLING_NAME}"
    r"|\b[a-z0-9._-]{3,40}\s?(?:@|\(at\)|\[at\]|\bat\b)\s?(?:gmail|gmial|yahoo|ymail|hotmail|outlook|icloud|proton)\b"
    r"|\b[a-z0-9._-]{3,40}\s(?:gmail|yahoo|hotmail|outlook|icloud)\s?(?:dot|\.)\s?(?:com|co|ng)\b"
    r"|\b[a-z0-9._-]{3,40}\s?(?:@|\(at\)|\[at\]|\sat\s)\s?[a-z0-9-]{2,40}\s?(?:\.|\(dot\)|\[dot\]|\sdot\s)\s?[a-z]{2,12}\b"
)
_CHAT_LINK = re.compile(
    r"\bh(?:tt|xx)ps?\s?[:/]"
    r"|\b[a-z0-9-]{3,40}\.(?:store|shop|site|online|xyz|africa|link|website|app|page|dev|bio|live)(?![a-z0-9.])"
    r"|\b[a-z0-9-]{3,40}\s?(?:\(dot\)|\[dot\]|\bdot\b|\{dot\})\s?(?:com|ng|org|net|co|me|shop|store|site|xyz|io|link)\b"
    r"|\b[a-z0-9-]{3,40}\sdotcom\b"
    r"|\b(?:wa|t|linktr|bit|tinyurl|instagram|facebook|fb|chat\.whatsapp|forms)\s?\.\s?(?:me|ee|ly|com|gle)\b"
    r"|\b(?:wa|linktr)\s?(?:dot|\(dot\))\s?(?:me|ee)\b"
)


def _detect_in_chat(folded: str) -> Iterator[ContactKind]:
    text = _AT_A_PLACE.sub(" ", folded)
    if _CHAT_HANDLE.search(text) or _PAYMENT_HANDLE.search(text):
        yield ContactKind.HANDLE
    if _CHAT_EMAIL.search(text):
        yield ContactKind.EMAIL
    if _CHAT_LINK.search(_PRODUCT_NAMES.sub(" ", text)):
        yield ContactKind.LINK


_PRODUCT_NAMES = re.compile(r"\b(?:asp|vb|ado|ml|paint)\.net\b|\b(?:cash|play|app)\s?\.?\s?(?:store|app)\b")

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
    r"\b(?:acct|acc(?:oun)?t|a/c|aza|bank|nuban|gt\s?b(?:ank)?|gtco|uba|zenith|access|fidelity|fcmb|wema|alat|opay|palm\s?pay"
    r"|kuda|monie\s?point|sterling|polaris|ecobank|stanbic|first\s?bank|union\s?bank|keystone)\b"
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


def _ends_inside(groups: list[re.Match[str]], last: int) -> bool:
    """Return whether another digit follows directly, so that the number is longer."""
    return last + 1 < len(groups) and groups[last + 1].start() - groups[last].end() <= 1


# A message that is little more than a part of a number.
_PIECE = re.compile(r"[\s\W]*(?:[a-z']{1,12}[\s\W]+){0,4}(?:\d[\s\W]*){1,10}(?:[a-z']{1,12}[\s\W]*){0,3}")


def _detect_in_pieces(messages: Sequence[str]) -> Iterator[ContactKind]:
    """Find a number that is split over messages, each of which is little more than a part of the number."""
    digits = []
    for message in messages:
        spelled = replace_number_words(_SYMBOLS.sub(" ", normalize_text(message)))
        if _OTHER_NUMBER.search(spelled) or not _PIECE.fullmatch(spelled):
            return
        digits.append("".join(character for character in spelled if character.isdigit()))
    joined = "".join(digits)
    if _MOBILE.fullmatch(joined) or (len(digits) > 1 and _MOBILE_WITHOUT_ZERO.fullmatch(joined)):
        yield ContactKind.PHONE
    elif len(joined) == 10 and any(_BANK_WORD.search(normalize_text(message)) for message in messages):
        yield ContactKind.ACCOUNT
