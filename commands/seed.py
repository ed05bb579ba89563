"""Demo data, and many products for load tests."""

import time
from datetime import datetime
from enum import Enum
from uuid import UUID

import click
from sqlalchemy import select
from sqlalchemy.orm import Session

from commands.console.database import build_services
from commands.console.failures import CommandFailedError
from commands.console.progress import Stages
from commands.seeding import (
    applications,
    chat,
    disputes,
    favorites,
    orders,
    people,
    pictures,
    products,
    promotions,
    referrals,
    reports,
    reviews,
    staff_work,
    support,
)
from commands.seeding.categories import load_categories
from commands.seeding.loading import ProgressCallback
from marketplace.analytics import roll_up
from marketplace.catalog import cache_tags
from marketplace.catalog.search import index_maintenance
from marketplace.infra.cache import drop_cached
from marketplace.infra.sessions import driver_cursor
from marketplace.kernel.demo_ids import SeededKind, seeded_id
from marketplace.media.models import Image
from marketplace.models import metadata
from marketplace.platform.models import Campus
from marketplace.providers.storage import S3ObjectStorage
from marketplace.services import Services
from sandbox.personas import MAIN_CAMPUS


class DatabaseState(Enum):
    """The kind of data in a database."""

    EMPTY = "empty"
    PARTIALLY_SEEDED = "some demo data"
    SEEDED = "the demo data"
    OTHER_DATA = "other data"


@click.command(
    help=f"""Load demo data: two campuses, stores, {products.DEMO_PRODUCTS} products with pictures, the personas,
    orders in each status, flash sales, banners and vibes, and a payout batch and a proposal for the staff.

    The data is the same on every run, and existing rows stay unchanged. You can repeat the command, for example to
    add products for a load test. It is refused if ENVIRONMENT is production.

    \b
    Examples:
      marketplace seed                    add missing demo data
      marketplace seed --if-empty         only load an empty database
      marketplace seed --products 50000   for load tests, with {people.LOAD_VENDORS} stores"""
)
@click.option(
    "--products",
    "count",
    type=click.IntRange(products.DEMO_PRODUCTS, products.MAX_PRODUCTS),
    default=products.DEMO_PRODUCTS,
    show_default=True,
    help="Total number of products.",
)
@click.option("--if-empty", is_flag=True, help="Do nothing if the database already has data.")
def seed(count: int, *, if_empty: bool) -> None:
    """Load the demo data."""
    services = build_services()
    if services.settings.environment == "production":
        raise CommandFailedError(
            "ENVIRONMENT is production, where demo data is refused because anyone could sign in to the demo accounts."
        )
    state = find_state(services)
    if if_empty and state in (DatabaseState.SEEDED, DatabaseState.OTHER_DATA):
        click.echo(f"The database already has {state.value}, so nothing was done.")
        return
    if state is DatabaseState.OTHER_DATA:
        raise CommandFailedError(
            "The database has campuses that are not part of the demo. Set DATABASE_URL to an empty database."
        )
    started = time.monotonic()
    summary = seed_database(services, product_count=count, now=services.clock(), stages=Stages())
    click.echo(f"{summary} ({time.monotonic() - started:.1f} s)")


def find_state(services: Services) -> DatabaseState:
    """Return the kind of data in the database."""
    with services.database.reading() as session:
        campuses = set(session.scalars(select(Campus.id)))
        if not campuses:
            return DatabaseState.EMPTY
        if people.campus_id(MAIN_CAMPUS) not in campuses:
            return DatabaseState.OTHER_DATA
        return DatabaseState.SEEDED if orders.has_all_scenarios(session) else DatabaseState.PARTIALLY_SEEDED


def seed_database(services: Services, *, product_count: int, now: datetime, stages: Stages) -> str:
    """Add all missing demo data.

    :param product_count: total number of products
    :param now: present time, from which all other times are calculated
    :return: summary in words
    :raises ProviderUnavailableError: the object storage does not accept pictures, and nothing was added
    """
    keys = _store_missing_pictures(services, stages)
    applications.store_student_ids(services)
    disputes.store_evidence(services)
    with stages.stage("products", total=product_count) as progress:
        added = services.database.in_transaction(_load_base_data, product_count, keys, now, progress)
    checkout: orders.SandboxCheckout | None = orders.SandboxCheckout(services)
    if checkout is not None and not checkout.wait_until_ready():
        click.echo(
            "No sandbox gateway is running at GATEWAY_URL, so paid orders are left out. Start the gateway and repeat"
            " the command to add them.",
            err=True,
        )
        checkout = None
    with stages.stage("orders", total=len(orders.ORDER_SCENARIOS)) as progress:
        placed = orders.create_orders(services, checkout=checkout, now=now, progress=progress)
    reviewed = services.database.in_transaction(reviews.load_reviews)
    # Orders come first, because they were placed at regular prices before any sale.
    promoted = services.database.in_transaction(promotions.load_promotions, now=now)
    liked = services.database.in_transaction(favorites.load_favorites, now=now)
    written = services.database.in_transaction(chat.load_chat, now=now)
    disputed = services.database.in_transaction(disputes.load_disputes)
    asked = services.database.in_transaction(support.load_support, now=now)
    reported = services.database.in_transaction(reports.load_reports, now=now)
    applied = services.database.in_transaction(applications.load_applications, now=now)
    referred = services.database.in_transaction(referrals.load_referrals, now=now)
    filed = services.database.in_transaction(staff_work.load_staff_work, now=now)
    roll_up.roll_up_changes(services.database, now=now)
    # Query plans for empty tables are slow.
    with services.database.reading() as session, driver_cursor(session) as cursor:
        cursor.execute(f"ANALYZE {', '.join(metadata.tables)}")
    return (
        f"Added {added} products, {placed} orders, {reviewed} reviews, {liked} favourites, {promoted} promotions,"
        f" {written} messages, {asked} tickets, {disputed} disputes, {reported} reports,"
        f" {applied} vendor applications, {referred} referrals and {filed} items of staff work."
        f" The demo data now has {product_count} products."
    )


def _load_base_data(
    session: Session, count: int, keys: dict[int, str], now: datetime, progress: ProgressCallback
) -> int:
    """Load everything but orders. In a single transaction, so that an interrupted run leaves no partial data."""
    load_categories(session)
    people.load_people(session, vendors=products.count_required_stores(count), now=now)
    added = products.load_products(session, count=count, keys=keys, now=now, progress=progress)
    index_maintenance.refresh_search_index(session, now=now)
    drop_cached(session, cache_tags.PRODUCTS, cache_tags.CATEGORIES)
    return added


def _store_missing_pictures(services: Services, stages: Stages) -> dict[int, str]:
    """Draw and store pictures that the database does not know. Return the key of each picture by number."""
    numbers: dict[UUID, int] = {
        seeded_id(SeededKind.IMAGE, number): number for number in products.picture_numbers()
    }
    with services.database.reading() as session:
        images = session.execute(select(Image.id, Image.key).where(Image.id.in_(numbers)))
        known = {numbers[image_id]: key for image_id, key in images}
    missing = [number for number in numbers.values() if number not in known]
    if not missing:
        return known
    with stages.stage("pictures", total=len(missing)) as progress:
        return known | pictures.store_pictures(
            S3ObjectStorage(services.settings),
            bucket=services.settings.s3_public_bucket,
            numbers=missing,
            progress=progress,
        )
