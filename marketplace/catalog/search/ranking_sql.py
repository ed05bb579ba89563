"""SQL of the search: matches are collected in steps, and only a bounded number of rows is ranked.

Each step matches another query: the words as typed in titles, then all alternatives, then the whole text. A step
takes the ``CANDIDATES_PER_STEP`` most popular matches. A later step runs only if the earlier steps found fewer. Only
these candidates are ranked. The page after the last candidate continues with the next candidates, so that every match
is reachable.

A step finds its rows through the word index, which reads all matches. Where very many rows match, the step scans the
most popular rows first, until enough of them match or the scan limit is reached.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import BigInteger, Integer, Text, Uuid, cast, select, text
from sqlalchemy.sql.elements import TextClause

from marketplace.catalog.browse.listing import CARD_COLUMNS
from marketplace.catalog.campus_filter import BY_CAMPUS_ID, BY_CAMPUS_SLUG, campus_sql
from marketplace.catalog.models import Product
from marketplace.infra.sql.statements import Prepared, Row
from marketplace.vendors.models import VendorProfile
from marketplace.vendors.queries import STORE_IS_OPEN_SQL

CANDIDATES_PER_STEP = 100
# A scanned row costs less than half of a row found through the index. With 50,000 rows and this many matches both
# ways cost about the same.
POPULARITY_SCAN_THRESHOLD = 2_500
_MAX_SCANNED_ROWS = 5_000
# With filters, a scan passes more rows to find enough matches. The scan evaluates filters on the entries of an index
# and reads only the rows that pass, so an entry costs an eighth of a row found through the word index.
FILTERED_CANDIDATES_PER_STEP = 100
FILTERED_POPULARITY_SCAN_THRESHOLD = 5_000
_MAX_SCANNED_ROWS_FILTERED = 25_000
STEP_COUNT = 3
_RANK_LEVELS = 64
_PRIOR_LEVELS = 4_096  # upper bound of search_prior

# Weights of description, store and category, tags, and title. A category match weighs nearly as much as the title: a
# search for "laptop" wants laptops rather than bags with "laptop" in the title. A candidate is ranked by a
# single call, because ranking costs as much as finding the candidates.
_RANK_SQL = "ts_rank('{0.1, 0.9, 0.6, 1}', d.vector, d.query)"
_LEVELS_PER_RANK_UNIT = 40  # ranks rarely exceed 1

# Filters besides the campus. A filter that is not given is null, so that one prepared statement serves every
# combination.
_FILTER_CONDITIONS = (
    "(CAST(:category_ids AS uuid[]) IS NULL OR d.category_id = ANY(CAST(:category_ids AS uuid[])))",
    "(CAST(:min_price AS bigint) IS NULL OR d.price_minor >= CAST(:min_price AS bigint))",
    "(CAST(:max_price AS bigint) IS NULL OR d.price_minor <= CAST(:max_price AS bigint))",
    "(CAST(:condition AS text) IS NULL OR d.condition = CAST(:condition AS text))",
    "(CAST(:vendor_id AS uuid) IS NULL OR d.vendor_id = CAST(:vendor_id AS uuid))",
    """(
        CAST(:in_stock AS boolean) IS NULL
        OR CAST(:in_stock AS boolean) = (SELECT p.available > 0 FROM products p WHERE p.id = d.product_id)
    )""",
)
_FILTER_PARAMETERS = ("category_ids", "min_price", "max_price", "condition", "vendor_id")
_FILTER_COLUMNS = ", ".join(
    f"d.{name}"
    for name in ("product_id", "prior", "vendor_id", "campus_id", "category_id", "price_minor", "condition")
)


def filter_parameters(conditions: Mapping[str, Any]) -> dict[str, Any]:
    """Build the parameters of a filtered search.

    :param conditions: from ``listing.build_conditions``
    :return: a value for each filter; None for a filter that is not given
    """
    in_stock = True if "in_stock" in conditions else False if "sold_out" in conditions else None
    return {name: conditions.get(name) for name in _FILTER_PARAMETERS} | {"in_stock": in_stock}


def has_filters_besides_campus(conditions: Iterable[str]) -> bool:
    """Return whether there are filters that exclude more than other campuses.

    :param conditions: names from ``listing.build_conditions``
    """
    return not {BY_CAMPUS_ID, BY_CAMPUS_SLUG}.issuperset(conditions)


@dataclass(frozen=True, slots=True)
class SearchStep:
    """A search step: the text search vector to match, and whether to scan by popularity first."""

    vector: str
    scans_by_popularity: bool


@lru_cache(maxsize=64)
def search_statement(steps: tuple[SearchStep, ...], *, campus: str | None, filtered: bool) -> Prepared[Row]:
    """Build the statement of a search, once per combination of arguments.

    Rows have ``listing.CARD_COLUMNS``, the score, and three columns that are equal in all rows. These columns are the
    step, prior and id of the last candidate if more candidates may follow, else null.

    :param steps: exactly ``STEP_COUNT``
    :param campus: one of ``CAMPUS_PARAMETERS``
    :param filtered: whether the statement takes ``filter_parameters``
    """
    rows = (
        _ranked_candidates_sql(steps, campus, filtered=filtered)
        .columns(product_id=Uuid, score=BigInteger, end_step=Integer, end_prior=Integer, end_id=Uuid)
        .cte("found")
    )
    clause = (
        select(*CARD_COLUMNS, rows.c.score, rows.c.end_step, rows.c.end_prior, cast(rows.c.end_id, Text))
        .join_from(rows, Product, Product.id == rows.c.product_id)
        .join(VendorProfile, VendorProfile.id == Product.vendor_id)
        .order_by(rows.c.score.desc(), rows.c.product_id.desc())
    )
    return Prepared(clause)


def _ranked_candidates_sql(steps: Sequence[SearchStep], campus: str | None, *, filtered: bool) -> TextClause:
    asked_columns = ", ".join(
        f"to_tsquery('campus', CAST(:query_{number} AS text)) AS query_{number}"
        for number in range(STEP_COUNT)
    )
    candidates = " UNION ALL ".join(
        f"SELECT {number} AS step, s.* FROM step_{number} s" for number in range(STEP_COUNT)
    )
    return text(
        f"""
        WITH asked AS MATERIALIZED (SELECT {asked_columns}),
        closed AS MATERIALIZED (SELECT v.id FROM vendor_profiles v WHERE NOT {STORE_IS_OPEN_SQL}),
        {", ".join(_step_sql(number, step, campus, filtered=filtered) for number, step in enumerate(steps))},
        candidates AS MATERIALIZED ({candidates}),
        ended AS MATERIALIZED (
            SELECT d.step AS end_step, d.prior AS end_prior, d.product_id AS end_id
            FROM candidates d JOIN (
                SELECT c.step FROM candidates c GROUP BY c.step HAVING count(*) >= :most
                ORDER BY c.step DESC LIMIT 1
            ) full_step ON full_step.step = d.step
            WHERE CAST(:end_step AS integer) IS NULL
            ORDER BY d.prior, d.product_id LIMIT 1
        ),
        scored AS (
            SELECT d.product_id, (({STEP_COUNT - 1} - d.step) * {_RANK_LEVELS}
                + least(CAST({_RANK_SQL} * {_LEVELS_PER_RANK_UNIT} AS integer), {_RANK_LEVELS - 1})) * {_PRIOR_LEVELS}
                + d.prior AS score
            FROM candidates d
        )
        SELECT s.product_id, s.score, e.end_step, e.end_prior, e.end_id
        FROM scored s LEFT JOIN ended e ON true
        WHERE CAST(:last_score AS integer) IS NULL
            OR (s.score, s.product_id) < (:last_score, CAST(:last_id AS uuid))
        ORDER BY s.score DESC, s.product_id DESC LIMIT :limit
        """
    )


def _step_sql(number: int, step: SearchStep, campus: str | None, *, filtered: bool) -> str:
    """Write the candidates of a step: the most popular matches that no earlier step matched."""
    order = "ORDER BY d.prior DESC, d.product_id DESC LIMIT"
    within = f"{_step_is_due_sql(number)} AND {_row_is_in_range_sql(number)}"
    by_words = f"""
        SELECT {_candidate_columns(number, step, "d")} FROM asked a, search_documents d
        WHERE {within} AND d.{step.vector} @@ a.query_{number}
            AND {_row_conditions(number, campus, filtered=filtered)}
    """
    if not step.scans_by_popularity:
        return f"step_{number} AS MATERIALIZED ({by_words} {order} :most)"
    return f"""
        walk_{number} AS MATERIALIZED ({_walk_sql(number, step, campus, within, filtered=filtered)} {order} :most),
        words_{number} AS MATERIALIZED (
            {by_words} AND (SELECT count(*) FROM walk_{number}) < :most {order} :most
        ),
        step_{number} AS MATERIALIZED (
            SELECT * FROM walk_{number} WHERE (SELECT count(*) FROM walk_{number}) >= :most
            UNION ALL SELECT * FROM words_{number}
        )
    """


def _walk_sql(number: int, step: SearchStep, campus: str | None, within: str, *, filtered: bool) -> str:
    """Write the scan of the most popular rows, which checks each row instead of using the word index."""
    order = "ORDER BY d.prior DESC, d.product_id DESC"
    if not filtered:
        return f"""
            SELECT {_candidate_columns(number, step, "d")} FROM asked a, (
                SELECT * FROM search_documents d WHERE {within} {order} LIMIT {_MAX_SCANNED_ROWS}
            ) d
            WHERE ts_match_vq(d.{step.vector}, a.query_{number})
                AND {_row_conditions(number, campus, filtered=False)}
        """
    # The scan reads columns of ix_search_documents_prior alone, and then the vectors of the rows that pass the
    # filters. The planner knows neither how few pass nor how early the scan ends, so the subquery fixes the order.
    return f"""
        SELECT {_candidate_columns(number, step, "v")} FROM asked a, (
            SELECT d.product_id, d.prior FROM (
                SELECT {_FILTER_COLUMNS} FROM search_documents d
                WHERE {within} {order} LIMIT {_MAX_SCANNED_ROWS_FILTERED}
            ) d
            WHERE {_filter_sql(campus, filtered=True)} {order}
        ) d CROSS JOIN LATERAL (
            SELECT v.title, v.body FROM search_documents v WHERE v.product_id = d.product_id OFFSET 0
        ) v
        WHERE ts_match_vq(v.{step.vector}, a.query_{number}) AND {_is_new_sql(number, "v")}
    """


def _candidate_columns(number: int, step: SearchStep, vectors: str) -> str:
    return f"d.product_id, d.prior, {vectors}.{step.vector} AS vector, a.query_{number} AS query"


def _row_conditions(number: int, campus: str | None, *, filtered: bool) -> str:
    return f"{_filter_sql(campus, filtered=filtered)} AND {_is_new_sql(number, 'd')}"


def _filter_sql(campus: str | None, *, filtered: bool) -> str:
    """Write the conditions that do not depend on words."""
    return " AND ".join(
        [
            "d.vendor_id NOT IN (SELECT c.id FROM closed c)",
            campus_sql("d.campus_id", campus),
            *(_FILTER_CONDITIONS if filtered else ()),
        ]
    )


def _is_new_sql(number: int, vectors: str) -> str:
    """Write the condition that the previous step did not match a row.

    :param vectors: the alias of the table with the text search vectors
    """
    if not number:
        return "true"
    return f"(a.query_{number - 1} IS NULL OR NOT {vectors}.title @@ a.query_{number - 1})"


def _step_is_due_sql(number: int) -> str:
    """Write the condition that earlier steps found too few rows, or that an earlier page reached this step."""
    earlier = " + ".join(f"(SELECT count(*) FROM step_{other})" for other in range(number)) or "0"
    return (
        f"{earlier} < :most AND {number} >= CAST(:start_step AS integer)"
        f" AND (CAST(:end_step AS integer) IS NULL OR {number} <= :end_step)"
    )


def _row_is_in_range_sql(number: int) -> str:
    """Write the condition that a row follows the last page's candidates, and is within this page's candidates."""
    here = "(d.prior, d.product_id)"
    return (
        f"({number} > :start_step OR CAST(:start_prior AS integer) IS NULL"
        f" OR {here} < (:start_prior, CAST(:start_id AS uuid)))"
        f" AND (CAST(:end_step AS integer) IS NULL OR {number} < :end_step"
        f" OR {here} >= (:end_prior, CAST(:end_id AS uuid)))"
    )
