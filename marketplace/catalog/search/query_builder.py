"""Builder of text search queries: a conjunction of groups, each a word with alternatives.

The module is pure: callers pass in the lexicon.
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
    """Numbers of documents with a lexeme: in title, tags and category, and in any field."""

    in_title: int
    anywhere: int


@dataclass(frozen=True)
class Lexicon:
    """The lexicon entries for the words of a query."""

    documents: Mapping[str, int] = field(default_factory=dict)
    """Number of documents by word as written, without descriptions. Words without documents have no entry."""

    frequent: Mapping[str, LexemeFrequency] = field(default_factory=dict)
    """Frequencies of words with very common stems."""

    prefix_document_count: int = 0
    """Upper bound of the number of documents with words that begin with the last word."""

    synonyms: Sequence[Sequence[str]] = ()
    """Groups of words and phrases with the same meaning."""

    total_documents: int = 0
    """Approximate number of all documents."""

    def document_count(self, word: str) -> int:
        """Return the number of documents with a word in singular or plural."""
        return max((self.documents.get(form, 0) for form in word_forms(word)), default=0)


@dataclass(frozen=True, slots=True)
class QueryGroup:
    """A word or phrase of the query with alternatives and the estimated shares of matching documents."""

    exact: str
    alternatives: tuple[str, ...]
    share_exact: float
    share_in_title: float
    share_anywhere: float

    @property
    def with_alternatives(self) -> str:
        """The query of the group with all alternatives."""
        return _any_of([self.exact, *self.alternatives])


@dataclass(frozen=True, slots=True)
class TextSearchQuery:
    """A text search query in three widths for ``to_tsquery``, with the estimated shares of matching documents.

    ``exact`` has the words alone. ``wide`` adds all alternatives. ``partial`` leaves out any single word, and is None
    for a single word.
    """

    exact: str
    wide: str
    partial: str | None
    share_exact: float
    share_in_title: float
    share_anywhere: float
    share_partial: float


def build_query(
    query_words: Sequence[str], lexicon: Lexicon, *, corrections: Mapping[str, Sequence[str]] | None = None
) -> TextSearchQuery:
    """Build the query for the words of a search.

    :param query_words: at least one folded word
    :param corrections: possible corrections by word
    """
    groups = _build_groups(list(query_words), lexicon, corrections or {})
    rest = [groups[:index] + groups[index + 1 :] for index in range(len(groups))] if groups[1:] else []
    if not rest and len(query_words) > 1:
        # A phrase with synonyms forms a single group. The partial query then leaves out a word within the group.
        words = [word for word in query_words if word not in STOP_WORDS]
        rest = [
            [_build_group([word], [], lexicon, corrections=corrections or {}, is_last=False)]
            for word in words
            if words[1:]
        ]
    return TextSearchQuery(
        exact=_all_of([group.exact for group in groups]),
        wide=_all_of([group.with_alternatives for group in groups]),
        partial=_any_of([_all_of([group.with_alternatives for group in some]) for some in rest])
        if rest
        else None,
        share_exact=_estimate_share(groups, "share_exact"),
        share_in_title=_estimate_share(groups, "share_in_title"),
        share_anywhere=_estimate_share(groups, "share_anywhere"),
        share_partial=min(1.0, sum(_estimate_share(some, "share_anywhere") for some in rest)),
    )


def corrected_words(query_words: Sequence[str], corrections: Mapping[str, Sequence[str]]) -> list[str]:
    """Replace each misspelled word of a query by the nearest correction, which may be two words."""
    return [corrections[word][0] if corrections.get(word) else word for word in query_words]


def _build_groups(
    query_words: list[str], lexicon: Lexicon, corrections: Mapping[str, Sequence[str]]
) -> list[QueryGroup]:
    spans = _find_alternatives(query_words, lexicon, corrections)
    bare = all(word in STOP_WORDS for word in query_words)
    groups = []
    start = 0
    while start < len(query_words):
        end = max((stop for begin, stop in spans if begin == start), default=start + 1)
        if end > start + 1 or bare or query_words[start] not in STOP_WORDS or (start, end) in spans:
            groups.append(
                _build_group(
                    query_words[start:end],
                    spans.get((start, end), []),
                    lexicon,
                    corrections=corrections,
                    is_last=end == len(query_words),
                )
            )
        start = end
    return list(dict.fromkeys(groups))


def _find_alternatives(
    query_words: list[str], lexicon: Lexicon, corrections: Mapping[str, Sequence[str]]
) -> dict[tuple[int, int], list[str]]:
    """Find alternatives by span of words: synonyms, and two words joined into a single word."""
    alternatives_by_span: dict[tuple[int, int], list[str]] = {}
    span_of_phrase = find_phrases(corrected_words(query_words, corrections)) | find_phrases(query_words)
    for terms in lexicon.synonyms:
        for term in terms:
            span = span_of_phrase.get(term)
            if span is not None:
                alternatives_by_span.setdefault(span, []).extend(other for other in terms if other != term)
    for start in range(len(query_words) - 1):
        joined = query_words[start] + query_words[start + 1]
        if lexicon.document_count(joined):
            alternatives_by_span.setdefault((start, start + 2), []).append(joined)
    return {
        span: list(dict.fromkeys(others))[:_MAX_SYNONYMS] for span, others in alternatives_by_span.items()
    }


def _build_group(
    words: Sequence[str],
    synonyms: Sequence[str],
    lexicon: Lexicon,
    *,
    corrections: Mapping[str, Sequence[str]],
    is_last: bool,
) -> QueryGroup:
    exact = _all_of([_word_query(word) for word in words])
    alternatives = [_phrase_query(term.split()) for term in synonyms]
    alternatives += [
        _all_of(
            [*(_word_query(other) for other in words if other != word), _phrase_query(correction.split())]
        )
        for word in words
        for correction in corrections.get(word, ())
    ]
    if is_last:
        alternatives.append(_all_of([*(_word_query(word) for word in words[:-1]), f"{_quoted(words[-1])}:*"]))
    prefix_document_count = lexicon.prefix_document_count if is_last and len(words) == 1 else 0
    wordings = [list(words), *(term.split() for term in synonyms)]
    wordings += [correction.split() for word in words for correction in corrections.get(word, ())]
    titles = sum(min(_lexeme_frequency(word, lexicon).in_title for word in wording) for wording in wordings)
    anywhere = sum(min(_lexeme_frequency(word, lexicon).anywhere for word in wording) for wording in wordings)
    total = max(lexicon.total_documents, 1)
    return QueryGroup(
        exact,
        tuple(alternatives),
        min(1.0, min(_lexeme_frequency(word, lexicon).in_title for word in words) / total),
        # Documents with words of this prefix include the documents with the word itself.
        min(1.0, max(titles, prefix_document_count) / total),
        min(1.0, max(anywhere, prefix_document_count) / total),
    )


def _lexeme_frequency(word: str, lexicon: Lexicon) -> LexemeFrequency:
    documents = lexicon.document_count(word)
    return lexicon.frequent.get(word, LexemeFrequency(documents, documents))


def _estimate_share(groups: Sequence[QueryGroup], attribute: str) -> float:
    """Estimate the share of documents that match all groups.

    Words of a search tend to occur together ("brand new"), so the shares are not independent. The rarest group counts
    fully, the next by its square root, and so on. Query planners call this formula "exponential backoff".
    """
    share = 1.0
    for number, group_share in enumerate(sorted(getattr(group, attribute) for group in groups)):
        share *= group_share ** (0.5**number)
    return share


def _word_query(word: str) -> str:
    """Write the query of a word, or of the parts where letters meet digits: "fx991" finds "fx-991ES"."""
    parts = split_letters_and_digits(word)
    if len(parts) == 1:
        return _quoted(word)
    return _any_of([_quoted(word), _all_of([_quoted(piece) for piece in parts])])


def _phrase_query(words: Sequence[str]) -> str:
    if len(words) == 1:
        return _quoted(words[0])
    return "(" + " <-> ".join(_quoted(word) for word in words) + ")"


def _quoted(word: str) -> str:
    # Words consist of letters and digits, so nothing needs escaping.
    return f"'{word}'"


def _all_of(terms: Sequence[str]) -> str:
    return terms[0] if len(terms) == 1 else "(" + " & ".join(dict.fromkeys(terms)) + ")"


def _any_of(terms: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(terms))
    return distinct[0] if len(distinct) == 1 else "(" + " | ".join(distinct) + ")"
