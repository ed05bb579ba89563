"""Move the counts of all processes from the cache to ``signal_counts`` and ``daily_counts``."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

import structlog
from sqlalchemy import Delete, delete, func, literal, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.health.models import DailyCount, SignalBatch, SignalCount
from marketplace.health.objectives import count_for_objectives
from marketplace.infra.cache import Cache, CacheDownError
from marketplace.infra.db import Database
from marketplace.infra.signals.sending import parse_batch_field, signal_counters
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.signals import BUCKETS_MS, CLIENT_LABELLED, COUNT, DURATION_SUM, Key

POOL_USED, POOL_MAXIMUM, POOL_TIMEOUTS = "pool_used", "pool_maximum", "pool_timeouts"
# Waits of over 50 ms. Opening a new connection takes less.
POOL_WAITS = "pool_waits"
_FIRST_LONG_WAIT = BUCKETS_MS.index(50) + 1
WEBHOOK_REJECTED = "webhook_rejected"
# Limit of wrong signatures in five minutes. A subnet at the limit is barred.
# A larger total raises PAYMENT_WEBHOOK_FAIL.
MAX_REJECTIONS = 5
# Clients influence the labels. Labels of a day beyond the limit count as this label.
OTHER = "other"
MAX_LABELS_PER_DAY = 500
MINUTES_KEPT = timedelta(days=4)
HOURS_KEPT = timedelta(days=40)
_DAYS_KEPT = timedelta(days=365)
_BATCHES_KEPT = timedelta(days=2)
_MAX_BATCHES = 20  # the rest waits for the next run

_log = structlog.get_logger(__name__)


def store_counts(database: Database, cache: Cache, *, now: datetime) -> int:
    """Add the counts of the cache to the tables, each batch once.

    :return: the number of stored batches
    """
    source, stored = signal_counters(cache), 0
    try:
        for batch_id in source.close_batch(limit=_MAX_BATCHES):
            counted = source.read_batch(batch_id)
            stored += database.in_transaction(_apply_batch, batch_id=batch_id, counted=counted, now=now)
            source.discard_batch(batch_id)
    except CacheDownError:
        _log.warning("signals not stored: cache is down")
    return stored


def are_counts_arriving(cache: Cache) -> bool:
    """Return whether the cache, which takes the counts of all processes, responds."""
    try:
        cache.ping()
    except CacheDownError:
        return False
    return True


def _apply_batch(session: Session, *, batch_id: UUID, counted: Mapping[str, int], now: datetime) -> bool:
    added = session.scalar(
        insert(SignalBatch)
        .values(id=batch_id, applied_at=now)
        .on_conflict_do_nothing(index_elements=["id"])
        .returning(SignalBatch.id)
    )
    if added is None:
        return False
    signals: defaultdict[tuple[str, int, datetime, int], int] = defaultdict(int)
    days: defaultdict[tuple[str, date, str], int] = defaultdict(int)
    for field, number in counted.items():
        if number <= 0:
            continue
        minute, key = parse_batch_field(field)
        if key.bucket == DURATION_SUM:
            continue
        at = datetime.fromtimestamp(minute * 60, UTC)
        if key.signal in CLIENT_LABELLED:
            days[key.signal, at.date(), key.label] += number
        for signal, bucket in (*count_for_objectives(key), *_count_for_alerts(key)):
            signals[signal, 1, at, bucket] += number
            signals[signal, 60, at.replace(minute=0), bucket] += number
    _add_signal_counts(session, signals)
    _add_daily_counts(session, days)
    return True


def _count_for_alerts(key: Key) -> Iterator[tuple[str, int]]:
    """Yield the signals of the monitored alerts."""
    if key.signal == "pool":
        yield f"pool_{key.label}", COUNT
    elif key.signal == "pool_wait" and key.bucket >= _FIRST_LONG_WAIT:
        yield POOL_WAITS, COUNT
    elif key.signal == WEBHOOK_REJECTED:
        yield WEBHOOK_REJECTED, COUNT


_ADD_SIGNAL_COUNTS = Statement(
    text(
        """
        INSERT INTO signal_counts (signal, minutes, starts_at, bucket, count)
        SELECT * FROM unnest(
            CAST(:names AS text[]), CAST(:minutes AS bigint[]), CAST(:starts AS timestamptz[]),
            CAST(:buckets AS bigint[]), CAST(:numbers AS bigint[]))
        ON CONFLICT (signal, minutes, starts_at, bucket)
            DO UPDATE SET count = signal_counts.count + excluded.count
        """
    )
)


def _add_signal_counts(session: Session, counts: Mapping[tuple[str, int, datetime, int], int]) -> None:
    if counts:
        ordered = sorted(counts.items())
        _ADD_SIGNAL_COUNTS.run(
            session,
            names=[key[0] for key, _ in ordered],
            minutes=[key[1] for key, _ in ordered],
            starts=[key[2] for key, _ in ordered],
            buckets=[key[3] for key, _ in ordered],
            numbers=[number for _, number in ordered],
        )


def _add_daily_counts(session: Session, counts: Mapping[tuple[str, date, str], int]) -> None:
    known: dict[tuple[str, date], set[str]] = {}
    for (kind, day, label), number in sorted(counts.items()):
        if (kind, day) not in known:
            stored = select(DailyCount.label).where(DailyCount.kind == kind, DailyCount.day == day)
            known[kind, day] = set(session.scalars(stored))
        labels = known[kind, day]
        kept = label if label in labels or len(labels) < MAX_LABELS_PER_DAY else OTHER
        labels.add(kept)
        statement = insert(DailyCount).values(kind=kind, day=day, label=kept, count=number)
        session.execute(
            statement.on_conflict_do_update(
                index_elements=["kind", "day", "label"],
                set_={"count": DailyCount.count + statement.excluded.count},
            )
        )


def purge_counts(database: Database, *, now: datetime) -> int:
    """Delete expired counts, and return the number of deleted rows."""
    expired = (
        *(
            delete(SignalCount).where(SignalCount.minutes == minutes, SignalCount.starts_at < now - kept)
            for minutes, kept in ((1, MINUTES_KEPT), (60, HOURS_KEPT))
        ),
        delete(DailyCount).where(DailyCount.day < (now - _DAYS_KEPT).date()),
        delete(SignalBatch).where(SignalBatch.applied_at < now - _BATCHES_KEPT),
    )
    return sum(database.in_transaction(_delete, statement=statement) for statement in expired)


def _delete(session: Session, *, statement: Delete) -> int:
    return len(session.execute(statement.returning(literal(1))).all())


def list_daily_counts(session: Session, *, kind: str, since: date) -> list[DailyCount]:
    """List the counts of a kind, the latest day first."""
    return list(
        session.scalars(
            select(DailyCount)
            .where(DailyCount.kind == kind, DailyCount.day >= since)
            .order_by(DailyCount.day.desc(), DailyCount.count.desc(), DailyCount.label)
        )
    )


def sum_counts(
    session: Session, *, signal: str, minutes: int, since: datetime, until: datetime
) -> Mapping[int, int]:
    """Return the number of events by bucket.

    :param minutes: the length of the summed periods: 1 or 60
    """
    rows = session.execute(
        select(SignalCount.bucket, func.sum(SignalCount.count))
        .where(
            SignalCount.signal == signal,
            SignalCount.minutes == minutes,
            SignalCount.starts_at >= since,
            SignalCount.starts_at < until,
        )
        .group_by(SignalCount.bucket)
    )
    return {bucket: int(number) for bucket, number in rows}
