"""Anchors of the audit trail: a signed object for each day with the last row and its hash.

A chain alone does not show that its end was cut off, or that all of it was written again. An anchor does, because it is
outside the database.
"""

import io
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.audit.models import AuditAnchor, AuditLog
from marketplace.audit.signatures import is_signed, public_key_pem, sign_document
from marketplace.infra.db import Database
from marketplace.providers.storage import ObjectStorage

_FOLDER = "audit-anchors"
_KIND = "audit-anchor"
_MAX_BYTES = 10_000


class AnchorError(Exception):
    """The trail does not agree with an anchor. The text names the day and the row."""


def write_anchor(database: Database, storage: ObjectStorage, *, bucket: str, now: datetime) -> bool:
    """Write the anchor of the day, unless it exists or the trail is empty.

    :param bucket: the private bucket
    :return: whether an anchor was written
    :raises ProviderUnavailableError: the storage failed; the next run writes the anchor
    """
    day = now.date()
    with database.reading() as session:
        if session.get(AuditAnchor, day) is not None:
            return False
        last = session.execute(
            select(AuditLog.id, AuditLog.hash).order_by(AuditLog.id.desc()).limit(1)
        ).first()
    if last is None:
        return False
    anchor = sign_document(
        {
            "kind": _KIND,
            "day": day.isoformat(),
            "lastId": last.id,
            "lastHash": last.hash,
            "writtenAt": now.isoformat(),
        }
    )
    storage.put(
        bucket=bucket,
        key=f"{_FOLDER}/{day.isoformat()}.json",
        content=orjson.dumps(anchor),
        content_type="application/json",
    )
    with database.transaction() as session:
        session.merge(AuditAnchor(day=day, last_id=last.id, last_hash=last.hash, written_at=now))
    return True


def read_anchors(storage: ObjectStorage, *, bucket: str) -> Iterator[dict[str, Any]]:
    """Read all anchors, the earliest first.

    :raises AnchorError: an anchor was changed
    :raises ProviderUnavailableError: the storage failed
    """
    public_key = public_key_pem()
    for key in storage.list_keys(bucket=bucket, prefix=f"{_FOLDER}/"):
        content = io.BytesIO()
        storage.download(bucket=bucket, key=key, into=content, max_bytes=_MAX_BYTES)
        anchor = _parse(content.getvalue())
        if anchor is None or not is_signed(anchor, public_key=public_key):
            raise AnchorError(f"The anchor {key} was changed.")
        yield anchor


def _parse(content: bytes) -> dict[str, Any] | None:
    try:
        anchor = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    return anchor if isinstance(anchor, dict) and anchor.get("kind") == _KIND else None


def check_anchor(session: Session, anchor: dict[str, Any]) -> None:
    """Check that the trail has the row of an anchor.

    :raises AnchorError: the row is missing or has another hash
    """
    stored = session.scalar(select(AuditLog.hash).where(AuditLog.id == anchor["lastId"]))
    if stored is None:
        raise AnchorError(f"Row {anchor['lastId']} of the anchor of {anchor['day']} is missing.")
    if stored != anchor["lastHash"]:
        raise AnchorError(f"Row {anchor['lastId']} differs from the anchor of {anchor['day']}.")
