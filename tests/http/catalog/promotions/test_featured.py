"""Featured products over HTTP."""

from typing import Any
from uuid import UUID, uuid4

import pytest

from marketplace.platform.models import Campus
from tests.support.product_api import faults_of
from tests.support.promotions import Stage
from tests.support.resource_usage import counted_statements

PATH = "/api/products/featured"


def feature(stage: Stage, product_id: UUID, **body: Any) -> dict[str, Any]:
    return stage.create(PATH, productId=str(product_id), **body)


def shown(stage: Stage, **query: Any) -> list[UUID]:
    return [UUID(card["id"]) for card in stage.shown_on_campus(PATH, **query)]


def test_featured_products_appear_in_the_order_set_by_staff(stage: Stage) -> None:
    first, second, third = (stage.product() for _ in range(3))
    feature(stage, third, position=2)
    feature(stage, first, position=1)
    feature(stage, second, position=1)

    assert shown(stage) == [first, second, third]
    assert stage.shown_on_campus(PATH)[0] == stage.card(first)
    slug = stage.market.row(Campus, stage.market.campus_id).slug
    assert len(stage.shown(PATH, campus=slug)) == 3
    assert stage.shown(PATH, campus=str(stage.market.campus())) == []


def test_pages_skip_and_repeat_nothing(stage: Stage) -> None:
    made = [stage.product() for _ in range(5)]
    for product_id in made:
        feature(stage, product_id)
    seen: list[str] = []
    query: dict[str, Any] = {"campus": str(stage.market.campus_id), "limit": 2}
    for _ in range(3):
        answer = stage.client.get(PATH, query_string=query).json
        assert answer is not None
        seen += [card["id"] for card in answer["data"]]
        query["cursor"] = answer["meta"]["next_cursor"]
    assert seen == [str(product_id) for product_id in made]


def test_featured_list_reflects_time_staff_and_product_changes(stage: Stage) -> None:
    """With the real cache."""
    product_id = stage.product()
    entry = feature(stage, product_id, startsAt=stage.later(minutes=10), endsAt=stage.later(minutes=20))
    assert entry["state"] == "upcoming"
    for expected in ([], [product_id], []):
        stage.run_due_boundaries()
        assert shown(stage) == expected
        stage.advance_clock(minutes=10)
    again = feature(stage, product_id)
    with counted_statements(stage.market.database) as seen:
        assert shown(stage) == [product_id]
    assert len(seen) == 1
    stage.client.put(
        f"/api/products/{product_id}", json={"quantity": 0}, headers=stage.bearer(stage.store.user_id)
    )
    assert stage.shown_on_campus(PATH)[0]["inStock"] is False

    gone = stage.client.delete(f"{PATH}/{again['id']}", headers=stage.officer)

    assert gone.json["data"] == {"deleted": True, "id": again["id"]}  # type: ignore[index]
    assert shown(stage) == []
    assert stage.client.delete(f"{PATH}/{again['id']}", headers=stage.officer).status_code == 409


def test_overlapping_entries_of_same_product_are_refused(stage: Stage) -> None:
    product_id = stage.product()
    first = feature(stage, product_id, endsAt=stage.later(hours=1))
    second = feature(stage, product_id, startsAt=stage.later(hours=1), endsAt=stage.later(hours=2))

    for window in (
        {},
        {"startsAt": stage.later(minutes=30)},
        {"startsAt": stage.later(minutes=90), "endsAt": stage.later(hours=3)},
    ):
        refused = stage.post(PATH, productId=str(product_id), **window)
        assert (refused.status_code, faults_of(refused)) == (409, ["startsAt"])
    assert stage.put(f"{PATH}/{first['id']}", clear=["endsAt"]).status_code == 409
    assert stage.put(f"{PATH}/{second['id']}", clear=["endsAt"]).status_code == 200
    stage.client.delete(f"{PATH}/{second['id']}", headers=stage.officer)
    assert stage.put(f"{PATH}/{first['id']}", clear=["endsAt"], revision=1).status_code == 200
    assert stage.put(f"{PATH}/{first['id']}", position=3, revision=1).status_code == 409


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"productId": str(uuid4())}, "productId"),
        ({"position": -1}, "position"),
        ({"startsAt": "2001-01-01T00:00:00Z"}, "startsAt"),
        ({"endsAt": "2001-01-01T00:00:00Z"}, "endsAt"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_invalid_field_is_named(stage: Stage, body: dict[str, Any], fault: str) -> None:
    refused = stage.post(PATH, **{"productId": str(stage.product())} | body)

    assert (refused.status_code, faults_of(refused)) == (422, [fault])


def test_featuring_requires_permission_and_refuses_own_store(stage: Stage) -> None:
    entry = feature(stage, stage.product())
    body = {"productId": str(stage.product())}
    for user_id in (stage.market.person(), stage.store.user_id, stage.market.staff("compliance")):
        headers = stage.bearer(user_id)
        for refused in (
            stage.client.post(PATH, json=body, headers=headers),
            stage.client.put(f"{PATH}/{entry['id']}", json={}, headers=headers),
            stage.client.delete(f"{PATH}/{entry['id']}", headers=headers),
            stage.client.get(f"{PATH}/all", headers=headers),
        ):
            assert refused.status_code == 403
    own = stage.market.product(stage.market.store(user_id=stage.officer_id))
    assert stage.post(PATH, productId=str(own)).status_code == 403
    other = stage.bearer(stage.market.staff("admin"))
    own_entry = stage.client.post(PATH, json={"productId": str(own)}, headers=other).json["data"]  # type: ignore[index]
    assert stage.put(f"{PATH}/{own_entry['id']}", position=1).status_code == 403
    assert stage.client.delete(f"{PATH}/{own_entry['id']}", headers=stage.officer).status_code == 403
    assert stage.put(f"{PATH}/{uuid4()}", position=1).status_code == 404


def test_start_of_running_featured_product_cannot_change(stage: Stage) -> None:
    refused = stage.put(f"{PATH}/{feature(stage, stage.product())['id']}", startsAt=stage.later(hours=1))

    assert refused.json["reason"] == "promotion-started"  # type: ignore[index]


def test_staff_see_ended_entry_and_each_change_is_audited(stage: Stage) -> None:
    entry = feature(stage, stage.product(status="paused"), startsAt=stage.later(hours=1))
    stage.put(f"{PATH}/{entry['id']}", position=9)
    stage.client.delete(f"{PATH}/{entry['id']}", headers=stage.officer)

    listed = stage.client.get(f"{PATH}/all?state=ended&limit=100", headers=stage.officer).json
    assert listed is not None
    [found] = [one for one in listed["data"] if one["id"] == entry["id"]]

    assert (found["product"]["status"], found["position"], found["state"]) == ("paused", 9, "ended")
    acts = stage.audited(entry["id"])
    assert [act.action for act in acts] == [
        f"featured_product.{verb}" for verb in ("create", "change", "end")
    ]
    assert (acts[1].before["position"], acts[1].after["position"]) == (0, 9)
