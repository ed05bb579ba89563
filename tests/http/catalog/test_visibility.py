"""Public visibility: listings show only published products of active stores that are not on vacation."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from flask.testing import FlaskClient
from sqlalchemy import text

from blueprints.areas import contracts
from marketplace.catalog.browse.product_detail import fetch_category_tree
from marketplace.catalog.models import Product
from marketplace.catalog.promotions.models import FeaturedProduct, FlashSale, Vibe, VibeProduct
from tests.support.market import Market, Store

HIDDEN_STATUSES = ("draft", "in_review", "rejected", "paused", "removed", "deleted")
HIDDEN_STORES: dict[str, dict[str, Any]] = {
    "on vacation": {"on_vacation": True},
    "on vacation until tomorrow": {"on_vacation": True, "vacation_until": timedelta(days=1)},
    "suspended": {"status": "suspended"},
    "closed": {"status": "closed"},
}
SHOWN_STORES: dict[str, dict[str, Any]] = {
    "open": {},
    "back from vacation": {"on_vacation": True, "vacation_until": timedelta(days=-1)},
}


@dataclass(frozen=True)
class Scene:
    """A product promoted on all listings, with a visible control product."""

    client: FlaskClient
    market: Market
    store: Store
    product_id: UUID
    control_id: UUID
    word: str

    def get(self, path: str, **query: Any) -> Any:
        response = self.client.get(path, query_string={"campus": str(self.market.campus_id), **query})
        assert response.status_code == 200, response.json
        return response.json["data"]


def ids(cards: list[dict[str, Any]]) -> set[UUID]:
    return {UUID(card["id"]) for card in cards}


def of_store(scene: Scene) -> set[UUID]:
    response = scene.client.get(f"/api/products/vendor/{scene.store.id}")
    return ids(response.json["data"]) if response.status_code == 200 else set()  # type: ignore[index]


def named(scene: Scene) -> set[UUID]:
    response = scene.client.post("/api/products/bulk", json=[str(scene.product_id), str(scene.control_id)])
    return ids(response.json["data"])  # type: ignore[index]


def of_vibes(scene: Scene) -> set[UUID]:
    return {one for vibe in scene.get("/api/vibes") for one in ids(vibe["products"])}


def of_vibe(scene: Scene) -> set[UUID]:
    response = scene.client.get(f"/api/vibes/{scene.word}")
    return ids(response.json["data"]["products"])  # type: ignore[index]


def related(scene: Scene) -> set[UUID]:
    return ids(scene.client.get(f"/api/products/{scene.control_id}").json["data"]["relatedItems"])  # type: ignore[index]


def searched(scene: Scene) -> set[UUID]:
    return ids(scene.get("/api/products/search", q=scene.word)["products"])


def suggested(scene: Scene) -> set[UUID]:
    """Return the products with a suggested title."""
    titles = {suggestion["text"] for suggestion in scene.get("/api/products/suggestions", q=scene.word)}
    return {
        one for one in (scene.product_id, scene.control_id) if scene.market.row(Product, one).title in titles
    }


def on_sale(path: str) -> Callable[[Scene], set[UUID]]:
    return lambda scene: {UUID(sale["product"]["id"]) for sale in scene.get(path)}


def listing(path: str) -> Callable[[Scene], set[UUID]]:
    return lambda scene: ids(scene.get(path))


# Public routes that show products, by contract path, each with a reader of the shown product ids.
LISTINGS: dict[str, Callable[[Scene], set[UUID]]] = {
    "/api/products": listing("/api/products"),
    "/api/products/trending": listing("/api/products/trending"),
    "/api/products/new-arrivals": listing("/api/products/new-arrivals"),
    "/api/products/exclusives": listing("/api/products/exclusives"),
    "/api/products/featured": listing("/api/products/featured"),
    "/api/products/vendor/<uuid:vendor_id>": of_store,
    "/api/products/bulk": named,
    "/api/products/search": searched,
    "/api/products/suggestions": suggested,
    "/api/products/<uuid:product_id>": related,
    "/api/flash-sales/active": on_sale("/api/flash-sales/active"),
    "/api/flash-sales": on_sale("/api/flash-sales"),
    "/api/vibes": of_vibes,
    "/api/vibes/<string:vibe_id>": of_vibe,
}
NOT_LISTINGS = {
    "/api/products/categories",  # tested separately below
    "/api/products/<uuid:product_id>/stats/<type>",  # shows nothing
    "/api/banners",  # shows no products
    "/api/campuses",  # likewise
    "/api/campuses/<string:campus_id>/hubs",  # likewise
    "/api/csp-report",  # likewise
    "/api/page-timings",  # likewise
    "/api/status",  # likewise
    "/api/privacy/signing-key",  # likewise
    "/api/notifications/unsubscribe",  # likewise
    "/api/vendors/profile/<uuid:vendor_id>",  # likewise
    "/api/vendors/slug/<string:slug>/available",  # likewise
    "/api/vendors/<uuid:vendor_id>/reviews",  # likewise
    "/api/products/<uuid:product_id>/reviews",  # likewise; a hidden product is not found
}
on_each_listing = pytest.mark.parametrize("path", LISTINGS)


def promote_everywhere(market: Market, product_id: UUID, vibe_id: UUID, position: int) -> None:
    """Make a product eligible for all listings: trending, featured, on sale and in a vibe."""
    officer = market.staff("moderator")
    since, until = market.now - timedelta(hours=1), market.now + timedelta(hours=1)
    window = {"starts_at": since, "ends_at": until, "created_by": officer}
    market._save(FeaturedProduct(product_id=product_id, campus_id=market.campus_id, **window))
    sale_id = market._save(FlashSale(product_id=product_id, sale_price_minor=500, **window))
    market.change(
        Product,
        product_id,
        sale_id=sale_id,
        sale_price_minor=500,
        sale_starts_at=since,
        sale_ends_at=until,
    )
    market._save(VibeProduct(vibe_id=vibe_id, position=position, product_id=product_id))
    with market.database.transaction() as session:
        counted = text("INSERT INTO product_counts (product_id, trending) VALUES (:id, 1)")
        session.execute(counted, {"id": product_id})


def scene_of(
    client: FlaskClient, market: Market, *, product_status: str = "published", **store: Any
) -> Scene:
    word = "".join(chr(ord("a") + byte % 26) for byte in uuid4().bytes[:12])
    vibe_id = market._save(
        Vibe(
            slug=word,
            title=word,
            campus_id=market.campus_id,
            starts_at=market.now - timedelta(hours=1),
            created_by=market.staff("moderator"),
        )
    )
    if isinstance(store.get("vacation_until"), timedelta):
        store["vacation_until"] = market.now + store["vacation_until"]
    own, other = market.store(verified=True, **store), market.store(verified=True)
    common = {"exclusive": True, "published_at": market.now - timedelta(hours=1)}
    product_id = market.product(own, status=product_status, title=f"{word} lamp", **common)
    control_id = market.product(other, title=f"{word} desk", **common)
    promote_everywhere(market, product_id, vibe_id, 0)
    promote_everywhere(market, control_id, vibe_id, 1)
    return Scene(client, market, own, product_id, control_id, word)


def assert_visibility(scene: Scene, path: str, *, visible: bool) -> None:
    found = LISTINGS[path](scene)
    assert (scene.product_id in found) is visible
    # The control product proves that the listing is not simply empty.
    if path not in {"/api/products/vendor/<uuid:vendor_id>", "/api/products/<uuid:product_id>"}:
        assert scene.control_id in found


@on_each_listing
@pytest.mark.parametrize("store", SHOWN_STORES)
def test_published_product_of_open_store_is_visible(
    client: FlaskClient, market: Market, path: str, store: str
) -> None:
    assert_visibility(scene_of(client, market, **SHOWN_STORES[store]), path, visible=True)


@on_each_listing
@pytest.mark.parametrize("status", HIDDEN_STATUSES)
def test_unpublished_product_is_hidden(client: FlaskClient, market: Market, path: str, status: str) -> None:
    assert_visibility(scene_of(client, market, product_status=status), path, visible=False)


@on_each_listing
@pytest.mark.parametrize("store", HIDDEN_STORES)
def test_product_of_closed_or_vacationing_store_is_hidden(
    client: FlaskClient, market: Market, path: str, store: str
) -> None:
    assert_visibility(scene_of(client, market, **HIDDEN_STORES[store]), path, visible=False)


@pytest.mark.parametrize(
    ("status", "store"),
    [
        *((status, {}) for status in HIDDEN_STATUSES),
        *(("published", HIDDEN_STORES[name]) for name in HIDDEN_STORES),
    ],
)
def test_category_tree_counts_visible_products_only(
    client: FlaskClient, market: Market, status: str, store: dict[str, Any]
) -> None:
    scene_of(client, market, product_status=status, **store)
    # The HTTP route caches the tree for an hour, and direct writes of a test do not clear the cache.
    with market.database.reading() as session:
        tree = fetch_category_tree(session, now=market.now)
    [node] = [node for node in tree if node["id"] == str(market.category_id)]
    assert node["listing_count"] == 1


def test_each_public_route_is_covered_or_exempt() -> None:
    """New public routes must be added to ``LISTINGS`` or ``NOT_LISTINGS``."""
    known = {*LISTINGS, *NOT_LISTINGS}
    public = {
        contract.path
        for contract in contracts()
        if contract.access.token.value in ("ignored if bad", "checked if given")
    }
    assert public - known == set()
