"""Detection of contact details in listings and messages.

Deals outside the platform bypass the escrow. Listings and messages therefore may not contain phone numbers, bank
accounts, e-mail addresses, links or usernames on other networks. Detection also covers digits that are spaced out,
spelled in words, or replaced by other scripts and look-alike letters. Prices, sizes, model numbers, ISBNs, dates and
times of day are not contact details.

Detection avoids false positives because listings are refused on its result. ``marketplace.kernel.redaction`` serves
logs and prefers false positives. All expressions run in time proportional to the text, because repetitions are
bounded.
"""

import re
from collections.abc import Iterator
from enum import Enum
from itertools import pairwise

from marketplace.kernel.text_normalization import normalize_text


class ContactKind(Enum):
    """A kind of contact details. The value is a noun phrase for messages."""

    PHONE = "a phone number"
    ACCOUNT = "a bank account number"
    EMAIL = "an e-mail address"
    LINK = "a link"
    HANDLE = "a username on another network"


# The kinds in APIs and tables.
KIND_NAMES = tuple(kind.name.lower() for kind in ContactKind)


# Characters allowed between the digits of one number.
_GAP = r"[\s().,/_*~|\u2022\u00b7\u2010-\u2015+-]{0,3}"
# No digit of another number is adjacent, not even across a hyphen, slash or point.
_BEFORE = r"(?<!\d)(?<!\d[-/.,:])"
_AFTER = r"(?!\d)(?![-/.,:]\d)"
# The National Numbering Plan, as in marketplace.kernel.phones, but with gaps between the digits.
_MOBILE = re.compile(
    rf"(?<!\d)(?:\+?{_GAP}2{_GAP}3{_GAP}4{_GAP}(?:\(?0\)?{_GAP})?|0{_GAP})[789]{_GAP}[01](?:{_GAP}\d){{8}}(?!\d)"
)
# Without the prefix 0: contiguous, or grouped like a phone number.
_MOBILE_BARE = re.compile(rf"(?<![a-z]){_BEFORE}[789][01]\d{{8}}{_AFTER}(?![a-z])")
_MOBILE_GROUPED = re.compile(rf"{_BEFORE}([789][01]\d)[\s.-](\d{{3}})[\s.-](\d{{4}}){_AFTER}")
# Filler words between the groups of a number, as in "0803 and then 123 4567".
_WORDS_BETWEEN_DIGITS = re.compile(
    r"(?<=\d)[\s,;:.()]{1,3}(?:(?:"
    r"and|then|next|after\s(?:that|this|which)|followed|by|plus|add|also|finally|lastly|last|the|rest|is|its|it|comes"
    r"|number|digits?|ends?|ending|in|with|continue[sd]?|n|&|\.{2,4}|dash|hyphen|space|dot"
    r")[\s,;:.()]{1,3}){1,5}(?=\d)"
)
_MOBILE_WITHOUT_WORDS = re.compile(
    r"(?<!\w)(?<!\d[\s/.,:-])(?:\+?2\s?3\s?4\s?(?:\(?0\)?\s?)?|0\s?)[789]\s?[01](?:[\s,.-]{0,2}\d){8}(?!\d)"
)
_FOREIGN_PHONE = re.compile(r"(?<![\w+])\+[1-9](?:[\s().-]{0,2}\d){9,14}(?!\d)")

# Ten digits: contiguous, separated one by one, or grouped near a word for an account or a bank.
_TEN_DIGITS = re.compile(rf"(?<![a-z]){_BEFORE}\d{{10}}{_AFTER}(?![a-z])")
_TEN_DIGITS_GROUPED = re.compile(rf"{_BEFORE}\d(?:[\s.-]{{0,2}}\d){{9}}{_AFTER}")
_TEN_DIGITS_SPACED = re.compile(r"(?<!\d)(?<!\d\W)\d(?:[\s.,_*-]{1,3}\d){9}(?!\d)(?!\W\d)")
_BANK_WORD = re.compile(
    r"(?<![a-z])(?:acct|acc(?:oun)?t|a/c|bank|nuban|transfer|pay\s?to|gt\s?b(?:ank)?|gtco|uba|zenith|access|fidelity|fcmb"
    r"|wema|alat|opay|palm\s?pay|kuda|monie\s?point|sterling|polaris|ecobank|stanbic|firstbank)(?![a-z])"
)
_CONTEXT_CHARACTERS = 60
_PRODUCT_NUMBER_PREFIX = re.compile(
    r"\b(?:isbn(?:-?1[03])?|issn|ean|upc|barcode|serial|s/n|imei|model|part|sku)(?:\s?(?:no|number|code))?[\s:#.]{0,3}$"
)
# Round numbers are usually prices, and numbers like 1700000000 are Unix timestamps.
_ROUND_NUMBER_OR_TIMESTAMP = re.compile(r"\d{1,5}0{5,}|1[6-9]\d{8}")
_UUID = re.compile(
    r"(?<![\w-])[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}(?![\w-])|(?<!\w)(?=\d*[a-f])[0-9a-f]{32}(?!\w)"
)
_ISBN_13 = re.compile(r"(?<!\d)97[89][ -]?(?:\d[ -]?){9}\d(?!\d)")

# A date with a year. The digits of a date do not count as part of a number.
_DATE = re.compile(
    r"(?<![\d-])(?:\d{1,2}[-/.]\d{1,2}[-/.](?:19|20)\d\d|(?:19|20)\d\d[-/.]\d{1,2}[-/.]\d{1,2})(?![-/.]?\d)"
)
_DIGIT_NAMES = {
    **dict(zip("zero one two three four five six seven eight nine".split(), "0123456789", strict=True)),  # noqa: SIM905
    **dict.fromkeys(("o", "oh", "nil", "nought"), "0"),
}
_PLAIN_DIGIT_NAMES = "zero|one|two|three|four|five|six|seven|eight|nine"
# The same words with digits for some letters (zer0, thr33). Each word keeps a letter that has no look-alike digit.
_LOOKALIKE_DIGIT_NAMES = (
    *("z[e3]r[o0]", "[o0]n[e3]", "[t7]w[o0]", "[t7]hr[e3][e3]", "f[o0]ur", "f[i1l]v[e3]", "s[i1l]x|5[il]x"),
    *("s[e3]v[e3]n|5[e3]v[e3]n", "[e3][i1l][g9]h[t7]", "n[i1l]n[e3]"),
)
_LOOKALIKE_DIGIT_WORD = re.compile(
    rf"(?<![a-z0-9])(?:{'|'.join(_LOOKALIKE_DIGIT_NAMES)}){{1,20}}(?![a-z0-9])"
)
_LOOKALIKE_DIGIT_INSIDE = re.compile("|".join(f"({name})" for name in _LOOKALIKE_DIGIT_NAMES))
_REPEATED_DIGIT = re.compile(r"\b(double|triple)[\s-]{0,3}(\d)(?![a-z0-9])")
_DIGIT_WORD = re.compile(rf"(?<![a-z])(?:{_PLAIN_DIGIT_NAMES}|nought|nil|oh|o)(?![a-z])")
_JOINED_DIGIT_WORDS = re.compile(rf"(?<![a-z])(?:{_PLAIN_DIGIT_NAMES}){{4,20}}(?![a-z])")
_LETTERS_FOR_DIGITS = re.compile(r"(?<![a-z0-9])[0-9oilsbz]{2,20}(?![a-z0-9])")
_LETTER_TO_DIGIT = str.maketrans("oilsbz", "011582")

_HOST = r"[a-z0-9](?:[a-z0-9-]{0,62})"
_MAILERS = "gmail|googlemail|yahoo|ymail|hotmail|outlook|icloud|proton(?:mail)?|live|aol|zoho"
_DOT = r"(?:\s{0,2}\.\s{0,2}|\s{0,2}[(\[{]?\s?\bdot\b\s?[)\]}]?\s{0,2})"
_AT = r"(?:\s{0,2}@\s{0,2}|\s{0,2}[(\[{]\s?at\s?[)\]}]\s{0,2})"
_SLASH = r"\s{0,2}(?:/|[(\[{]?\s?\b(?:forward\s?)?slash\b\s?[)\]}]?)\s{0,2}"
_EMAIL = re.compile(
    rf"[a-z0-9._%+-]{{1,64}}@{_HOST}(?:\.{_HOST}){{0,3}}\.[a-z]{{2,12}}\b"
    rf"|[a-z0-9]{_AT}{_HOST}{_DOT}(?:{_HOST}{_DOT}){{0,2}}(?:com|ng|org|net|edu)\b"
    rf"|[a-z0-9]{_AT}(?:{_MAILERS})\b"
    rf"|[a-z0-9]\s{{1,2}}at\s{{1,2}}(?:{_MAILERS}){_DOT}(?:com|co|ng|me)\b"
)
_LINK = re.compile(
    rf"\bhttps?\s?:\s?/\s?/|\bwww\s?\.\s?[a-z0-9]"
    # Sentences do not begin with these endings, so the point is not a full stop without a space after it. The other
    # endings count only with a path.
    rf"|(?<![a-z0-9@.-]){_HOST}(?:\.{_HOST}){{0,3}}\.(?:com|ng|org|net|xyz|biz|info|online)(?![a-z0-9-])"
    rf"|(?<![a-z0-9@.-]){_HOST}(?:\.{_HOST}){{0,3}}"
    rf"\.(?:me|ly|gg|io|co|shop|store|link|app|site|africa|to|uk|cc|bio|page){_SLASH}[a-z0-9@+]"
    rf"|(?<![a-z0-9'\u2019])(?:t|wa|fb|m|ig|bit|linktr|discord){_DOT}(?:me|ly|ee|gg){_SLASH}[a-z0-9@+]"
    rf"|(?<![a-z0-9]){_HOST}\s{{0,2}}[(\[{{]?\s?\bdot\s?[)\]}}]?\s{{0,2}}(?:com|ng|org|net)\b"
)
# Characters written one by one, and the e-mail address that the joined characters spell.
_SPACED_CHARACTERS = re.compile(r"(?<![a-z0-9])(?:[a-z0-9@.][\s*_~|/,-]{1,3}){2,200}[a-z0-9](?![a-z0-9])")
_SPELLED_EMAIL = re.compile(rf"(?:{_MAILERS})(?:dot|\.){{0,1}}(?:com|co|ng)")
# Product names that look like host names.
_PRODUCT_NAME_LIKE_HOST = re.compile(r"\b(?:asp|vb|ado|ml|paint)\.net\b")

_NETWORKS = (
    r"ig|insta(?:gram)?|snapchat|twitter|telegram|tik\s?tok|facebook|fb|whats\s?app|discord|linkedin|wechat"
    r"|opay|palm\s?pay|kuda|monie\s?point|paypal|cash\s?app|chipper"
)
_ACCOUNT_NAME = r"@?(?=[a-z0-9_.]{0,30}[a-z])[a-z0-9_.]{3,30}"
_HANDLE = re.compile(
    r"(?<![a-z0-9@])@(?!(?:n|ngn)\s?\d)[a-z_][a-z0-9_.]{2,30}"
    rf"|\b(?:{_NETWORKS})\s?(?:handle|page|name|user(?:name)?|id|tag|acc(?:oun)?t)?\s{{0,2}}[:=@]\s{{0,2}}{_ACCOUNT_NAME}"
    rf"|\b(?:{_NETWORKS})\s(?:handle|username|tag)\s(?:is\s)?{_ACCOUNT_NAME}"
    r"|(?<![\w$])\$[a-z][a-z0-9_]{2,20}\b"
)


def detect_contacts(text: str) -> frozenset[ContactKind]:
    """Return the kinds of contact details in a text."""
    folded = normalize_text(text)
    return frozenset(_detect_in_digits(folded)) | frozenset(_detect_in_letters(folded))


def _detect_in_letters(folded: str) -> Iterator[ContactKind]:
    """Find e-mail addresses, links and handles, also when spelled character by character."""
    together = _SPACED_CHARACTERS.sub(_join_characters, folded)
    if together != folded:
        yield from _detect_in_text(together)
        if any(_SPELLED_EMAIL.search(_join_characters(run)) for run in _SPACED_CHARACTERS.finditer(folded)):
            yield ContactKind.EMAIL
    yield from _detect_in_text(folded)


def _join_characters(run: re.Match[str]) -> str:
    return re.sub(r"[\s*_~|/,-]+", "", run[0])


def _detect_in_text(folded: str) -> Iterator[ContactKind]:
    rest = _EMAIL.sub(" ", folded)
    if rest != folded:
        yield ContactKind.EMAIL
    if _LINK.search(_PRODUCT_NAME_LIKE_HOST.sub(" ", rest)):
        yield ContactKind.LINK
    if _HANDLE.search(rest):
        yield ContactKind.HANDLE


def _detect_in_digits(folded: str) -> Iterator[ContactKind]:
    """Find phone and account numbers, in any notation of the digits."""
    digits = _replace_spelled_digits(_UUID.sub(" id ", folded))
    numbers = _ISBN_13.sub(" isbn ", _DATE.sub(" date ", digits))
    # Phone and account numbers have at least ten digits.
    if sum(character.isdigit() for character in numbers) < 10:
        return
    if _has_phone(numbers):
        yield ContactKind.PHONE
    if _has_account_number(numbers):
        yield ContactKind.ACCOUNT


def _replace_spelled_digits(folded: str) -> str:
    """Replace number words and look-alike letters with digits."""
    text = _DIGIT_WORD.sub(
        lambda word: _DIGIT_NAMES[word[0]],
        _JOINED_DIGIT_WORDS.sub(
            lambda words: re.sub(_PLAIN_DIGIT_NAMES, lambda word: _DIGIT_NAMES[word[0]], words[0]), folded
        ),
    )
    text = _LOOKALIKE_DIGIT_WORD.sub(
        # Group numbers start at 1, digits at 0.
        lambda words: _LOOKALIKE_DIGIT_INSIDE.sub(lambda word: str((word.lastindex or 0) - 1), words[0]),
        text,
    )
    text = _REPEATED_DIGIT.sub(lambda match: match[2] * (3 if match[1] == "triple" else 2), text)
    return _LETTERS_FOR_DIGITS.sub(_digits_of_lookalike_letters, text)


def _digits_of_lookalike_letters(match: re.Match[str]) -> str:
    is_mostly_digits = sum(character.isdigit() for character in match[0]) * 2 > len(match[0])
    return match[0].translate(_LETTER_TO_DIGIT) if is_mostly_digits else match[0]


def _has_phone(text: str) -> bool:
    return (
        bool(_MOBILE.search(text) or _FOREIGN_PHONE.search(text))
        or bool(_MOBILE_WITHOUT_WORDS.search(_WORDS_BETWEEN_DIGITS.sub(" ", text)))
        or any(not _is_product_number(text, match) for match in _MOBILE_BARE.finditer(text))
        # Three round numbers in a row are usually prices.
        or any(
            not all(part.endswith("0") for part in match.groups()) for match in _MOBILE_GROUPED.finditer(text)
        )
    )


def _has_account_number(text: str) -> bool:
    return (
        any(
            not (_ROUND_NUMBER_OR_TIMESTAMP.fullmatch(match[0]) or _is_product_number(text, match))
            for match in _TEN_DIGITS.finditer(text)
        )
        or any(
            _BANK_WORD.search(
                text[max(match.start() - _CONTEXT_CHARACTERS, 0) : match.end() + _CONTEXT_CHARACTERS]
            )
            for match in _TEN_DIGITS_GROUPED.finditer(text)
        )
        or any(not _is_consecutive(match[0]) for match in _TEN_DIGITS_SPACED.finditer(text))
    )


def _is_product_number(text: str, match: re.Match[str]) -> bool:
    """Return whether a label such as ISBN or SKU precedes the number."""
    return (
        _PRODUCT_NUMBER_PREFIX.search(text[max(match.start() - _CONTEXT_CHARACTERS, 0) : match.start()])
        is not None
    )


def _is_consecutive(text: str) -> bool:
    """Return whether digits are a sequence such as 1234567890, as on a keypad, and not an account number."""
    digits = [int(character) for character in text if character.isdigit()]
    return len({following - digit for digit, following in pairwise(digits)}) == 1
