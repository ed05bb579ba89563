"""Contact details in what people write to each other in public or before they have bought: told by kind.

Whoever deals beside the platform deals without its escrow, so listings and messages carry no phone numbers, bank
accounts, addresses of e-mail, links or names on other networks. They are found also when spaced out, spelled in
words, or written in other digits or look-alike letters. Prices, sizes, model numbers, ISBNs, dates and times of
day are none of them.

This is for deciding; what reaches a log is redacted by ``marketplace.kernel.redaction``, which errs on the other
side. All expressions take time in proportion to the text: repetitions are bounded.
"""

import re
from collections.abc import Iterator
from enum import Enum
from itertools import pairwise

from marketplace.kernel.text_normalization import fold


class Contact(Enum):
    """A kind of contact details, as a sentence names it."""

    PHONE = "a phone number"
    ACCOUNT = "a bank account number"
    EMAIL = "an e-mail address"
    LINK = "a link"
    HANDLE = "a name on another network"


# What may stand between the digits of one number.
_GAP = r"[\s().,/_*~|\u2022\u00b7\u2010-\u2015+-]{0,3}"
# A digit of another number does not stand right before or behind, nor beyond a hyphen, slash or point.
_BEFORE = r"(?<!\d)(?<!\d[-/.,:])"
_AFTER = r"(?!\d)(?![-/.,:]\d)"
# The National Numbering Plan, as in marketplace.kernel.phones, but with anything between the digits.
_MOBILE = re.compile(
    rf"(?<!\d)(?:\+?{_GAP}2{_GAP}3{_GAP}4{_GAP}(?:\(?0\)?{_GAP})?|0{_GAP})[789]{_GAP}[01](?:{_GAP}\d){{8}}(?!\d)"
)
# Without the prefix 0: at a stretch, or grouped as phone numbers are.
_MOBILE_BARE = re.compile(rf"(?<![a-z]){_BEFORE}[789][01]\d{{8}}{_AFTER}(?![a-z])")
_MOBILE_GROUPED = re.compile(rf"{_BEFORE}([789][01]\d)[\s.-](\d{{3}})[\s.-](\d{{4}}){_AFTER}")
# Told in pieces, with words between that only lead on from one to the next.
_LEADING_ON = (
    r"and|then|next|after\s(?:that|this|which)|followed|by|plus|add|also|finally|lastly|last|the|rest|is|its|it|comes"
    r"|number|digits?|ends?|ending|in|with|continue[sd]?|n|&|\.{2,4}|dash|hyphen|space|dot"
)
_BETWEEN_PIECES = re.compile(rf"(?<=\d)[\s,;:.()]{{1,3}}(?:(?:{_LEADING_ON})[\s,;:.()]{{1,3}}){{1,5}}(?=\d)")
_MOBILE_IN_PIECES = re.compile(
    r"(?<!\w)(?<!\d[\s/.,:-])(?:\+?2\s?3\s?4\s?(?:\(?0\)?\s?)?|0\s?)[789]\s?[01](?:[\s,.-]{0,2}\d){8}(?!\d)"
)
_ABROAD = re.compile(r"(?<![\w+])\+[1-9](?:[\s().-]{0,2}\d){9,14}(?!\d)")

# Ten digits: at a stretch, in groups where the text speaks of an account or a bank, or one by one.
_TEN = re.compile(rf"(?<![a-z]){_BEFORE}\d{{10}}{_AFTER}(?![a-z])")
_TEN_GROUPED = re.compile(rf"{_BEFORE}\d(?:[\s.-]{{0,2}}\d){{9}}{_AFTER}")
_TEN_SINGLE = re.compile(r"(?<!\d)(?<!\d\W)\d(?:[\s.,_*-]{1,3}\d){9}(?!\d)(?!\W\d)")
_OF_A_BANK = re.compile(
    r"(?<![a-z])(?:acct|acc(?:oun)?t|a/c|bank|nuban|transfer|pay\s?to|gt\s?b(?:ank)?|gtco|uba|zenith|access|fidelity|fcmb"
    r"|wema|alat|opay|palm\s?pay|kuda|monie\s?point|sterling|polaris|ecobank|stanbic|firstbank)(?![a-z])"
)
_WITHIN = 60
_NUMBER_OF_A_THING = re.compile(
    r"\b(?:isbn(?:-?1[03])?|issn|ean|upc|barcode|serial|s/n|imei|model|part|sku)(?:\s?(?:no|number|code))?[\s:#.]{0,3}$"
)
# Round numbers are prices, and seconds since 1970 a machine's: no account, if nothing speaks of one.
_NO_ACCOUNT = re.compile(r"\d{1,5}0{5,}|1[6-9]\d{8}")
_UUID = re.compile(
    r"(?<![\w-])[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}(?![\w-])|(?<!\w)(?=\d*[a-f])[0-9a-f]{32}(?!\w)"
)
_ISBN_13 = re.compile(r"(?<!\d)97[89][ -]?(?:\d[ -]?){9}\d(?!\d)")

# A date with its year: its digits are no part of a number.
_DATE = re.compile(
    r"(?<![\d-])(?:\d{1,2}[-/.]\d{1,2}[-/.](?:19|20)\d\d|(?:19|20)\d\d[-/.]\d{1,2}[-/.]\d{1,2})(?![-/.]?\d)"
)
_DIGIT_NAMES = {
    **dict(zip("zero one two three four five six seven eight nine".split(), "0123456789", strict=True)),  # noqa: SIM905
    **dict.fromkeys(("o", "oh", "nil", "nought"), "0"),
}
_SPELLED = "|".join(sorted(_DIGIT_NAMES, key=len, reverse=True))
_DIGIT_WORD_INSIDE = re.compile("zero|one|two|three|four|five|six|seven|eight|nine")
# The same words with digits for some letters (zer0, thr33): each holds a letter that no digit stands for.
_LIKE_DIGIT_NAMES = (
    *("z[e3]r[o0]", "[o0]n[e3]", "[t7]w[o0]", "[t7]hr[e3][e3]", "f[o0]ur", "f[i1l]v[e3]", "s[i1l]x|5[il]x"),
    *("s[e3]v[e3]n|5[e3]v[e3]n", "[e3][i1l][g9]h[t7]", "n[i1l]n[e3]"),
)
_LIKE_DIGIT_WORD = re.compile(rf"(?<![a-z0-9])(?:{'|'.join(_LIKE_DIGIT_NAMES)}){{1,20}}(?![a-z0-9])")
_LIKE_DIGIT_INSIDE = re.compile("|".join(f"({name})" for name in _LIKE_DIGIT_NAMES))
_TIMES = {"double": 2, "triple": 3}
_REPEATED = re.compile(r"\b(double|triple)[\s-]{0,3}(\d)(?![a-z0-9])")
_DIGIT_WORD = re.compile(rf"(?<![a-z])(?:{_SPELLED})(?![a-z])")
_WRITTEN_TOGETHER = re.compile(
    r"(?<![a-z])(?:zero|one|two|three|four|five|six|seven|eight|nine){4,20}(?![a-z])"
)
_LETTERS_FOR_DIGITS = re.compile(r"(?<![a-z0-9])[0-9oilsbz]{2,20}(?![a-z0-9])")
_FEWEST_DIGITS = 10
_AS_DIGITS = str.maketrans("oilsbz", "011582")

_HOST = r"[a-z0-9](?:[a-z0-9-]{0,62})"
_ENDINGS = "com|ng|org|net|xyz|biz|info|online"  # endings that no sentence begins with
_MORE_ENDINGS = "me|ly|gg|io|co|shop|store|link|app|site|africa|to|uk|cc|bio|page"  # these only with a path
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
    rf"|(?<![a-z0-9@.-]){_HOST}(?:\.{_HOST}){{0,3}}\.(?:{_ENDINGS})(?![a-z0-9-])"
    rf"|(?<![a-z0-9@.-]){_HOST}(?:\.{_HOST}){{0,3}}\.(?:{_MORE_ENDINGS}){_SLASH}[a-z0-9@+]"
    rf"|(?<![a-z0-9'\u2019])(?:t|wa|fb|m|ig|bit|linktr|discord){_DOT}(?:me|ly|ee|gg){_SLASH}[a-z0-9@+]"
    rf"|(?<![a-z0-9]){_HOST}\s{{0,2}}[(\[{{]?\s?\bdot\s?[)\]}}]?\s{{0,2}}(?:com|ng|org|net)\b"
)
# Characters written one by one, and what they spell if it is an address whose dots and signs were spelled too.
_ONE_BY_ONE = re.compile(r"(?<![a-z0-9])(?:[a-z0-9@.][\s*_~|/,-]{1,3}){2,200}[a-z0-9](?![a-z0-9])")
_BETWEEN_ONES = re.compile(r"[\s*_~|/,-]+")
_EMAIL_SPELLED = re.compile(rf"(?:{_MAILERS})(?:dot|\.){{0,1}}(?:com|co|ng)")
# Names that end like a host and are none.
_NO_LINK = re.compile(r"\b(?:asp|vb|ado|ml|paint)\.net\b")

_NETWORKS = (
    r"ig|insta(?:gram)?|snapchat|twitter|telegram|tik\s?tok|facebook|fb|whats\s?app|discord|linkedin|wechat"
    r"|opay|palm\s?pay|kuda|monie\s?point|paypal|cash\s?app|chipper"
)
_NAME = r"@?(?=[a-z0-9_.]{0,30}[a-z])[a-z0-9_.]{3,30}"
_HANDLE = re.compile(
    r"(?<![a-z0-9@])@(?!(?:n|ngn)\s?\d)[a-z_][a-z0-9_.]{2,30}"
    rf"|\b(?:{_NETWORKS})\s?(?:handle|page|name|user(?:name)?|id|tag|acc(?:oun)?t)?\s{{0,2}}[:=@]\s{{0,2}}{_NAME}"
    rf"|\b(?:{_NETWORKS})\s(?:handle|username|tag)\s(?:is\s)?{_NAME}"
    r"|(?<![\w$])\$[a-z][a-z0-9_]{2,20}\b"
)


def contacts_in(text: str) -> frozenset[Contact]:
    """Tell which kinds of contact details a text holds.

    :param text: as its writer wrote it, of any length that a request may have
    :return: the kinds; none if it holds no contact details
    """
    folded = fold(text)
    return frozenset(_in_numbers(folded)) | frozenset(_in_words(folded))


def _in_words(folded: str) -> Iterator[Contact]:
    """Find what is written in letters."""
    together = _ONE_BY_ONE.sub(_together, folded)
    if together != folded:
        yield from _in_words_as_written(together)
        if any(_EMAIL_SPELLED.search(_together(run)) for run in _ONE_BY_ONE.finditer(folded)):
            yield Contact.EMAIL
    yield from _in_words_as_written(folded)


def _together(run: re.Match[str]) -> str:
    return _BETWEEN_ONES.sub("", run[0])


def _in_words_as_written(folded: str) -> Iterator[Contact]:
    rest = _EMAIL.sub(" ", folded)
    if rest != folded:
        yield Contact.EMAIL
    if _LINK.search(_NO_LINK.sub(" ", rest)):
        yield Contact.LINK
    if _HANDLE.search(rest):
        yield Contact.HANDLE


def _in_numbers(folded: str) -> Iterator[Contact]:
    """Find what is made of digits, in whatever way they are written."""
    without_ids = _UUID.sub(" id ", folded)
    numbers = _ISBN_13.sub(" isbn ", _DATE.sub(" date ", _digits_of(without_ids)))
    if sum(character.isdigit() for character in numbers) < _FEWEST_DIGITS:
        return
    if _holds_phone(numbers):
        yield Contact.PHONE
    if _holds_account(numbers):
        yield Contact.ACCOUNT


def _digits_of(folded: str) -> str:
    """Write digits that are spelled in words, or as letters that look like them, as digits."""
    text = _WRITTEN_TOGETHER.sub(lambda found: _DIGIT_WORD_INSIDE.sub(_digit, found[0]), folded)
    text = _DIGIT_WORD.sub(_digit, text)
    text = _LIKE_DIGIT_WORD.sub(lambda found: _LIKE_DIGIT_INSIDE.sub(_like_digit, found[0]), text)
    text = _REPEATED.sub(lambda found: found[2] * _TIMES[found[1]], text)
    return _LETTERS_FOR_DIGITS.sub(_as_digits, text)


def _digit(found: re.Match[str]) -> str:
    return _DIGIT_NAMES[found[0]]


def _like_digit(found: re.Match[str]) -> str:
    return str((found.lastindex or 0) - 1)


def _as_digits(found: re.Match[str]) -> str:
    token = found[0]
    mostly = sum(character.isdigit() for character in token) * 2 > len(token)
    return token.translate(_AS_DIGITS) if mostly else token


def _holds_phone(text: str) -> bool:
    if _MOBILE.search(text) or _ABROAD.search(text):
        return True
    if _MOBILE_IN_PIECES.search(_BETWEEN_PIECES.sub(" ", text)):
        return True
    if any(not _is_of_a_thing(text, found) for found in _MOBILE_BARE.finditer(text)):
        return True
    # Three round numbers in a row are prices.
    return any(
        not all(group.endswith("0") for group in found.groups()) for found in _MOBILE_GROUPED.finditer(text)
    )


def _holds_account(text: str) -> bool:
    if any(
        not (_NO_ACCOUNT.fullmatch(found[0]) or _is_of_a_thing(text, found)) for found in _TEN.finditer(text)
    ):
        return True
    if any(_OF_A_BANK.search(_around(text, found)) for found in _TEN_GROUPED.finditer(text)):
        return True
    return any(not _counts(found[0]) for found in _TEN_SINGLE.finditer(text))


def _is_of_a_thing(text: str, found: re.Match[str]) -> bool:
    """Tell whether what stands before a number says that it is an article's own."""
    return _NUMBER_OF_A_THING.search(text[max(found.start() - _WITHIN, 0) : found.start()]) is not None


def _around(text: str, found: re.Match[str]) -> str:
    return text[max(found.start() - _WITHIN, 0) : found.end() + _WITHIN]


def _counts(text: str) -> bool:
    """Tell whether digits go up or down one by one: the keys of a calculator, not an account."""
    digits = [int(character) for character in text if character.isdigit()]
    return len({after - one for one, after in pairwise(digits)}) == 1
