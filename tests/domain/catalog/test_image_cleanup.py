"""Clearing away pictures that nothing shows: what stays, what goes, what was broken off, and who wins a race."""

import functools
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from marketplace.catalog import vendor_products
from marketplace.catalog.media import image_cleanup, images
from marketplace.catalog.media.image_cleanup import (
    DELETED_ROW_RETENTION,
    IMAGE_USING_TABLES,
    MAX_IMAGES_PER_RUN,
    UNUSED_GRACE_PERIOD,
    ImageCleanupResult,
)
from marketplace.catalog.models import Image, Product
from marketplace.infra.db import Database
from marketplace.kernel.errors import ProviderUnavailableError, ValidationError
from marketplace.models import metadata
from tests.support.image_uploads import A_DAY_LATER, BUCKET, THEN, ImageUploads, fresh
from tests.support.market import Market, Store
from tests.support.object_storage import InMemoryStorage
from tests.support.probes import at_once


@pytest.fixture
def storage() -> InMemoryStorage:
    return InMemoryStorage()


@pytest.fixture
def database(own_database: Database) -> Database:
    """A database without images: a sweep goes over all there are."""
    with own_database.transaction() as session:
        session.execute(text("TRUNCATE images CASCADE"))
    return own_database


@pytest.fixture
def market(database: Database) -> Market:
    return Market(database, now=THEN)


@pytest.fixture
def store(market: Market) -> Store:
    return market.store()


@pytest.fixture
def shelf(database: Database, storage: InMemoryStorage) -> ImageUploads:
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


class TestWhatGoes:
    def test_a_picture_that_was_never_shown(self, shelf: ImageUploads, store: Store) -> None:
        image_id = shelf.store(store.user_id)
        keys = shelf.keys(image_id)
        assert keys <= shelf.storage.objects.keys()

        assert shelf.sweep(THEN + UNUSED_GRACE_PERIOD) == ImageCleanupResult(0, 0)
        assert shelf.status(image_id) == "ready"
        assert shelf.sweep() == ImageCleanupResult(1, 1)

        assert shelf.status(image_id) == "deleted"
        assert not keys & shelf.storage.objects.keys()
        assert shelf.sweep(A_DAY_LATER + DELETED_ROW_RETENTION) == ImageCleanupResult(0, 0)
        assert shelf.status(image_id) == "deleted"
        shelf.sweep(A_DAY_LATER + DELETED_ROW_RETENTION + timedelta(seconds=1))
        assert shelf.row(image_id) is None

    def test_removed_image_is_deleted_a_day_later(
        self, shelf: ImageUploads, market: Market, store: Store
    ) -> None:
        image_id = shelf.store(store.user_id)
        product_id = market.product(store)
        attach(market, store, product_id, [image_id], THEN)
        later = THEN + timedelta(days=30)
        assert shelf.sweep(later) == ImageCleanupResult(0, 0)

        attach(market, store, product_id, [], later)

        assert shelf.sweep(later + UNUSED_GRACE_PERIOD) == ImageCleanupResult(0, 0)
        assert shelf.sweep(later + UNUSED_GRACE_PERIOD + timedelta(seconds=1)) == ImageCleanupResult(1, 1)

    def test_an_upload_that_was_broken_off(self, shelf: ImageUploads, store: Store) -> None:
        shelf.storage.fails = True
        with pytest.raises(ProviderUnavailableError):
            shelf.begin(store.user_id, fresh())
        shelf.storage.fails = False
        stored = shelf.begin(store.user_id, fresh())
        assert shelf.status(stored) == "pending"
        assert shelf.storage.objects

        assert shelf.sweep() == ImageCleanupResult(2, 2)

        assert not shelf.storage.objects
        with pytest.raises(images.ImageUploadExpiredError):
            shelf.finish(stored)

    def test_reused_image_is_kept_for_another_day(self, shelf: ImageUploads, store: Store) -> None:
        content = fresh()
        image_id = shelf.begin(store.user_id, content)

        assert shelf.begin(store.user_id, content, now=THEN + timedelta(hours=23)) == image_id
        assert shelf.sweep() == ImageCleanupResult(0, 0)
        shelf.finish(image_id)

        assert shelf.sweep(A_DAY_LATER + timedelta(hours=23)) == ImageCleanupResult(1, 1)

    def test_what_the_seed_drew(self, shelf: ImageUploads, market: Market, store: Store) -> None:
        image_id = market.image(store.user_id)
        market.change(Image, image_id, unused_since=THEN)

        assert shelf.sweep() == ImageCleanupResult(1, 1)

        assert shelf.storage.deleted == [market.row(Image, image_id).key]


class TestWhatStays:
    def test_what_a_listing_in_any_state_shows(
        self, shelf: ImageUploads, market: Market, store: Store
    ) -> None:
        """Rows that were written past the operations do not say that they are used; the listing counts."""
        shown = [shelf.store(store.user_id) for _ in range(3)]
        for image_id, status in zip(shown, ("draft", "removed", "deleted"), strict=True):
            market.product(store, images=(image_id,), status=status)

        assert shelf.sweep() == ImageCleanupResult(0, 0)

        assert [shelf.status(image_id) for image_id in shown] == ["ready"] * 3
        # They are not looked at again.
        assert [shelf.row(image_id).unused_since for image_id in shown] == [None] * 3

    def test_every_table_that_refers_to_a_picture_keeps_it(self) -> None:
        referring = {
            table.name
            for table in metadata.tables.values()
            for key in table.foreign_keys
            if key.column.table.name == "images"
        }
        assert referring == set(IMAGE_USING_TABLES)

    def test_what_an_order_shows(self, shelf: ImageUploads, store: Store) -> None:
        image_id = shelf.store(store.user_id)
        shelf.shown_by_orders.add(shelf.row(image_id).key)

        assert shelf.sweep() == ImageCleanupResult(0, 0)
        assert shelf.status(image_id) == "ready"

    def test_what_was_uploaded_again(self, shelf: ImageUploads, store: Store) -> None:
        content = fresh()
        image_id = shelf.store(store.user_id, content)

        assert shelf.store(store.user_id, content, now=THEN + timedelta(hours=23)) == image_id

        assert shelf.sweep() == ImageCleanupResult(0, 0)
        assert shelf.sweep(A_DAY_LATER + timedelta(hours=23)) == ImageCleanupResult(1, 1)


class TestSharedObjects:
    def test_shared_objects_stay_while_an_image_uses_them(
        self, shelf: ImageUploads, market: Market, store: Store
    ) -> None:
        content = fresh()
        orphan = shelf.store(store.user_id, content)
        other = market.store()
        kept = shelf.store(other.user_id, content)
        market.product(other, images=(kept,))
        assert shelf.keys(orphan) == shelf.keys(kept)

        assert shelf.sweep() == ImageCleanupResult(1, 0)

        assert shelf.row(orphan) is None
        assert shelf.keys(kept) <= shelf.storage.objects.keys()

    def test_shared_objects_are_deleted_with_the_last_image(
        self, shelf: ImageUploads, market: Market, store: Store
    ) -> None:
        content = fresh()
        shelf.store(store.user_id, content)
        shelf.store(market.store().user_id, content)

        assert shelf.sweep() == ImageCleanupResult(2, 1)

        assert not shelf.storage.objects

    def test_objects_that_are_being_deleted_are_not_those_of_a_new_upload(
        self, shelf: ImageUploads, store: Store
    ) -> None:
        """However late somebody deletes the old ones, the new ones stay."""
        content = fresh()
        first = shelf.store(store.user_id, content)
        old_keys = shelf.keys(first)
        shelf.storage.fails = True
        shelf.sweep()
        shelf.storage.fails = False
        assert shelf.status(first) == "deleting"

        second = shelf.store(store.user_id, content, now=A_DAY_LATER)
        assert shelf.sweep() == ImageCleanupResult(0, 1)

        assert second != first
        assert not old_keys & shelf.keys(second)
        assert shelf.keys(second) <= shelf.storage.objects.keys()
        # And once more, while both old ones are remembered.
        shelf.sweep(A_DAY_LATER + UNUSED_GRACE_PERIOD + timedelta(seconds=1))
        third = shelf.store(store.user_id, content, now=A_DAY_LATER)
        assert not (old_keys | shelf.keys(second)) & shelf.keys(third)


class TestBreakingOff:
    def test_a_storage_that_is_down_delays_it(self, shelf: ImageUploads, store: Store) -> None:
        image_id = shelf.store(store.user_id)
        shelf.storage.fails = True

        assert shelf.sweep() == ImageCleanupResult(1, 0)
        assert shelf.status(image_id) == "deleting"
        assert shelf.sweep() == ImageCleanupResult(0, 0)
        shelf.storage.fails = False

        assert shelf.sweep() == ImageCleanupResult(0, 1)
        assert shelf.status(image_id) == "deleted"

    def test_a_crash_between_the_objects_and_the_row(
        self, shelf: ImageUploads, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        image_id = shelf.store(store.user_id)
        with monkeypatch.context() as patch:
            patch.setattr(image_cleanup, "_mark_deleted", crash)
            with pytest.raises(SystemExit):
                shelf.sweep()
        assert shelf.status(image_id) == "deleting"
        assert not shelf.storage.objects

        assert shelf.sweep() == ImageCleanupResult(0, 1)

    def test_a_crash_before_the_objects(
        self, shelf: ImageUploads, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        image_id = shelf.store(store.user_id)
        with monkeypatch.context() as patch:
            patch.setattr(image_cleanup, "delete_all", crash)
            with pytest.raises(SystemExit):
                shelf.sweep()
        assert shelf.status(image_id) == "deleting"
        assert shelf.storage.objects

        assert shelf.sweep() == ImageCleanupResult(0, 1)
        assert not shelf.storage.objects

    def test_a_sweep_is_bounded(
        self, shelf: ImageUploads, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert MAX_IMAGES_PER_RUN == 500
        monkeypatch.setattr(image_cleanup, "MAX_IMAGES_PER_RUN", 2)
        for _ in range(3):
            shelf.store(store.user_id)

        assert shelf.sweep() == ImageCleanupResult(2, 2)
        assert shelf.sweep() == ImageCleanupResult(1, 1)


class TestRaces:
    def test_a_listing_that_takes_the_picture_first_keeps_it(
        self, shelf: ImageUploads, market: Market, store: Store
    ) -> None:
        """The sweep has found the picture unused, and waits for the listing, which is not committed yet."""
        image_id = shelf.store(store.user_id)
        product_id = market.product(store)
        swept: list[ImageCleanupResult] = []
        sweeper = threading.Thread(target=lambda: swept.append(shelf.sweep()))
        with market.database.transaction() as session:
            vendor_products.update_product(
                session,
                caller=market.caller(store.user_id),
                product_id=product_id,
                revision=None,
                changes={},
                image_ids=[image_id],
                status=None,
                now=THEN,
            )
            sweeper.start()
            wait_for_lock(market.database)
        sweeper.join(20)

        assert swept == [ImageCleanupResult(0, 0)]
        assert shelf.status(image_id) == "ready"
        assert market.row(Product, product_id).cover_key == shelf.row(image_id).key

    def test_a_listing_that_comes_too_late_is_told(
        self, shelf: ImageUploads, market: Market, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The sweep has condemned the picture, and has not committed that yet."""
        image_id = shelf.store(store.user_id)
        product_id = market.product(store)
        refused: list[Exception] = []

        def late() -> None:
            try:
                attach(market, store, product_id, [image_id], THEN)
            except ValidationError as error:
                refused.append(error)

        listing = threading.Thread(target=late)

        def shown_elsewhere(_session: Any, _key: str) -> bool:
            listing.start()
            wait_for_lock(market.database)
            return False

        image_cleanup.delete_unused_images(
            shelf.database, shelf.storage, bucket=BUCKET, is_used_elsewhere=shown_elsewhere, now=A_DAY_LATER
        )
        listing.join(20)

        assert len(refused) == 1
        assert shelf.status(image_id) == "deleted"
        assert market.row(Product, product_id).cover_key is None

    def test_many_uploads_of_one_picture_and_sweeps_at_once(
        self, shelf: ImageUploads, market: Market, store: Store
    ) -> None:
        content = fresh()
        owners = [store.user_id, store.user_id, market.store().user_id, market.store().user_id]

        def upload(owner_id: UUID) -> UUID | None:
            try:
                return shelf.store(owner_id, content)
            except images.ImageUploadExpiredError:
                return None  # a sweep of a day later came between its two phases

        calls: list[Callable[[], Any]] = [
            *(functools.partial(upload, owner_id) for owner_id in owners),
            shelf.sweep,
            shelf.sweep,
        ]
        results = at_once(calls)

        for image_id in {found for found in results if isinstance(found, UUID)}:
            if shelf.status(image_id) == "ready":
                assert shelf.keys(image_id) <= shelf.storage.objects.keys()
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
    """Wait, with a bound, until somebody waits for a lock in this database."""
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    for _ in range(1000):
        with database.reading() as session:
            if session.execute(waiting).scalar_one():
                return
        threading.Event().wait(0.01)
    raise AssertionError("nobody waits for a lock")
