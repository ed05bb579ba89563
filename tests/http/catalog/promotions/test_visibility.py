"""What the public may not see is in no list of promotions, whichever way it came to be hidden."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from marketplace.catalog.models import Product
from marketplace.vendors.models import VendorProfile
from tests.support.promotions import Stage

Look = Callable[[Stage], list[str]]


def products(found: list[Any]) -> list[str]:
    return [one["product"]["id"] for one in found]


LISTS: dict[str, Look] = {
    "active flash sales": lambda stage: products(stage.of_this_campus("/api/flash-sales/active")),
    "flash sales": lambda stage: products(stage.of_this_campus("/api/flash-sales")),
    "featured": lambda stage: [card["id"] for card in stage.of_this_campus("/api/products/featured")],
    "vibes": lambda stage: [
        card["id"] for one in stage.of_this_campus("/api/vibes") for card in one["products"]
    ],
}


@pytest.fixture
def product_id(stage: Stage) -> UUID:
    """A product that everything promotes."""
    found = stage.product()
    stage.sale(found)
    stage.made("/api/products/featured", productId=str(found))
    stage.made(
        "/api/vibes",
        slug=f"vibe-{uuid4().hex[:12]}",
        title="Exams",
        productIds=[str(found)],
        campusId=str(stage.market.campus_id),
    )
    return found


@pytest.mark.parametrize("look", LISTS.values(), ids=LISTS)
def test_it_is_there_while_it_is_published(stage: Stage, product_id: UUID, look: Look) -> None:
    assert look(stage) == [str(product_id)]


@pytest.mark.parametrize("look", LISTS.values(), ids=LISTS)
@pytest.mark.parametrize("status", ["draft", "in_review", "rejected", "paused", "removed", "deleted"])
def test_a_hidden_product_is_not(stage: Stage, product_id: UUID, look: Look, status: str) -> None:
    stage.market.change(Product, product_id, status=status)

    assert look(stage) == []


@pytest.mark.parametrize("look", LISTS.values(), ids=LISTS)
@pytest.mark.parametrize(
    "shut",
    [
        {"status": "suspended"},
        {"status": "closed"},
        {"on_vacation": True},
        {"on_vacation": True, "vacation_until": 60},
    ],
    ids=repr,
)
def test_what_a_shut_store_sells_is_not(
    stage: Stage, product_id: UUID, look: Look, shut: dict[str, Any]
) -> None:
    columns = dict(shut)
    if "vacation_until" in columns:
        columns["vacation_until"] = stage.clock.now + timedelta(seconds=columns["vacation_until"])
    stage.market.change(VendorProfile, stage.store.id, **columns)

    assert look(stage) == []


def test_a_takedown_is_seen_at_once_on_all(stage: Stage, product_id: UUID) -> None:
    """With the real cache, each list having been looked at before."""
    assert all(look(stage) == [str(product_id)] for look in LISTS.values())

    taken = stage.post(
        f"/api/products/{product_id}/takedown", reason="Sold what may not be sold on a campus."
    )

    assert taken.status_code == 200, taken.json
    assert {name: look(stage) for name, look in LISTS.items()} == {name: [] for name in LISTS}
