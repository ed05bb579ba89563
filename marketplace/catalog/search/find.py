"""The search: products and merchants for what was typed, the nearest spelling, and what was not found."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.catalog.browse import cards
from marketplace.catalog.browse.listing import Filters, conditions_of
from marketplace.catalog.campus_filter import BY_ID, BY_SLUG
from marketplace.catalog.search import lexicon as search_lexicon
from marketplace.catalog.search import query_builder, tokenizer, zero_result_queries
from marketplace.catalog.search.query_builder import Lexicon
from marketplace.catalog.search.ranking_sql import (
    CANDIDATES,
    NARROWED_CANDIDATES,
    NARROWED_WALKED_FROM,
    WALKED_FROM,
    Step,
    is_narrowed,
    search_statement,
)
from marketplace.catalog.search.spelling import RARE_DOCUMENTS
from marketplace.infra.db import Statement
from marketplace.infra.prepared import Prepared
from marketplace.kernel.paging import Page, PageRequest, Part, UnknownCursorError, read_position
from marketplace.kernel.ratings import average_rating
from marketplace.vendors.queries import OPEN_SQL

MOST_MERCHANTS = 5
# From words as they were typed to what they may have meant.
Spelling = Mapping[str, Sequence[str]]
# How the words are taken: as they were typed, with other spellings, or all of them but one.
TYPED, CORRECTED, PARTIAL = range(3)
# A page is no longer than a block: it begins in one, and there is more if the next one has any.
_MOST_BLOCKS = 3
_SCORE = len(cards.COLUMNS)

_MERCHANTS = """
    SELECT CAST(v.id AS text), v.display_name, v.slug, v.verified, v.rating_sum, v.rating_count,
        v.completed_orders, CAST(v.campus_id AS text)
    FROM (SELECT to_tsquery('campus', CAST(:query AS text)) AS query OFFSET 0) asked, vendor_profiles v
    WHERE v.search @@ asked.query AND {open} {campus}
    ORDER BY ts_rank(v.search, asked.query, 1) DESC, v.completed_orders DESC, v.id
    LIMIT {most}
"""
_CAMPUS = {
    None: "",
    BY_ID: "AND v.campus_id = :campus_id",
    BY_SLUG: "AND v.campus_id = (SELECT c.id FROM campuses c WHERE c.slug = :campus_slug)",
}
_MERCHANTS_OF: Mapping[str | None, Statement] = {
    name: Prepared(text(_MERCHANTS.format(open=OPEN_SQL, campus=condition, most=MOST_MERCHANTS)))
    for name, condition in _CAMPUS.items()
}


@dataclass(frozen=True, slots=True)
class _Position:
    """Where a page begins: how the words were taken, the block of candidates, and the last row shown."""

    way: int
    start: Sequence[Any] | None = None  # step, prior and id of the last candidate of the block before
    end: Sequence[Any] | None = None  # the same of this block; none for the last one, or not known yet
    last: Sequence[Any] | None = None  # score and id of the last row shown

    def written(self, spelling: Spelling) -> list[Any]:
        """Write the position, with the spellings: words that are listed meanwhile must not change the query."""
        return [dict(spelling), self.way, self.start, self.end, self.last]

    @classmethod
    def read(cls, written: list[Any]) -> tuple[Spelling, "_Position"]:
        """Read what ``written`` wrote; raise ``UnknownCursorError`` for what it did not."""
        if len(written) != 5:
            raise UnknownCursorError
        spelling, way, start, end, last = written
        if way not in (TYPED, CORRECTED, PARTIAL) or not _is_spelling(spelling):
            raise UnknownCursorError
        blocks: list[tuple[Any, tuple[Part, ...]]] = [
            (start, ("number", "number", "id")),
            (end, ("number", "number", "id")),
            (last, ("number", "id")),
        ]
        for values, parts in blocks:
            if values is not None:
                read_position(values if isinstance(values, list) else [], parts)
        return spelling, cls(way, start, end, last)


def _is_spelling(value: Any) -> bool:
    """Tell whether a value maps words to words."""
    return isinstance(value, dict) and all(
        isinstance(meant, list) and all(isinstance(word, str) for word in meant) for meant in value.values()
    )


@dataclass(frozen=True, slots=True)
class _Way:
    """One way to take the words: the query of each step, and which spellings were put in."""

    number: int
    queries: tuple[str | None, str | None, str | None]
    steps: tuple[Step, ...]
    spelling: Spelling


@dataclass(frozen=True, slots=True)
class _Asker:
    """Who asks for what, when: the same in all queries of a search."""

    session: Session
    typed: Sequence[str]
    given: Mapping[str, Any]
    now: datetime
    media_base_url: str


def search(
    session: Session,
    *,
    words: str,
    filters: Filters,
    page: PageRequest,
    now: datetime,
    media_base_url: str,
) -> Page:
    """Find products and, on the first page, merchants.

    What was typed is taken as it is; if that finds nothing, with the nearest spellings; then with one word left
    out. It takes three queries, one more with a category; a misspelling takes up to ten. What is found in
    neither of the first two ways is counted, unless filters other than the campus may have kept it away.

    :param words: as they were typed
    :param filters: what is wanted
    :param page: which page; only this module knows what its position means
    :param now: the time of the request, which tells whose vacation is over
    :param media_base_url: where pictures are read
    :return: ``data`` has ``products`` (cards) and ``merchants``; ``extra_meta`` has ``suggestion``
    """
    typed = tokenizer.words(words)
    given = conditions_of(session, filters) if typed else None
    if given is None:
        return _page([], [], page=page)
    asker = _Asker(session, typed, given, now, media_base_url)
    lexicon = search_lexicon.look_up(session, given=typed)
    if page.position is not None:
        spelling, position = _Position.read(page.position)
        lexicon = search_lexicon.also_meant(session, given=typed, lexicon=lexicon, spelling=spelling)
        way = _way(position.way, asker, lexicon, spelling)
        rows, following = _products(asker, way, position, limit=page.limit)
        return _page(rows, [], page=page, position=following, way=way, asker=asker)
    for way in _ways(asker, lexicon):  # there is one at least
        rows, following = _products(asker, way, _Position(way.number), limit=page.limit)
        merchants = _merchants(asker, way, filters)
        if rows or merchants:
            break
    if filters == Filters(campus=filters.campus) and (way.number == PARTIAL or not (rows or merchants)):
        zero_result_queries.count_miss(session, words=words, campus=filters.campus, now=now)
    return _page(rows, merchants, page=page, position=following, way=way, asker=asker)


def _ways(asker: _Asker, lexicon: Lexicon) -> Iterator[_Way]:
    """Give the ways to take the words, in order; spellings are looked for when it comes to them."""
    typed, session = asker.typed, asker.session
    spelling = None
    usual: Spelling = {}
    if any(0 < lexicon.known(word) <= RARE_DOCUMENTS for word in typed):
        spelling = search_lexicon.spell(session, given=typed, lexicon=lexicon)
        usual = {word: meant for word, meant in spelling.items() if lexicon.known(word)}
    yield _way(TYPED, asker, lexicon, usual)
    if spelling is None:
        spelling = search_lexicon.spell(session, given=typed, lexicon=lexicon)
    lexicon = search_lexicon.also_meant(session, given=typed, lexicon=lexicon, spelling=spelling)
    if spelling.keys() - usual.keys():
        yield _way(CORRECTED, asker, lexicon, spelling)
    partial = _way(PARTIAL, asker, lexicon, spelling)
    if partial.queries[1]:
        yield partial


def _way(number: int, asker: _Asker, lexicon: Lexicon, spelling: Spelling) -> _Way:
    query = query_builder.build(asker.typed, lexicon, corrected=spelling)
    if number == PARTIAL:
        title, body = (_step(vector, query.share_partial, lexicon, asker) for vector in ("title", "body"))
        return _Way(number, (None, query.partial, query.partial), (title, title, body), spelling)
    title = _step("title", query.share_in_title, lexicon, asker)
    body = _step("body", query.share_anywhere, lexicon, asker)
    exact = query.exact if number == TYPED else None
    steps = (_step("title", query.share_exact, lexicon, asker), title, body)
    return _Way(number, (exact, query.wide, query.wide), steps, spelling)


def _step(vector: str, share: float, lexicon: Lexicon, asker: _Asker) -> Step:
    most = NARROWED_WALKED_FROM if is_narrowed(asker.given) else WALKED_FROM
    return Step(vector, walked=share * lexicon.total > most)


def _products(
    asker: _Asker, way: _Way, position: _Position, *, limit: int
) -> tuple[list[dict[str, Any]], _Position | None]:
    """Give a page of cards, and the position after it if there is more; a block that ends is followed by the next."""
    found: list[dict[str, Any]] = []
    after: list[_Position] = []
    for _ in range(_MOST_BLOCKS):
        rows = _block(asker, way, position, limit=limit + 1 - len(found))
        end = position.end or next(([*row[-3:]] for row in rows if row[-3] is not None), None)
        for row in rows:
            found.append(cards.card(row))
            after.append(_Position(position.way, position.start, end, [row[_SCORE], row[0]]))
        if end is None or len(found) > limit:
            break
        position = _Position(position.way, start=end)
    return found[:limit], after[limit - 1] if len(found) > limit else None


def _block(asker: _Asker, way: _Way, position: _Position, *, limit: int) -> list[tuple[Any, ...]]:
    conditions = tuple(asker.given)
    statement = search_statement(way.steps, conditions, prepared=not is_narrowed(conditions))
    return statement.tuples(asker.session, **_values(asker, way, position, limit=limit))


def _values(asker: _Asker, way: _Way, position: _Position, *, limit: int) -> dict[str, Any]:
    start, end = position.start or (0, None, None), position.end or (None, None, None)
    last_score, last_id = position.last or (None, None)
    candidates = NARROWED_CANDIDATES if is_narrowed(asker.given) else CANDIDATES
    return {
        **asker.given,
        **{f"query_{number}": query for number, query in enumerate(way.queries)},
        **dict(zip(("start_step", "start_prior", "start_id"), start, strict=True)),
        **dict(zip(("end_step", "end_prior", "end_id"), end, strict=True)),
        "last_score": last_score,
        "last_id": last_id,
        # What was added meanwhile must not push out what the first page had among its candidates.
        "most": candidates if position.last is None else 2 * candidates,
        "limit": limit,
        "now": asker.now,
        "media_base_url": asker.media_base_url,
    }


def _merchants(asker: _Asker, way: _Way, filters: Filters) -> list[dict[str, Any]]:
    """Find open stores by their names; of filters only the campus and the store itself say anything of them."""
    if filters.vendor_id is not None:
        return []
    campus = next((name for name in (BY_ID, BY_SLUG) if name in asker.given), None)
    place = {campus: asker.given[campus]} if campus else {}
    # One word of a store's name is what many are called.
    if way.number == PARTIAL:
        return []
    rows = _MERCHANTS_OF[campus].tuples(asker.session, query=way.queries[1], now=asker.now, **place)
    return [
        {
            "id": store_id,
            "displayName": name,
            "slug": slug,
            "verified": verified,
            "rating": average_rating(rating_sum, rating_count),
            "ratingCount": rating_count,
            "completedOrders": completed,
            "campusId": campus_id,
        }
        for store_id, name, slug, verified, rating_sum, rating_count, completed, campus_id in rows
    ]


def _page(
    rows: list[dict[str, Any]],
    merchants: list[dict[str, Any]],
    *,
    page: PageRequest,
    position: _Position | None = None,
    way: _Way | None = None,
    asker: _Asker | None = None,
) -> Page:
    suggestion = None
    # A spelling with which there still is a word too many is of no help, unless there is nothing else to offer.
    if asker and way and way.spelling and (way.number == CORRECTED or not rows):
        suggestion = query_builder.respelled(asker.typed, way.spelling)
    return Page(
        items=rows,
        data={"products": rows, "merchants": merchants},
        limit=page.limit,
        next_position=position.written(way.spelling) if position and way else None,
        extra_meta={"suggestion": suggestion},
    )
