"""Monthly partitions of the audit trail: created ahead, and dropped when their retention has ended.

The trigger of the trail does not fire for statements on a partition, so each partition has the trigger too.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from sqlalchemy import select, text, update
from sqlalchemy.orm import Session

from marketplace.audit.archives import ArchiveError, check_stored_file
from marketplace.audit.models import AuditArchive, AuditLog
from marketplace.audit.months import following, start_of
from marketplace.audit.operations import Act, record_audit_entry
from marketplace.infra.db import Database
from marketplace.infra.sql.statements import Statement
from marketplace.providers.storage import ObjectStorage

_SCHEMA = "audit_partitions"
_MONTHS_AHEAD = 3
_NAME = re.compile(r"[a-z0-9_]+", re.ASCII)


@dataclass(frozen=True)
class _Partition:
    """A partition; none as start means all earlier times. The partition of other times is not listed."""

    name: str
    starts_at: datetime | None
    ends_at: datetime


_SELECT_PARTITIONS = Statement(
    text(
        r"""
        SELECT name, CAST(substring(bound FROM 'FROM \(''([^'']+)''\)') AS timestamptz) AS starts_at,
            CAST(substring(bound FROM 'TO \(''([^'']+)''\)') AS timestamptz) AS ends_at
        FROM (SELECT CAST(c.relname AS text) AS name, pg_get_expr(c.relpartbound, c.oid) AS bound
            FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
            WHERE i.inhparent = CAST('public.audit_logs' AS regclass)) partitions
        WHERE bound <> 'DEFAULT' ORDER BY ends_at
        """
    ),
    row=_Partition,
)


def create_partitions(database: Database, *, now: datetime) -> int:
    """Create the missing partitions of this month and the next three months.

    Rows without a partition of their month are in the partition of other times, and a month with such rows gets none.

    :return: the number of new partitions
    """
    with database.reading() as session:
        existing = _SELECT_PARTITIONS.all(session)
    missing = [month for month in _months_ahead(now) if not _is_covered(month, existing)]
    return sum(database.in_transaction(_create_partition, month=month) for month in missing)


def _months_ahead(now: datetime) -> Iterator[date]:
    month = now.astimezone(UTC).date().replace(day=1)
    for _ in range(_MONTHS_AHEAD + 1):
        yield month
        month = following(month)


def _is_covered(month: date, partitions: list[_Partition]) -> bool:
    start = start_of(month)
    return any(
        (partition.starts_at is None or partition.starts_at <= start) and start < partition.ends_at
        for partition in partitions
    )


def _create_partition(session: Session, *, month: date) -> bool:
    """Create the partition of a month, unless other rows of the month exist."""
    start, end = start_of(month), start_of(following(month))
    stray = select(AuditLog.id).where(AuditLog.at >= start, AuditLog.at < end).limit(1)
    if session.scalar(stray) is not None:
        return False
    name = f"{_SCHEMA}.audit_logs_{month:%Y_%m}"
    # ATTACH lets others read and write the trail, while PARTITION OF would not.
    session.execute(text(f"CREATE TABLE {name} (LIKE public.audit_logs, PRIMARY KEY (id))"))
    session.execute(
        text(
            f"CREATE TRIGGER audit_logs_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {name}"
            " FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change()"
        )
    )
    session.execute(
        text(
            f"ALTER TABLE public.audit_logs ATTACH PARTITION {name}"
            f" FOR VALUES FROM ('{start.isoformat()}') TO ('{end.isoformat()}')"
        )
    )
    return True


def drop_expired_partitions(
    database: Database, storage: ObjectStorage, *, bucket: str, retention: timedelta, now: datetime
) -> int:
    """Drop the partitions whose retention has ended, the earliest first. Their rows stay in the archives.

    :param bucket: the private bucket
    :return: the number of dropped partitions
    :raises ArchiveError: an archive in the storage was changed or is missing; the partition stays
    :raises ProviderUnavailableError: the storage failed
    """
    with database.reading() as session:
        expired = [row for row in _SELECT_PARTITIONS.all(session) if row.ends_at + retention <= now]
    dropped = 0
    for partition in expired:
        last_month = (partition.ends_at.astimezone(UTC).date() - timedelta(days=1)).replace(day=1)
        with database.reading() as session:
            if session.get(AuditArchive, last_month) is None:
                continue  # not archived yet, or without rows
            kept = session.scalars(
                select(AuditArchive).where(
                    AuditArchive.month <= last_month, AuditArchive.dropped_at.is_(None)
                )
            ).all()
        for archive in kept:
            check_stored_file(storage, bucket=bucket, month=archive.month, sha256=archive.sha256)
        database.in_transaction(_drop_partition, partition=partition, last_month=last_month, now=now)
        dropped += 1
    return dropped


def _drop_partition(session: Session, *, partition: _Partition, last_month: date, now: datetime) -> None:
    if not _NAME.fullmatch(partition.name):
        raise ArchiveError(f"{partition.name} is not a partition of the audit trail.")
    # Recording locks the chain first, as all writers do, so that they do not block each other.
    record_audit_entry(
        session,
        act=Act("schedule", now),
        action="audit.drop",
        target_type="audit_archive",
        target_id=f"{last_month:%Y-%m}",
        before={"partition": partition.name},
    )
    session.execute(text(f"DROP TABLE {_SCHEMA}.{partition.name}"))
    session.execute(
        update(AuditArchive)
        .where(AuditArchive.month <= last_month, AuditArchive.dropped_at.is_(None))
        .values(dropped_at=now)
    )
