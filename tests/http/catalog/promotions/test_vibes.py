"""Vibes over HTTP: product feeds curated by staff, with visibility by campus, time and product state."""

from typing import Any
from uuid import UUID, uuid4

import pytest

from marketplace.catalog.models import Product
from marketplace.catalog.promotions.vibes import CARDS_PER_LISTED_VIBE
from tests.support.probes import assert_problem
from tests.support.product_api import faults_of
from tests.support.promotions import Stage
from tests.support.resource_usage import counted_statements

PATH = "/api/vibes"


def vibe(stage: Stage, *products: UUID, **body: Any) -> dict[str, Any]:
    given = {
        "slug": f"vibe-{uuid4().hex[:12]}",
        "title": "Exam season",
        "campusId": str(stage.market.campus_id),
        "productIds": [str(product_id) for product_id in products],
    }
    return stage.create(PATH, **given | body)


def ids(found: list[Any]) -> list[str]:
    return [one["id"] for one in found]


def test_products_appear_in_the_order_set_by_staff(stage: Stage) -> None:
    products = [stage.product() for _ in range(3)]
    chosen = [products[n] for n in (2, 0, 1)]
    made = vibe(stage, *chosen, description="All that helps.", slug=f"exam-{uuid4().hex[:8]}")

    [shown] = stage.shown_on_campus(PATH)

    assert shown | {"products": ids(shown["products"])} == {
        "id": made["id"],
        "slug": made["slug"],
        "title": "Exam season",
        "description": "All that helps.",
        "imageUrl": None,
        "campusId": str(stage.market.campus_id),
        "position": 0,
        "startsAt": stage.later(),
        "endsAt": None,
        "products": [str(product_id) for product_id in chosen],
        "hasMore": False,
    }
    assert shown["products"][0] == stage.card(chosen[0])
    for name in (made["id"], made["slug"], made["id"].upper()):
        detail = stage.client.get(f"{PATH}/{name}")
        assert detail.json["data"] == shown  # type: ignore[index]
    assert detail.headers["Cache-Control"] == "public, max-age=300"


def test_list_shows_first_cards_and_detail_shows_all(stage: Stage) -> None:
    products = [stage.product() for _ in range(CARDS_PER_LISTED_VIBE + 2)]
    stage.market.change(Product, products[0], status="paused")
    made = vibe(stage, *products)

    [shown] = stage.shown_on_campus(PATH)
    detail = stage.client.get(f"{PATH}/{made['id']}").json["data"]  # type: ignore[index]

    assert ids(shown["products"]) == [str(one) for one in products[1 : CARDS_PER_LISTED_VIBE + 1]]
    assert shown["hasMore"] is True
    assert ids(detail["products"]) == [str(one) for one in products[1:]]


def test_campus_sees_own_vibes_and_local_products_of_common_vibes(stage: Stage) -> None:
    there = stage.market.store(campus_id=stage.market.campus())
    local, remote = stage.product(), stage.market.product(there)
    common = vibe(stage, local, remote, campusId=None)
    own = vibe(stage, local, position=1)

    def feeds(campus_id: UUID) -> dict[str, list[str]]:
        shown = stage.shown(PATH, campus=str(campus_id), limit=100)
        return {one["id"]: ids(one["products"]) for one in shown if one["id"] in (common["id"], own["id"])}

    assert feeds(stage.market.campus_id) == {common["id"]: [str(local)], own["id"]: [str(local)]}
    assert feeds(there.campus_id) == {common["id"]: [str(remote)]}
    assert ids(stage.client.get(f"{PATH}/{common['id']}").json["data"]["products"]) == [  # type: ignore[index]
        str(local),
        str(remote),
    ]
    stage.client.delete(f"{PATH}/{common['id']}", headers=stage.officer)


def test_list_takes_two_statements_for_any_length(stage: Stage) -> None:
    counts = []
    for limit in (7, 8):
        vibe(stage, *(stage.product() for _ in range(3)))
        with counted_statements(stage.market.database) as seen:
            stage.shown_on_campus(PATH, limit=limit)
        counts.append(len(seen))
    assert counts == [2, 2]


def test_vibe_reflects_time_staff_and_product_changes(stage: Stage) -> None:
    """With the real cache."""
    product_id, other = stage.product(), stage.product()
    made = vibe(stage, product_id, startsAt=stage.later(minutes=10), endsAt=stage.later(minutes=20))
    url = f"{PATH}/{made['slug']}"
    assert stage.shown_on_campus(PATH) == []
    assert stage.client.get(url).status_code == 404
    stage.advance_clock(minutes=10)
    stage.run_due_boundaries()
    assert ids(stage.shown_on_campus(PATH)) == [made["id"]]
    assert stage.client.get(url).status_code == 200

    stage.put(f"{PATH}/{made['id']}", productIds=[str(other), str(product_id)])
    assert ids(stage.client.get(url).json["data"]["products"]) == [str(other), str(product_id)]  # type: ignore[index]
    paused = stage.client.put(
        f"/api/products/{other}", json={"status": "paused"}, headers=stage.bearer(stage.store.user_id)
    )
    assert paused.status_code == 200
    assert ids(stage.shown_on_campus(PATH)[0]["products"]) == [str(product_id)]
    stage.sale(product_id, endsAt=stage.later(minutes=5))
    assert stage.shown_on_campus(PATH)[0]["products"][0]["flashSale"]

    stage.advance_clock(minutes=10)
    stage.run_due_boundaries()
    assert stage.shown_on_campus(PATH) == []
    assert stage.client.get(url).status_code == 404


def test_slug_of_deleted_vibe_can_be_reused(stage: Stage) -> None:
    made = vibe(stage)
    taken = stage.post(PATH, slug=made["slug"], title="Other")
    assert (taken.status_code, faults_of(taken)) == (409, ["slug"])
    other = vibe(stage)
    assert faults_of(stage.put(f"{PATH}/{other['id']}", slug=made["slug"])) == ["slug"]

    stage.client.delete(f"{PATH}/{made['id']}", headers=stage.officer)

    assert stage.put(f"{PATH}/{other['id']}", slug=made["slug"]).status_code == 200
    assert stage.client.get(f"{PATH}/{made['slug']}").json["data"]["id"] == other["id"]  # type: ignore[index]
    assert stage.client.get(f"{PATH}/{made['id']}").status_code == 404


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"slug": "No"}, "slug"),
        ({"slug": "a"}, "slug"),
        ({"slug": "all"}, "slug"),
        ({"slug": str(uuid4())}, "slug"),
        ({"slug": "a--b"}, "slug"),
        ({"slug": "exam\n"}, "slug"),
        ({"title": ""}, "title"),
        ({"description": "x" * 1001}, "description"),
        ({"campusId": str(uuid4())}, "campusId"),
        ({"imageId": str(uuid4())}, "imageId"),
        ({"imageUrl": "ftp://example.edu/a"}, "imageUrl"),
        ({"productIds": [str(uuid4())]}, "productIds[0]"),
        ({"productIds": [str(uuid4()) for _ in range(51)]}, "productIds"),
        ({"endsAt": "2001-01-01T00:00:00Z"}, "endsAt"),
    ],
)
def test_invalid_field_is_named(stage: Stage, body: dict[str, Any], fault: str) -> None:
    refused = stage.post(PATH, **{"slug": f"vibe-{uuid4().hex[:12]}", "title": "Exam season"} | body)

    assert refused.status_code == 422
    assert fault in faults_of(refused)


@pytest.mark.parametrize("name", ["%00", "a%00b", "No-Such", "no such", "%FF", "x" * 2_000, str(UUID(int=7))])
def test_unknown_vibe_name_is_not_found(stage: Stage, name: str) -> None:
    assert stage.client.get(f"{PATH}/{name}").status_code == 404


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_change_by_slug_is_not_found(stage: Stage, method: str) -> None:
    made = vibe(stage, stage.product())

    for path in (f"{PATH}/{made['slug']}", f"/api/v1/vibes/{made['slug']}"):
        response = stage.client.open(path, method=method, json={}, headers=stage.officer)
        assert_problem(response, 404, "RESOURCE_NOT_FOUND")
    # No id belongs at this place, and the resource has no such method.
    assert stage.client.open(f"{PATH}/all", method=method, headers=stage.officer).status_code == 405
    assert stage.client.post(f"{PATH}/{made['slug']}", headers=stage.officer).status_code == 405


def test_duplicate_unavailable_or_other_campus_product_is_refused(stage: Stage) -> None:
    fine = stage.product()
    there = stage.market.product(stage.market.store(campus_id=stage.market.campus()))
    given = {"slug": f"vibe-{uuid4().hex[:12]}", "title": "Exams", "campusId": str(stage.market.campus_id)}
    for products, fault in (
        ([fine, fine], "productIds[1]"),
        ([fine, there], "productIds[1]"),
        ([stage.product(status="deleted")], "productIds[0]"),
        ([stage.product(status="removed")], "productIds[0]"),
    ):
        refused = stage.post(PATH, **given, productIds=[str(one) for one in products])
        assert (refused.status_code, faults_of(refused)) == (422, [fault])
    everywhere = stage.create(PATH, **given | {"campusId": None}, productIds=[str(fine), str(there)])
    narrowed = stage.put(f"{PATH}/{everywhere['id']}", campusId=str(stage.market.campus_id))
    assert (narrowed.status_code, faults_of(narrowed)) == (422, ["productIds[1]"])
    stage.client.delete(f"{PATH}/{everywhere['id']}", headers=stage.officer)


def test_vibe_may_keep_a_product_removed_later(stage: Stage) -> None:
    kept, gone = stage.product(), stage.product()
    made = vibe(stage, kept, gone)
    stage.market.change(Product, gone, status="removed")

    changed = stage.put(f"{PATH}/{made['id']}", productIds=[str(gone), str(kept)])

    assert changed.status_code == 200
    assert changed.json["data"]["productIds"] == [str(gone), str(kept)]  # type: ignore[index]
    assert ids(stage.shown_on_campus(PATH)[0]["products"]) == [str(kept)]


def test_image_is_replaced_and_removed(stage: Stage) -> None:
    picture = "https://cdn.example.edu/a.webp"
    made = vibe(stage, imageUrl=picture)
    assert made["imageUrl"] == picture
    image_id = stage.market.image(None)
    changed = stage.put(f"{PATH}/{made['id']}", imageId=str(image_id)).json["data"]  # type: ignore[index]
    assert changed["imageId"] == str(image_id)
    cleared = stage.put(f"{PATH}/{made['id']}", clear=["imageUrl"]).json["data"]  # type: ignore[index]
    assert cleared["imageUrl"] is None


def test_vibes_require_permission_and_refuse_own_store(stage: Stage) -> None:
    made = vibe(stage)
    body = {"slug": f"vibe-{uuid4().hex[:12]}", "title": "Exams"}
    for user_id in (stage.market.person(), stage.store.user_id, stage.market.staff("orders")):
        headers = stage.bearer(user_id)
        for refused in (
            stage.client.post(PATH, json=body, headers=headers),
            stage.client.put(f"{PATH}/{made['id']}", json={}, headers=headers),
            stage.client.delete(f"{PATH}/{made['id']}", headers=headers),
            stage.client.get(f"{PATH}/all", headers=headers),
        ):
            assert refused.status_code == 403
    own = str(stage.market.product(stage.market.store(user_id=stage.officer_id)))
    assert stage.post(PATH, **body, productIds=[own]).status_code == 403
    assert stage.put(f"{PATH}/{made['id']}", productIds=[own]).status_code == 403
    assert stage.put(f"{PATH}/{uuid4()}", title="None").status_code == 404


def test_start_of_running_vibe_cannot_change(stage: Stage) -> None:
    refused = stage.put(f"{PATH}/{vibe(stage, stage.product())['id']}", startsAt=stage.later(hours=1))

    assert refused.json["reason"] == "promotion-started"  # type: ignore[index]


def test_staff_see_vibes_with_products_and_revision(stage: Stage) -> None:
    product_id = stage.product(status="draft")
    made = vibe(stage, product_id, startsAt=stage.later(hours=1))
    changed = stage.put(f"{PATH}/{made['id']}", position=4, revision=1)
    assert changed.json["data"]["revision"] == 2  # type: ignore[index]
    assert stage.put(f"{PATH}/{made['id']}", position=5, revision=1).status_code == 409

    listed = stage.client.get(f"{PATH}/all?state=upcoming&limit=100", headers=stage.officer).json
    assert listed is not None
    [found] = [one for one in listed["data"] if one["id"] == made["id"]]

    assert (found["productIds"], found["state"], found["position"]) == ([str(product_id)], "upcoming", 4)
    acts = stage.audited(made["id"])
    assert [act.action for act in acts] == ["vibe.create", "vibe.change"]
    assert acts[0].after["product_ids"] == [str(product_id)]
