"""Automated review by workers: provider calls over HTTP, delays, duplicates and interruptions."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import requests
from sqlalchemy import select

from marketplace.catalog import texts, vendor_products
from marketplace.catalog.models import Product
from marketplace.infra import outbox
from marketplace.infra.db import Database
from marketplace.kernel import queues
from marketplace.providers.moderation import HttpContentModerator, ModerationResult
from marketplace.services import Services
from tasks.dispatcher import Dispatcher
from tests.support.audit_and_notifications import notifications_of
from tests.support.gateway import TIMEOUT_SECONDS, MovableClock, TestGateway
from tests.support.market import Market, Store
from tests.support.purchases import NOW, row_of
from tests.support.threads import at_once

FIELDS = {
    "title": "Reading lamp",
    "description": "Hardly used.",
    "price_minor": 50_000,
    "condition": "good",
    "quantity": 3,
    "tags": ["lamp", "desk"],
}


class Ai:
    """The controls of the sandbox's AI provider."""

    def __init__(self, url: str) -> None:
        self.url = url

    def next(self, outcome: str, **more: Any) -> None:
        body = {"outcome": outcome, **more}
        answer = requests.post(f"{self.url}/sandbox/next", json=body, timeout=TIMEOUT_SECONDS)
        assert answer.status_code == 200, answer.text

    def forget(self) -> None:
        requests.delete(f"{self.url}/sandbox/next", timeout=TIMEOUT_SECONDS)

    def texts(self) -> list[str]:
        answer = requests.get(f"{self.url}/sandbox/calls", timeout=TIMEOUT_SECONDS)
        texts: list[str] = answer.json()["data"]["texts"]
        return texts


@pytest.fixture
def ai(gateway_server: TestGateway) -> Iterator[Ai]:
    made = Ai(gateway_server.server.ai_url)
    made.forget()
    yield made
    made.forget()


@pytest.fixture
def services(paying_services: Services, ai: Ai) -> Services:
    settings = replace(paying_services.settings, ai_url=ai.url)
    return replace(paying_services, settings=settings, moderator=HttpContentModerator(settings))


@pytest.fixture
def worker(services: Services) -> Dispatcher:
    return Dispatcher(services)


@pytest.fixture
def market(database: Database) -> Market:
    return Market(database, now=NOW)


@pytest.fixture
def store(market: Market) -> Store:
    return market.store()


@pytest.fixture
def make(market: Market, store: Store, database: Database) -> Callable[..., UUID]:
    """A function that creates a listing as its vendor does."""

    def make(**fields: Any) -> UUID:
        return database.in_transaction(
            vendor_products.create_product,
            caller=market.caller(store.user_id),
            vendor_id=None,
            fields=FIELDS | {"category_id": market.category_id} | fields,
            image_ids=[],
            status="published",
            now=NOW,
        )

    return make


def events_of(database: Database, product_id: UUID) -> list[UUID]:
    """List the ids of a listing's events in order."""
    with database.reading() as session:
        due = outbox.list_due_events(
            session, queue=queues.AI_MODERATION, now=NOW + timedelta(days=9), limit=10_000
        )
        rows = [row_of(session, "outbox_events", id=event_id) for event_id in due]
    return [row["id"] for row in rows if row["payload"]["productId"] == str(product_id)]


def event(database: Database, event_id: UUID) -> dict[str, Any]:
    with database.reading() as session:
        return row_of(session, "outbox_events", id=event_id)


def run(worker: Dispatcher, event_id: UUID) -> None:
    worker.run_row(queues.AI_MODERATION, "outbox", str(event_id))


def edit(database: Database, market: Market, store: Store, product_id: UUID, **changes: Any) -> None:
    database.in_transaction(
        vendor_products.update_product,
        caller=market.caller(store.user_id),
        product_id=product_id,
        revision=None,
        changes=changes,
        image_ids=None,
        status=None,
        now=NOW,
    )


def test_clean_listing_is_published_and_only_listing_text_is_sent(
    worker: Dispatcher,
    database: Database,
    market: Market,
    store: Store,
    ai: Ai,
    make: Callable[..., UUID],
    clock: MovableClock,
) -> None:
    product_id = make()
    [event_id] = events_of(database, product_id)

    run(worker, event_id)

    assert market.row(Product, product_id).status == "published"
    assert event(database, event_id)["done_at"] == NOW
    # The provider gets title, description and tags, but neither vendor nor campus.
    assert ai.texts() == ["Reading lamp\nHardly used.\nlamp\ndesk"]
    assert [told["type"] for told in notifications_of(database, store.user_id)] == ["product_published"]


def test_flagged_listing_waits_for_staff_review(
    worker: Dispatcher,
    database: Database,
    market: Market,
    ai: Ai,
    make: Callable[..., UUID],
    clock: MovableClock,
) -> None:
    by_words, by_plan = make(description="Money doubling, no risk."), make()
    run(worker, events_of(database, by_words)[0])
    ai.next("flagged", categories=["violence/graphic", "<script>"])
    run(worker, events_of(database, by_plan)[0])

    for product_id, name in ((by_words, "illicit"), (by_plan, "violence/graphic")):
        row = market.row(Product, product_id)
        assert (row.status, row.held) == ("in_review", True)
        [reason] = row.review_reasons
        assert name in reason
        assert "script" not in reason


def test_provider_is_not_called_when_rules_flag_listing(
    worker: Dispatcher,
    database: Database,
    market: Market,
    ai: Ai,
    make: Callable[..., UUID],
    clock: MovableClock,
) -> None:
    product_id = make(description="Call 0803 123 4567")

    run(worker, events_of(database, product_id)[0])

    assert market.row(Product, product_id).held
    assert ai.texts() == []


def test_rules_alone_decide_without_a_provider(
    services: Services,
    database: Database,
    market: Market,
    ai: Ai,
    make: Callable[..., UUID],
    clock: MovableClock,
) -> None:
    worker = Dispatcher(replace(services, moderator=None))
    clean, doubtful = make(), make(title="Toy gnu and g.u.n")
    for product_id in (clean, doubtful):
        run(worker, events_of(database, product_id)[0])

    assert market.row(Product, clean).status == "published"
    assert market.row(Product, doubtful).held
    assert ai.texts() == []


class TestFailingProvider:
    @pytest.mark.parametrize("outcome", ["error", "refused", "garbled", "timeout"])
    def test_failed_check_is_retried_and_listing_is_published(
        self,
        *,
        worker: Dispatcher,
        database: Database,
        market: Market,
        ai: Ai,
        make: Callable[..., UUID],
        clock: MovableClock,
        outcome: str,
    ) -> None:
        product_id = make()
        [event_id] = events_of(database, product_id)
        ai.next(outcome)

        run(worker, event_id)

        row = event(database, event_id)
        assert (row["attempts"], row["done_at"]) == (1, None)
        assert row["last_error"] in ("ProviderUnavailableError", "ProviderRefusedError")
        listing = market.row(Product, product_id)
        assert (listing.status, listing.held) == ("in_review", False)
        clock.now = row["due_at"]
        run(worker, event_id)
        assert market.row(Product, product_id).status == "published"

    def test_listing_is_held_after_ten_minutes_of_provider_failure(
        self,
        worker: Dispatcher,
        database: Database,
        market: Market,
        store: Store,
        ai: Ai,
        make: Callable[..., UUID],
        clock: MovableClock,
    ) -> None:
        product_id = make()
        [event_id] = events_of(database, product_id)
        ai.next("error", count=50)

        for _ in range(20):
            run(worker, event_id)
            row = event(database, event_id)
            if row["done_at"] is not None:
                break
            assert not market.row(Product, product_id).held
            clock.now = row["due_at"]

        waited = clock.now - NOW
        assert timedelta(minutes=10) <= waited <= timedelta(minutes=15)
        listing = market.row(Product, product_id)
        assert (listing.held, listing.review_reasons) == (True, [texts.NOT_CHECKED_IN_TIME])
        assert [told["type"] for told in notifications_of(database, store.user_id)] == ["product_held"]


class TestChangesDuringCheck:
    """Changes while the provider checks a listing, made by a wrapper around the provider's client."""

    class Interrupted:
        """Calls a function of the test before returning the sandbox's result."""

        def __init__(self, inner: Any, act: Callable[[], None]) -> None:
            self._inner, self._act = inner, act

        def check(self, text: str) -> ModerationResult:
            verdict: ModerationResult = self._inner.check(text)
            self._act()
            return verdict

    def worker(self, services: Services, act: Callable[[], None]) -> Dispatcher:
        return Dispatcher(replace(services, moderator=self.Interrupted(services.moderator, act)))

    def test_edit_during_check_is_decided_by_event_of_edit(
        self,
        *,
        services: Services,
        worker: Dispatcher,
        database: Database,
        market: Market,
        store: Store,
        ai: Ai,
        make: Callable[..., UUID],
        clock: MovableClock,
    ) -> None:
        product_id = make()
        [first] = events_of(database, product_id)

        def smuggle() -> None:
            edit(database, market, store, product_id, description="Call 0803 123 4567")

        run(self.worker(services, smuggle), first)

        # The clean result applies to the text before the edit.
        assert (market.row(Product, product_id).status, market.row(Product, product_id).held) == (
            "in_review",
            False,
        )
        assert event(database, first)["done_at"] is not None
        [second] = events_of(database, product_id)
        run(worker, second)
        assert market.row(Product, product_id).held
        assert [told["type"] for told in notifications_of(database, store.user_id)] == ["product_held"]

    def test_stock_change_during_check_does_not_affect_decision(
        self,
        services: Services,
        database: Database,
        market: Market,
        store: Store,
        make: Callable[..., UUID],
        clock: MovableClock,
    ) -> None:
        product_id = make()
        [event_id] = events_of(database, product_id)

        run(self.worker(services, lambda: edit(database, market, store, product_id, quantity=9)), event_id)

        row = market.row(Product, product_id)
        assert (row.status, row.quantity) == ("published", 9)

    def test_takedown_during_check_is_kept(
        self,
        services: Services,
        database: Database,
        market: Market,
        make: Callable[..., UUID],
        clock: MovableClock,
    ) -> None:
        product_id = make()
        [event_id] = events_of(database, product_id)

        run(self.worker(services, lambda: market.change(Product, product_id, status="removed")), event_id)

        assert market.row(Product, product_id).status == "removed"

    def test_event_stays_due_after_worker_crash_during_check(
        self,
        services: Services,
        worker: Dispatcher,
        database: Database,
        market: Market,
        store: Store,
        make: Callable[..., UUID],
        clock: MovableClock,
    ) -> None:
        product_id = make()
        [event_id] = events_of(database, product_id)

        def die() -> None:
            raise SystemExit

        with pytest.raises(SystemExit):
            run(self.worker(services, die), event_id)

        assert event(database, event_id)["attempts"] == 0
        assert market.row(Product, product_id).status == "in_review"
        run(worker, event_id)
        assert market.row(Product, product_id).status == "published"
        assert len(notifications_of(database, store.user_id)) == 1

    def test_no_transaction_is_open_during_provider_call(
        self,
        services: Services,
        database: Database,
        market: Market,
        make: Callable[..., UUID],
        clock: MovableClock,
    ) -> None:
        product_id = make()
        [event_id] = events_of(database, product_id)
        held: list[int] = []

        def count() -> None:
            held.append(services.database.engine.pool.checkedout())  # type: ignore[attr-defined]
            # Neither the event nor the listing is locked.
            with database.transaction() as session:
                session.execute(
                    select(Product.id).where(Product.id == product_id).with_for_update(nowait=True)
                )

        run(self.worker(services, count), event_id)

        assert held == [0]
        assert market.row(Product, product_id).status == "published"


def test_concurrent_workers_publish_and_notify_once(
    services: Services,
    database: Database,
    market: Market,
    store: Store,
    ai: Ai,
    make: Callable[..., UUID],
    clock: MovableClock,
) -> None:
    product_id = make()
    [event_id] = events_of(database, product_id)

    at_once(lambda _: run(Dispatcher(services), event_id), range(4))

    assert market.row(Product, product_id).status == "published"
    assert 1 <= len(ai.texts()) <= 4
    assert [told["type"] for told in notifications_of(database, store.user_id)] == ["product_published"]
    assert event(database, event_id)["attempts"] == 1


def test_late_provider_answer_changes_nothing(
    services: Services,
    worker: Dispatcher,
    database: Database,
    market: Market,
    store: Store,
    make: Callable[..., UUID],
    clock: MovableClock,
) -> None:
    """Another worker publishes the listing and staff take it down before the slow answer arrives."""
    product_id = make()
    [event_id] = events_of(database, product_id)
    asked, answered = threading.Event(), threading.Event()

    def wait() -> None:
        asked.set()
        assert answered.wait(TIMEOUT_SECONDS)

    slow = TestChangesDuringCheck().worker(services, wait)
    thread = threading.Thread(target=run, args=(slow, event_id))
    thread.start()
    assert asked.wait(TIMEOUT_SECONDS)
    run(worker, event_id)
    assert market.row(Product, product_id).status == "published"
    market.change(Product, product_id, status="removed")
    answered.set()
    thread.join(TIMEOUT_SECONDS)

    assert not thread.is_alive()
    assert market.row(Product, product_id).status == "removed"
    assert len(notifications_of(database, store.user_id)) == 1
