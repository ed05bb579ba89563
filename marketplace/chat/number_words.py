"""Number words in English, Nigerian Pidgin, Yoruba, Hausa and Igbo, replaced with digits.

The words are written as ``normalize_text`` returns them: lower case without marks. Some are also other words ("kan",
"fo"), so the result serves only to find runs of ten or more digits.
"""

import re

_WORDS = {
    "0": "zero zerro sero zirow ziro zeero oh ohh nil nought naught odo oodo sifiri sifili sufuri efu adigi",
    "1": "one wan wun won okan ookan ikan kan eni daya otu ofu",
    "2": "two tu to too eji meji eeji biyu abuo abua ibuo",
    "3": "three thre free tree tri thri eta meta eeta uku ato",
    "4": "four fower fo foa fo' for erin merin eerin hudu huddu ano",
    "5": "five fiv faiv faif fife arun marun aarun biyar ise",
    "6": "six siz siks sis efa mefa eefa shida isii",
    "7": "seven seben sevn sevun sevin seveen eje meje eeje bakwai asaa",
    "8": "eight eigt eigth at ate et eit ait eyt ejo mejo eejo takwas asato",
    "9": "nine nyne niner nain nayn esan mesan eesan tara itoolu iteghete itolu",
}
_DIGITS = {word: digit for digit, words in _WORDS.items() for word in words.split()}
_TEENS = dict(
    zip(
        "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split(),  # noqa: SIM905
        map(str, range(10, 20)),
        strict=True,
    )
)
_TENS = dict(
    zip(
        "twenty thirty forty fifty sixty seventy eighty ninety".split(),  # noqa: SIM905
        "23456789",
        strict=True,
    )
)
_UNITS = "one|two|three|four|five|six|seven|eight|nine"
# A word of two digits, such as "eighty three" or "eighty".
_TWO_DIGITS = re.compile(rf"(?<![a-z])({'|'.join(_TENS)})(?:[\s-]{{0,2}}({_UNITS}))?(?![a-z])")
_TEEN = re.compile(rf"(?<![a-z])(?:{'|'.join(_TEENS)})(?![a-z])")
_WORD = re.compile(
    rf"(?<![a-z])(?:{'|'.join(sorted(map(re.escape, _DIGITS), key=len, reverse=True))})(?![a-z])"
)
_REPEATED = re.compile(
    rf"(?<![a-z])(double|dubble|triple|treble|tripple|thrice|twice|dabul)[\s-]{{0,3}}({'|'.join(_DIGITS)}|o|[0-9])(?![a-z0-9])"
)
_REPETITIONS = {
    "double": 2,
    "dabul": 2,
    "dubble": 2,
    "tripple": 3,
    "treble": 3,
    "twice": 2,
    "triple": 3,
    "thrice": 3,
}
# Several of a digit, such as "three fives".
_PLURAL = re.compile(
    r"(?<![a-z])(two|three|four)[\s-]{1,3}(zero|one|two|three|four|five|six|seven|eight|nine|oh)(?:e?s)(?![a-z])"
)
_EVERYDAY_WORDS = (
    "at",
    "ate",
    "free",
    "to",
    "oh",
    "won",
    "too",
    "tu",
    "for",
    "fo",
    "sis",
    "et",
    "kan",
    "eni",
    "tree",
    "thri",
)


def replace_number_words(text: str) -> str:
    """Replace number words with digits.

    A word that is also an everyday word counts only between two other digits or number words.

    :param text: a result of ``normalize_text``
    """
    text = _REPEATED.sub(_repeat, text)
    text = _PLURAL.sub(lambda match: " ".join([_DIGITS[match[2]]] * int(_DIGITS[match[1]])), text)
    text = _TWO_DIGITS.sub(lambda match: _TENS[match[1]] + (_DIGITS[match[2]] if match[2] else "0"), text)
    text = _TEEN.sub(lambda match: _TEENS[match[0]], text)
    text = _WORD.sub(lambda match: match[0] if match[0] in _EVERYDAY_WORDS else _DIGITS[match[0]], text)
    return _RUN.sub(lambda run: _EVERYDAY_WORD.sub(lambda match: _DIGITS[match[0]], run[0]), text)


_EVERYDAY = "|".join(sorted(_EVERYDAY_WORDS, key=len, reverse=True))
_EVERYDAY_WORD = re.compile(rf"(?<![a-z])(?:{_EVERYDAY})(?![a-z])")
# At least four digits and words in a row.
_RUN = re.compile(
    rf"(?<![a-z0-9])(?:(?:[0-9]{{1,11}}|{_EVERYDAY})[\s,.;:-]{{1,3}}){{3,20}}(?:[0-9]{{1,11}}|{_EVERYDAY})(?![a-z0-9])"
)


def _repeat(match: re.Match[str]) -> str:
    word = match[2]
    digit = "0" if word == "o" else _DIGITS.get(word, word)
    return " ".join([digit] * _REPETITIONS[match[1]])
