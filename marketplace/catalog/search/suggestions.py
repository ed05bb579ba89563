"""Search suggestions while a user types: titles, categories and stores with a word that has the prefix."""

from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.catalog.campus_filter import campus_parameters, campus_sql
from marketplace.catalog.search import lexicon as search_lexicon, tokenizer
from marketplace.infra.sql.statements import Prepared, Row
from marketplace.vendors.queries import STORE_IS_OPEN_SQL

MAX_SUGGESTIONS = 10
PRODUCT, CATEGORY, STORE = KINDS = ("product", "category", "store")
# Number of popular listings to read; some have the same title.
_MAX_TITLE_CANDIDATES = 120
# With more matches than the threshold, only this many of the most popular listings are scanned. Most matches may be
# in tags rather than titles.
_POPULARITY_SCAN_THRESHOLD = 1_700
_MAX_SCANNED_ROWS = 8_000
_MAX_NAMES_PER_KIND = 2  # categories, and stores, at the end


@lru_cache(maxsize=8)
def _titles_statement(campus: str | None, *, scans_by_popularity: bool) -> Prepared[Row]:
    """Build the statement for titles; with many matches it scans the most popular listings instead."""
    row_conditions = f"d.vendor_id NOT IN (SELECT c.id FROM closed c) AND {campus_sql('d.campus_id', campus)}"
    order = "ORDER BY d.prior DESC, d.product_id DESC LIMIT"
    rows = (
        f"(SELECT * FROM search_documents d {order} {_MAX_SCANNED_ROWS})"
        if scans_by_popularity
        else "search_documents"
    )
    # The function equals the operator but never uses the index.
    matches = "ts_match_vq(d.title, a.query)" if scans_by_popularity else "d.title @@ a.query"
    return Prepared(
        text(
            f"""
            WITH asked AS MATERIALIZED (SELECT to_tsquery('simple', CAST(:query AS text)) AS query),
            closed AS MATERIALIZED (SELECT v.id FROM vendor_profiles v WHERE NOT {STORE_IS_OPEN_SQL}),
            found AS (
                SELECT d.product_id, d.prior FROM asked a, {rows} d WHERE {matches} AND {row_conditions}
                {order} {_MAX_TITLE_CANDIDATES}
            )
            SELECT p.title FROM found f JOIN products p ON p.id = f.product_id
            ORDER BY f.prior DESC, f.product_id DESC
            """
        )
    )


@lru_cache(maxsize=8)
def _names_statement(campus: str | None) -> Prepared[Row]:
    """Build the statement for categories and stores."""
    return Prepared(
        text(
            f"""
            WITH asked AS MATERIALIZED (SELECT to_tsquery('simple', CAST(:query AS text)) AS query)
            (
                SELECT '{CATEGORY}', c.name FROM asked a, categories c
                WHERE setweight(to_tsvector('simple', unaccent(c.name)), 'A') @@ a.query
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
    """Suggest search texts for a prefix, in three queries.

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
    lexicon = search_lexicon.load_lexicon(session, words=words)
    # Match words of the title only (weight A). A match in a tag would not show why a title is suggested.
    exact, last = [f"'{word}':A" for word in words[:-1]], f"'{words[-1]}':*A"
    max_matches = min([lexicon.prefix_document_count, *(lexicon.document_count(word) for word in words[:-1])])
    name = next(iter(campus_values), None)
    titles = _titles_statement(name, scans_by_popularity=max_matches > _POPULARITY_SCAN_THRESHOLD).tuples(
        session, query=" & ".join([*exact, last]), now=now, **campus_values
    )
    names = _names_statement(name).tuples(session, query=" & ".join([*exact, last]), now=now, **campus_values)
    return _merge_suggestions([(PRODUCT, title) for (title,) in titles], names, limit=limit)


def _merge_suggestions(
    titles: Iterable[tuple[str, str]], names: Iterable[tuple[str, str]], *, limit: int
) -> list[dict[str, Any]]:
    """Merge suggestions with equal folded text. Names take the last places, and more if titles are few."""
    products = _deduplicate(titles, limit=limit)
    named_items = {key: item for key, item in _deduplicate(names, limit=limit).items() if key not in products}
    room = max(limit - len(named_items), 1)
    suggestions = [*list(products.values())[:room], *named_items.values()]
    return [{"text": text_shown, "kind": kind} for kind, text_shown in suggestions[:limit]]


def _deduplicate(items: Iterable[tuple[str, str]], *, limit: int) -> dict[str, tuple[str, str]]:
    """Return the first distinct items. Exact duplicates are dropped first, because folding is slow."""
    items_by_folded_text: dict[str, tuple[str, str]] = {}
    for kind, text_shown in dict.fromkeys(items):
        if len(items_by_folded_text) == limit:
            break
        items_by_folded_text.setdefault(" ".join(tokenizer.fold(text_shown).split()), (kind, text_shown))
    return items_by_folded_text
