"""Search quality: student queries find the intended products of a small fixed catalogue."""

from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from bench.search_quality.labels import Label
from bench.search_quality.measuring import evaluate, mean
from marketplace.catalog.browse.listing import ProductFilters
from marketplace.catalog.search import find, index_maintenance
from marketplace.infra.db import Database
from marketplace.kernel.paging import PageRequest
from tests.support.market import Market
from tests.support.servers import Addresses, create_database, drop_database

# Titles and tags of products by category.
CATALOGUE: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "Laptops": (
        ("HP EliteBook 840 G5, Core i5", ("laptop", "computer")),
        ("Dell Latitude 7490, 16 GB", ("laptop", "computer")),
        ("MacBook Air 2017", ("laptop", "computer")),
    ),
    "Computer Accessories": (
        ("Laptop cooling pad", ("computer",)),
        ("Wireless mouse, black", ("computer",)),
        ("USB flash drive 64GB", ("storage",)),
    ),
    "Phone Accessories": (
        ("Lightning cable, 1.5 m", ("phone",)),
        ("iPhone charger, original", ("phone",)),
        ("USB-C fast charging cable", ("phone",)),
        ("Tempered glass screen guard", ("phone",)),
        ("Shockproof phone pouch", ("phone",)),
        ("Power bank 20,000 mAh", ("power", "nepa")),
        ("Solar power bank with torch", ("power", "nepa")),
    ),
    "Calculators": (
        ("Casio fx-991ES Plus scientific calculator", ("engineering",)),
        ("Casio fx-82MS calculator", ("engineering",)),
        ("Texas Instruments financial calculator", ("accounting",)),
    ),
    "Books": (
        ("GST 101 past questions, ten years", ("exams",)),
        ("Engineering Mathematics by Stroud", ("textbook",)),
        ("Organic Chemistry, course book", ("study",)),
    ),
    "Room": (
        ("Hostel room lock and key", ("room",)),
        ("Student mattress 6 x 3", ("bed",)),
        ("Mosquito net for bunk bed", ("bed",)),
        ("Rechargeable reading lamp", ("light",)),
        ("Table-top fridge 50 L", ("appliance",)),
        ("Small generator, I better pass my neighbour", ("power",)),
    ),
    "Transport": (
        ("Tricycle ride to the main gate", ("transport",)),
        ("Campus bicycle, 26 inch", ("transport",)),
    ),
    "Fashion": (
        ("Thrift denim jacket", ("vintage",)),
        ("Ankara gown, free size", ("women",)),
        ("White sneakers, size 42", ("shoes",)),
    ),
    "Food": (
        ("Jollof rice bowl with chicken", ("lunch",)),
        ("Crème brûlée, four cups", ("dessert",)),
        ("Àmàlà and ẹ̀wẹ̀dú soup", ("lunch",)),
    ),
}
LAPTOPS = ("HP EliteBook", "Dell Latitude", "MacBook Air")
CALCULATORS = ("Casio fx-991ES", "Casio fx-82MS", "Texas Instruments")
POWER_BANKS = ("Power bank", "Solar power bank")
LABELS = tuple(
    Label(query, "frozen", things)
    for query, things in (
        ("laptop", LAPTOPS),
        ("laptops", LAPTOPS),
        ("lapotp", LAPTOPS),
        ("labtop", LAPTOPS),
        ("calculator", CALCULATORS),
        ("calculater", CALCULATORS),
        ("calclator", CALCULATORS),
        ("calcu", CALCULATORS),
        ("fx991", ("Casio fx-991ES",)),
        ("casio 82", ("Casio fx-82MS",)),
        ("iphone charger", ("iPhone charger", "Lightning cable")),
        ("lightning cable", ("iPhone charger", "Lightning cable")),
        ("type c cable", ("USB-C fast",)),
        ("screen protector", ("Tempered glass",)),
        ("phone case", ("Shockproof phone pouch",)),
        ("power bank", POWER_BANKS),
        ("powerbank", POWER_BANKS),
        ("pwoer bank", POWER_BANKS),
        ("20000mah", ("Power bank 20,000",)),
        ("64 gb flash", ("USB flash drive",)),
        ("keke", ("Tricycle ride",)),
        ("keke napep", ("Tricycle ride",)),
        ("hall", ("Hostel room lock",)),
        ("pq gst", ("GST 101",)),
        ("textbook", ("Engineering Mathematics", "Organic Chemistry")),
        ("gen", ("Small generator",)),
        ("okrika jacket", ("Thrift denim",)),
        ("matress", ("Student mattress",)),
        ("mosqito nets", ("Mosquito net",)),
        ("reading la", ("Rechargeable reading lamp",)),
        ("refrigerator", ("Table-top fridge",)),
        ("bike", ("Campus bicycle",)),
        ("sneekers", ("White sneakers",)),
        ("ankara dress", ("Ankara gown",)),
        ("jolof", ("Jollof rice",)),
        ("creme brulee", ("Crème brûlée",)),
        ("CREME BRÛLEE", ("Crème brûlée",)),
        ("amala ewedu", ("Àmàlà",)),
        ("i want to buy a wireless mouse please", ("Wireless mouse",)),
        ("cheap stroud", ("Engineering Mathematics",)),
    )
)


@pytest.fixture(scope="module")
def fixed_catalogue(addresses: Addresses) -> Iterator[Database]:
    """A separate database, because spelling correction uses all listed products."""
    name = f"search_{uuid4().hex[:8]}"
    database = Database(create_database(addresses, name), pool_size=2, application_name="tests")
    market = Market(database)
    store = market.store(display_name="North Gate Traders")
    for category, things in CATALOGUE.items():
        category_id = market.category(name=category)
        for number, (title, tags) in enumerate(things):
            market.product(
                store, title=title, tags=list(tags), category_id=category_id, popularity=number * 7 % 5
            )
    with database.transaction() as session:
        index_maintenance.refresh_search_index(session, now=market.now)
    yield database
    database.close()
    drop_database(addresses, name)


def titles(database: Database, query: str) -> list[str]:
    with database.reading() as session:
        page = find.search_catalog(
            session,
            query=query,
            filters=ProductFilters(),
            page=PageRequest(10),
            now=datetime.now(UTC),
            media_base_url="",
        )
    return [card.title for card in page.items]


def test_labelled_queries_reach_the_required_recall_and_rank(fixed_catalogue: Database) -> None:
    catalogue = [title for things in CATALOGUE.values() for title, _tags in things]

    outcomes = evaluate(LABELS, catalogue=catalogue, search=lambda query: titles(fixed_catalogue, query))

    missed = {outcome.label.query: outcome.titles for outcome in outcomes if outcome.recall < 1}
    assert mean([outcome.recall for outcome in outcomes]) >= 0.975, missed
    assert mean([outcome.reciprocal_rank for outcome in outcomes]) >= 0.93
    assert not missed.keys() & {"lapotp", "calculater", "keke", "hall", "iphone charger"}


@pytest.mark.parametrize("nonsense", ["zzyzx qwrtp", "0000", "xylophone"])
def test_nonsense_query_finds_nothing(fixed_catalogue: Database, nonsense: str) -> None:
    assert titles(fixed_catalogue, nonsense) == []
