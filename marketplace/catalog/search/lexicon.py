"""Lexicon of the catalog: document counts of words, synonyms and spelling corrections.

Corrections count edits, with a transposition as a single edit. Among equally near words the more frequent word wins.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rapidfuzz.distance import OSA
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.catalog.search.query_builder import LexemeFrequency, Lexicon, corrected_words
from marketplace.catalog.search.tokenizer import STOP_WORDS, find_phrases, word_forms
from marketplace.infra.sql.statements import Prepared, Statement

_MIN_CORRECTABLE_LENGTH = 3
# Words up to the first length may have one edit, up to the second length two edits, longer words three.
_MAX_LENGTH_FOR_ONE_EDIT, _MAX_LENGTH_FOR_TWO_EDITS = 4, 8
_MAX_CORRECTIONS = 2
# A word in at most this many documents may be a misspelling of a far more frequent word.
RARE_WORD_DOCUMENTS = 2
_MIN_DOMINANT_DOCUMENTS = 25


@dataclass(frozen=True, slots=True)
class SpellingCandidate:
    """A word or pair of words of the catalog, with the number of documents."""

    text: str
    documents: int


# Upper bound of the number of documents with words from :last, inclusive, to :after_last, exclusive.
DOCUMENTS_OF_PREFIX_SQL = """
    SELECT CAST(coalesce(sum(b.in_title), 0) AS integer)
    FROM (
        SELECT t.in_title FROM search_terms t
        WHERE t.word ~>=~ CAST(:last AS text) AND t.word ~<~ CAST(:after_last AS text)
        ORDER BY t.word USING ~<~ LIMIT 500
    ) b
"""

# The inputs stand in a materialized table, so that the generic plan does not look worse than a custom plan. Otherwise
# the server would plan each search again.
_SELECT_LEXICON = Prepared(
    text(
        f"""
        WITH asked AS MATERIALIZED (
            SELECT CAST(:words AS text[]) AS words, CAST(:phrases AS text[]) AS phrases
        )
        SELECT 'total', CAST(NULL AS text), CAST(greatest(reltuples, 0) AS integer), 0, CAST(NULL AS text[])
        FROM pg_class WHERE oid = CAST('search_documents' AS regclass)
        UNION ALL
        SELECT 'word', t.word, t.documents, 0, NULL
        FROM search_terms t WHERE t.word = ANY(CAST((SELECT a.words FROM asked a) AS text[]))
        UNION ALL
        SELECT 'lexeme', w.word, l.in_title, l.anywhere, NULL
        FROM unnest((SELECT a.words FROM asked a)) AS w (word)
            JOIN search_lexemes l ON l.lexeme = coalesce((ts_lexize('campus_stem', w.word))[1], w.word)
        UNION ALL
        SELECT 'beginning', NULL, ({DOCUMENTS_OF_PREFIX_SQL}), 0, NULL FROM asked
        UNION ALL
        (
            SELECT 'synonyms', NULL, 0, 0, s.terms
            FROM search_synonyms s WHERE s.terms && (SELECT a.phrases FROM asked a) ORDER BY s.id LIMIT 20
        )
        """
    )
)


def load_lexicon(session: Session, *, words: Sequence[str]) -> Lexicon:
    """Load the lexicon entries for the words of a query in a single query.

    :param words: at least one folded word
    """
    forms = [form for word in words for form in word_forms(word)]
    forms += [first + second for first, second in itertools.pairwise(words)]
    last = words[-1]
    documents: dict[str, int] = {}
    frequent: dict[str, LexemeFrequency] = {}
    synonyms: list[Sequence[str]] = []
    prefix_document_count = total_documents = 0
    for kind, word, number, other_number, terms in _SELECT_LEXICON.tuples(
        session,
        words=forms,
        last=last,
        after_last=first_text_after_prefix(last),
        phrases=list(find_phrases(list(words))),
    ):
        if kind == "word":
            documents[word] = number
        elif kind == "lexeme":
            frequent[word] = LexemeFrequency(number, other_number)
        elif kind == "synonyms":
            synonyms.append(terms)
        elif kind == "beginning":
            prefix_document_count = number
        else:
            total_documents = number
    return Lexicon(documents, frequent, prefix_document_count, synonyms, total_documents)


# A short word shares few trigrams with its correction, so short words are compared by edit distance.
_SELECT_SIMILAR_WORDS = Statement(
    text(
        """
        SELECT w.word, near.word, near.documents
        FROM unnest(CAST(:words AS text[])) AS w (word) CROSS JOIN LATERAL (
            (
                SELECT t.word, t.documents FROM search_terms t
                WHERE t.word % w.word AND t.word !~ '[0-9]'
                ORDER BY similarity(t.word, w.word) DESC, t.documents DESC LIMIT 20
            )
            UNION
            (
                SELECT t.word, t.documents FROM search_terms t
                WHERE length(w.word) <= 8 AND length(t.word) BETWEEN length(w.word) - 1 AND length(w.word) + 1
                    AND levenshtein_less_equal(t.word, w.word, 2) <= 2 AND t.word !~ '[0-9]'
                ORDER BY levenshtein_less_equal(t.word, w.word, 2), t.documents DESC LIMIT 20
            )
            UNION
            SELECT a.word || ' ' || b.word, least(a.documents, b.documents)
            FROM generate_series(3, length(w.word) - 3) AS cut
                JOIN search_terms a ON a.word = left(w.word, cut)
                JOIN search_terms b ON b.word = substr(w.word, cut + 1)
            UNION
            -- Words that only occur in synonyms are corrections too, even if no listing has them.
            SELECT s.word, 1
            FROM (SELECT DISTINCT regexp_split_to_table(unnest(terms), ' ') AS word FROM search_synonyms) s
            WHERE levenshtein_less_equal(s.word, left(w.word, 60), 3) <= 3 AND s.word !~ '[0-9]'
        ) near
        """
    )
)


def find_corrections(
    session: Session, *, words: Sequence[str], lexicon: Lexicon
) -> Mapping[str, Sequence[str]]:
    """Find corrections for unknown and rare words, in at most one query.

    :param words: the words of a query
    :param lexicon: the entries for these words
    :return: the nearest corrections of each word that has a nearer or far more frequent spelling
    """
    doubtful = [
        word
        for word in dict.fromkeys(words)
        if len(word) >= _MIN_CORRECTABLE_LENGTH
        and word.isascii()
        and word.isalpha()
        and word not in STOP_WORDS
        and lexicon.document_count(word) <= RARE_WORD_DOCUMENTS
    ]
    if not doubtful:
        return {}
    candidates: dict[str, list[SpellingCandidate]] = defaultdict(list)
    for word, similar_word, documents in _SELECT_SIMILAR_WORDS.tuples(session, words=doubtful):
        if similar_word.isascii():  # cursors contain the corrections and must stay short
            candidates[word].append(SpellingCandidate(similar_word, documents))
    corrections = {
        word: choose_corrections(word, candidates[word], word_documents=lexicon.document_count(word))
        for word in doubtful
    }
    return {word: alternatives for word, alternatives in corrections.items() if alternatives}


def max_edits(word: str) -> int:
    """Return the number of edits up to which a word counts as misspelled."""
    return 1 if len(word) <= _MAX_LENGTH_FOR_ONE_EDIT else 2 if len(word) <= _MAX_LENGTH_FOR_TWO_EDITS else 3


def choose_corrections(
    word: str, candidates: Iterable[SpellingCandidate], *, word_documents: int = 0
) -> list[str]:
    """Choose the corrections of a word.

    :param word: folded word as typed
    :param candidates: similar words
    :param word_documents: number of documents with the word itself; corrections must be far more frequent
    :return: the nearest candidates, most frequent first; empty if no candidate is near enough
    """
    max_distance = max_edits(word)
    matches = []
    for candidate in candidates:
        min_documents = max(_MIN_DOMINANT_DOCUMENTS, 10 * word_documents) if word_documents else 1
        if candidate.text == word or candidate.documents < min_documents:
            continue
        faults = _count_edits(word, candidate.text, max_distance)
        if faults <= (1 if word_documents else max_distance):
            # Typing errors in the first letter are rare.
            matches.append((faults, candidate.text[0] != word[0], -candidate.documents, candidate.text))
    matches.sort()
    nearest = dict.fromkeys(item[3] for item in matches if item[0] == matches[0][0])
    return list(nearest)[:_MAX_CORRECTIONS]


def _count_edits(word: str, candidate: str, max_distance: int) -> int:
    """Count the edits between two words; a difference of singular and plural is free."""
    if candidate.replace(" ", "") == word:
        return 1  # a space is missing
    bare_word, bare_candidate = word.removesuffix("s"), candidate.removesuffix("s")
    return min(
        OSA.distance(word, candidate, score_cutoff=max_distance),
        OSA.distance(bare_word, bare_candidate, score_cutoff=max_distance),
    )


_SELECT_SYNONYMS = Prepared(
    text(
        "SELECT s.terms FROM search_synonyms s WHERE s.terms && CAST(:phrases AS text[]) ORDER BY s.id LIMIT 20"
    )
)


def add_synonyms_of_corrections(
    session: Session, *, words: Sequence[str], lexicon: Lexicon, corrections: Mapping[str, Sequence[str]]
) -> Lexicon:
    """Add the synonyms of corrected words to a lexicon, in at most one query.

    :param words: the words of a query
    :param lexicon: the entries for these words
    :param corrections: corrections of some of these words
    """
    if not corrections:
        return lexicon
    phrases = list(find_phrases(corrected_words(words, corrections)))
    synonyms = _SELECT_SYNONYMS.scalars(session, phrases=phrases)
    return replace(
        lexicon, synonyms=[*lexicon.synonyms, *(terms for terms in synonyms if terms not in lexicon.synonyms)]
    )


def first_text_after_prefix(prefix: str) -> str:
    """Return the first text, by code points, that follows all texts with a prefix.

    Code points that text cannot hold are skipped.
    """
    following = ord(prefix[-1]) + 1
    following = 0xE000 if 0xD800 <= following <= 0xDFFF else min(following, 0x10FFFF)
    return prefix[:-1] + chr(following)
