"""Search suggestions while a user types: titles, categories and stores with a word that has the prefix."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.catalog.campus_filter import campus_parameters, campus_sql
from marketplace.catalog.search import tokenizer
from marketplace.catalog.search.lexicon import DOCUMENTS_OF_PREFIX_SQL, first_text_after_prefix
from marketplace.infra.sql.statements import Prepared, Row
from marketplace.vendors.queries import STORE_IS_OPEN_SQL

MAX_SUGGESTIONS = 10
PRODUCT, CATEGORY, STORE = KINDS = ("product", "category", "store")
# Numbers of popular listings to read: at first, and again if too many of them have the same title.
_CANDIDATES = (30, 120)
# With more matches than the first number, the most popular listings are scanned. At this number a scan costs about as
# much as the word index, with 50,000 listings. If the scan finds too few, the index follows up to the second number.
# Most matches may be in tags rather than titles.
_POPULARITY_SCAN_THRESHOLD, _MAX_INDEXED_MATCHES = 900, 1_700
# Numbers of listings to scan, if the index may follow and if not.
_SCANNED_ROWS, _MAX_SCANNED_ROWS = 3_000, 8_000
_MAX_NAMES_PER_KIND = 2  # categories, and stores, at the end


@lru_cache(maxsize=8)
def _suggestions_statement(campus: str | None, *, candidates: int) -> Prepared[Row]:
    """Build the statement for titles, categories and stores, in this order.

    The upper bound of the matches decides how titles are found: through the word index, which reads all matches, or by
    a scan of the most popular listings.

    :param candidates: number of titles
    """
    row_conditions = f"d.vendor_id NOT IN (SELECT c.id FROM closed c) AND {campus_sql('d.campus_id', campus)}"
    order = f"ORDER BY d.prior DESC, d.product_id DESC LIMIT {candidates}"
    matches = "(SELECT m.matches FROM most m)"
    return Prepared(
        text(
            f"""
            WITH asked AS MATERIALIZED (SELECT to_tsquery('simple', CAST(:query AS text)) AS query),
            closed AS MATERIALIZED (SELECT v.id FROM vendor_profiles v WHERE NOT {STORE_IS_OPEN_SQL}),
            most AS MATERIALIZED (
                SELECT least(
                    ({DOCUMENTS_OF_PREFIX_SQL}),
                    (
                        SELECT min(coalesce(t.documents, 0))
                        FROM unnest(CAST(:words_before AS text[])) AS w (word)
                            LEFT JOIN search_terms t ON t.word = w.word
                    )
                ) AS matches
            ),
            popular AS MATERIALIZED (
                SELECT d.product_id, d.prior FROM asked a, (
                    SELECT * FROM search_documents d WHERE {matches} > {_POPULARITY_SCAN_THRESHOLD}
                    ORDER BY d.prior DESC, d.product_id DESC
                    LIMIT CASE WHEN {matches} > {_MAX_INDEXED_MATCHES}
                        THEN {_MAX_SCANNED_ROWS} ELSE {_SCANNED_ROWS} END
                ) d
                -- The function equals the operator but never uses the index.
                WHERE ts_match_vq(d.title, a.query) AND {row_conditions} {order}
            ),
            indexed AS MATERIALIZED (
                SELECT d.product_id, d.prior FROM asked a, search_documents d
                WHERE {matches} <= {_MAX_INDEXED_MATCHES} AND (SELECT count(*) FROM popular) < {candidates}
                    AND d.title @@ a.query AND {row_conditions} {order}
            )
            (
                SELECT '{PRODUCT}', p.title
                FROM (
                    SELECT * FROM indexed
                    UNION ALL SELECT * FROM popular WHERE NOT EXISTS (SELECT FROM indexed)
                ) f
                    JOIN products p ON p.id = f.product_id
                ORDER BY f.prior DESC, f.product_id DESC
            )
            UNION ALL
            (
                SELECT '{CATEGORY}', c.name FROM asked a, categories c
                -- The first condition excludes most names at a tenth of the second one's cost.
                WHERE position(CAST(:last AS text) IN lower(unaccent(c.name))) > 0
                    AND setweight(to_tsvector('simple', unaccent(c.name)), 'A') @@ a.query
                ORDER BY cardinality(c.lineage), c.position, c.name LIMIT {_MAX_NAMES_PER_KIND}
            )
            UNION ALL
            (
                SELECT '{STORE}', v.display_name FROM asked a, vendor_profiles v
                WHERE v.search @@ a.query AND {STORE_IS_OPEN_SQL}
                    AND {campus_sql("v.campus_id", campus)}
                ORDER BY v.completed_orders DESC, v.id LIMIT {_MAX_NAMES_PER_KIND}
            )
            """
        )
    )


def suggest(
    session: Session, *, prefix: str, campus: str | None, limit: int, now: datetime
) -> list[dict[str, Any]]:
    """Suggest search texts for a prefix, in one query, or two if many popular listings have the same title.

    Titles of visible listings come first, most popular first, then categories and stores. All words except the last
    must occur in the text. The last word must begin a word of the text.

    :param campus: id or slug, or None for all campuses
    :param limit: at most ``MAX_SUGGESTIONS``
    :return: ``text`` and ``kind``, without duplicates that differ only in case or accents
    """
    words = tokenizer.tokenize(prefix)
    if not words:
        return []
    campus_values = campus_parameters(campus)
    # Match words of the title only (weight A). A match in a tag would not show why a title is suggested.
    exact, last = [f"'{word}':A" for word in words[:-1]], f"'{words[-1]}':*A"
    parameters = {
        "query": " & ".join([*exact, last]),
        "words_before": words[:-1],
        "last": words[-1],
        "after_last": first_text_after_prefix(words[-1]),
        "now": now,
        **campus_values,
    }
    for candidates in _CANDIDATES:
        statement = _suggestions_statement(next(iter(campus_values), None), candidates=candidates)
        rows = statement.tuples(session, **parameters)
        titles = [row for row in rows if row[0] == PRODUCT]
        products = _deduplicate(titles, limit=limit)
        if len(products) == limit or len(titles) < candidates:
            break
    return _merge_suggestions(products, [row for row in rows if row[0] != PRODUCT], limit=limit)


def _merge_suggestions(
    products: Mapping[str, tuple[str, str]], names: Iterable[tuple[Any, ...]], *, limit: int
) -> list[dict[str, Any]]:
    """Merge suggestions with equal folded text. Names take the last places, and more if titles are few."""
    named_items = {key: item for key, item in _deduplicate(names, limit=limit).items() if key not in products}
    room = max(limit - len(named_items), 1)
    suggestions = [*list(products.values())[:room], *named_items.values()]
    return [{"text": text_shown, "kind": kind} for kind, text_shown in suggestions[:limit]]


def _deduplicate(items: Iterable[tuple[Any, ...]], *, limit: int) -> dict[str, tuple[str, str]]:
    """Return the first distinct items. Exact duplicates are dropped first, because folding is slow."""
    items_by_folded_text: dict[str, tuple[str, str]] = {}
    for kind, text_shown in dict.fromkeys(items):
        if len(items_by_folded_text) == limit:
            break
        items_by_folded_text.setdefault(" ".join(tokenizer.fold(text_shown).split()), (kind, text_shown))
    return items_by_folded_text
