"""Which word was meant: edits counted, a transposition as one, and the more usual word preferred."""

from collections.abc import Iterable
from dataclasses import dataclass

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


def edit_distance(one: str, other: str, *, most: int) -> int:
    """Count the letters missing, added, changed or swapped with their neighbour.

    :param most: beyond so many the exact number does not matter
    :return: the number, or ``most + 1``
    """
    if abs(len(one) - len(other)) > most:
        return most + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        last_but_one, before, row = before, row, [i]
        for j, meant in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != meant))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == meant:
                cost = min(cost, last_but_one[j - 2] + 1)
            row.append(cost)
        if min(row) > most and min(before) > most:
            return most + 1
    return min(row[-1], most + 1)


def choose_corrections(
    word: str, candidates: Iterable[SpellingCandidate], *, known_documents: int = 0
) -> list[str]:
    """Choose what a word that was typed may have meant.

    :param word: as it was typed, folded
    :param candidates: words that look like it
    :param known_documents: how many documents have the word itself; the corrections must be far more usual
    :return: the nearest, the most usual first; none if nothing is near
    """
    most = max_edits(word)
    found = []
    for candidate in candidates:
        if candidate.text == word or candidate.documents < 1:
            continue
        if known_documents and candidate.documents < max(_MIN_DOMINANT_DOCUMENTS, 10 * known_documents):
            continue
        faults = _count_edits(word, candidate.text, most)
        if faults <= (1 if known_documents else most):
            # Few get the first letter wrong.
            found.append((faults, candidate.text[0] != word[0], -candidate.documents, candidate.text))
    found.sort()
    best = [item[3] for item in found if item[0] == found[0][0]]
    return list(dict.fromkeys(best))[:MAX_CORRECTIONS]


def _count_edits(word: str, meant: str, most: int) -> int:
    """Count the faults; a singular that was meant as a plural, or the other way round, has none for that."""
    if meant.replace(" ", "") == word:
        return 1  # a blank was forgotten
    bare_word, bare_meant = word.removesuffix("s"), meant.removesuffix("s")
    return min(edit_distance(word, meant, most=most), edit_distance(bare_word, bare_meant, most=most))
