"""Banners over HTTP: managed by staff, shown to the public by campus, placement and time."""

from typing import Any
from uuid import UUID, uuid4

import pytest

from marketplace.media.models import Image
from marketplace.platform.models import Campus
from tests.support.product_api import faults_of
from tests.support.promotions import Stage
from tests.support.resource_usage import counted_statements

PATH = "/api/banners"
PICTURE = "https://cdn.example.edu/freshers.webp"


def banner(stage: Stage, **body: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "title": "Freshers' week",
        "placement": "hero",
        "campusId": str(stage.market.campus_id),
        **({} if "imageId" in body else {"imageUrl": PICTURE}),
    }
    return stage.create(PATH, **given | body)


def ids(found: list[Any]) -> list[str]:
    return [one["id"] for one in found]


def test_banner_created_by_staff_is_public(stage: Stage) -> None:
    made = banner(stage, subtitle="Half off", link="/products?category=books", position=3)

    assert stage.shown_on_campus(PATH) == [
        {
            "id": made["id"],
            "title": "Freshers' week",
            "subtitle": "Half off",
            "imageUrl": PICTURE,
            "link": "/products?category=books",
            "placement": "hero",
            "campusId": str(stage.market.campus_id),
            "position": 3,
            "startsAt": stage.later(),
            "endsAt": None,
        }
    ]
    assert (made["state"], made["revision"], made["createdBy"]) == ("running", 1, str(stage.officer_id))


def test_banner_may_use_an_uploaded_image(stage: Stage) -> None:
    image_id = stage.market.image(None)
    made = banner(stage, imageId=str(image_id))
    assert made["imageUrl"].endswith(stage.market.row(Image, image_id).key)
    sizes = [
        {"key": f"a-{width}.webp", "width": width, "height": 10, "contentType": "image/webp"}
        for width in (320, 1600, 800)
    ]
    stage.market.change(Image, image_id, renditions=sizes, unused_since=None)

    [shown] = stage.shown_on_campus(PATH)
    assert shown["imageUrl"].endswith("/a-1600.webp")

    changed = stage.put(f"{PATH}/{made['id']}", imageUrl=PICTURE).json["data"]  # type: ignore[index]
    assert (changed["imageUrl"], changed["imageId"]) == (PICTURE, None)
    # The image is unused now, so the cleanup may delete the image later.
    assert stage.market.row(Image, image_id).unused_since == stage.clock.now
    assert stage.put(f"{PATH}/{made['id']}", imageId=str(image_id)).json["data"]["imageId"]  # type: ignore[index]


@pytest.mark.parametrize("status", ["pending", "deleting", "deleted"])
def test_image_that_is_not_ready_is_refused(stage: Stage, status: str) -> None:
    image_id = stage.market.image(None)
    stage.market.change(Image, image_id, status=status)

    refused = stage.post(PATH, title="Freshers", placement="hero", imageId=str(image_id))

    assert (refused.status_code, faults_of(refused)) == (422, ["imageId"])


def test_banner_is_shown_by_campus_and_placement(stage: Stage) -> None:
    campus = stage.market.row(Campus, stage.market.campus_id)
    elsewhere = stage.market.campus()
    here = banner(stage, position=2)
    card = banner(stage, placement="card", position=1)
    there = banner(stage, campusId=str(elsewhere))
    everywhere = banner(stage, campusId=None, position=0)

    def found(**query: Any) -> set[str]:
        ours = {one["id"] for one in (here, card, there, everywhere)}
        return set(ids(stage.shown(PATH, limit=100, **query))) & ours

    assert found(campus=str(campus.id)) == found(campus=campus.slug) == ids_of(here, card, everywhere)
    assert found(campus=str(elsewhere)) == ids_of(there, everywhere)
    assert found(campus="no-such-campus") == ids_of(everywhere)
    assert found(campus=campus.slug, placement="card") == ids_of(card)
    assert found() == ids_of(here, card, there, everywhere)
    listed = [
        one for one in ids(stage.shown_on_campus(PATH, limit=100)) if one in ids_of(here, card, everywhere)
    ]
    assert listed == [everywhere["id"], card["id"], here["id"]]
    stage.client.delete(f"{PATH}/{everywhere['id']}", headers=stage.officer)


def ids_of(*made: dict[str, Any]) -> set[str]:
    return {one["id"] for one in made}


def test_banner_is_shown_between_start_and_end(stage: Stage) -> None:
    """With the real cache: start and end clear stale entries."""
    banner(stage, startsAt=stage.later(minutes=10), endsAt=stage.later(minutes=20))
    for shown in (False, True, False):
        stage.run_due_boundaries()
        assert bool(stage.shown_on_campus(PATH)) is shown
        stage.advance_clock(minutes=10)


def test_banner_list_is_cached_until_staff_change_a_banner(stage: Stage) -> None:
    made = banner(stage)
    first = stage.client.get(PATH, query_string={"campus": str(stage.market.campus_id)})
    assert first.headers["Cache-Control"] == "public, max-age=300"
    with counted_statements(stage.market.database) as seen:
        stage.shown_on_campus(PATH)
    assert seen == []

    stage.put(f"{PATH}/{made['id']}", title="Last days")
    assert [one["title"] for one in stage.shown_on_campus(PATH)] == ["Last days"]

    gone = stage.client.delete(f"{PATH}/{made['id']}", headers=stage.officer)
    assert gone.json["data"] == {"deleted": True, "id": made["id"]}  # type: ignore[index]
    assert stage.shown_on_campus(PATH) == []
    again = stage.client.delete(f"{PATH}/{made['id']}", headers=stage.officer)
    assert again.status_code == 409
    assert stage.put(f"{PATH}/{made['id']}", title="Back").status_code == 409


@pytest.mark.parametrize(
    ("body", "faults"),
    [
        ({"link": "javascript:alert(1)"}, ["link"]),
        ({"link": "//evil.example"}, ["link"]),
        ({"link": "/\\evil.example"}, ["link"]),
        ({"link": "/a\nb"}, ["link"]),
        ({"link": " https://example.edu"}, ["link"]),
        ({"link": "data:text/html,x"}, ["link"]),
        ({"link": "https://"}, ["link"]),
        ({"link": "https://user:pw@example.edu/"}, ["link"]),
        ({"link": "https://user@example.edu"}, ["link"]),
        ({"link": "http://[bad"}, ["link"]),
        ({"link": ""}, ["link"]),
        ({"imageUrl": "javascript:alert(1)"}, ["imageUrl"]),
        ({"imageUrl": "/local.webp"}, ["imageUrl"]),
        ({"imageId": str(uuid4())}, ["imageId"]),
        ({"imageUrl": None}, ["imageId"]),
        ({"placement": "footer"}, ["placement"]),
        ({"title": "  "}, ["title"]),
        ({"title": "x" * 121}, ["title"]),
        ({"position": -1}, ["position"]),
        ({"position": 1001}, ["position"]),
        ({"campusId": str(uuid4())}, ["campusId"]),
        ({"startsAt": "2001-01-01T00:00:00Z"}, ["startsAt"]),
        ({"startsAt": "2001-01-01T00:00:00Z", "endsAt": "2001-01-02T00:00:00Z"}, ["startsAt", "endsAt"]),
        ({"revision": 1}, ["revision"]),
    ],
)
def test_invalid_field_is_named(stage: Stage, body: dict[str, Any], faults: list[str]) -> None:
    given = {"title": "Freshers", "placement": "hero", "imageUrl": PICTURE} | body
    if "imageId" in body:
        del given["imageUrl"]

    refused = stage.post(PATH, **given)

    assert refused.status_code == 422
    assert faults_of(refused) == faults


def test_missing_or_ambiguous_image_is_refused(stage: Stage) -> None:
    for pictures in ({}, {"imageUrl": PICTURE, "imageId": str(stage.market.image(None))}):
        refused = stage.post(PATH, title="Freshers", placement="hero", **pictures)
        assert (refused.status_code, faults_of(refused)) == (422, ["imageId"])


@pytest.mark.parametrize(
    "link", ["/", "/a?b=c#d", "https://example.edu/x", "http://example.edu:8080", "https://example.edu/@ada"]
)
def test_valid_link_is_accepted(stage: Stage, link: str) -> None:
    assert banner(stage, link=link)["link"] == link


def test_stale_revision_is_refused(stage: Stage) -> None:
    made = banner(stage)
    assert stage.put(f"{PATH}/{made['id']}", position=5, revision=1).json["data"]["revision"] == 2  # type: ignore[index]
    refused = stage.put(f"{PATH}/{made['id']}", position=6, revision=1)
    assert (refused.status_code, faults_of(refused)) == (409, ["revision"])
    header = stage.officer | {"If-Match": '"2"'}
    assert stage.client.put(f"{PATH}/{made['id']}", json={"position": 7}, headers=header).status_code == 200


def test_banners_require_the_permission(stage: Stage) -> None:
    made = banner(stage)
    body = {"title": "Freshers", "placement": "hero", "imageUrl": PICTURE}
    for user_id in (stage.market.person(), stage.store.user_id, stage.market.staff("support")):
        headers = stage.bearer(user_id)
        for refused in (
            stage.client.post(PATH, json=body, headers=headers),
            stage.client.put(f"{PATH}/{made['id']}", json={}, headers=headers),
            stage.client.delete(f"{PATH}/{made['id']}", headers=headers),
            stage.client.get(f"{PATH}/all", headers=headers),
        ):
            assert refused.status_code == 403
    assert stage.client.post(PATH, json=body).status_code == 401
    assert stage.put(f"{PATH}/{uuid4()}", title="None").status_code == 404
    assert stage.client.delete(f"{PATH}/{uuid4()}", headers=stage.officer).status_code == 404


def test_start_of_running_banner_cannot_change(stage: Stage) -> None:
    refused = stage.put(f"{PATH}/{banner(stage)['id']}", startsAt=stage.later(hours=1))

    assert refused.json["reason"] == "promotion-started"  # type: ignore[index]


def test_staff_see_banners_in_all_states(stage: Stage) -> None:
    ended = banner(stage)
    stage.client.delete(f"{PATH}/{ended['id']}", headers=stage.officer)
    running, planned = banner(stage), banner(stage, startsAt=stage.later(hours=1))

    def found(**query: Any) -> list[str]:
        answer = stage.client.get(f"{PATH}/all", query_string={"limit": 100} | query, headers=stage.officer)
        assert answer.status_code == 200
        ours = ids_of(ended, running, planned)
        return [one for one in ids(answer.json["data"]) if one in ours]  # type: ignore[index]

    assert found() == [planned["id"], running["id"], ended["id"]]
    assert found(state="upcoming") == [planned["id"]]
    assert found(state="running") == [running["id"]]
    assert found(state="ended") == [ended["id"]]


def test_pages_skip_and_repeat_nothing(stage: Stage) -> None:
    made = [banner(stage, position=n % 2)["id"] for n in range(5)]
    seen: list[str] = []
    query: dict[str, Any] = {"campus": str(stage.market.campus_id), "limit": 2}
    for _ in range(3):
        answer = stage.client.get(PATH, query_string=query).json
        assert answer is not None
        seen += ids(answer["data"])
        query["cursor"] = answer["meta"]["next_cursor"]
    assert seen == [made[n] for n in (0, 2, 4, 1, 3)]


def test_each_change_is_audited(stage: Stage) -> None:
    made = banner(stage)
    stage.put(f"{PATH}/{made['id']}", title="Last days")
    stage.client.delete(f"{PATH}/{made['id']}", headers=stage.officer)

    acts = stage.audited(made["id"])

    assert [act.action for act in acts] == ["banner.create", "banner.change", "banner.end"]
    assert (acts[1].before["title"], acts[1].after["title"]) == ("Freshers' week", "Last days")
    assert acts[2].after["ended_at"]
    assert UUID(acts[0].after["campus_id"]) == stage.market.campus_id
