"""Anchors and monthly archives of the audit trail, in the storage and verified without the database."""

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from marketplace.audit import anchors, archives, partitions
from marketplace.audit.chain import START, BrokenChainError, Link, read_rows, verify_rows
from marketplace.audit.models import AuditArchive
from marketplace.audit.operations import Act, record_audit_entry
from marketplace.audit.signatures import public_key_pem
from marketplace.infra.db import Database
from marketplace.kernel.errors import ProviderUnavailableError
from tests.support.object_storage import InMemoryStorage

BUCKET = "marketplace-private"
OCTOBER = datetime(2026, 10, 5, 9, 30, tzinfo=UTC)
NOVEMBER = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
DECEMBER = datetime(2026, 12, 1, 0, 5, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _begin_with_an_empty_trail(empty_database: Callable[[], None]) -> None:
    empty_database()


@pytest.fixture
def storage() -> InMemoryStorage:
    return InMemoryStorage()


def act(database: Database, now: datetime, count: int = 1) -> None:
    for _ in range(count):
        database.in_transaction(
            record_audit_entry,
            act=Act("finance", now, user_id=uuid4(), ip_address="192.0.2.7"),
            action="role.change",
            target_type="order",
            target_id=str(uuid4()),
            after={"role": "vendor", "list": [1, None, "\u00e9"]},
        )


def tamper(database: Database, statement: str) -> None:
    with database.transaction() as session:
        session.execute(text("ALTER TABLE audit_logs DISABLE TRIGGER ALL"))
        session.execute(text(statement))
        session.execute(text("ALTER TABLE audit_logs ENABLE TRIGGER ALL"))


def archive(database: Database, storage: InMemoryStorage, now: datetime = DECEMBER) -> int:
    return archives.archive_months(database, storage, bucket=BUCKET, now=now)


def download(storage: InMemoryStorage, folder: Path) -> Path:
    for key, stored in storage.objects.items():
        if key.startswith("audit-archive/"):
            (folder / key.rpartition("/")[2]).write_bytes(stored.content)
    return folder


class TestAnchors:
    def anchor(self, database: Database, storage: InMemoryStorage, now: datetime = NOVEMBER) -> bool:
        return anchors.write_anchor(database, storage, bucket=BUCKET, now=now)

    def check(self, database: Database, storage: InMemoryStorage) -> int:
        with database.reading() as session:
            found = list(anchors.read_anchors(storage, bucket=BUCKET))
            for anchor in found:
                anchors.check_anchor(session, anchor)
            return len(found)

    def test_day_has_a_single_anchor(self, database: Database, storage: InMemoryStorage) -> None:
        assert not self.anchor(database, storage)
        act(database, NOVEMBER)

        assert self.anchor(database, storage)
        assert not self.anchor(database, storage)
        assert self.anchor(database, storage, NOVEMBER + timedelta(days=1))

        assert sorted(storage.objects) == ["audit-anchors/2026-11-20.json", "audit-anchors/2026-11-21.json"]
        assert self.check(database, storage) == 2

    def test_unavailable_storage_leaves_the_anchor_to_the_next_run(
        self, database: Database, storage: InMemoryStorage
    ) -> None:
        act(database, NOVEMBER)
        storage.fails = True
        with pytest.raises(ProviderUnavailableError):
            self.anchor(database, storage)

        storage.fails = False
        assert self.anchor(database, storage)

    @pytest.mark.parametrize(
        "statement",
        ["DELETE FROM audit_logs", "UPDATE audit_logs SET hash = repeat('0', 64)"],
        ids=["cut off", "written again"],
    )
    def test_anchor_reveals_a_trail_that_is_not_the_same(
        self, database: Database, storage: InMemoryStorage, statement: str
    ) -> None:
        act(database, NOVEMBER, 3)
        self.anchor(database, storage)

        tamper(database, statement)

        with pytest.raises(anchors.AnchorError, match="anchor of 2026-11-20"):
            self.check(database, storage)

    def test_changed_anchor_is_noticed(self, database: Database, storage: InMemoryStorage) -> None:
        act(database, NOVEMBER)
        self.anchor(database, storage)
        [key] = storage.objects
        anchor = json.loads(storage.objects[key].content) | {"lastId": 99}
        storage.put(
            bucket=BUCKET, key=key, content=json.dumps(anchor).encode(), content_type="application/json"
        )

        with pytest.raises(anchors.AnchorError, match="was changed"):
            self.check(database, storage)


class TestArchives:
    def test_finished_months_are_archived_once(self, database: Database, storage: InMemoryStorage) -> None:
        assert archive(database, storage) == 0
        act(database, OCTOBER, 3)
        act(database, NOVEMBER, 2)

        assert archive(database, storage, NOVEMBER) == 1
        assert archive(database, storage, NOVEMBER) == 0
        assert archive(database, storage) == 1
        assert sorted(storage.objects) == [
            *("audit-archive/2026-10.json", "audit-archive/2026-10.jsonl.gz"),
            *("audit-archive/2026-11.json", "audit-archive/2026-11.jsonl.gz"),
        ]

    def test_archives_are_verified_without_the_database(
        self, database: Database, storage: InMemoryStorage, tmp_path: Path
    ) -> None:
        act(database, OCTOBER, 3)
        act(database, NOVEMBER, 2)
        archive(database, storage)

        assert archives.verify_archives(download(storage, tmp_path), public_key=public_key_pem()) == (2, 5)

    def test_month_without_acts_has_an_empty_archive(
        self, database: Database, storage: InMemoryStorage, tmp_path: Path
    ) -> None:
        act(database, OCTOBER)
        act(database, DECEMBER)

        assert archive(database, storage) == 2
        assert archives.verify_archives(download(storage, tmp_path), public_key=public_key_pem()) == (2, 1)

    def test_row_written_after_midnight_belongs_to_the_month_of_neighbours(
        self, database: Database, storage: InMemoryStorage, tmp_path: Path
    ) -> None:
        act(database, OCTOBER)
        act(database, NOVEMBER)
        act(database, OCTOBER)
        act(database, NOVEMBER)

        archive(database, storage)

        manifest = json.loads(storage.objects["audit-archive/2026-10.json"].content)
        assert manifest["rows"] == 3
        assert archives.verify_archives(download(storage, tmp_path), public_key=public_key_pem()) == (2, 4)

    def test_broken_trail_is_not_archived(self, database: Database, storage: InMemoryStorage) -> None:
        act(database, OCTOBER, 3)
        tamper(database, "UPDATE audit_logs SET actor = 'nobody' WHERE id = (SELECT min(id) FROM audit_logs)")

        with pytest.raises(BrokenChainError):
            archive(database, storage)
        assert not storage.objects

    def test_crash_before_the_record_makes_the_same_file(
        self, database: Database, storage: InMemoryStorage
    ) -> None:
        act(database, OCTOBER, 3)
        archive(database, storage)
        first = dict(storage.objects)
        with database.transaction() as session:
            session.execute(text("DELETE FROM audit_archives"))

        assert archive(database, storage) >= 1
        assert storage.objects["audit-archive/2026-10.jsonl.gz"] == first["audit-archive/2026-10.jsonl.gz"]

    @pytest.mark.parametrize("fault", ["row", "manifest", "file", "month", "key"])
    def test_changed_archives_are_noticed(
        self, database: Database, storage: InMemoryStorage, tmp_path: Path, fault: str
    ) -> None:
        act(database, datetime(2026, 9, 5, tzinfo=UTC), 3)
        act(database, OCTOBER, 3)
        act(database, NOVEMBER, 2)
        archive(database, storage)
        folder, public_key = download(storage, tmp_path), public_key_pem()
        content, manifest = folder / "2026-10.jsonl.gz", folder / "2026-10.json"
        if fault == "row":
            lines = gzip.decompress(content.read_bytes()).replace(b"finance", b"nobody!")
            content.write_bytes(gzip.compress(lines))
        elif fault == "manifest":
            changed: Any = json.loads(manifest.read_text("utf-8")) | {"rows": 4}
            manifest.write_text(json.dumps(changed), "utf-8")
        elif fault == "file":
            content.unlink()
        elif fault == "month":
            manifest.unlink()
        else:
            manifest.write_text("[]", "utf-8")

        with pytest.raises(archives.ArchiveError):
            archives.verify_archives(folder, public_key=public_key)


class TestPartitions:
    RETENTION = timedelta(days=7 * 365)
    LATER = datetime(2040, 6, 1, 0, 5, tzinfo=UTC)

    @pytest.fixture(autouse=True)
    def _return_to_the_first_partitions(self, database: Database) -> Iterator[None]:
        before = set(self.names(database))
        yield
        with database.transaction() as session:
            for name in set(self.names(database)) - before:
                session.execute(text(f"DROP TABLE audit_partitions.{name}"))

    def names(self, database: Database) -> list[str]:
        with database.reading() as session:
            found = session.scalars(
                text("SELECT tablename FROM pg_tables WHERE schemaname = 'audit_partitions' ORDER BY 1")
            )
            return list(found)

    def partitions_of(self, database: Database) -> list[str]:
        with database.reading() as session:
            found = session.scalars(
                text("SELECT CAST(tableoid AS regclass)::text FROM audit_logs ORDER BY id")
            )
            return [name.removeprefix("audit_partitions.audit_logs_") for name in found]

    def drop(self, database: Database, storage: InMemoryStorage, now: datetime) -> int:
        return partitions.drop_expired_partitions(
            database, storage, bucket=BUCKET, retention=self.RETENTION, now=now
        )

    def verify(self, database: Database) -> int:
        with database.reading() as session:
            dropped = archives.last_dropped(session)
            start = START if dropped is None else Link(dropped.last_id, dropped.last_hash)
            return verify_rows(read_rows(session, after_id=start.last_id), start=start).last_id

    def test_rows_are_in_the_partition_of_their_month(self, database: Database) -> None:
        assert partitions.create_partitions(database, now=self.LATER) == 4
        assert partitions.create_partitions(database, now=self.LATER) == 0
        for month in (6, 7, 9):
            act(database, datetime(2040, month, 1, tzinfo=UTC))
        act(database, datetime(2041, 1, 1, tzinfo=UTC))

        assert self.partitions_of(database) == ["2040_06", "2040_07", "2040_09", "other"]
        self.verify(database)

    @pytest.mark.parametrize("action", ["UPDATE {} SET actor = 'x'", "DELETE FROM {}", "TRUNCATE {}"])
    def test_rows_of_a_partition_cannot_be_changed(self, database: Database, action: str) -> None:
        partitions.create_partitions(database, now=self.LATER)
        act(database, self.LATER)
        for name in ("2040_06", "initial", "other"):
            table = f"audit_partitions.audit_logs_{name}"
            with pytest.raises(DBAPIError, match="append-only"), database.transaction() as session:
                session.execute(text(action.format(table)))

    def test_month_with_other_rows_gets_no_partition(self, database: Database) -> None:
        act(database, datetime(2040, 7, 3, tzinfo=UTC))

        assert partitions.create_partitions(database, now=self.LATER) == 3

        assert "audit_logs_2040_07" not in self.names(database)
        assert partitions.create_partitions(database, now=self.LATER) == 0

    def test_archived_partition_is_dropped_after_its_retention(
        self, database: Database, storage: InMemoryStorage
    ) -> None:
        partitions.create_partitions(database, now=self.LATER)
        act(database, self.LATER, count=3)
        act(database, datetime(2040, 7, 1, tzinfo=UTC))
        # A request that began before midnight writes its row after a row of the next month.
        act(database, datetime(2040, 6, 30, 23, 59, tzinfo=UTC))
        act(database, datetime(2040, 8, 1, tzinfo=UTC), count=2)
        expired = datetime(2047, 7, 1, tzinfo=UTC)
        assert self.drop(database, storage, expired) == 0
        archive(database, storage, datetime(2040, 8, 2, tzinfo=UTC))
        assert self.drop(database, storage, datetime(2047, 6, 28, tzinfo=UTC)) == 0

        assert self.drop(database, storage, expired) == 1

        assert self.drop(database, storage, expired) == 0
        assert self.partitions_of(database) == ["2040_07", "2040_08", "2040_08", "other"]
        with database.reading() as session:
            dropped = archives.last_dropped(session)
            assert dropped is not None
            assert (dropped.month, dropped.dropped_at) == (date(2040, 6, 1), expired)
            archives.check_manifest(storage, bucket=BUCKET, archive=dropped)
            entry = session.execute(
                text("SELECT action, target_id FROM audit_logs ORDER BY id DESC LIMIT 1")
            ).one()
        assert tuple(entry) == ("audit.drop", "2040-06")
        self.verify(database)
        tamper(
            database, "UPDATE audit_logs SET actor = 'nobody' WHERE at >= '2040-08-01' AND at < '2040-09-01'"
        )
        with pytest.raises(BrokenChainError):
            self.verify(database)

    @pytest.mark.parametrize("damage", ["changed", "missing"])
    def test_partition_without_an_intact_archive_is_kept(
        self, database: Database, storage: InMemoryStorage, damage: str
    ) -> None:
        partitions.create_partitions(database, now=self.LATER)
        act(database, self.LATER)
        archive(database, storage, datetime(2040, 7, 2, tzinfo=UTC))
        key = "audit-archive/2040-06.jsonl.gz"
        if damage == "missing":
            del storage.objects[key]
        else:
            storage.objects[key] = replace(storage.objects[key], content=b"x")

        with pytest.raises(archives.ArchiveError, match=f"{key} .*{damage}"):
            self.drop(database, storage, datetime(2047, 7, 1, tzinfo=UTC))

        assert self.partitions_of(database) == ["2040_06"]

    def test_dropped_rows_agree_with_the_signed_manifest(
        self, database: Database, storage: InMemoryStorage
    ) -> None:
        act(database, OCTOBER)
        archive(database, storage)
        with database.transaction() as session:
            stored = session.get_one(AuditArchive, date(2026, 10, 1))
            stored.last_hash = "0" * 64
        with pytest.raises(archives.ArchiveError, match="another row"):
            archives.check_manifest(storage, bucket=BUCKET, archive=stored)
        del storage.objects["audit-archive/2026-10.json"]
        with pytest.raises(archives.ArchiveError, match="missing"):
            archives.check_manifest(storage, bucket=BUCKET, archive=stored)
