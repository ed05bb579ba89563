"""Cleanup of images that nothing shows.

Each step is committed before the next, so that the next sweep resumes an interrupted cleanup:

1. An unused row is marked ``deleting`` under its row lock. From then on no listing can use the image.
2. The stored objects are deleted. If another row shares the objects, only the row is deleted.
3. The row stays as ``deleted`` for a week and keeps its keys reserved. A late deletion of these keys is harmless.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import structlog
from sqlalchemy import func, select, text, true, update
from sqlalchemy.orm import Session

from marketplace.infra.batches import process_each
from marketplace.infra.db import Database
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.media.images import LOCK_IMAGE_CONTENT
from marketplace.media.models import Image
from marketplace.providers.storage import ObjectStorage, delete_all

_log = structlog.get_logger(__name__)

UNUSED_GRACE_PERIOD = timedelta(hours=24)
DELETED_ROW_RETENTION = timedelta(days=7)
MAX_IMAGES_PER_RUN = 500
IMAGE_USES = (
    ("product_images", "image_id"),
    ("banners", "image_id"),
    ("vibes", "image_id"),
    ("profiles", "avatar_image_id"),
    ("review_images", "image_id"),
    ("message_images", "image_id"),
)
"""The tables and columns that keep an image in use."""

ImageUsageCheck = Callable[[Session, UUID, str], bool]

_IS_USED_SQL = " OR ".join(
    f"EXISTS (SELECT FROM {table} u WHERE u.{column} = i.id)" for table, column in IMAGE_USES
)


@dataclass(frozen=True)
class ImageCleanupResult:
    """Counts of a cleanup run: images marked for deletion, and images with deleted objects."""

    marked: int
    deleted: int


_PURGE_DELETED_ROWS = Statement(
    text(f"DELETE FROM images i WHERE status = 'deleted' AND unused_since < :before AND NOT ({_IS_USED_SQL})")
)


def delete_unused_images(
    database: Database,
    storage: ObjectStorage,
    *,
    bucket: str,
    is_used_elsewhere: ImageUsageCheck,
    now: datetime,
) -> ImageCleanupResult:
    """Delete images that have been unused for a day, including interrupted uploads.

    Images that cannot be deleted now are left to the next sweep.

    :param bucket: the public bucket
    :param is_used_elsewhere: returns whether another area still shows an image, by its id and object key
    """
    unused_before = now - UNUSED_GRACE_PERIOD
    with database.reading() as session:
        candidates = session.execute(
            select(Image.id, func.coalesce(Image.content_hash, Image.key).label("content"))
            .where(Image.unused_since < unused_before, Image.status.in_(("pending", "ready")))
            .order_by(Image.unused_since)
            .limit(MAX_IMAGES_PER_RUN)
        ).all()
    content_of = {row.id: row.content for row in candidates}
    marked = sum(
        process_each(
            content_of,
            lambda image_id: database.in_transaction(
                _mark_for_deletion,
                image_id=image_id,
                content=content_of[image_id],
                unused_before=unused_before,
                is_used_elsewhere=is_used_elsewhere,
            ),
            failure="image not marked for deletion",
        )
    )
    deleted = _delete_marked_images(database, storage, bucket=bucket, now=now)
    database.in_transaction(_PURGE_DELETED_ROWS.run, before=now - DELETED_ROW_RETENTION)
    return ImageCleanupResult(marked, deleted)


# A separate statement after the lock sees rows that were committed during the wait for the lock.
_SELECT_IMAGE_USAGE = Statement(
    text(
        f"""
        SELECT ({_IS_USED_SQL}) AS used, EXISTS (
                SELECT FROM images o WHERE o.key = i.key AND o.id <> i.id AND o.status IN ('pending', 'ready')
            ) AS shared
        FROM images i WHERE i.id = :image_id
        """
    )
)


def _mark_for_deletion(
    session: Session,
    *,
    image_id: UUID,
    content: str,
    unused_before: datetime | None,
    is_used_elsewhere: ImageUsageCheck,
) -> bool:
    """Mark an unused image for deletion; delete the row at once if another image shares its objects.

    :param unused_before: the latest time since when the image is unused; none for any time
    """
    LOCK_IMAGE_CONTENT.run(session, content=content)
    # FOR UPDATE conflicts with the lock of a listing that takes the image, and with foreign key checks.
    image = session.scalar(
        select(Image)
        .where(
            Image.id == image_id,
            true() if unused_before is None else Image.unused_since < unused_before,
            Image.status.in_(("pending", "ready")),
        )
        .with_for_update(),
        execution_options={"populate_existing": True},
    )
    if image is None:
        return False
    [(is_used, is_shared)] = _SELECT_IMAGE_USAGE.tuples(session, image_id=image_id)
    if is_used or is_used_elsewhere(session, image.id, image.key):
        image.unused_since = None
        return False
    if is_shared:
        session.delete(image)
    else:
        image.status = "deleting"
    return True


def erase_images(
    database: Database, storage: ObjectStorage, *, bucket: str, owner_id: UUID, now: datetime
) -> int:
    """Delete all images of a person, with their objects, also pictures of listings that orders show.

    Images that staff use for promotions stay without the owner. A repeated call resumes an interrupted run.

    :param bucket: the public bucket
    :return: the number of images whose objects are deleted
    :raises ProviderUnavailableError: the storage failed; some images are left
    """
    erased = 0
    while True:
        with database.reading() as session:
            images = session.execute(
                select(Image.id, func.coalesce(Image.content_hash, Image.key), Image.status)
                .where(Image.owner_id == owner_id)
                .limit(MAX_IMAGES_PER_RUN)
            ).all()
        if not images:
            return erased
        for image_id, content, status in images:
            if status in ("pending", "ready"):
                database.in_transaction(
                    _mark_for_deletion,
                    image_id=image_id,
                    content=content,
                    unused_before=None,
                    is_used_elsewhere=lambda *_: False,
                )
            erased += _erase_image(database, storage, bucket=bucket, image_id=image_id, now=now)


def _erase_image(
    database: Database, storage: ObjectStorage, *, bucket: str, image_id: UUID, now: datetime
) -> bool:
    with database.reading() as session:
        image = session.get(Image, image_id)
    if image is None:
        return False
    is_condemned = image.status == "deleting"
    if is_condemned:
        keys = {image.key, *(rendition["key"] for rendition in image.renditions)}
        delete_all(storage, bucket=bucket, keys=sorted(keys))
    with database.transaction() as session:
        if is_condemned:
            _mark_deleted(session, image_id=image_id, now=now)
        session.execute(update(Image).where(Image.id == image_id).values(owner_id=None))
    return is_condemned


def _delete_marked_images(database: Database, storage: ObjectStorage, *, bucket: str, now: datetime) -> int:
    with database.reading() as session:
        marked = session.scalars(
            select(Image)
            .where(Image.status == "deleting")
            .order_by(Image.unused_since)
            .limit(MAX_IMAGES_PER_RUN)
        ).all()
    deleted = 0
    for image in marked:
        keys = {image.key, *(rendition["key"] for rendition in image.renditions)}
        try:
            delete_all(storage, bucket=bucket, keys=sorted(keys))
        except ProviderUnavailableError:
            _log.warning("pictures not deleted", left=len(marked) - deleted)
            break
        deleted += database.in_transaction(_mark_deleted, image_id=image.id, now=now)
    return deleted


def _mark_deleted(session: Session, *, image_id: UUID, now: datetime) -> bool:
    condemned = update(Image).where(Image.id == image_id, Image.status == "deleting")
    deleted = condemned.values(status="deleted", unused_since=now).returning(Image.id)
    return session.scalar(deleted) is not None
