"""Search for products and merchants, with spelling correction and a record of searches without results."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.catalog.browse.listing import (
    CARD_COLUMNS,
    ProductCard,
    ProductFilters,
    build_card,
    build_conditions,
)
from marketplace.catalog.campus_filter import CAMPUS_PARAMETERS, campus_parameters, campus_sql
from marketplace.catalog.search import (
    lexicon as search_lexicon,
    query_builder,
    tokenizer,
    zero_result_queries,
)
from marketplace.catalog.search.ranking_sql import (
    CANDIDATES_PER_STEP,
    FILTERED_CANDIDATES_PER_STEP,
    FILTERED_POPULARITY_SCAN_THRESHOLD,
    POPULARITY_SCAN_THRESHOLD,
    SearchStep,
    filter_parameters,
    has_filters_besides_campus,
    search_statement,
)
from marketplace.infra.sql.statements import Prepared, Row, Statement
from marketplace.kernel.paging import CursorValueType, Page, PageRequest, UnknownCursorError, read_position
from marketplace.kernel.ratings import average_rating
from marketplace.vendors.queries import STORE_IS_OPEN_SQL

MAX_MERCHANTS = 5
# Maps words as typed to possible corrections.
SpellingCorrections = Mapping[str, Sequence[str]]
# Match strategies: words as typed, with corrections, or with any single word left out.
TYPED, CORRECTED, PARTIAL = range(3)
# A block is the set of candidates that one statement ranks. A page is no longer than a block, so a page spans at most
# two blocks. A third block shows whether more rows follow.
_MAX_BLOCKS_PER_PAGE = 3


@dataclass(frozen=True, slots=True)
class _SearchPosition:
    """The start of a page: match strategy, block of candidates and last row shown."""

    strategy: int
    block_start: Sequence[Any] | None = None  # step, prior and id of the previous block's last candidate
    block_end: Sequence[Any] | None = None  # the same for this block; None if last or unknown
    last_row: Sequence[Any] | None = None  # score and id of the last row shown

    def to_cursor(self, corrections: SpellingCorrections) -> list[Any]:
        """Write the position as cursor values.

        The corrections are included, because words that are indexed meanwhile must not change the query.
        """
        return [dict(corrections), self.strategy, self.block_start, self.block_end, self.last_row]

    @classmethod
    def from_cursor(cls, cursor_values: list[Any]) -> tuple[SpellingCorrections, "_SearchPosition"]:
        """Read the values that ``to_cursor`` wrote.

        :raises UnknownCursorError: the values have another form
        """
        if len(cursor_values) != 5:
            raise UnknownCursorError
        corrections, strategy, start, end, last = cursor_values
        if strategy not in (TYPED, CORRECTED, PARTIAL) or not _is_spelling_corrections(corrections):
            raise UnknownCursorError
        blocks: list[tuple[Any, tuple[CursorValueType, ...]]] = [
            (start, ("number", "number", "id")),
            (end, ("number", "number", "id")),
            (last, ("number", "id")),
        ]
        for values, parts in blocks:
            if values is not None:
                read_position(values if isinstance(values, list) else [], parts)
        return corrections, cls(strategy, start, end, last)


def _is_spelling_corrections(value: Any) -> bool:
    """Return whether a value maps words to lists of words."""
    return isinstance(value, dict) and all(
        isinstance(alternatives, list) and all(isinstance(word, str) for word in alternatives)
        for alternatives in value.values()
    )


@dataclass(frozen=True, slots=True)
class _MatchStrategy:
    """A match strategy: the query of each step, and the corrected spellings."""

    kind: int
    queries: tuple[str | None, str | None, str | None]
    steps: tuple[SearchStep, ...]
    corrections: SpellingCorrections


@dataclass(frozen=True, slots=True)
class _SearchContext:
    """The values that all queries of a search share."""

    session: Session
    words: Sequence[str]
    conditions: Mapping[str, Any]
    now: datetime
    media_base_url: str


def search_catalog(
    session: Session,
    *,
    query: str,
    filters: ProductFilters,
    page: PageRequest,
    now: datetime,
    media_base_url: str,
) -> Page:
    """Search for products and, on the first page, merchants.

    The search first matches the words as typed, then with corrected spellings, then with any single word left out.
    The first strategy with results wins. The search takes three queries, and one more with a category. A misspelling
    takes up to ten. A search without results in the first two strategies is recorded, unless a filter other than the
    campus may be the cause.

    :param query: as typed by the user
    :param page: the cursor position is opaque outside this module
    :return: ``data`` has ``products`` (cards) and ``merchants``; ``extra_meta`` has ``suggestion``
    """
    words = tokenizer.tokenize(query)
    conditions = build_conditions(session, filters) if words else None
    if conditions is None:
        return _build_page([], [], page=page)
    context = _SearchContext(session, words, conditions, now, media_base_url)
    lexicon = search_lexicon.load_lexicon(session, words=words)
    if page.position is not None:
        corrections, position = _SearchPosition.from_cursor(page.position)
        lexicon = search_lexicon.add_synonyms_of_corrections(
            session, words=words, lexicon=lexicon, corrections=corrections
        )
        strategy = _build_strategy(position.strategy, context, lexicon, corrections)
        rows, next_position = _fetch_products(context, strategy, position, limit=page.limit)
        return _build_page(rows, [], page=page, position=next_position, strategy=strategy, context=context)
    for strategy in _match_strategies(context, lexicon):  # yields at least one strategy
        rows, next_position = _fetch_products(
            context, strategy, _SearchPosition(strategy.kind), limit=page.limit
        )
        merchants = _fetch_merchants(context, strategy, filters)
        if rows or merchants:
            break
    found_nothing = strategy.kind == PARTIAL or not (rows or merchants)
    if found_nothing and filters == ProductFilters(campus=filters.campus):
        zero_result_queries.record_zero_result(session, query=query, campus=filters.campus, now=now)
    elif found_nothing and filters == ProductFilters(campus=filters.campus, category=filters.category):
        category = filters.category or ""
        zero_result_queries.record_zero_result_in_category(session, query=query, category=category, now=now)
    return _build_page(rows, merchants, page=page, position=next_position, strategy=strategy, context=context)


def _match_strategies(context: _SearchContext, lexicon: query_builder.Lexicon) -> Iterator[_MatchStrategy]:
    """Yield match strategies in order. Corrections are looked up only when a strategy needs them."""
    words, session = context.words, context.session
    corrections = None
    corrections_of_rare_words: SpellingCorrections = {}
    if any(0 < lexicon.document_count(word) <= search_lexicon.RARE_WORD_DOCUMENTS for word in words):
        corrections = search_lexicon.find_corrections(session, words=words, lexicon=lexicon)
        corrections_of_rare_words = {
            word: alternatives for word, alternatives in corrections.items() if lexicon.document_count(word)
        }
    yield _build_strategy(TYPED, context, lexicon, corrections_of_rare_words)
    if corrections is None:
        corrections = search_lexicon.find_corrections(session, words=words, lexicon=lexicon)
    lexicon = search_lexicon.add_synonyms_of_corrections(
        session, words=words, lexicon=lexicon, corrections=corrections
    )
    if corrections.keys() - corrections_of_rare_words.keys():
        yield _build_strategy(CORRECTED, context, lexicon, corrections)
    partial = _build_strategy(PARTIAL, context, lexicon, corrections)
    if partial.queries[1]:
        yield partial


def _build_strategy(
    kind: int, context: _SearchContext, lexicon: query_builder.Lexicon, corrections: SpellingCorrections
) -> _MatchStrategy:
    query = query_builder.build_query(context.words, lexicon, corrections=corrections)
    if kind == PARTIAL:
        title, body = (
            _build_step(vector, query.share_partial, lexicon, context) for vector in ("title", "body")
        )
        return _MatchStrategy(kind, (None, query.partial, query.partial), (title, title, body), corrections)
    title = _build_step("title", query.share_in_title, lexicon, context)
    body = _build_step("body", query.share_anywhere, lexicon, context)
    exact = query.exact if kind == TYPED else None
    steps = (_build_step("title", query.share_exact, lexicon, context), title, body)
    return _MatchStrategy(kind, (exact, query.wide, query.wide), steps, corrections)


def _build_step(
    vector: str, share: float, lexicon: query_builder.Lexicon, context: _SearchContext
) -> SearchStep:
    threshold = (
        FILTERED_POPULARITY_SCAN_THRESHOLD
        if has_filters_besides_campus(context.conditions)
        else POPULARITY_SCAN_THRESHOLD
    )
    return SearchStep(vector, scans_by_popularity=share * lexicon.total_documents > threshold)


def _fetch_products(
    context: _SearchContext, strategy: _MatchStrategy, position: _SearchPosition, *, limit: int
) -> tuple[list[ProductCard], _SearchPosition | None]:
    """Fetch a page of cards and the position of the next page, continuing into the next blocks."""
    statement = search_statement(
        strategy.steps,
        campus=next((name for name in CAMPUS_PARAMETERS if name in context.conditions), None),
        filtered=has_filters_besides_campus(context.conditions),
    )
    page_cards: list[ProductCard] = []
    positions: list[_SearchPosition] = []
    for _ in range(_MAX_BLOCKS_PER_PAGE):
        rows = statement.tuples(
            context.session,
            **_block_parameters(context, strategy, position, limit=limit + 1 - len(page_cards)),
        )
        end = position.block_end or next(([*row[-3:]] for row in rows if row[-3] is not None), None)
        for row in rows:
            page_cards.append(build_card(row))
            positions.append(
                _SearchPosition(
                    position.strategy, position.block_start, end, [row[len(CARD_COLUMNS)], row[0]]
                )
            )
        if end is None or len(page_cards) > limit:
            break
        position = _SearchPosition(position.strategy, block_start=end)
    return page_cards[:limit], positions[limit - 1] if len(page_cards) > limit else None


def _block_parameters(
    context: _SearchContext, strategy: _MatchStrategy, position: _SearchPosition, *, limit: int
) -> dict[str, Any]:
    start, end = position.block_start or (0, None, None), position.block_end or (None, None, None)
    last_score, last_id = position.last_row or (None, None)
    filtered = has_filters_besides_campus(context.conditions)
    candidates = FILTERED_CANDIDATES_PER_STEP if filtered else CANDIDATES_PER_STEP
    return {
        **context.conditions,
        **(filter_parameters(context.conditions) if filtered else {}),
        **{f"query_{number}": query for number, query in enumerate(strategy.queries)},
        **dict(zip(("start_step", "start_prior", "start_id"), start, strict=True)),
        **dict(zip(("end_step", "end_prior", "end_id"), end, strict=True)),
        "last_score": last_score,
        "last_id": last_id,
        # Rows added since the first page must not displace the first page's candidates.
        "most": candidates if position.last_row is None else 2 * candidates,
        "limit": limit,
        "now": context.now,
        "media_base_url": context.media_base_url,
    }


_SELECT_MERCHANTS: Mapping[str | None, Statement[Row]] = {
    by: Prepared(
        text(
            f"""
            SELECT CAST(v.id AS text), v.display_name, v.slug, v.verified, v.rating_sum, v.rating_count,
                v.completed_orders, CAST(v.campus_id AS text)
            FROM (SELECT to_tsquery('campus', CAST(:query AS text)) AS query OFFSET 0) asked, vendor_profiles v
            WHERE v.search @@ asked.query AND {STORE_IS_OPEN_SQL} AND {campus_sql("v.campus_id", by)}
            ORDER BY ts_rank(v.search, asked.query, 1) DESC, v.completed_orders DESC, v.id
            LIMIT {MAX_MERCHANTS}
            """
        )
    )
    for by in CAMPUS_PARAMETERS
}


def _fetch_merchants(
    context: _SearchContext, strategy: _MatchStrategy, filters: ProductFilters
) -> list[dict[str, Any]]:
    """Find open stores by name. Only the filters for campus and vendor apply to stores."""
    # A single word of a store name matches too many stores.
    if filters.vendor_id is not None or strategy.kind == PARTIAL:
        return []
    campus_values = campus_parameters(filters.campus)
    rows = _SELECT_MERCHANTS[next(iter(campus_values), None)].tuples(
        context.session, query=strategy.queries[1], now=context.now, **campus_values
    )
    return [
        {
            "id": store_id,
            "display_name": name,
            "slug": slug,
            "verified": verified,
            "rating": average_rating(rating_sum, rating_count),
            "rating_count": rating_count,
            "completed_orders": completed,
            "campus_id": campus_id,
        }
        for store_id, name, slug, verified, rating_sum, rating_count, completed, campus_id in rows
    ]


def _build_page(
    rows: list[ProductCard],
    merchants: list[dict[str, Any]],
    *,
    page: PageRequest,
    position: _SearchPosition | None = None,
    strategy: _MatchStrategy | None = None,
    context: _SearchContext | None = None,
) -> Page:
    suggestion = None
    # A correction is no help if a word still had to be left out, unless nothing else was found.
    if context and strategy and strategy.corrections and (strategy.kind == CORRECTED or not rows):
        suggestion = " ".join(query_builder.corrected_words(context.words, strategy.corrections))
    return Page(
        items=rows,
        data={"products": rows, "merchants": merchants},
        limit=page.limit,
        next_position=position.to_cursor(strategy.corrections) if position and strategy else None,
        extra_meta={"suggestion": suggestion},
    )
