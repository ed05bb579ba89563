"""Archives of the audit trail: a compressed file and a signed manifest for each finished month.

A line of the file is the JSON that the hash of a row covers, so an archive is verified without the database. The
SHA-256 of each line is the ``previous_hash`` of the next line. Sealed values stay sealed.
"""

import gzip
import hashlib
import io
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import IO, Any

import orjson
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from marketplace.audit.chain import START, BrokenChainError, ChainRow, Link, read_rows
from marketplace.audit.models import AuditArchive, AuditLog
from marketplace.audit.months import following, start_of
from marketplace.audit.signatures import is_signed, public_key_pem, sign_document
from marketplace.infra.db import Database, allow_long_statements
from marketplace.providers.storage import ObjectStorage

_FOLDER = "audit-archive"
_KIND = "audit-archive"
_STATEMENT_SECONDS = 600
_MAX_BYTES = 1_000_000
_PART_BYTES = 1_000_000
_MAX_FILE_BYTES = 10_000_000_000


class ArchiveError(Exception):
    """An archive was changed, or an archive before it is missing."""


@dataclass(frozen=True)
class _Content:
    rows: int
    last: Link
    sha256: str


def archive_months(database: Database, storage: ObjectStorage, *, bucket: str, now: datetime) -> int:
    """Archive all finished months that are not archived yet, the earliest first.

    :param bucket: the private bucket
    :return: the number of archived months
    :raises BrokenChainError: a row was changed or is missing; nothing is archived from there on
    :raises ProviderUnavailableError: the storage failed; the next run goes on
    """
    archived = 0
    while (month := database.in_transaction(_next_month, now=now)) is not None:
        _archive_month(database, storage, bucket=bucket, month=month, now=now)
        archived += 1
    return archived


def last_archived(session: Session) -> Link:
    """Return the position of the last archived row."""
    last = session.scalar(select(AuditArchive).order_by(AuditArchive.month.desc()).limit(1))
    return START if last is None else Link(last.last_id, last.last_hash)


def last_dropped(session: Session) -> AuditArchive | None:
    """Return the last archive whose rows were dropped from the database, if any."""
    return session.scalar(
        select(AuditArchive)
        .where(AuditArchive.dropped_at.is_not(None))
        .order_by(AuditArchive.month.desc())
        .limit(1)
    )


def _next_month(session: Session, *, now: datetime) -> date | None:
    last = session.scalar(select(func.max(AuditArchive.month)))
    if last is not None:
        month = following(last)
    else:
        first = session.scalar(select(AuditLog.at).order_by(AuditLog.id).limit(1))
        if first is None:
            return None
        month = first.astimezone(UTC).date().replace(day=1)
    return month if start_of(following(month)) <= now else None


def _archive_month(
    database: Database, storage: ObjectStorage, *, bucket: str, month: date, now: datetime
) -> None:
    with tempfile.TemporaryFile() as file:
        with database.transaction() as session:
            allow_long_statements(session, seconds=_STATEMENT_SECONDS)
            start = last_archived(session)
            # A request that began before midnight may have written its row after a row of the next month.
            up_to_id = session.scalar(
                select(func.max(AuditLog.id)).where(AuditLog.at < start_of(following(month)))
            )
            rows = read_rows(session, after_id=start.last_id, up_to_id=max(up_to_id or 0, start.last_id))
            content = _write_rows(file, rows, start)
        manifest = sign_document(
            {
                "kind": _KIND,
                "month": f"{month:%Y-%m}",
                "afterId": start.last_id,
                "lastId": content.last.last_id,
                "previousHash": start.last_hash,
                "lastHash": content.last.last_hash,
                "rows": content.rows,
                "sha256": content.sha256,
            }
        )
        file.seek(0)
        storage.put(
            bucket=bucket,
            key=f"{_FOLDER}/{month:%Y-%m}.jsonl.gz",
            content=file,
            content_type="application/gzip",
        )
        storage.put(
            bucket=bucket,
            key=f"{_FOLDER}/{month:%Y-%m}.json",
            content=orjson.dumps(manifest),
            content_type="application/json",
        )
    with database.transaction() as session:
        session.merge(
            AuditArchive(
                month=month,
                last_id=content.last.last_id,
                last_hash=content.last.last_hash,
                row_count=content.rows,
                sha256=content.sha256,
                archived_at=now,
            )
        )


def _write_rows(file: IO[bytes], rows: Iterable[ChainRow], start: Link) -> _Content:
    """Write the rows as lines, and verify the chain."""
    count, last = 0, start
    # Without a time in its header, the same rows make the same file.
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as lines:
        for row in rows:
            if row.previous_hash != last.last_hash or hashlib.sha256(row.content).hexdigest() != row.hash:
                raise BrokenChainError(row.id)
            lines.write(row.content + b"\n")
            count, last = count + 1, Link(row.id, row.hash)
    return _Content(count, last, _hash_file(file))


def _hash_file(file: IO[bytes]) -> str:
    file.seek(0)
    digest = hashlib.sha256()
    while part := file.read(_PART_BYTES):
        digest.update(part)
    return digest.hexdigest()


def check_stored_file(storage: ObjectStorage, *, bucket: str, month: date, sha256: str) -> None:
    """Check that the storage has the file of a month unchanged.

    :param sha256: of the file, in hex
    :raises ArchiveError: the file was changed or is missing
    :raises ProviderUnavailableError: the storage failed
    """
    key = f"{_FOLDER}/{month:%Y-%m}.jsonl.gz"
    with tempfile.TemporaryFile() as file:
        if not storage.download(bucket=bucket, key=key, into=file, max_bytes=_MAX_FILE_BYTES):
            raise ArchiveError(f"{key} is missing in the storage.")
        if _hash_file(file) != sha256:
            raise ArchiveError(f"{key} was changed in the storage.")


def check_manifest(storage: ObjectStorage, *, bucket: str, archive: AuditArchive) -> None:
    """Check that the signed manifest in the storage ends at the last row of an archive.

    :raises ArchiveError: the manifest was changed, or has another last row
    :raises ProviderUnavailableError: the storage failed
    """
    key = f"{_FOLDER}/{archive.month:%Y-%m}.json"
    content = io.BytesIO()
    if not storage.download(bucket=bucket, key=key, into=content, max_bytes=_MAX_BYTES):
        raise ArchiveError(f"{key} is missing in the storage.")
    manifest = _parse_manifest(content.getvalue(), name=key, public_key=public_key_pem())
    if (manifest["lastId"], manifest["lastHash"]) != (archive.last_id, archive.last_hash):
        raise ArchiveError(f"{key} ends at another row than the database says.")


def verify_archives(folder: Path, *, public_key: str) -> tuple[int, int]:
    """Verify downloaded archives, without the database and the network.

    :param folder: has the files of the storage's folder ``audit-archive``
    :param public_key: in PEM format
    :return: the number of months and of rows
    :raises ArchiveError: a file was changed or is missing
    """
    months = rows = 0
    previous_hash: str | None = None
    for path in sorted(folder.glob("*.json")):
        manifest = _read_manifest(path, public_key)
        if previous_hash is None:
            previous_hash = manifest["previousHash"]
        if manifest["previousHash"] != previous_hash:
            raise ArchiveError(f"A month before {manifest['month']} is missing.")
        previous_hash = _verify_file(path.with_suffix(".jsonl.gz"), manifest)
        months, rows = months + 1, rows + manifest["rows"]
    return months, rows


def _read_manifest(path: Path, public_key: str) -> Mapping[str, Any]:
    return _parse_manifest(path.read_bytes()[:_MAX_BYTES], name=path.name, public_key=public_key)


def _parse_manifest(content: bytes, *, name: str, public_key: str) -> Mapping[str, Any]:
    try:
        manifest = orjson.loads(content)
    except orjson.JSONDecodeError:
        manifest = None
    if not isinstance(manifest, dict) or manifest.get("kind") != _KIND:
        raise ArchiveError(f"{name} is not a manifest of an archive.")
    if not is_signed(manifest, public_key=public_key):
        raise ArchiveError(f"{name} was changed, or belongs to another key.")
    return manifest


def _verify_file(path: Path, manifest: Mapping[str, Any]) -> str:
    """Verify the rows of a month, and return the hash of the last row."""
    if not path.is_file():
        raise ArchiveError(f"{path.name} is missing.")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != manifest["sha256"]:
        raise ArchiveError(f"{path.name} was changed.")
    count, last_hash = 0, str(manifest["previousHash"])
    with gzip.open(io.BytesIO(content)) as lines:
        for line in lines:
            row = orjson.loads(line)
            if row["previous_hash"] != last_hash:
                raise ArchiveError(f"{path.name} is broken at line {count + 1}.")
            last_hash = hashlib.sha256(line.removesuffix(b"\n")).hexdigest()
            count += 1
    if (count, last_hash) != (manifest["rows"], manifest["lastHash"]):
        raise ArchiveError(f"{path.name} has not the rows of its manifest.")
    return last_hash
