"""Image uploads for tests: storing, finding and sweeping of images."""

import hashlib
import tempfile
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from marketplace.infra.db import Database
from marketplace.media import image_cleanup, images
from marketplace.media.image_cleanup import UNUSED_GRACE_PERIOD, ImageCleanupResult
from marketplace.media.models import Image
from tests.support.object_storage import InMemoryStorage
from tests.support.sample_images import photo

# The time precedes all rows of other tests, so that a sweep as of this time finds only rows of this test.
UPLOAD_TIME = datetime(2002, 2, 2, tzinfo=UTC)
A_DAY_LATER = UPLOAD_TIME + UNUSED_GRACE_PERIOD + timedelta(seconds=1)
BUCKET = "marketplace-public"
MEDIA = "http://media"


class ImageUploads:
    """A client of image uploads: begins, finishes, stores and sweeps images."""

    def __init__(self, database: Database, storage: InMemoryStorage) -> None:
        self.database = database
        self.storage = storage
        self.shown_by_orders: set[str] = set()

    def begin(self, owner_id: UUID, content: bytes, *, now: datetime = UPLOAD_TIME) -> UUID:
        with tempfile.TemporaryFile() as file:
            file.write(content)
            return images.upload_image(
                self.database,
                self.storage,
                bucket=BUCKET,
                owner_id=owner_id,
                file=file,
                sha256=hashlib.sha256(content).hexdigest(),
                now=now,
            )

    def finish(self, image_id: UUID) -> dict[str, Any]:
        return self.database.in_transaction(images.complete_upload, image_id=image_id, media_base_url=MEDIA)

    def store(self, owner_id: UUID, content: bytes | None = None, *, now: datetime = UPLOAD_TIME) -> UUID:
        image_id = self.begin(owner_id, content or new_photo(), now=now)
        self.finish(image_id)
        return image_id

    def sweep(self, now: datetime = A_DAY_LATER) -> ImageCleanupResult:
        return image_cleanup.delete_unused_images(
            self.database,
            self.storage,
            bucket=BUCKET,
            is_used_elsewhere=lambda _session, _image_id, key: key in self.shown_by_orders,
            now=now,
        )

    def row(self, image_id: UUID) -> Any:
        with self.database.transaction() as session:
            return session.get(Image, image_id)

    def status(self, image_id: UUID) -> str | None:
        row = self.row(image_id)
        return row.status if row else None

    def keys(self, image_id: UUID) -> set[str]:
        return {one["key"] for one in self.row(image_id).renditions}


def new_photo() -> bytes:
    """Return a new JPEG that is not stored yet."""
    return photo(40, 30, comment=uuid4().hex)
