"""Promotion lists omit hidden products, for every way of hiding a product."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from marketplace.catalog.models import Product
from marketplace.vendors.models import VendorProfile
from tests.support.promotions import Stage

ListReader = Callable[[Stage], list[str]]


def products(found: list[Any]) -> list[str]:
    return [one["product"]["id"] for one in found]


LISTS: dict[str, ListReader] = {
    "active flash sales": lambda stage: products(stage.shown_on_campus("/api/flash-sales/active")),
    "flash sales": lambda stage: products(stage.shown_on_campus("/api/flash-sales")),
    "featured": lambda stage: [card["id"] for card in stage.shown_on_campus("/api/products/featured")],
    "vibes": lambda stage: [
        card["id"] for one in stage.shown_on_campus("/api/vibes") for card in one["products"]
    ],
}


@pytest.fixture
def product_id(stage: Stage) -> UUID:
    """A product in all promotion lists."""
    found = stage.product()
    stage.sale(found)
    stage.create("/api/products/featured", productId=str(found))
    stage.create(
        "/api/vibes",
        slug=f"vibe-{uuid4().hex[:12]}",
        title="Exams",
        productIds=[str(found)],
        campusId=str(stage.market.campus_id),
    )
    return found


@pytest.mark.parametrize("read_list", LISTS.values(), ids=LISTS)
def test_published_product_is_listed(stage: Stage, product_id: UUID, read_list: ListReader) -> None:
    assert read_list(stage) == [str(product_id)]


@pytest.mark.parametrize("read_list", LISTS.values(), ids=LISTS)
@pytest.mark.parametrize("status", ["draft", "in_review", "rejected", "paused", "removed", "deleted"])
def test_hidden_product_is_not_listed(
    stage: Stage, product_id: UUID, read_list: ListReader, status: str
) -> None:
    stage.market.change(Product, product_id, status=status)

    assert read_list(stage) == []


@pytest.mark.parametrize("read_list", LISTS.values(), ids=LISTS)
@pytest.mark.parametrize(
    "store_state",
    [
        {"status": "suspended"},
        {"status": "closed"},
        {"on_vacation": True},
        {"on_vacation": True, "vacation_until": 60},
    ],
    ids=repr,
)
def test_product_of_closed_or_vacationing_store_is_not_listed(
    stage: Stage, product_id: UUID, read_list: ListReader, store_state: dict[str, Any]
) -> None:
    columns = dict(store_state)
    if "vacation_until" in columns:
        columns["vacation_until"] = stage.clock.now + timedelta(seconds=columns["vacation_until"])
    stage.market.change(VendorProfile, stage.store.id, **columns)

    assert read_list(stage) == []


def test_takedown_removes_product_from_all_lists_at_once(stage: Stage, product_id: UUID) -> None:
    """With the real cache, after each list has been cached."""
    assert all(read_list(stage) == [str(product_id)] for read_list in LISTS.values())

    taken = stage.post(
        f"/api/products/{product_id}/takedown", reason="Sold what may not be sold on a campus."
    )

    assert taken.status_code == 200, taken.json
    assert {name: read_list(stage) for name, read_list in LISTS.items()} == {name: [] for name in LISTS}
