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

    prefix_document_count: int = 0
    """How many documents have words that begin like the last one, at most."""

    synonyms: Sequence[Sequence[str]] = ()
    """Groups of words and phrases that mean the same."""

    total_documents: int = 0
    """How many documents there are, about."""

    def document_count(self, word: str) -> int:
        """Tell how many documents have a word, in the singular or the plural."""
        return max((self.documents.get(form, 0) for form in word_forms(word)), default=0)


@dataclass(frozen=True, slots=True)
class QueryGroup:
    """A word or phrase of the query: what was typed, what may also stand for it, and how many that finds."""

    exact: str
    alternatives: tuple[str, ...]
    share_exact: float
    share_in_title: float
    share_anywhere: float

    @property
    def with_alternatives(self) -> str:
        """Write the group with all its alternatives."""
        return _any_of([self.exact, *self.alternatives])


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
    query_words: Sequence[str], lexicon: Lexicon, *, corrections: Mapping[str, Sequence[str]] | None = None
) -> TextSearchQuery:
    """Build the query of some words.

    :param query_words: at least one, folded
    :param lexicon: what is known of them
    :param corrections: what else a word may have meant
    """
    groups = _build_groups(list(query_words), lexicon, corrections or {})
    rest = [groups[:index] + groups[index + 1 :] for index in range(len(groups))] if groups[1:] else []
    if not rest and len(query_words) > 1:
        # A phrase that has synonyms as a whole is one group: without one of its words, the others are left.
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
    """Give each word of a query in its nearest spelling, which may be two words."""
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
    """Find the words and phrases that others may stand for: synonyms, and one word written as two."""
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
        # What begins with the word has it in it.
        min(1.0, max(titles, prefix_document_count) / total),
        min(1.0, max(anywhere, prefix_document_count) / total),
    )


def _lexeme_frequency(word: str, lexicon: Lexicon) -> LexemeFrequency:
    documents = lexicon.document_count(word)
    return lexicon.frequent.get(word, LexemeFrequency(documents, documents))


def _estimate_share(groups: Sequence[QueryGroup], attribute: str) -> float:
    """Estimate the share of documents that have all groups.

    Words that are searched for together stand together ("brand new"): each further one takes away less than if
    they had nothing to do with each other. The rarest counts whole, the next by its square root, and so on, the
    "exponential backoff" by which planners estimate conjunctions.
    """
    share = 1.0
    for number, group_share in enumerate(sorted(getattr(group, attribute) for group in groups)):
        share *= group_share ** (0.5**number)
    return share


def _word_query(word: str) -> str:
    """Write a word, or its parts where letters meet digits: "fx991" finds "fx-991ES"."""
    parts = split_letters_and_digits(word)
    if len(parts) == 1:
        return _quoted(word)
    return _any_of([_quoted(word), _all_of([_quoted(piece) for piece in parts])])


def _phrase_query(words: Sequence[str]) -> str:
    if len(words) == 1:
        return _quoted(words[0])
    return "(" + " <-> ".join(_quoted(word) for word in words) + ")"


def _quoted(word: str) -> str:
    # Words are letters and digits alone: there is nothing in them to be escaped.
    return f"'{word}'"


def _all_of(terms: Sequence[str]) -> str:
    return terms[0] if len(terms) == 1 else "(" + " & ".join(dict.fromkeys(terms)) + ")"


def _any_of(terms: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(terms))
    return distinct[0] if len(distinct) == 1 else "(" + " | ".join(distinct) + ")"
