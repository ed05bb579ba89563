"""Tokenizer of search queries. Accents and case are folded as in the database function ``search_words``."""

import re
import unicodedata

MAX_WORDS = 10
MAX_WORD_LENGTH = 40
_MAX_PHRASE_WORDS = 4

# Letters without a Unicode decomposition. casefold() handles ß.
_LETTER_REPLACEMENTS = str.maketrans(
    {"ø": "o", "đ": "d", "ð": "d", "ł": "l", "æ": "ae", "œ": "oe", "\u0131": "i", "þ": "th", "ħ": "h"}
)
_APOSTROPHES = re.compile("['\u2019\u2018`]")
_THOUSANDS_SEPARATOR = re.compile(r"(?<=[0-9])[,.](?=[0-9]{3}(?![0-9]))")
_WORD = re.compile(r"[^\W_]+")
_LETTER_DIGIT_BOUNDARY = re.compile(r"(?<=[0-9])(?=[^\W\d_])|(?<=[^\W\d_])(?=[0-9])")

STOP_WORDS = frozenset(
    (
        *(
            "a",
            "an",
            "and",
            "are",
            "as",
            "at",
            "be",
            "buy",
            "by",
            "for",
            "from",
            "i",
            "in",
            "is",
            "it",
            "its",
        ),
        *("me", "my", "need", "of", "on", "or", "please", "s", "sale", "selling", "some", "t", "that", "the"),
        *("this", "to", "want", "was", "we", "with", "you", "your"),
    )
)
"""Words that are ignored in queries with other words."""

MASK = "#"
_ADDRESS_OR_HANDLE = re.compile(r"\S*@\S*|(?:https?://|www\.)\S*")
# Shorter numbers are sizes, prices or models. Six or more digits may be a personal number.
_LONG_NUMBER = re.compile(r"[+(]?[0-9](?:[ ().-]{0,2}[0-9]){5,}")


def fold(text: str) -> str:
    """Remove accents and case from a text."""
    bare = "".join(
        character
        for character in unicodedata.normalize("NFKD", text).casefold()
        if not "\u0300" <= character <= "\u036f"
    )
    return bare.translate(_LETTER_REPLACEMENTS)


def tokenize(text: str, *, limit: int = MAX_WORDS) -> list[str]:
    """Split a text into folded words.

    :param limit: maximum number of words; each word is cut at ``MAX_WORD_LENGTH`` characters
    :return: words of letters and digits
    """
    folded = _THOUSANDS_SEPARATOR.sub("", _APOSTROPHES.sub("", fold(text)))
    return [word[:MAX_WORD_LENGTH] for word in _WORD.findall(folded)[:limit]]


def split_letters_and_digits(word: str) -> list[str]:
    """Split a word where letters meet digits: ``fx991es`` becomes ``fx``, ``991``, ``es``."""
    return _LETTER_DIGIT_BOUNDARY.split(word)


def word_forms(word: str) -> list[str]:
    """Return a word and its possible singular and plural forms, the word itself first."""
    forms = [word]
    if word.endswith("ies"):
        forms.append(f"{word[:-3]}y")
    if word.endswith("es"):
        forms.append(word[:-2])
    if word.endswith("s"):
        forms.append(word[:-1])
    else:
        forms.append(f"{word}s")
    return [form for form in forms if form]


def find_phrases(words: list[str]) -> dict[str, tuple[int, int]]:
    """Find the phrases of up to four words in a query, each in all singular and plural forms.

    :return: the covered positions by phrase, the end exclusive
    """
    span_of_phrase: dict[str, tuple[int, int]] = {}
    for start in range(len(words)):
        for end in range(start + 1, min(start + _MAX_PHRASE_WORDS, len(words)) + 1):
            head = words[start : end - 1]
            for last in word_forms(words[end - 1]):
                span_of_phrase.setdefault(" ".join([*head, last]), (start, end))
    return span_of_phrase


def mask_personal_data(query: str) -> str:
    """Fold a query and mask possible personal data, so that the query may be stored.

    :return: the query without addresses, handles and numbers of six or more digits
    """
    return _LONG_NUMBER.sub(MASK, _ADDRESS_OR_HANDLE.sub(MASK, " ".join(fold(query).split())))
