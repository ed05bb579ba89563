"""Which word was meant: edits counted, a transposition as one, and the more usual word preferred."""

from collections.abc import Iterable
from dataclasses import dataclass

from rapidfuzz.distance import OSA

MIN_CORRECTABLE_LENGTH = 3
_MAX_LENGTH_FOR_ONE_EDIT, _MAX_LENGTH_FOR_TWO_EDITS = (
    4,
    8,
)  # words so short may have one fault, words longer than the second three, all others two
MAX_CORRECTIONS = 2
# A word that hardly anybody uses is taken for a misspelling of one that is so much more usual.
RARE_WORD_DOCUMENTS = 2
_MIN_DOMINANT_DOCUMENTS = 25


@dataclass(frozen=True, slots=True)
class SpellingCandidate:
    """A word, or two, of the catalog, and in how many documents it is."""

    text: str
    documents: int


def max_edits(word: str) -> int:
    """Tell how many faults a word may have and still be recognised."""
    return 1 if len(word) <= _MAX_LENGTH_FOR_ONE_EDIT else 2 if len(word) <= _MAX_LENGTH_FOR_TWO_EDITS else 3


def choose_corrections(
    word: str, candidates: Iterable[SpellingCandidate], *, word_documents: int = 0
) -> list[str]:
    """Choose what a word that was typed may have meant.

    :param word: as it was typed, folded
    :param candidates: words that look like it
    :param word_documents: how many documents have the word itself; the corrections must be far more usual
    :return: the nearest, the most usual first; none if nothing is near
    """
    max_distance = max_edits(word)
    matches = []
    for candidate in candidates:
        if candidate.text == word or candidate.documents < 1:
            continue
        if word_documents and candidate.documents < max(_MIN_DOMINANT_DOCUMENTS, 10 * word_documents):
            continue
        faults = _count_edits(word, candidate.text, max_distance)
        if faults <= (1 if word_documents else max_distance):
            # Few get the first letter wrong.
            matches.append((faults, candidate.text[0] != word[0], -candidate.documents, candidate.text))
    matches.sort()
    best = [item[3] for item in matches if item[0] == matches[0][0]]
    return list(dict.fromkeys(best))[:MAX_CORRECTIONS]


def _count_edits(word: str, candidate: str, max_distance: int) -> int:
    """Count the faults; a singular that was meant as a plural, or the other way round, has none for that."""
    if candidate.replace(" ", "") == word:
        return 1  # a blank was forgotten
    bare_word, bare_candidate = word.removesuffix("s"), candidate.removesuffix("s")
    return min(
        OSA.distance(word, candidate, score_cutoff=max_distance),
        OSA.distance(bare_word, bare_candidate, score_cutoff=max_distance),
    )
