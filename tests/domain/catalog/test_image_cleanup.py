"""Cleanup of unused images: deletion, retention, crash recovery and races."""

import functools
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from marketplace.catalog import vendor_products
from marketplace.catalog.models import Product
from marketplace.infra.db import Database
from marketplace.kernel.errors import ProviderUnavailableError, ValidationError
from marketplace.media import image_cleanup, images
from marketplace.media.image_cleanup import (
    DELETED_ROW_RETENTION,
    IMAGE_USES,
    MAX_IMAGES_PER_RUN,
    UNUSED_GRACE_PERIOD,
    ImageCleanupResult,
)
from marketplace.media.models import Image
from marketplace.models import metadata
from tests.support.image_uploads import A_DAY_LATER, BUCKET, UPLOAD_TIME, ImageUploads, new_photo
from tests.support.market import Market, Store
from tests.support.object_storage import InMemoryStorage
from tests.support.probes import at_once


@pytest.fixture
def storage() -> InMemoryStorage:
    return InMemoryStorage()


@pytest.fixture
def database(own_database: Database) -> Database:
    """A database without images, because a cleanup run covers all images."""
    with own_database.transaction() as session:
        session.execute(text("UPDATE profiles SET avatar_image_id = NULL, avatar_key = NULL"))
        session.execute(text("TRUNCATE product_images, banners, vibe_products, vibes"))
        session.execute(text("DELETE FROM images"))
    return own_database


@pytest.fixture
def market(database: Database) -> Market:
    return Market(database, now=UPLOAD_TIME)


@pytest.fixture
def store(market: Market) -> Store:
    return market.store()


@pytest.fixture
def uploads(database: Database, storage: InMemoryStorage) -> ImageUploads:
    return ImageUploads(database, storage)


def attach(market: Market, store: Store, product_id: UUID, image_ids: list[UUID], now: datetime) -> None:
    market.database.in_transaction(
        vendor_products.update_product,
        caller=market.caller(store.user_id),
        product_id=product_id,
        revision=None,
        changes={},
        image_ids=image_ids,
        status=None,
        now=now,
    )


class TestDeletedImages:
    def test_unused_image_is_deleted_after_the_grace_period(
        self, uploads: ImageUploads, store: Store
    ) -> None:
        image_id = uploads.store(store.user_id)
        keys = uploads.keys(image_id)
        assert keys <= uploads.storage.objects.keys()

        assert uploads.sweep(UPLOAD_TIME + UNUSED_GRACE_PERIOD) == ImageCleanupResult(0, 0)
        assert uploads.status(image_id) == "ready"
        assert uploads.sweep() == ImageCleanupResult(1, 1)

        assert uploads.status(image_id) == "deleted"
        assert not keys & uploads.storage.objects.keys()
        assert uploads.sweep(A_DAY_LATER + DELETED_ROW_RETENTION) == ImageCleanupResult(0, 0)
        assert uploads.status(image_id) == "deleted"
        uploads.sweep(A_DAY_LATER + DELETED_ROW_RETENTION + timedelta(seconds=1))
        assert uploads.row(image_id) is None

    def test_removed_image_is_deleted_a_day_later(
        self, uploads: ImageUploads, market: Market, store: Store
    ) -> None:
        image_id = uploads.store(store.user_id)
        product_id = market.product(store)
        attach(market, store, product_id, [image_id], UPLOAD_TIME)
        later = UPLOAD_TIME + timedelta(days=30)
        assert uploads.sweep(later) == ImageCleanupResult(0, 0)

        attach(market, store, product_id, [], later)

        assert uploads.sweep(later + UNUSED_GRACE_PERIOD) == ImageCleanupResult(0, 0)
        assert uploads.sweep(later + UNUSED_GRACE_PERIOD + timedelta(seconds=1)) == ImageCleanupResult(1, 1)

    def test_unfinished_upload_is_deleted(self, uploads: ImageUploads, store: Store) -> None:
        uploads.storage.fails = True
        with pytest.raises(ProviderUnavailableError):
            uploads.begin(store.user_id, new_photo())
        uploads.storage.fails = False
        stored = uploads.begin(store.user_id, new_photo())
        assert uploads.status(stored) == "pending"
        assert uploads.storage.objects

        assert uploads.sweep() == ImageCleanupResult(2, 2)

        assert not uploads.storage.objects
        with pytest.raises(images.ImageUploadExpiredError):
            uploads.finish(stored)

    def test_reused_image_is_kept_for_another_day(self, uploads: ImageUploads, store: Store) -> None:
        content = new_photo()
        image_id = uploads.begin(store.user_id, content)

        assert uploads.begin(store.user_id, content, now=UPLOAD_TIME + timedelta(hours=23)) == image_id
        assert uploads.sweep() == ImageCleanupResult(0, 0)
        uploads.finish(image_id)

        assert uploads.sweep(A_DAY_LATER + timedelta(hours=23)) == ImageCleanupResult(1, 1)

    def test_unused_seeded_image_is_deleted(
        self, uploads: ImageUploads, market: Market, store: Store
    ) -> None:
        image_id = market.image(store.user_id)
        market.change(Image, image_id, unused_since=UPLOAD_TIME)

        assert uploads.sweep() == ImageCleanupResult(1, 1)

        assert uploads.storage.deleted == [market.row(Image, image_id).key]


class TestRetainedImages:
    def test_image_of_product_in_any_state_stays(
        self, uploads: ImageUploads, market: Market, store: Store
    ) -> None:
        """Direct writes do not mark images as used, but the product's reference counts."""
        shown = [uploads.store(store.user_id) for _ in range(3)]
        for image_id, status in zip(shown, ("draft", "removed", "deleted"), strict=True):
            market.product(store, images=(image_id,), status=status)

        assert uploads.sweep() == ImageCleanupResult(0, 0)

        assert [uploads.status(image_id) for image_id in shown] == ["ready"] * 3
        # Used images are no longer candidates for cleanup.
        assert [uploads.row(image_id).unused_since for image_id in shown] == [None] * 3

    def test_all_tables_with_image_references_are_checked(self) -> None:
        referring = {
            (table.name, column.name)
            for table in metadata.tables.values()
            for column in table.columns
            for key in column.foreign_keys
            if key.column.table.name == "images"
        }
        assert referring == set(IMAGE_USES)

    def test_image_shown_by_an_order_stays(self, uploads: ImageUploads, store: Store) -> None:
        image_id = uploads.store(store.user_id)
        uploads.shown_by_orders.add(uploads.row(image_id).key)

        assert uploads.sweep() == ImageCleanupResult(0, 0)
        assert uploads.status(image_id) == "ready"

    def test_image_uploaded_again_stays_for_another_day(self, uploads: ImageUploads, store: Store) -> None:
        content = new_photo()
        image_id = uploads.store(store.user_id, content)

        assert uploads.store(store.user_id, content, now=UPLOAD_TIME + timedelta(hours=23)) == image_id

        assert uploads.sweep() == ImageCleanupResult(0, 0)
        assert uploads.sweep(A_DAY_LATER + timedelta(hours=23)) == ImageCleanupResult(1, 1)


class TestSharedObjects:
    def test_shared_objects_stay_while_another_image_exists(
        self, uploads: ImageUploads, market: Market, store: Store
    ) -> None:
        content = new_photo()
        orphan = uploads.store(store.user_id, content)
        other = market.store()
        kept = uploads.store(other.user_id, content)
        market.product(other, images=(kept,))
        assert uploads.keys(orphan) == uploads.keys(kept)

        assert uploads.sweep() == ImageCleanupResult(1, 0)

        assert uploads.row(orphan) is None
        assert uploads.keys(kept) <= uploads.storage.objects.keys()

    def test_shared_objects_are_deleted_with_the_last_image(
        self, uploads: ImageUploads, market: Market, store: Store
    ) -> None:
        content = new_photo()
        uploads.store(store.user_id, content)
        uploads.store(market.store().user_id, content)

        assert uploads.sweep() == ImageCleanupResult(2, 1)

        assert not uploads.storage.objects

    def test_new_upload_does_not_reuse_objects_being_deleted(
        self, uploads: ImageUploads, store: Store
    ) -> None:
        """A late deletion of old objects must not remove the objects of a new upload."""
        content = new_photo()
        first = uploads.store(store.user_id, content)
        old_keys = uploads.keys(first)
        uploads.storage.fails = True
        uploads.sweep()
        uploads.storage.fails = False
        assert uploads.status(first) == "deleting"

        second = uploads.store(store.user_id, content, now=A_DAY_LATER)
        assert uploads.sweep() == ImageCleanupResult(0, 1)

        assert second != first
        assert not old_keys & uploads.keys(second)
        assert uploads.keys(second) <= uploads.storage.objects.keys()
        # Repeat while both deleted images still have rows.
        uploads.sweep(A_DAY_LATER + UNUSED_GRACE_PERIOD + timedelta(seconds=1))
        third = uploads.store(store.user_id, content, now=A_DAY_LATER)
        assert not (old_keys | uploads.keys(second)) & uploads.keys(third)


class TestInterruptedCleanup:
    def test_storage_outage_delays_the_deletion(self, uploads: ImageUploads, store: Store) -> None:
        image_id = uploads.store(store.user_id)
        uploads.storage.fails = True

        assert uploads.sweep() == ImageCleanupResult(1, 0)
        assert uploads.status(image_id) == "deleting"
        assert uploads.sweep() == ImageCleanupResult(0, 0)
        uploads.storage.fails = False

        assert uploads.sweep() == ImageCleanupResult(0, 1)
        assert uploads.status(image_id) == "deleted"

    def test_cleanup_resumes_after_crash_between_objects_and_row(
        self, uploads: ImageUploads, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        image_id = uploads.store(store.user_id)
        with monkeypatch.context() as patch:
            patch.setattr(image_cleanup, "_mark_deleted", crash)
            with pytest.raises(SystemExit):
                uploads.sweep()
        assert uploads.status(image_id) == "deleting"
        assert not uploads.storage.objects

        assert uploads.sweep() == ImageCleanupResult(0, 1)

    def test_cleanup_resumes_after_crash_before_objects(
        self, uploads: ImageUploads, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        image_id = uploads.store(store.user_id)
        with monkeypatch.context() as patch:
            patch.setattr(image_cleanup, "delete_all", crash)
            with pytest.raises(SystemExit):
                uploads.sweep()
        assert uploads.status(image_id) == "deleting"
        assert uploads.storage.objects

        assert uploads.sweep() == ImageCleanupResult(0, 1)
        assert not uploads.storage.objects

    def test_cleanup_run_is_bounded(
        self, uploads: ImageUploads, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert MAX_IMAGES_PER_RUN == 500
        monkeypatch.setattr(image_cleanup, "MAX_IMAGES_PER_RUN", 2)
        for _ in range(3):
            uploads.store(store.user_id)

        assert uploads.sweep() == ImageCleanupResult(2, 2)
        assert uploads.sweep() == ImageCleanupResult(1, 1)


class TestRaces:
    def test_product_that_attaches_image_first_keeps_the_image(
        self, uploads: ImageUploads, market: Market, store: Store
    ) -> None:
        """The cleanup has found the image unused and waits for the uncommitted product update."""
        image_id = uploads.store(store.user_id)
        product_id = market.product(store)
        swept: list[ImageCleanupResult] = []
        sweeper = threading.Thread(target=lambda: swept.append(uploads.sweep()))
        with market.database.transaction() as session:
            vendor_products.update_product(
                session,
                caller=market.caller(store.user_id),
                product_id=product_id,
                revision=None,
                changes={},
                image_ids=[image_id],
                status=None,
                now=UPLOAD_TIME,
            )
            sweeper.start()
            wait_for_lock(market.database)
        sweeper.join(20)

        assert swept == [ImageCleanupResult(0, 0)]
        assert uploads.status(image_id) == "ready"
        assert market.row(Product, product_id).cover_key == uploads.row(image_id).key

    def test_attaching_an_image_marked_for_deletion_is_refused(
        self, uploads: ImageUploads, market: Market, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The cleanup has marked the image for deletion but has not committed."""
        image_id = uploads.store(store.user_id)
        product_id = market.product(store)
        refused: list[Exception] = []

        def late() -> None:
            try:
                attach(market, store, product_id, [image_id], UPLOAD_TIME)
            except ValidationError as error:
                refused.append(error)

        listing = threading.Thread(target=late)

        def shown_elsewhere(_session: Any, _image_id: Any, _key: str) -> bool:
            listing.start()
            wait_for_lock(market.database)
            return False

        image_cleanup.delete_unused_images(
            uploads.database,
            uploads.storage,
            bucket=BUCKET,
            is_used_elsewhere=shown_elsewhere,
            now=A_DAY_LATER,
        )
        listing.join(20)

        assert len(refused) == 1
        assert uploads.status(image_id) == "deleted"
        assert market.row(Product, product_id).cover_key is None

    def test_concurrent_uploads_and_cleanups_of_same_image_stay_consistent(
        self, uploads: ImageUploads, market: Market, store: Store
    ) -> None:
        content = new_photo()
        owners = [store.user_id, store.user_id, market.store().user_id, market.store().user_id]

        def upload(owner_id: UUID) -> UUID | None:
            try:
                return uploads.store(owner_id, content)
            except images.ImageUploadExpiredError:
                return None  # a cleanup ran between the two phases of the upload

        calls: list[Callable[[], Any]] = [
            *(functools.partial(upload, owner_id) for owner_id in owners),
            uploads.sweep,
            uploads.sweep,
        ]
        results = at_once(calls)

        for image_id in {found for found in results if isinstance(found, UUID)}:
            if uploads.status(image_id) == "ready":
                assert uploads.keys(image_id) <= uploads.storage.objects.keys()
        with market.database.reading() as session:
            live = session.execute(
                text(
                    "SELECT owner_id, count(*) FROM images WHERE status IN ('pending', 'ready')"
                    " AND owner_id = ANY(:owners) GROUP BY 1 HAVING count(*) > 1"
                ),
                {"owners": owners},
            ).all()
        assert live == []


def crash(*_arguments: Any, **_more: Any) -> None:
    raise SystemExit(1)


def wait_for_lock(database: Database) -> None:
    """Wait until a session of this database waits for a lock, for at most about ten seconds."""
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    for _ in range(1000):
        with database.reading() as session:
            if session.execute(waiting).scalar_one():
                return
        threading.Event().wait(0.01)
    raise AssertionError("no session waits for a lock")
