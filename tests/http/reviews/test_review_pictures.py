"""Pictures of reviews over HTTP: submit, show, change and delete."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID, uuid4

import pytest

from blueprints.reviews.schemas import OwnReviewView, ReviewView
from marketplace.infra.db import Database
from marketplace.media.models import Image
from tests.support.probes import faults
from tests.support.purchases import row_of
from tests.support.shop_client import ShopClient

TEXT = "The lamp came the same day and works well."


def make_image(database: Database, owner_id: UUID, *, purpose: str = "review", status: str = "ready") -> str:
    """Store the row of an uploaded image."""
    with database.transaction() as session:
        image = Image(owner_id=owner_id, purpose=purpose, status=status, key=f"reviews/{uuid4().hex}.webp")
        session.add(image)
        session.flush()
        return str(image.id)


def make_images(shop_client: ShopClient, count: int) -> list[str]:
    return [make_image(shop_client.database, shop_client.shop.buyer.id) for _ in range(count)]


def submit(shop_client: ShopClient, order_id: UUID, image_ids: Any) -> Any:
    path = f"/api/vendors/{shop_client.shop.store_id}/reviews"
    body = {"orderId": str(order_id), "rating": 4, "text": TEXT, "imageIds": image_ids}
    return shop_client.post(path, shop_client.buyer, body)


def reviewed(shop_client: ShopClient, image_ids: list[str]) -> Any:
    answer = submit(shop_client, shop_client.delivered(), image_ids)
    assert answer.status_code == 201, answer.json
    data = answer.json["data"]
    assert not OwnReviewView().validate(data)
    assert [image["id"] for image in data["images"]] == image_ids
    return data


def change(shop_client: ShopClient, review_id: str, body: dict[str, Any]) -> Any:
    return shop_client.client.put(f"/api/reviews/{review_id}", json=body, headers=shop_client.buyer)


def unused_since(shop_client: ShopClient, image_id: str) -> Any:
    with shop_client.database.reading() as session:
        return row_of(session, "images", id=image_id)["unused_since"]


def test_pictures_are_shown_in_order_on_store_and_product(shop_client: ShopClient) -> None:
    image_ids = make_images(shop_client, 4)
    review = reviewed(shop_client, image_ids)
    assert all(image["url"].endswith(".webp") for image in review["images"])
    with shop_client.database.reading() as session:
        product_id = row_of(session, "review_products", review_id=review["id"])["product_id"]
    for path in (
        f"/api/vendors/{shop_client.shop.store_id}/reviews",
        f"/api/products/{product_id}/reviews",
    ):
        shown = shop_client.client.get(path).json["data"]
        assert not ReviewView(many=True).validate(shown)
        [found] = [one for one in shown if one["id"] == review["id"]]
        assert [image["id"] for image in found["images"]] == image_ids
    assert unused_since(shop_client, image_ids[0]) is None


def test_change_replaces_pictures_and_frees_the_removed(shop_client: ShopClient) -> None:
    first, second, third = make_images(shop_client, 3)
    review_id = reviewed(shop_client, [first, second])["id"]

    answer = change(shop_client, review_id, {"imageIds": [third, first]})
    assert [image["id"] for image in answer.json["data"]["images"]] == [third, first]
    assert answer.json["data"]["editedAt"] is not None
    revision = answer.json["data"]["revision"]
    assert unused_since(shop_client, second) is not None
    assert unused_since(shop_client, first) is None
    # Other changes keep the pictures, and the same pictures are no change.
    for body in ({"rating": 5}, {"imageIds": [third, first]}):
        answer = change(shop_client, review_id, body)
        assert [image["id"] for image in answer.json["data"]["images"]] == [third, first]
    assert answer.json["data"]["revision"] == revision + 1

    assert change(shop_client, review_id, {"imageIds": []}).json["data"]["images"] == []
    assert reviewed(shop_client, [second])["images"]


def test_deleted_review_frees_its_pictures(shop_client: ShopClient) -> None:
    image_ids = make_images(shop_client, 2)
    review_id = reviewed(shop_client, image_ids)["id"]
    answer = shop_client.client.delete(f"/api/reviews/{review_id}", headers=shop_client.buyer)
    assert answer.status_code == 200
    assert all(unused_since(shop_client, image_id) for image_id in image_ids)


def test_picture_is_used_in_one_review_also_at_once(shop_client: ShopClient) -> None:
    [image_id] = make_images(shop_client, 1)
    orders = [shop_client.delivered() for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda order_id: submit(shop_client, order_id, [image_id]), orders))
    assert sorted(answer.status_code for answer in answers) == [201, 422, 422]
    assert faults(next(answer for answer in answers if answer.status_code == 422)) == ["imageIds[0]"]


def test_images_that_cannot_be_used_are_named(shop_client: ShopClient) -> None:
    database, buyer_id = shop_client.database, shop_client.shop.buyer.id
    own = make_image(database, buyer_id)
    image_ids = [
        own,
        make_image(database, shop_client.shop.vendor.id),
        make_image(database, buyer_id, purpose="avatar"),
        make_image(database, buyer_id, status="pending"),
    ]
    order_id = shop_client.delivered()
    assert faults(submit(shop_client, order_id, image_ids)) == ["imageIds[1]", "imageIds[2]", "imageIds[3]"]
    assert unused_since(shop_client, own) is not None
    assert submit(shop_client, order_id, [own]).status_code == 201


@pytest.mark.parametrize(
    ("image_ids", "names"),
    [
        ([str(uuid4()) for _ in range(5)], ["imageIds"]),
        (["00000000-0000-7000-8000-000000000001"] * 2, ["imageIds[1]"]),
        (["no-id"], ["imageIds[0]"]),
        ("none", ["imageIds"]),
    ],
)
def test_faulty_list_is_refused(shop_client: ShopClient, image_ids: Any, names: list[str]) -> None:
    assert faults(submit(shop_client, uuid4(), image_ids)) == names
