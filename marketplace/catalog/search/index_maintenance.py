"""The upkeep of the search: words counted anew, popularity taken over, what a restored backup left out put right."""

from datetime import datetime

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.catalog.search import zero_result_queries
from marketplace.infra.db import Statement

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
# Fewer documents are found by the index of words as fast as in any other way.
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
    """Bring up to date what triggers do not keep: counts of words, and how popular products are.

    New listings are found without it, by words that are new too; it makes spellings and ranks good. It reads
    all documents: about a second for 50,000.

    :param now: the time of the task
    :return: how many priors and words changed, and how many old counts of misses were deleted
    """
    _REPAIR_DOCUMENTS.run(session)
    return {
        "priors": _UPDATE_PRIORS.run(session),
        "words": _RECOUNT_WORDS.run(session),
        "lexemes": _RECOUNT_LEXEMES.run(session),
        "purgedMisses": zero_result_queries.purge_old_counts(session, now=now),
    }
