"""Automated review with real processes: time until a listing is public, and workers killed between phases."""

import time
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import psycopg2
import pytest
import requests

from marketplace.catalog.models import Category
from marketplace.identity.models import Profile
from marketplace.infra.settings import load_settings
from marketplace.kernel import queues
from marketplace.platform.models import Campus
from marketplace.services import Services
from marketplace.vendors.models import VendorProfile
from sandbox.personas import persona_named
from tasks.dispatcher import SWEEP_GRACE, Dispatcher
from tests.support.service_processes import ServiceProcesses, kill

QUEUE = queues.AI_MODERATION
NAME = f"worker {QUEUE}"
SECONDS_TO_LIVE = 10.0


@pytest.fixture(scope="module")
def whole_site(whole_site: ServiceProcesses) -> ServiceProcesses:
    whole_site.environment |= {
        "AI_URL": whole_site.providers.ai_url,
        "AI_TIMEOUT_SECONDS": "20",
        "RATE_LIMIT_SCALE": "1000",
    }
    return whole_site


@pytest.fixture
def site(site: ServiceProcesses) -> ServiceProcesses:
    site.providers.ai.forget()
    return site


class Vendor:
    """A vendor that uses the API."""

    def __init__(self, site: ServiceProcesses) -> None:
        self.site = site
        self.user_id = persona_named("vendor").user_id
        token = requests.post(
            f"{site.providers.identity_issuer}/sandbox/token", json={"persona": "vendor"}, timeout=20
        ).json()["access_token"]
        self.headers = {"Authorization": f"Bearer {token}"}
        self.category_id = self._stock()

    def _stock(self) -> UUID:
        """Insert a category, and the vendor's store unless an earlier test did."""
        category_id, campus_id = uuid4(), uuid4()
        with self.site.database.transaction() as session:
            session.add(
                Category(
                    id=category_id, name="Lamps", slug=f"lamps-{category_id.hex[:8]}", lineage=[category_id]
                )
            )
            if session.get(Profile, self.user_id) is None:
                session.add(Campus(id=campus_id, name="Campus", slug=f"campus-{campus_id.hex[:8]}"))
                session.flush()
                session.add(Profile(id=self.user_id, role="vendor", campus_id=campus_id))
                session.flush()
                session.add(
                    VendorProfile(
                        user_id=self.user_id, campus_id=campus_id, display_name="Store", slug="store"
                    )
                )
        return category_id

    def lists(self, **changes: Any) -> str:
        body = {
            "title": "Reading lamp",
            "priceMinor": 50_000,
            "categoryId": str(self.category_id),
            "condition": "good",
        }
        answer = requests.post(
            f"{self.site.url}/api/products", json=body | changes, headers=self.headers, timeout=20
        )
        assert answer.status_code == 201, answer.text
        product_id: str = answer.json()["data"]["id"]
        return product_id

    def sees(self, product_id: str) -> Any:
        answer = requests.get(f"{self.site.url}/api/products/{product_id}", headers=self.headers, timeout=20)
        return answer.json()["data"]

    def notification_types(self, product_id: str) -> list[str]:
        rows = self.site.query(
            "SELECT type FROM notifications WHERE user_id = %s AND link = %s ORDER BY id",
            str(self.user_id),
            f"/products/{product_id}",
        )
        return [kind for (kind,) in rows]


def public(site: ServiceProcesses, product_id: str) -> bool:
    return requests.get(f"{site.url}/api/products/{product_id}", timeout=20).status_code == 200


def sweep(site: ServiceProcesses) -> None:
    """Run the periodic sweep of the outbox, which takes over the work of killed workers."""
    services = Services.from_settings(load_settings(site.environment), application_name="sweep")
    Dispatcher(services).sweep_outbox(datetime.now(UTC) + SWEEP_GRACE)
    services.database.close()


def test_clean_listing_is_public_within_seconds_and_doubtful_listing_is_held(site: ServiceProcesses) -> None:
    site.web()
    site.worker(QUEUE)
    vendor = Vendor(site)

    started = time.monotonic()
    clean = vendor.lists()
    site.wait_until(lambda: public(site, clean))
    first = time.monotonic() - started
    started = time.monotonic()
    second = vendor.lists()
    site.wait_until(lambda: public(site, second))
    next_one = time.monotonic() - started

    # The first listing also waits for the worker to start.
    assert first < 2 * SECONDS_TO_LIVE
    assert next_one < SECONDS_TO_LIVE
    listed = requests.get(f"{site.url}/api/products", timeout=20).json()["data"]
    assert {clean, second} <= {card["id"] for card in listed}

    by_rules, by_provider = vendor.lists(description="Call 08031234567"), vendor.lists(title="Money doubling")
    for product_id in (by_rules, by_provider):
        held = site.wait_until(lambda product_id=product_id: _held(vendor.sees(product_id)))  # type: ignore[misc]
        assert len(held["reviewReasons"]) == 1
        assert not public(site, product_id)
        assert vendor.notification_types(product_id) == ["product_held"]
    assert vendor.notification_types(clean) == ["product_published"]
    # The screened content is not logged.
    assert not [words for words in ("08031234567", "Money doubling", "Reading lamp") if words in site.logs()]


def _held(seen: Any) -> Any:
    return seen if seen["reviewState"] == "held" else None


def test_review_is_completed_after_worker_is_killed_during_provider_call(site: ServiceProcesses) -> None:
    site.web()
    vendor = Vendor(site)
    requests.post(f"{site.providers.ai_url}/sandbox/next", json={"outcome": "timeout"}, timeout=20)
    worker = site.worker(QUEUE)
    product_id = vendor.lists()
    site.wait_until(lambda: site.providers.ai.asked()[0] == 1, worker)
    # The worker holds no open transaction during the call. A heartbeat takes a moment.
    open_transactions = (
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND xact_start IS NOT NULL"
    )
    site.wait_until(lambda: site.query(open_transactions, NAME) == [(0,)], worker)

    kill(worker)

    assert vendor.sees(product_id)["reviewState"] == "screening"
    site.worker(QUEUE)
    sweep(site)
    site.wait_until(lambda: public(site, product_id))
    assert vendor.notification_types(product_id) == ["product_published"]
    assert site.providers.ai.asked()[0] == 2


def test_review_is_completed_after_worker_is_killed_while_applying_the_result(site: ServiceProcesses) -> None:
    site.web()
    vendor = Vendor(site)
    connection = psycopg2.connect(site.postgres.url)
    try:
        product_id = vendor.lists()
        with connection.cursor() as cursor:
            cursor.execute("SELECT FROM products WHERE id = %s FOR UPDATE", (product_id,))
        worker = site.worker(QUEUE)
        site.wait_until(lambda: site.connections(NAME, waiting=True) == 1, worker)

        kill(worker)

        site.wait_until(lambda: site.connections(NAME) == 0)
    finally:
        connection.close()
    assert vendor.sees(product_id)["reviewState"] == "screening"
    assert vendor.notification_types(product_id) == []
    site.worker(QUEUE)
    sweep(site)
    site.wait_until(lambda: public(site, product_id))
    assert vendor.notification_types(product_id) == ["product_published"]
