"""Counters of views, cart adds and shares: counted in the cache, added up per hour, and used for trending.

The trending score sums the points of the last 24 hours. The points of an hour halve every six hours. The stored value
is the binary logarithm of the score plus the current time in half-lives, so the decay cancels out. Products sort by
that value as by score. The value changes only with new events and with hours that leave the window. Pages therefore
stay consistent.
"""

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from uuid import UUID

import structlog
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from marketplace.catalog import cache_tags
from marketplace.catalog.statistics.models import ProductCount
from marketplace.infra.cache import Cache, CacheDownError, drop_cached
from marketplace.infra.db import Database
from marketplace.infra.signals.counters import Counters
from marketplace.infra.sql.statements import Prepared, Statement
from marketplace.kernel.errors import NotFoundError

VIEW, CART_ADD, SHARE = "view", "cart_add", "share"
EVENT_TYPES = (VIEW, CART_ADD, SHARE)

TRENDING_WINDOW = timedelta(hours=24)
TRENDING_HALF_LIFE = timedelta(hours=6)
CART_ADD_POINTS = 5  # a view has 1 point, a share has none
RETENTION = timedelta(days=90)

_HOUR = timedelta(hours=1)
_MAX_BATCHES_PER_FLUSH = 20  # the rest waits for the next flush
_MAX_RESCORED_PRODUCTS = 20_000
_MAX_PURGED_ROWS = 200_000  # per hourly run, more than an hour's new rows
_SCORE_SCALE = 1_000  # per half-life: scores within a tenth of a percent are equal
_SECONDS_PER_HOUR = 3_600

_log = structlog.get_logger(__name__)


def product_counters(cache: Cache) -> Counters:
    """Return the cache counters of products."""
    return Counters(cache, "products")


_SELECT_VISIBLE_PRODUCT = Prepared(
    text(
        """
        SELECT FROM products p JOIN vendor_profiles v ON v.id = p.vendor_id
        WHERE p.id = :product_id AND p.status = 'published' AND v.status = 'active'
        """
    )
)


def count_product_event(
    session: Session, *, cache: Cache, product_id: UUID, kind: str, now: datetime
) -> None:
    """Count a view, a cart add or a share of a product.

    The event is counted in the cache. While the cache is down, the event goes directly to the table, which is slower.

    :param session: in autocommit
    :param product_id: of a publicly visible product
    :param kind: a value of ``EVENT_TYPES``
    :raises NotFoundError: the product does not exist or is not publicly visible
    """
    if not _SELECT_VISIBLE_PRODUCT.tuples(session, product_id=product_id):
        raise NotFoundError("Product not found.")
    field = f"{int(now.timestamp()) // _SECONDS_PER_HOUR}:{kind}:{product_id.hex}"
    try:
        product_counters(cache).increment(field)
    except CacheDownError:
        _add_counts(session, {field: 1}, now=now)


def flush_counts(database: Database, cache: Cache, *, now: datetime) -> int:
    """Add the cache's counts to the tables, and update the trending scores.

    A batch is added in a single transaction together with its id, and then discarded. An interrupted or repeated
    flush therefore adds each batch once.

    :return: the number of added batches
    """
    source, added = product_counters(cache), 0
    try:
        for batch_id in source.close_batch(limit=_MAX_BATCHES_PER_FLUSH):
            added += database.in_transaction(
                _apply_batch, batch_id=batch_id, counted=source.read_batch(batch_id), now=now
            )
            source.discard_batch(batch_id)
    except CacheDownError:
        _log.warning("counts not flushed: cache is down")
    database.in_transaction(_update_trending_scores, now=now)
    return added


_PURGE_HOURS = Statement(
    text(
        """
        DELETE FROM product_statistics WHERE (product_id, hour) IN (
            SELECT product_id, hour FROM product_statistics WHERE hour < :before ORDER BY hour LIMIT :most
        )
        """
    )
)


_PURGE_BATCHES = Statement(
    text(
        """
        DELETE FROM statistics_batches WHERE id IN (
            SELECT id FROM statistics_batches WHERE applied_at < :before LIMIT :most
        )
        """
    )
)


def purge_old_counts(session: Session, *, now: datetime) -> int:
    """Delete hourly counts and batch ids older than ``RETENTION``. Totals stay.

    :return: the number of deleted rows
    """
    purged = _PURGE_HOURS.run(session, before=now - RETENTION, most=_MAX_PURGED_ROWS)
    # A batch that returns after its id was deleted has only hours too old to be added.
    return purged + _PURGE_BATCHES.run(session, before=now - RETENTION - _HOUR, most=_MAX_PURGED_ROWS)


def fetch_totals(session: Session, *, product_id: UUID) -> dict[str, int]:
    """Fetch the totals of a product: ``views``, ``cart_adds`` and ``shares``.

    Counts since the last flush are not included.
    """
    columns = select(ProductCount.views, ProductCount.cart_adds, ProductCount.shares)
    row = session.execute(columns.where(ProductCount.product_id == product_id)).one_or_none()
    return row._asdict() if row else {"views": 0, "cart_adds": 0, "shares": 0}


_RECORD_BATCH = Statement(
    text("INSERT INTO statistics_batches (id, applied_at) VALUES (:batch_id, :now) ON CONFLICT DO NOTHING")
)


def _apply_batch(session: Session, *, batch_id: UUID, counted: Mapping[str, int], now: datetime) -> int:
    if not _RECORD_BATCH.run(session, batch_id=batch_id, now=now):
        return 0
    _add_counts(session, counted, now=now)
    return 1


# All flushes write rows in the same order, hours first, which avoids deadlocks.
_ADD_COUNTS = Statement(
    text(
        """
        WITH counted AS (
            SELECT c.product_id, c.hour, c.views, c.cart_adds, c.shares
            FROM unnest(
                CAST(:product_ids AS uuid[]), CAST(:hours AS timestamptz[]), CAST(:views AS bigint[]),
                CAST(:cart_adds AS bigint[]), CAST(:shares AS bigint[])
            ) AS c (product_id, hour, views, cart_adds, shares)
            WHERE EXISTS (SELECT FROM products p WHERE p.id = c.product_id)
        ), hourly AS (
            INSERT INTO product_statistics AS s (product_id, hour, views, cart_adds, shares)
            SELECT product_id, hour, views, cart_adds, shares FROM counted ORDER BY product_id, hour
            ON CONFLICT (product_id, hour) DO UPDATE
            SET views = s.views + excluded.views, cart_adds = s.cart_adds + excluded.cart_adds,
                shares = s.shares + excluded.shares
        )
        INSERT INTO product_counts AS t (product_id, views, cart_adds, shares, recount_at)
        SELECT product_id, sum(views), sum(cart_adds), sum(shares), :now
        FROM counted GROUP BY product_id ORDER BY product_id
        ON CONFLICT (product_id) DO UPDATE
        SET views = t.views + excluded.views, cart_adds = t.cart_adds + excluded.cart_adds,
            shares = t.shares + excluded.shares, recount_at = excluded.recount_at
        """
    )
)


def _add_counts(session: Session, counted: Mapping[str, int], *, now: datetime) -> None:
    """Add counts to the tables, except for hours beyond the retention."""
    rows: dict[tuple[UUID, datetime], dict[str, int]] = defaultdict(lambda: dict.fromkeys(EVENT_TYPES, 0))
    for field, number in counted.items():
        hour, kind, product = field.split(":")
        since = datetime.fromtimestamp(int(hour) * _SECONDS_PER_HOUR, UTC)
        if since >= now - RETENTION:
            rows[UUID(product), since][kind] += number
    if not rows:
        return
    _ADD_COUNTS.run(
        session,
        product_ids=[product_id for product_id, _ in rows],
        hours=[hour for _, hour in rows],
        views=[counts[VIEW] for counts in rows.values()],
        cart_adds=[counts[CART_ADD] for counts in rows.values()],
        shares=[counts[SHARE] for counts in rows.values()],
        now=now,
    )


_UPDATE_TRENDING_SCORES = Statement(
    text(
        """
        WITH due AS (
            SELECT product_id FROM product_counts WHERE recount_at <= :now
            ORDER BY recount_at LIMIT :most FOR UPDATE SKIP LOCKED
        ), reckoned AS (
            SELECT d.product_id,
                min(s.hour) FILTER (WHERE s.hour <= :until) AS since,
                min(s.hour) FILTER (WHERE s.hour > :until) AS to_come,
                sum(
                    (s.views + :points_of_cart_add * s.cart_adds)
                    * power(2.0::float8, extract(epoch FROM s.hour - :hour) / :half_life)
                ) FILTER (WHERE s.hour <= :until) AS score
            FROM due d
                LEFT JOIN product_statistics s ON s.product_id = d.product_id
                    AND s.hour > CAST(:hour AS timestamptz) - CAST(:window AS interval)
                    AND s.views + s.cart_adds > 0
            GROUP BY d.product_id
        )
        UPDATE product_counts c
        SET trending = round(:thousandths * (
                ln(r.score) / ln(2.0::float8) + extract(epoch FROM CAST(:hour AS timestamptz)) / :half_life
            )),
            recount_at = least(r.since + CAST(:window AS interval), r.to_come)
        FROM reckoned r WHERE c.product_id = r.product_id
        """
    )
)


def _update_trending_scores(session: Session, *, now: datetime) -> None:
    hour = now.replace(minute=0, second=0, microsecond=0)
    if _UPDATE_TRENDING_SCORES.run(
        session,
        now=now,
        hour=hour,
        until=hour + _HOUR,  # clocks may differ; later hours count when due
        window=TRENDING_WINDOW,
        half_life=TRENDING_HALF_LIFE.total_seconds(),
        points_of_cart_add=CART_ADD_POINTS,
        thousandths=_SCORE_SCALE,
        most=_MAX_RESCORED_PRODUCTS,
    ):
        drop_cached(session, cache_tags.TRENDING)
