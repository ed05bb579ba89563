"""From words to the database's query language: a conjunction of groups, each a word and what may stand for it.

Everything here is text in, text out; what is known of words is looked up elsewhere and given.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from marketplace.catalog.search.tokenizer import (
    STOP_WORDS,
    find_phrases,
    split_letters_and_digits,
    word_forms,
)

_MAX_SYNONYMS = 12


@dataclass(frozen=True, slots=True)
class LexemeFrequency:
    """In how many documents a lexeme is: in titles, tags and categories, and anywhere."""

    in_title: int
    anywhere: int


@dataclass(frozen=True)
class Lexicon:
    """What the catalog knows of the words of a query."""

    documents: Mapping[str, int] = field(default_factory=dict)
    """In how many documents a word is, as written, but in descriptions; a word that is in none has no entry."""

    frequent: Mapping[str, LexemeFrequency] = field(default_factory=dict)
    """The words whose stems very many documents have."""

    beginning: int = 0
    """How many documents have words that begin like the last one, at most."""

    synonyms: Sequence[Sequence[str]] = ()
    """Groups of words and phrases that mean the same."""

    total: int = 0
    """How many documents there are, about."""

    def known(self, word: str) -> int:
        """Tell how many documents have a word, in the singular or the plural."""
        return max((self.documents.get(form, 0) for form in word_forms(word)), default=0)


@dataclass(frozen=True, slots=True)
class QueryGroup:
    """A word or phrase of the query: what was typed, what may also stand for it, and how many that finds."""

    exact: str
    others: tuple[str, ...]
    share_exact: float
    share_in_title: float
    share_anywhere: float

    @property
    def wide(self) -> str:
        """Write the group with all its alternatives."""
        return _any_of([self.exact, *self.others])


@dataclass(frozen=True, slots=True)
class TextSearchQuery:
    """A query in three widths, as ``to_tsquery`` takes them, and the share of documents that each finds.

    ``exact`` has the words alone, ``wide`` all that may stand for them, ``partial`` needs one of them less,
    and is none where there is one alone.
    """

    exact: str
    wide: str
    partial: str | None
    share_exact: float
    share_in_title: float
    share_anywhere: float
    share_partial: float


def build_query(
    given: Sequence[str], lexicon: Lexicon, *, corrected: Mapping[str, Sequence[str]] | None = None
) -> TextSearchQuery:
    """Build the query of some words.

    :param given: at least one, folded
    :param lexicon: what is known of them
    :param corrected: what else a word may have meant
    """
    groups = _build_groups(list(given), lexicon, corrected or {})
    rest = [groups[:index] + groups[index + 1 :] for index in range(len(groups))] if groups[1:] else []
    if not rest and len(given) > 1:
        # A phrase that has synonyms as a whole is one group: without one of its words, the others are left.
        words = [word for word in given if word not in STOP_WORDS]
        rest = [
            [_build_group([word], [], lexicon, corrected=corrected or {}, last=False)]
            for word in words
            if words[1:]
        ]
    return TextSearchQuery(
        exact=_all_of([group.exact for group in groups]),
        wide=_all_of([group.wide for group in groups]),
        partial=_any_of([_all_of([group.wide for group in some]) for some in rest]) if rest else None,
        share_exact=_estimate_share(groups, "share_exact"),
        share_in_title=_estimate_share(groups, "share_in_title"),
        share_anywhere=_estimate_share(groups, "share_anywhere"),
        share_partial=min(1.0, sum(_estimate_share(some, "share_anywhere") for some in rest)),
    )


def corrected_query(given: Sequence[str], corrected: Mapping[str, Sequence[str]]) -> str:
    """Write a query with each word in its nearest spelling."""
    return " ".join(corrected_words(given, corrected))


def corrected_words(given: Sequence[str], corrected: Mapping[str, Sequence[str]]) -> list[str]:
    """Give each word of a query in its nearest spelling, which may be two words."""
    return [corrected[word][0] if corrected.get(word) else word for word in given]


def _build_groups(
    given: list[str], lexicon: Lexicon, corrected: Mapping[str, Sequence[str]]
) -> list[QueryGroup]:
    spans = _find_alternatives(given, lexicon, corrected)
    bare = all(word in STOP_WORDS for word in given)
    found = []
    start = 0
    while start < len(given):
        end = max((stop for begin, stop in spans if begin == start), default=start + 1)
        if end > start + 1 or bare or given[start] not in STOP_WORDS or (start, end) in spans:
            found.append(
                _build_group(
                    given[start:end],
                    spans.get((start, end), []),
                    lexicon,
                    corrected=corrected,
                    last=end == len(given),
                )
            )
        start = end
    return list(dict.fromkeys(found))


def _find_alternatives(
    given: list[str], lexicon: Lexicon, corrected: Mapping[str, Sequence[str]]
) -> dict[tuple[int, int], list[str]]:
    """Find the words and phrases that others may stand for: synonyms, and one word written as two."""
    found: dict[tuple[int, int], list[str]] = {}
    places = find_phrases(corrected_words(given, corrected)) | find_phrases(given)
    for terms in lexicon.synonyms:
        for term in terms:
            place = places.get(term)
            if place is not None:
                others = [other for other in terms if other != term]
                found.setdefault(place, []).extend(others)
    for start in range(len(given) - 1):
        glued = given[start] + given[start + 1]
        if lexicon.known(glued):
            found.setdefault((start, start + 2), []).append(glued)
    return {place: list(dict.fromkeys(others))[:_MAX_SYNONYMS] for place, others in found.items()}


def _build_group(
    typed: Sequence[str],
    synonyms: Sequence[str],
    lexicon: Lexicon,
    *,
    corrected: Mapping[str, Sequence[str]],
    last: bool,
) -> QueryGroup:
    exact = _all_of([_word_query(word) for word in typed])
    others = [_phrase_query(term.split()) for term in synonyms]
    others += [
        _all_of([*(_word_query(other) for other in typed if other != word), _phrase_query(meant.split())])
        for word in typed
        for meant in corrected.get(word, ())
    ]
    beginning = 0
    if last:
        others.append(_all_of([*(_word_query(word) for word in typed[:-1]), f"{_quoted(typed[-1])}:*"]))
        beginning = lexicon.beginning if len(typed) == 1 else 0
    alternatives = [list(typed), *(term.split() for term in synonyms)]
    alternatives += [meant.split() for word in typed for meant in corrected.get(word, ())]
    titles = sum(min(_lexeme_frequency(word, lexicon).in_title for word in some) for some in alternatives)
    anywhere = sum(min(_lexeme_frequency(word, lexicon).anywhere for word in some) for some in alternatives)
    total = max(lexicon.total, 1)
    return QueryGroup(
        exact,
        tuple(others),
        min(1.0, min(_lexeme_frequency(word, lexicon).in_title for word in typed) / total),
        # What begins with the word has it in it.
        min(1.0, max(titles, beginning) / total),
        min(1.0, max(anywhere, beginning) / total),
    )


def _lexeme_frequency(word: str, lexicon: Lexicon) -> LexemeFrequency:
    frequent = lexicon.frequent.get(word)
    if frequent is not None:
        return frequent
    documents = lexicon.known(word)
    return LexemeFrequency(documents, documents)


def _estimate_share(groups: Sequence[QueryGroup], name: str) -> float:
    """Estimate the share of documents that have all groups.

    Words that are searched for together stand together ("brand new"): each further one takes away less than if
    they had nothing to do with each other. The rarest counts whole, the next by its square root, and so on, the
    "exponential backoff" by which planners estimate conjunctions.
    """
    share = 1.0
    for number, one in enumerate(sorted(getattr(group, name) for group in groups)):
        share *= one ** (0.5**number)
    return share


def _word_query(word: str) -> str:
    """Write a word, or its parts where letters meet digits: "fx991" finds "fx-991ES"."""
    pieces = split_letters_and_digits(word)
    if len(pieces) == 1:
        return _quoted(word)
    return _any_of([_quoted(word), _all_of([_quoted(piece) for piece in pieces])])


def _phrase_query(some: Sequence[str]) -> str:
    if len(some) == 1:
        return _quoted(some[0])
    return "(" + " <-> ".join(_quoted(word) for word in some) + ")"


def _quoted(word: str) -> str:
    # Words are letters and digits alone: there is nothing in them to be escaped.
    return f"'{word}'"


def _all_of(some: Sequence[str]) -> str:
    return some[0] if len(some) == 1 else "(" + " & ".join(dict.fromkeys(some)) + ")"


def _any_of(some: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(some))
    return distinct[0] if len(distinct) == 1 else "(" + " | ".join(distinct) + ")"
