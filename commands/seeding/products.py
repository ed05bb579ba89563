"""Products by number. The same number gives the same product, regardless of the total."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import orjson
from sqlalchemy.orm import Session

from commands.seeding.categories import LEAF_CATEGORIES, SeededCategory
from commands.seeding.loading import ProgressCallback, copy_rows, load_data
from commands.seeding.people import DEMO_VENDORS, LOAD_VENDORS, STORES, SeededStore, campus_id
from marketplace.kernel.demo_ids import SeededKind, seeded_id

# Number of demo products. Each has its own pictures, which the products of load tests reuse.
DEMO_PRODUCTS = 300
MAX_PRODUCTS = 200_000
# Products above this number are spread over the stores of load tests.
_MAX_DEMO_STORE_PRODUCTS = 3_000
PICTURE_SIZE = (480, 360)  # pixels
PICTURE_TYPE = "image/webp"
_SECOND_PICTURE_EVERY = 5
_EXCLUSIVE_EVERY = 12
_PRICE_STEP_NAIRA = 50


@dataclass(frozen=True)
class ConditionData:
    """The condition of an article, with the share of the usual price that sellers ask for."""

    name: str
    price_factor: float
    text: str


@dataclass(frozen=True)
class ProductTexts:
    """The content of ``products.json``."""

    conditions: tuple[ConditionData, ...]
    selling_reasons: tuple[str, ...]
    handover_texts: tuple[str, ...]


_TEXTS = load_data("products", ProductTexts)
_CONDITIONS = {condition.name: condition for condition in _TEXTS.conditions}


@dataclass(frozen=True)
class SeededProduct:
    """A product. ``pictures`` holds picture numbers; the price is in kobo."""

    number: int
    id: UUID
    store: SeededStore
    category: SeededCategory
    title: str
    description: str
    price_minor: int
    condition: str
    quantity: int
    tags: tuple[str, ...]
    popularity: int
    age: timedelta
    pictures: tuple[int, ...]


def count_required_stores(products: int) -> int:
    """Return the number of stores that a number of products needs."""
    return DEMO_VENDORS if products <= _MAX_DEMO_STORE_PRODUCTS else LOAD_VENDORS


def build_product(number: int) -> SeededProduct:
    """Describe the product with a number, counted from 1."""
    chance = random.Random(f"product:{number}")  # noqa: S311 - reproducible on purpose
    # Categories repeat together with the demo's pictures, so that a picture always fits its product.
    category = LEAF_CATEGORIES[(number - 1) % DEMO_PRODUCTS % len(LEAF_CATEGORIES)]
    leaf = category.node
    turn = (number - 1) // len(LEAF_CATEGORIES)
    good = leaf.goods[turn % len(leaf.goods)]
    # Every good appears in every variant before a title repeats.
    variant = leaf.variants[(turn // len(leaf.goods) + turn % len(leaf.goods)) % len(leaf.variants)]
    condition = _CONDITIONS[chance.choice(leaf.conditions)]
    naira = good.naira * condition.price_factor * chance.uniform(0.9, 1.15)
    store = _store_for(number, category)
    price = max(round(naira / _PRICE_STEP_NAIRA), 1) * _PRICE_STEP_NAIRA
    return SeededProduct(
        number=number,
        id=seeded_id(SeededKind.PRODUCT, number),
        store=store,
        category=category,
        title=f"{good.name}, {variant}",
        description=f"{good.name} ({variant}). {condition.text} {chance.choice(_TEXTS.selling_reasons)}"
        f" {chance.choice(_TEXTS.handover_texts)}",
        price_minor=price * 100,
        condition=condition.name,
        quantity=chance.randint(10, 60),
        tags=(*leaf.tags, store.campus),
        popularity=chance.randint(0, 120),
        age=timedelta(minutes=chance.randint(90, 60 * 24 * 60)),
        pictures=_picture_numbers_of(number),
    )


def _store_for(number: int, category: SeededCategory) -> SeededStore:
    if number > _MAX_DEMO_STORE_PRODUCTS:
        return STORES[number % LOAD_VENDORS]
    sellers = [store for store in STORES[:DEMO_VENDORS] if category.root in store.roots]
    return sellers[number // len(LEAF_CATEGORIES) % len(sellers)]


def picture_numbers() -> list[int]:
    """Return the numbers of all pictures."""
    return sorted(
        picture for number in range(1, DEMO_PRODUCTS + 1) for picture in _picture_numbers_of(number)
    )


def load_products(
    session: Session,
    *,
    count: int,
    keys: Mapping[int, str],
    now: datetime,
    progress: ProgressCallback,
) -> int:
    """Add products and their pictures.

    :param count: highest product number
    :param keys: object key of each picture, by picture number
    :param now: time from which ages are calculated
    :param progress: called with the number of further products that were read
    :return: number of new products
    """
    copy_rows(
        session,
        "images",
        ("id", "owner_id", "key", "content_type", "width", "height", "renditions", "created_at"),
        [
            (
                *(seeded_id(SeededKind.IMAGE, picture), product.store.user_id, keys[picture]),
                *(PICTURE_TYPE, *PICTURE_SIZE, _rendition(keys[picture]), now - product.age),
            )
            for product in map(build_product, range(1, min(count, DEMO_PRODUCTS) + 1))
            for picture in product.pictures
        ],
    )
    added = copy_rows(
        session,
        "products",
        (
            *("id", "vendor_id", "campus_id", "category_id", "title", "description", "price_minor"),
            *("condition", "quantity", "tags", "cover_key", "status", "popularity", "exclusive"),
            *("screened_at", "published_at", "created_at", "updated_at"),
        ),
        _product_rows(count, keys=keys, now=now),
        progress=progress,
    )
    copy_rows(
        session,
        "product_images",
        ("product_id", "position", "image_id"),
        (
            (seeded_id(SeededKind.PRODUCT, number), position, seeded_id(SeededKind.IMAGE, picture))
            for number in range(1, count + 1)
            for position, picture in enumerate(_picture_numbers_of(number))
        ),
    )
    return added


def _rendition(key: str) -> str:
    """Return a picture's only rendition as JSON."""
    width, height = PICTURE_SIZE
    rendition = {"key": key, "width": width, "height": height, "contentType": PICTURE_TYPE}
    return orjson.dumps([rendition]).decode()


def _product_rows(count: int, *, keys: Mapping[int, str], now: datetime) -> Iterator[tuple[object, ...]]:
    for number in range(1, count + 1):
        item = build_product(number)
        published = now - item.age
        yield (
            *(item.id, item.store.id, campus_id(item.store.campus), item.category.id, item.title),
            *(item.description, item.price_minor, item.condition, item.quantity, item.tags),
            *(keys[item.pictures[0]], "published", item.popularity, number % _EXCLUSIVE_EVERY == 0),
            *(published, published, published, published),
        )


def _picture_numbers_of(number: int) -> tuple[int, ...]:
    """Return a product's picture numbers. Products of load tests reuse the demo's pictures."""
    first = (number - 1) % DEMO_PRODUCTS + 1
    return (first, first + DEMO_PRODUCTS) if (first - 1) % _SECOND_PICTURE_EVERY == 0 else (first,)
