"""Flash sales over HTTP: managed by staff, listed for the public, shown on product cards."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from marketplace.catalog.models import Product
from marketplace.catalog.promotions.models import FlashSale
from marketplace.kernel.clock import iso
from marketplace.platform.models import Campus
from tests.support.product_api import faults_of
from tests.support.promotions import Stage
from tests.support.resource_usage import counted_statements

PATH = "/api/flash-sales"


def ids(found: list[Any]) -> list[str]:
    return [one["id"] for one in found]


class TestCreation:
    def test_percentage_is_converted_to_a_sale_price(self, stage: Stage) -> None:
        product_id = stage.product(price_minor=250_050)

        sale = stage.sale(product_id, percentOff=15, quantity=3)

        assert sale | {"createdAt": None, "updatedAt": None} == {
            "id": sale["id"],
            "state": "running",
            "product": {
                "id": str(product_id),
                "title": sale["product"]["title"],
                "status": "published",
                "priceMinor": 250_050,
                "campusId": str(stage.market.campus_id),
                "vendorId": str(stage.store.id),
            },
            "salePriceMinor": 212_543,
            "percentOff": 15,
            "startsAt": stage.later(),
            "endsAt": stage.later(hours=1),
            "quantity": 3,
            "sold": 0,
            "createdBy": str(stage.officer_id),
            "createdAt": None,
            "updatedAt": None,
            "endedAt": None,
            "endedBy": None,
            "revision": 1,
        }

    def test_running_flash_sale_shows_on_cards_and_detail(self, stage: Stage) -> None:
        product_id = stage.product(price_minor=10_000)
        assert stage.card(product_id)["flashSale"] is None

        stage.sale(product_id, salePriceMinor=6_667, startsAt=stage.later(minutes=10), quantity=4)

        assert stage.card(product_id)["flashSale"] is None
        assert stage.detail(product_id)["flashSale"] is None
        stage.advance_clock(minutes=10)
        assert stage.detail(product_id)["flashSale"] == {
            "priceMinor": 6_667,
            "endsAt": stage.later(minutes=50),
            "percentOff": 33,
            "left": 4,
        }
        assert stage.detail(product_id)["priceMinor"] == 10_000
        stage.run_due_boundaries()
        assert stage.card(product_id)["flashSale"] == stage.detail(product_id)["flashSale"]
        stage.advance_clock(minutes=50)
        assert stage.detail(product_id)["flashSale"] is None

    def test_consecutive_sales_of_same_product_follow_each_other(self, stage: Stage) -> None:
        product_id = stage.product()
        stage.sale(product_id, startsAt=stage.later(hours=2), endsAt=stage.later(hours=3), percentOff=10)
        stage.sale(product_id, endsAt=stage.later(hours=2), percentOff=50)

        assert stage.detail(product_id)["flashSale"]["percentOff"] == 50
        stage.advance_clock(hours=2)
        assert stage.run_due_boundaries() >= 1
        assert stage.detail(product_id)["flashSale"]["percentOff"] == 10

    def test_overlapping_sale_of_same_product_is_refused(self, stage: Stage) -> None:
        product_id = stage.product()
        stage.sale(product_id, startsAt=stage.later(hours=2), endsAt=stage.later(hours=3))

        for start, end in ((1, 2.5), (2.5, 4), (2.2, 2.8), (1, 4)):
            refused = stage.post(
                PATH,
                productId=str(product_id),
                percentOff=5,
                startsAt=stage.later(hours=start),
                endsAt=stage.later(hours=end),
            )
            assert refused.status_code == 409
            assert faults_of(refused) == ["startsAt"]
        stage.sale(product_id, startsAt=stage.later(hours=3), endsAt=stage.later(hours=4))
        stage.sale(stage.product(), startsAt=stage.later(hours=2), endsAt=stage.later(hours=3))

    @pytest.mark.parametrize(
        ("body", "fault"),
        [
            ({"salePriceMinor": 10_000}, "salePriceMinor"),
            ({"salePriceMinor": 0}, "salePriceMinor"),
            ({"salePriceMinor": 999}, "salePriceMinor"),
            ({"percentOff": 0}, "percentOff"),
            ({"percentOff": 91}, "percentOff"),
            ({"percentOff": 10, "salePriceMinor": 5_000}, "salePriceMinor"),
            ({}, "salePriceMinor"),
            ({"percentOff": 10, "quantity": 0}, "quantity"),
            ({"percentOff": 10, "startsAt": -60}, "startsAt"),
            ({"percentOff": 10, "endsAt": -60}, "endsAt"),
            ({"percentOff": 10, "startsAt": 90, "endsAt": 60}, "endsAt"),
            ({"percentOff": 10, "startsAt": 90, "endsAt": 90}, "endsAt"),
            ({"percentOff": 10, "endsAt": 30 * 86_400 + 1}, "endsAt"),
            ({"percentOff": 10, "endsAt": "tomorrow"}, "endsAt"),
            ({"percentOff": 10, "productId": str(uuid4())}, "productId"),
            ({"percentOff": 10, "colour": "red"}, "colour"),
        ],
    )
    def test_invalid_field_is_named(self, stage: Stage, body: dict[str, Any], fault: str) -> None:
        given = {"productId": str(stage.product()), "endsAt": 3_600} | body
        for name in ("startsAt", "endsAt"):
            if isinstance(given.get(name), int):
                given[name] = stage.later(seconds=given[name])

        refused = stage.post(PATH, **given)

        assert refused.status_code == 422
        assert faults_of(refused) == [fault]

    @pytest.mark.parametrize(
        ("regular", "discount", "fault"),
        [
            (333_333, {"salePriceMinor": 33_332}, "salePriceMinor"),
            (333_333, {"salePriceMinor": 33_333}, None),
            (333_333, {"percentOff": 90}, None),
            (900, {"salePriceMinor": 99}, "salePriceMinor"),
            (900, {"salePriceMinor": 100}, None),
            (900, {"percentOff": 90}, "percentOff"),
            (900, {"percentOff": 88}, None),
        ],
    )
    def test_sale_price_is_limited_by_the_maximum_discount(
        self, stage: Stage, regular: int, discount: dict[str, int], fault: str | None
    ) -> None:
        product_id = stage.product(price_minor=regular)
        given = {"productId": str(product_id), "endsAt": stage.later(hours=1)}

        made = stage.post(PATH, **given, **discount)

        assert made.status_code == (422 if fault else 201)
        if fault:
            assert faults_of(made) == [fault]

    def test_update_beyond_the_maximum_discount_is_refused(self, stage: Stage) -> None:
        sale = stage.sale(stage.product(price_minor=333_333))

        refused = stage.put(f"{PATH}/{sale['id']}", salePriceMinor=33_332)

        assert (refused.status_code, faults_of(refused)) == (422, ["salePriceMinor"])

    @pytest.mark.parametrize("status", ["removed", "deleted"])
    def test_sale_of_removed_or_deleted_product_is_refused(self, stage: Stage, status: str) -> None:
        refused = stage.post(
            PATH,
            productId=str(stage.product(status=status)),
            percentOff=10,
            endsAt=stage.later(hours=1),
        )

        assert (refused.status_code, faults_of(refused)) == (422, ["productId"])

    def test_each_change_is_audited(self, stage: Stage) -> None:
        sale = stage.sale(stage.product(), salePriceMinor=9_000)
        stage.put(f"{PATH}/{sale['id']}", salePriceMinor=8_000)
        stage.post(f"{PATH}/{sale['id']}/end")

        acts = stage.audited(sale["id"])

        assert [act.action for act in acts] == ["flash_sale.create", "flash_sale.change", "flash_sale.end"]
        assert {(act.actor, act.actor_id, act.target_type) for act in acts} == {
            ("moderator", stage.officer_id, "flash_sale")
        }
        assert acts[0].before is None
        assert acts[1].before["sale_price_minor"] == 9_000
        assert acts[1].after["sale_price_minor"] == 8_000
        assert (acts[2].before["ended_at"], acts[2].after["ended_at"]) == (None, iso(stage.clock.now))
        assert acts[0].ip_address
        assert acts[0].user_agent


class TestUpdates:
    def test_omitted_fields_are_unchanged(self, stage: Stage) -> None:
        sale = stage.sale(stage.product(), percentOff=10, quantity=5)

        changed = stage.put(f"{PATH}/{sale['id']}", endsAt=stage.later(hours=2), revision=1)

        assert changed.status_code == 200
        assert changed.json["data"] | {"updatedAt": None} == sale | {  # type: ignore[index]
            "endsAt": stage.later(hours=2),
            "revision": 2,
            "updatedAt": None,
        }

    def test_new_sale_price_replaces_the_percentage(self, stage: Stage) -> None:
        product_id = stage.product()
        sale = stage.sale(product_id, percentOff=10)
        assert stage.card(product_id)["flashSale"]["priceMinor"] == 9_000

        data = stage.put(f"{PATH}/{sale['id']}", salePriceMinor=7_000).json["data"]  # type: ignore[index]

        assert (data["salePriceMinor"], data["percentOff"]) == (7_000, None)
        assert stage.card(product_id)["flashSale"]["priceMinor"] == 7_000

    def test_stale_revision_is_refused(self, stage: Stage) -> None:
        sale = stage.sale(stage.product())
        assert stage.put(f"{PATH}/{sale['id']}", quantity=7, revision=1).status_code == 200

        refused = stage.put(f"{PATH}/{sale['id']}", quantity=8, revision=1)

        assert (refused.status_code, faults_of(refused)) == (409, ["revision"])

    def test_start_of_running_flash_sale_cannot_change(self, stage: Stage) -> None:
        sale = stage.sale(stage.product())

        refused = stage.put(f"{PATH}/{sale['id']}", startsAt=stage.later(minutes=5))

        assert (refused.status_code, faults_of(refused)) == (422, ["startsAt"])
        assert refused.json["reason"] == "promotion-started"
        assert stage.put(f"{PATH}/{sale['id']}", startsAt=sale["startsAt"]).status_code == 200

    def test_quantity_below_claimed_units_is_refused(self, stage: Stage) -> None:
        product_id = stage.product()
        sale = stage.sale(product_id, quantity=5)
        assert stage.order(product_id, quantity=3).status_code == 201

        refused = stage.put(f"{PATH}/{sale['id']}", quantity=2)
        assert (refused.status_code, faults_of(refused)) == (409, ["quantity"])
        assert stage.put(f"{PATH}/{sale['id']}", quantity=3).status_code == 200
        assert stage.card(product_id)["flashSale"] is None
        assert stage.put(f"{PATH}/{sale['id']}", quantity=None).json["data"]["quantity"] == 3  # type: ignore[index]
        assert stage.put(f"{PATH}/{sale['id']}", clear=["quantity"]).status_code == 200
        assert stage.card(product_id)["flashSale"]["left"] is None

    def test_flash_sale_cannot_be_moved_onto_another(self, stage: Stage) -> None:
        product_id = stage.product()
        first = stage.sale(product_id)
        stage.sale(product_id, startsAt=stage.later(hours=2), endsAt=stage.later(hours=3))

        assert stage.put(f"{PATH}/{first['id']}", endsAt=stage.later(hours=2.5)).status_code == 409
        assert stage.put(f"{PATH}/{first['id']}", endsAt=stage.later(hours=2)).status_code == 200

    def test_ended_flash_sale_cannot_change(self, stage: Stage) -> None:
        sale = stage.sale(stage.product())
        stage.advance_clock(hours=1)

        for refused in (
            stage.put(f"{PATH}/{sale['id']}", endsAt=stage.later(hours=2)),
            stage.post(f"{PATH}/{sale['id']}/end"),
        ):
            assert refused.status_code == 409
            assert "ended at" in refused.json["detail"]  # type: ignore[index]

    def test_flash_sale_ends_at_once_and_only_once(self, stage: Stage) -> None:
        product_id = stage.product()
        sale = stage.sale(product_id)
        assert ids(stage.shown_on_campus(f"{PATH}/active")) == [sale["id"]]
        assert stage.card(product_id)["flashSale"]

        ended = stage.post(f"{PATH}/{sale['id']}/end")

        assert ended.json["data"]["state"] == "ended"  # type: ignore[index]
        assert stage.shown_on_campus(f"{PATH}/active") == []
        assert stage.card(product_id)["flashSale"] is None
        assert stage.post(f"{PATH}/{sale['id']}/end").status_code == 409
        stage.sale(product_id)

    def test_cancelled_flash_sale_never_runs(self, stage: Stage) -> None:
        product_id = stage.product()
        sale = stage.sale(product_id, startsAt=stage.later(hours=1), endsAt=stage.later(hours=2))
        stage.post(f"{PATH}/{sale['id']}/end")

        stage.advance_clock(hours=1.5)
        stage.run_due_boundaries()

        assert stage.detail(product_id)["flashSale"] is None
        assert stage.shown_on_campus(PATH) == []
        stage.sale(product_id)

    def test_missing_flash_sale_is_not_found(self, stage: Stage) -> None:
        assert stage.put(f"{PATH}/{uuid4()}", quantity=1).status_code == 404
        assert stage.post(f"{PATH}/{uuid4()}/end").status_code == 404


class TestPermissions:
    def test_flash_sales_require_the_permission(self, stage: Stage) -> None:
        sale = stage.sale(stage.product())
        body = {"productId": str(stage.product()), "percentOff": 10, "endsAt": stage.later(hours=1)}
        client, market = stage.client, stage.market
        for user_id in (market.person(), stage.store.user_id, market.staff("finance")):
            headers = stage.bearer(user_id)
            for refused in (
                client.post(PATH, json=body, headers=headers),
                client.put(f"{PATH}/{sale['id']}", json={}, headers=headers),
                client.post(f"{PATH}/{sale['id']}/end", headers=headers),
                client.get(f"{PATH}/all", headers=headers),
            ):
                assert refused.status_code == 403
        assert client.post(PATH, json=body).status_code == 401
        assert client.get(f"{PATH}/all").status_code == 401

    def test_officer_cannot_put_own_store_on_sale(self, stage: Stage) -> None:
        own = stage.market.store(user_id=stage.officer_id)
        product_id = stage.market.product(own)
        body = {"productId": str(product_id), "percentOff": 10, "endsAt": stage.later(hours=1)}
        assert stage.post(PATH, **body).status_code == 403

        other = stage.bearer(stage.market.staff("admin"))
        sale = stage.client.post(PATH, json=body, headers=other).json["data"]  # type: ignore[index]

        assert stage.put(f"{PATH}/{sale['id']}", percentOff=50).status_code == 403
        assert stage.post(f"{PATH}/{sale['id']}/end").status_code == 403


class TestListing:
    def test_public_list_has_running_sold_out_and_upcoming_sales_by_start(self, stage: Stage) -> None:
        upcoming = stage.sale(
            stage.product(), startsAt=stage.later(minutes=30), endsAt=stage.later(hours=2), percentOff=40
        )
        running, sold_out = stage.sale(stage.product()), stage.product()
        gone = stage.sale(sold_out, quantity=1)
        assert stage.order(sold_out).status_code == 201
        ended = stage.sale(stage.product(), endsAt=stage.later(minutes=1))
        stage.advance_clock(minutes=1)

        listed = stage.shown_on_campus(PATH)

        assert {one["id"]: one["state"] for one in listed} == {
            running["id"]: "running",
            gone["id"]: "sold_out",
            upcoming["id"]: "upcoming",
        }
        assert listed[-1]["id"] == upcoming["id"]
        assert (listed[-1]["priceMinor"], listed[-1]["regularPriceMinor"]) == (6_000, 10_000)
        assert listed[-1]["percentOff"] == 40
        assert listed[-1]["product"]["flashSale"] is None
        assert ids(stage.shown_on_campus(PATH, state="running")) == [running["id"]]
        assert ids(stage.shown_on_campus(PATH, state="upcoming")) == [upcoming["id"]]
        assert ids(stage.shown_on_campus(PATH, state="sold_out")) == [gone["id"]]
        assert ids(stage.shown_on_campus(f"{PATH}/active")) == [running["id"]]
        assert stage.client.get(PATH, query_string={"state": "ended"}).status_code == 422
        assert ended["id"] not in ids(listed)

    def test_active_sales_are_listed_by_end(self, stage: Stage) -> None:
        ends = [3, 1, 2]
        made = [stage.sale(stage.product(), endsAt=stage.later(hours=hours)) for hours in ends]

        assert ids(stage.shown_on_campus(f"{PATH}/active")) == [made[n]["id"] for n in (1, 2, 0)]

    @pytest.mark.parametrize("path", [PATH, f"{PATH}/active"])
    def test_pages_skip_and_repeat_nothing(self, stage: Stage, path: str) -> None:
        made = {stage.sale(stage.product())["id"] for _ in range(5)}
        seen: list[str] = []
        query: dict[str, Any] = {"campus": str(stage.market.campus_id), "limit": 2}
        for _ in range(3):
            answer = stage.client.get(path, query_string=query).json
            assert answer is not None
            seen += ids(answer["data"])
            query["cursor"] = answer["meta"]["next_cursor"]
            stage.sale(stage.product(), startsAt=stage.later(hours=2), endsAt=stage.later(hours=3))

        assert len(seen) == len(set(seen))
        assert set(seen) >= made

    def test_sales_are_filtered_by_campus_id_or_slug(self, stage: Stage) -> None:
        sale = stage.sale(stage.product())
        slug = stage.market.row(Campus, stage.market.campus_id).slug

        for path in (PATH, f"{PATH}/active"):
            assert ids(stage.shown(path, campus=slug)) == [sale["id"]]
            assert stage.shown(path, campus=str(stage.market.campus())) == []
            assert stage.shown(path, campus="no-such-campus") == []

    def test_staff_see_flash_sales_in_all_states(self, stage: Stage) -> None:
        product_id = stage.product()
        first = stage.sale(product_id, endsAt=stage.later(minutes=1))
        stage.advance_clock(minutes=1)
        second = stage.sale(product_id)
        third = stage.sale(product_id, startsAt=stage.later(hours=5), endsAt=stage.later(hours=6))
        cancelled = stage.sale(product_id, startsAt=stage.later(hours=7), endsAt=stage.later(hours=8))
        stage.post(f"{PATH}/{cancelled['id']}/end")

        def found(**query: Any) -> list[str]:
            given = {"productId": str(product_id)} | query
            answer = stage.client.get(f"{PATH}/all", query_string=given, headers=stage.officer)
            assert answer.status_code == 200
            return ids(answer.json["data"])  # type: ignore[index]

        assert found() == [one["id"] for one in (cancelled, third, second, first)]
        assert found(state="running") == [second["id"]]
        assert found(state="upcoming") == [third["id"]]
        assert found(state="ended") == [cancelled["id"], first["id"]]
        page = stage.client.get(
            f"{PATH}/all", query_string={"productId": str(product_id), "limit": 3}, headers=stage.officer
        ).json
        assert page is not None
        assert found(limit=3, cursor=page["meta"]["next_cursor"]) == [first["id"]]

    def test_active_list_takes_a_single_statement(self, stage: Stage) -> None:
        counts = []
        for limit in (7, 8):
            stage.sale(stage.product())
            with counted_statements(stage.market.database) as seen:
                stage.shown_on_campus(f"{PATH}/active", limit=limit)
            counts.append(len(seen))
        assert counts == [1, 1]


class TestCaching:
    """With the real cache: public data follows time, prices, stock and staff at once."""

    def test_active_list_is_cached_until_a_sale_changes(self, stage: Stage) -> None:
        sale = stage.sale(stage.product(), percentOff=10)
        first = stage.client.get(f"{PATH}/active?campus={stage.market.campus_id}")
        assert first.headers["Cache-Control"] == "public, max-age=60"
        with counted_statements(stage.market.database) as seen:
            assert stage.shown_on_campus(f"{PATH}/active") == first.json["data"]  # type: ignore[index]
        assert seen == []

        stage.put(f"{PATH}/{sale['id']}", percentOff=20)

        assert stage.shown_on_campus(f"{PATH}/active")[0]["percentOff"] == 20

    def test_start_and_end_of_sale_clear_stale_entries(self, stage: Stage) -> None:
        product_id = stage.product()
        stage.sale(product_id, startsAt=stage.later(minutes=10), endsAt=stage.later(minutes=20))
        assert stage.sale_boundaries_of(product_id) == [
            stage.clock.now + timedelta(minutes=10),
            stage.clock.now + timedelta(minutes=20),
        ]
        for shown in (False, True, False):
            stage.run_due_boundaries()
            assert bool(stage.shown_on_campus(f"{PATH}/active")) is shown
            assert bool(stage.card(product_id)["flashSale"]) is shown
            stage.advance_clock(minutes=10)

    def test_outdated_boundary_events_have_no_effect(self, stage: Stage) -> None:
        product_id = stage.product()
        sale = stage.sale(product_id, startsAt=stage.later(minutes=10), endsAt=stage.later(minutes=20))
        moved = stage.put(
            f"{PATH}/{sale['id']}", startsAt=stage.later(minutes=15), endsAt=stage.later(minutes=40)
        )
        assert moved.status_code == 200
        for minutes, shown in ((10, False), (5, True), (5, True), (20, False)):
            stage.advance_clock(minutes=minutes)
            stage.run_due_boundaries()
            assert bool(stage.card(product_id)["flashSale"]) is shown

    def test_claimed_and_returned_units_show_at_once(self, stage: Stage) -> None:
        product_id, buyer = stage.product(), stage.buyer()
        stage.sale(product_id, quantity=2)
        assert stage.card(product_id)["flashSale"]["left"] == 2
        order = stage.order(product_id, quantity=2, buyer=buyer).json["data"]  # type: ignore[index]
        assert stage.card(product_id)["flashSale"] is None
        assert stage.shown_on_campus(f"{PATH}/active") == []

        stage.client.post(f"/api/orders/{order['id']}/cancel", json={}, headers=buyer)

        assert stage.card(product_id)["flashSale"]["left"] == 2
        assert stage.shown_on_campus(f"{PATH}/active")[0]["left"] == 2

    def test_regular_price_not_above_sale_price_hides_the_sale(self, stage: Stage) -> None:
        product_id = stage.product(price_minor=10_000)
        stage.sale(product_id, salePriceMinor=6_000)
        assert len(stage.shown_on_campus(f"{PATH}/active")) == 1

        changed = stage.client.put(
            f"/api/products/{product_id}",
            json={"priceMinor": 6_000},
            headers=stage.bearer(stage.store.user_id),
        )
        assert changed.status_code == 200
        stage.market.change(Product, product_id, status="published")

        assert stage.shown_on_campus(f"{PATH}/active") == []
        assert stage.shown_on_campus(PATH) == []
        assert stage.detail(product_id)["flashSale"] is None
        assert stage.order(product_id).json["data"]["items"][0]["unitPriceMinor"] == 6_000  # type: ignore[index]


def test_database_constraints_enforce_the_sale_rules(stage: Stage) -> None:
    product_id = stage.product()
    sale_id = UUID(stage.sale(product_id, quantity=5)["id"])
    now = stage.clock.now
    for constraint, columns in (
        ("ck_flash_sales_sold", {"sold": 6}),
        ("ck_flash_sales_sold", {"sold": -1}),
        ("ck_flash_sales_window", {"ends_at": now - timedelta(hours=1)}),
        ("ck_flash_sales_length", {"ends_at": now + timedelta(days=31)}),
        ("ck_flash_sales_price", {"sale_price_minor": 0}),
    ):
        with pytest.raises(Exception, match=constraint):
            stage.market.change(FlashSale, sale_id, **columns)
    with pytest.raises(Exception, match="ck_products_sale"):
        stage.market.change(Product, product_id, sale_ends_at=None)
    with pytest.raises(Exception, match="ex_flash_sales_product"):
        stage.market._save(
            FlashSale(
                product_id=product_id,
                sale_price_minor=1,
                starts_at=now + timedelta(minutes=59),
                ends_at=now + timedelta(hours=2),
                created_by=stage.officer_id,
            )
        )
