"""Index maintenance: count words, update popularity, and repair documents after a restored backup."""

from datetime import datetime

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.catalog.search import zero_result_queries
from marketplace.infra.sql.statements import Statement

_REPAIR_DOCUMENTS = Statement(
    text(
        """
        SELECT search_write_documents(ARRAY(
            SELECT p.id FROM products p
            WHERE p.status = 'published'
                AND NOT EXISTS (SELECT FROM search_documents d WHERE d.product_id = p.id)
            UNION ALL
            SELECT d.product_id FROM search_documents d JOIN products p ON p.id = d.product_id
            WHERE p.status <> 'published'
        ))
        """
    )
)
_UPDATE_PRIORS = Statement(
    text(
        """
        UPDATE search_documents d SET prior = search_prior(p.popularity, p.rating_bayes)
        FROM products p
        WHERE p.id = d.product_id AND d.prior <> search_prior(p.popularity, p.rating_bayes)
        """
    )
)
_RECOUNT_WORDS = Statement(
    text(
        """
        WITH counted AS MATERIALIZED (
            SELECT w.word, w.ndoc, coalesce(t.ndoc, 0) AS in_title
            FROM ts_stat('SELECT to_tsvector(''simple'', words) FROM search_documents') w
                LEFT JOIN ts_stat('SELECT title FROM search_documents') t ON t.word = w.word
            WHERE length(w.word) BETWEEN 2 AND 40
        ),
        gone AS (
            DELETE FROM search_terms t WHERE NOT EXISTS (SELECT FROM counted c WHERE c.word = t.word)
        )
        INSERT INTO search_terms AS t (word, documents, in_title)
        SELECT word, ndoc, in_title FROM counted ORDER BY word
        ON CONFLICT (word) DO UPDATE SET documents = excluded.documents, in_title = excluded.in_title
            WHERE (t.documents, t.in_title) <> (excluded.documents, excluded.in_title)
        """
    )
)
# Lexemes of fewer documents are found through the index fast enough.
_MIN_FREQUENT_DOCUMENTS = 500
_RECOUNT_LEXEMES = Statement(
    text(
        f"""
        WITH counted AS MATERIALIZED (
            SELECT word, coalesce(max(ndoc) FILTER (WHERE in_title), 0) AS in_title, max(ndoc) AS anywhere
            FROM (
                SELECT word, ndoc, true AS in_title FROM ts_stat('SELECT title FROM search_documents')
                UNION ALL
                SELECT word, ndoc, false FROM ts_stat('SELECT body FROM search_documents')
            ) both_vectors
            GROUP BY word HAVING max(ndoc) >= {_MIN_FREQUENT_DOCUMENTS}
        ),
        gone AS (
            DELETE FROM search_lexemes l WHERE NOT EXISTS (SELECT FROM counted c WHERE c.word = l.lexeme)
        )
        INSERT INTO search_lexemes AS l (lexeme, in_title, anywhere)
        SELECT word, in_title, anywhere FROM counted ORDER BY word
        ON CONFLICT (lexeme) DO UPDATE SET in_title = excluded.in_title, anywhere = excluded.anywhere
            WHERE (l.in_title, l.anywhere) <> (excluded.in_title, excluded.anywhere)
        """
    )
)


def refresh_search_index(session: Session, *, now: datetime) -> dict[str, int]:
    """Refresh the data that triggers do not maintain: word counts and popularity ranks.

    New listings and new words are searchable without a refresh. The refresh improves spelling corrections and ranks.
    All documents are read, which takes about a second for 50,000 documents.

    :return: numbers of changed priors, words and lexemes, and of deleted old counts of searches without results
    """
    _REPAIR_DOCUMENTS.run(session)
    return {
        "priors": _UPDATE_PRIORS.run(session),
        "words": _RECOUNT_WORDS.run(session),
        "lexemes": _RECOUNT_LEXEMES.run(session),
        "purgedMisses": zero_result_queries.purge_old_counts(session, now=now),
    }
