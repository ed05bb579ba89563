"""Matcher for banned terms in any spelling, without false matches of similar words.

Whole words are compared after folding. Folding removes case, accents and look-alike characters. Digits that stand for
letters are read as letters. Plural endings and repeated letters are reduced, and spaced-out letters are joined. A
harmless phrase that contains a term, such as "glue gun", is an exception of the term.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from marketplace.catalog.models import BannedTerm
from marketplace.kernel.text_normalization import normalize_text

BANNED_CATEGORIES = {
    "weapon": "weapons",
    "drug": "drugs",
    "medicine": "prescription medicines",
    "exam_malpractice": "help with cheating in exams",
    "forgery": "forged, stolen or fraudulent goods",
    "adult": "adult content",
    "alcohol_tobacco": "alcohol or tobacco",
    "wildlife": "protected animals",
    "other": "prohibited goods",
}
MAX_TERM_LENGTH = 60
MAX_EXCEPTIONS = 30

_APOSTROPHES = re.compile(r"['\u2019\u02bc`]")
_TOKEN = re.compile(r"[a-z0-9@$!|]+")
_LEET_ONE_AS_I = str.maketrans("0345789@$!|1", "oeastbgasiii")
_LEET_ONE_AS_L = str.maketrans("0345789@$!|1", "oeastbgasill")
_REPEATED_LETTERS = re.compile(r"(.)\1{2,}")
_MIN_SPACED_LETTERS = 3
# Minimum length of a word written as two words; shorter joins match by chance.
_MIN_JOINED_LENGTH = 6
# Minimum length of a term to match anywhere within spaced-out letters, which have no word boundaries.
_MIN_SUBSTRING_LENGTH = 4
_MAX_SPACED_LETTERS = 200
_MIN_PLURAL_LENGTH = 3


def tokenize_phrase(phrase: str) -> tuple[str, ...]:
    """Split a term or an exception into folded words."""
    return tuple(re.findall(r"[a-z0-9]+", _APOSTROPHES.sub("", normalize_text(phrase))))


class BannedWords:
    """An index of banned terms for matching texts."""

    def __init__(self, terms: Iterable[BannedTerm]) -> None:
        """Index the terms.

        :param terms: terms without words are ignored
        """
        self._phrases_by_first_word: dict[str, list[tuple[tuple[str, ...], BannedTerm]]] = defaultdict(list)
        self._phrases_by_joined_form: dict[str, BannedTerm] = {}
        self._exceptions: dict[str, list[tuple[str, ...]]] = {}
        for term in terms:
            words = tokenize_phrase(term.term)
            if words:
                self._phrases_by_first_word[words[0]].append((words, term))
                self._phrases_by_joined_form["".join(words)] = term
                self._exceptions[term.term] = [tokenize_phrase(phrase) for phrase in term.exceptions]

    def find_phrases(self, text: str) -> list[BannedTerm]:
        """Find the banned terms in a text, without duplicates.

        :param text: the original text, not folded
        """
        tokens = _TOKEN.findall(_APOSTROPHES.sub("", normalize_text(text)))
        forms = [_spelling_variants(token) for token in tokens]
        matches: dict[str, BannedTerm] = {}
        for start in range(len(forms)):
            for first in forms[start]:
                for words, term in self._phrases_by_first_word.get(first, ()):
                    if _matches_at(forms, start, words) and not self._is_exception(forms, start, words, term):
                        matches.setdefault(term.term, term)
            for term in self._match_joined_or_split(tokens, forms, start):
                matches.setdefault(term.term, term)
        for run in _join_spaced_letters(tokens):
            for whole, term in self._phrases_by_joined_form.items():
                if whole == run or (len(whole) >= _MIN_SUBSTRING_LENGTH and whole in run):
                    matches.setdefault(term.term, term)
        return list(matches.values())

    def _is_exception(
        self, forms: Sequence[frozenset[str]], start: int, words: tuple[str, ...], term: BannedTerm
    ) -> bool:
        """Return whether the words are part of an exception of the term."""
        for phrase in self._exceptions[term.term]:
            for before in range(len(phrase) - len(words) + 1):
                at = start - before
                if (
                    at >= 0
                    and phrase[before : before + len(words)] == words
                    and _matches_at(forms, at, phrase)
                ):
                    return True
        return False

    def _match_joined_or_split(
        self, tokens: Sequence[str], forms: Sequence[frozenset[str]], start: int
    ) -> Iterable[BannedTerm]:
        """Find a phrase written as one word, and a word written as two words."""
        for form in forms[start]:
            term = self._phrases_by_joined_form.get(form)
            if term is not None and " " in term.term:
                yield term
        if start + 1 < len(tokens) and min(len(tokens[start]), len(tokens[start + 1])) > 1:
            for form in _spelling_variants(tokens[start] + tokens[start + 1]):
                term = self._phrases_by_joined_form.get(form)
                if term is not None and " " not in term.term and len(form) >= _MIN_JOINED_LENGTH:
                    yield term


def _spelling_variants(token: str) -> frozenset[str]:
    """Return the words that a token may stand for."""
    bare = token.strip("!|")
    forms = {re.sub(r"[^a-z0-9]", "", bare)}
    if _may_be_leet(bare):
        forms |= {bare.translate(_LEET_ONE_AS_I), bare.translate(_LEET_ONE_AS_L)}
    for form in tuple(forms):
        if _REPEATED_LETTERS.search(form):
            forms |= {_REPEATED_LETTERS.sub(r"\1", form), _REPEATED_LETTERS.sub(r"\1\1", form)}
    for form in tuple(forms):
        if len(form) >= _MIN_PLURAL_LENGTH:
            forms |= {form.removesuffix("s"), form.removesuffix("es")}
    return frozenset(forms - {""})


def _may_be_leet(token: str) -> bool:
    """Return whether a token is a word with digits for letters; 15D and 128GB are numbers with a unit."""
    letters = sum(character.isalpha() for character in token)
    digits = sum(character.isdigit() for character in token)
    return letters < len(token) and letters >= max(digits, 1)


def _matches_at(forms: Sequence[frozenset[str]], start: int, words: Sequence[str]) -> bool:
    if start + len(words) > len(forms):
        return False
    return all(word in forms[start + offset] for offset, word in enumerate(words))


def _join_spaced_letters(tokens: Sequence[str]) -> Iterable[str]:
    """Join runs of at least three single characters."""
    run: list[str] = []
    for token in (*tokens, ""):
        if len(token) == 1 and len(run) < _MAX_SPACED_LETTERS:
            run.append(token)
            continue
        if len(run) >= _MIN_SPACED_LETTERS:
            spelled = "".join(run)
            yield spelled
            if _may_be_leet(spelled):
                yield spelled.translate(_LEET_ONE_AS_I)
        run = []
