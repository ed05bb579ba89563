"""Stores' profiles, and the bank account that payouts go to, over HTTP."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from marketplace.identity.models import Profile
from marketplace.payments.banks import TAG
from marketplace.services import Services
from marketplace.vendors.models import VendorProfile
from tests.support.desk import Desk
from tests.support.gateway import MovableClock, TestGateway
from tests.support.moderation import audit_of, notifications_of
from tests.support.payouts import make_account
from tests.support.probes import assert_problem, faults
from tests.support.purchases import NOW, later, make_shop

GTB = {"accountNumber": "2234567890", "bankCode": "058"}
ZENITH = {"accountNumber": "2234567891", "bankCode": "057"}
OWN = "/api/wallet/bank-account"


@pytest.fixture(autouse=True)
def forgotten(paying_services: Services) -> Iterator[None]:
    """No test finds the list of banks that another one had kept."""
    paying_services.cache.drop(TAG)
    yield
    paying_services.cache.drop(TAG)


def wire(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def path_of(desk: Desk, store_id: UUID | None = None) -> str:
    return f"/api/vendors/profile/{store_id or desk.shop.store_id}"


def put(
    desk: Desk, body: dict[str, Any], *, by: dict[str, str] | None = None, headers: dict[str, str] | None = None
) -> Any:  # fmt: skip
    return desk.client.put(path_of(desk), json=body, headers=(by or desk.vendor) | (headers or {}))


def changed(desk: Desk, body: dict[str, Any], **how: Any) -> dict[str, Any]:
    answer = put(desk, body, **how)
    assert answer.status_code == 200, answer.text
    data: dict[str, Any] = answer.json["data"]
    return data


def shown(desk: Desk, by: dict[str, str] | None = None) -> dict[str, Any]:
    answer = desk.client.get(path_of(desk), headers=by or {})
    assert answer.status_code == 200, answer.text
    data: dict[str, Any] = answer.json["data"]
    return data


def set_columns(desk: Desk, **columns: Any) -> None:
    with desk.database.transaction() as session:
        store = session.get_one(VendorProfile, desk.shop.store_id)
        for name, value in columns.items():
            setattr(store, name, value)


def accounts_of(desk: Desk, user_id: UUID) -> list[dict[str, Any]]:
    with desk.database.reading() as session:
        rows = session.execute(
            text("SELECT * FROM payout_accounts WHERE user_id = :id ORDER BY id"), {"id": user_id}
        )
        return [dict(row) for row in rows.mappings()]


def phone_of(desk: Desk, phone: str | None) -> None:
    answer = desk.client.put("/api/users/me", json={"phone": phone}, headers=desk.vendor)
    assert answer.status_code == 200, answer.text


class TestShowing:
    def test_the_public_sees_a_store_and_nothing_of_its_money(self, desk: Desk) -> None:
        set_columns(desk, description="All lamps.", rating_sum=9, rating_count=2, completed_orders=3)

        data = shown(desk)
        assert data == shown(desk, desk.buyer)
        assert (data["displayName"], data["description"]) == ("Ngozi's Lamps", "All lamps.")
        assert (data["rating"], data["ratingCount"], data["completedOrders"]) == (4.5, 2, 3)
        assert data["policies"] == {"returns": None, "delivery": None, "warranty": None}
        assert data["vacationMode"] is None
        assert not {"bankAccount", "payoutHolds"} & set(data)

    def test_its_owner_sees_the_account_masked_and_what_holds_payouts(self, desk: Desk) -> None:
        data = shown(desk, desk.vendor)
        assert data["bankAccount"] is None
        assert [hold["reason"] for hold in data["payoutHolds"]] == ["no_bank_account"]

        with desk.database.transaction() as session:
            make_account(session, desk.shop.vendor.id, account_number="1234567890")
        data = shown(desk, desk.vendor)
        assert data["bankAccount"]["accountNumber"] == "******7890"
        assert data["bankAccount"]["heldUntil"] is None
        assert data["payoutHolds"] == []

    @pytest.mark.parametrize("status", ["suspended", "closed"])
    def test_one_that_is_not_open_is_shown_to_its_owner_alone(self, desk: Desk, status: str) -> None:
        set_columns(desk, status=status)

        assert shown(desk, desk.vendor)["status"] == status
        for headers in ({}, desk.buyer):
            assert_problem(desk.client.get(path_of(desk), headers=headers), 404, "RESOURCE_NOT_FOUND")

    def test_there_is_none_of_that_id(self, desk: Desk) -> None:
        assert_problem(desk.client.get(path_of(desk, uuid4())), 404, "RESOURCE_NOT_FOUND")


class TestChanging:
    def test_fields_are_changed_and_the_others_stay(self, desk: Desk) -> None:
        first = changed(
            desk, {"displayName": "Ngozi's  Light", "policies": {"returns": "7 days", "delivery": "On foot"}}
        )
        assert (first["displayName"], first["revision"]) == ("Ngozi's Light", 2)
        assert first["policies"] == {"returns": "7 days", "delivery": "On foot", "warranty": None}

        second = changed(
            desk, {"description": "New lamps.", "policies": {"delivery": None, "warranty": "A year"}}
        )
        assert second["policies"] == {"returns": "7 days", "delivery": None, "warranty": "A year"}
        assert (second["displayName"], second["description"]) == ("Ngozi's Light", "New lamps.")
        assert second["revision"] == 3

        assert changed(desk, {"description": "New lamps."})["revision"] == 3
        assert changed(desk, {"description": ""})["description"] == ""
        assert shown(desk, desk.vendor)["revision"] == 4

    def test_a_vacation_begins_and_ends_and_is_over_by_itself(self, desk: Desk, clock: MovableClock) -> None:
        until = later(days=3)
        data = changed(desk, {"vacationMode": {"until": wire(until), "note": "Exams"}})
        assert data["vacationMode"] == {"until": wire(until), "note": "Exams"}

        clock.now = until
        assert shown(desk)["vacationMode"] is None
        assert changed(desk, {"vacationMode": {}})["vacationMode"] == {"until": None, "note": None}
        assert changed(desk, {"description": "x"})["vacationMode"] == {"until": None, "note": None}
        assert changed(desk, {"vacationMode": None})["vacationMode"] is None

    def test_what_listings_show_of_it_is_shown_at_once(self, desk: Desk) -> None:
        product = desk.product()
        path = f"/api/products?vendor={desk.shop.store_id}"
        [card] = desk.client.get(path).json["data"]
        assert (card["id"], card["vendor"]["displayName"]) == (str(product), "Ngozi's Lamps")

        changed(desk, {"displayName": "Lights"})
        assert desk.client.get(path).json["data"][0]["vendor"]["displayName"] == "Lights"
        changed(desk, {"vacationMode": {}})
        assert desk.client.get(path).json["data"] == []

    @pytest.mark.parametrize(
        ("body", "named"),
        [
            ({"displayName": "x"}, ["displayName"]),
            ({"displayName": "x" * 81}, ["displayName"]),
            ({"description": "x" * 5001}, ["description"]),
            ({"policies": {"refunds": "x"}}, ["policies.refunds"]),
            ({"policies": {"returns": "x" * 2001}}, ["policies.returns"]),
            ({"vacationMode": {"until": wire(NOW)}}, ["vacationMode.until"]),
            ({"vacationMode": {"until": "tomorrow"}}, ["vacationMode.until"]),
            ({"vacationMode": True}, ["vacationMode"]),
            ({"bankAccount": {"bankCode": "058"}}, ["bankAccount.accountNumber"]),
            ({"bankAccount": {"bankCode": "058", "accountNumber": "22345678901"}}, ["bankAccount.accountNumber"]),
            ({"bankAccount": None}, ["bankAccount"]),
            ({"verified": True}, ["verified"]),
            ({"slug": "new-slug"}, ["slug"]),
            # Whoever is written to elsewhere deals without escrow.
            (
                {"displayName": "Call 08031234567", "description": "Mail me: a@b.com"},
                ["description", "displayName"],
            ),
            (
                {"policies": {"returns": "Chat on 0803 123 4567"}, "vacationMode": {"note": "@lamps_ng"}},
                ["policies.returns", "vacationMode.note"],
            ),
        ],
        ids=repr,
    )  # fmt: skip
    def test_what_is_wrong_is_named_and_nothing_is_changed(
        self, desk: Desk, body: dict[str, Any], named: list[str]
    ) -> None:
        before = shown(desk, desk.vendor)
        assert sorted(faults(put(desk, body))) == named
        assert shown(desk, desk.vendor) == before

    def test_a_stale_revision_is_refused_and_the_bank_is_not_asked(
        self, desk: Desk, gateway: TestGateway
    ) -> None:
        assert changed(desk, {"description": "One", "revision": 1})["revision"] == 2
        for how in ({"body": {"revision": 1}}, {"headers": {"If-Match": '"1"'}}):
            body = {"description": "Two", "bankAccount": GTB} | how.get("body", {})
            answer = put(desk, body, headers=how.get("headers"))
            assert_problem(answer, 409, "CONCURRENCY_CONFLICT")
        assert changed(desk, {"description": "Two"}, headers={"If-Match": '"2"'})["revision"] == 3
        assert gateway.line.calls == []

    def test_who_does_not_run_the_store_changes_nothing(self, desk: Desk, gateway: TestGateway) -> None:
        body = {"description": "Mine", "bankAccount": GTB}
        other = desk.bearer(desk.database.in_transaction(make_shop).vendor.id)
        assert_problem(put(desk, body, by=other), 404, "RESOURCE_NOT_FOUND")
        assert_problem(put(desk, {"description": "Mine"}, by=other), 404, "RESOURCE_NOT_FOUND")
        assert_problem(put(desk, body, by=desk.buyer), 403, "AUTH_FORBIDDEN")
        assert_problem(put(desk, body, by=desk.officer("admin")), 403, "AUTH_FORBIDDEN")
        assert_problem(desk.client.put(path_of(desk), json=body), 401, "AUTH_UNAUTHORIZED")
        assert gateway.line.calls == []
        assert accounts_of(desk, desk.shop.vendor.id) == []

    def test_of_two_at_once_with_one_revision_one_is_refused(self, desk: Desk) -> None:
        headers = desk.vendor
        client = desk.client.application.test_client

        def send(word: str) -> int:
            status: int = (
                client()
                .put(path_of(desk), json={"description": word, "revision": 1}, headers=headers)
                .status_code
            )
            return status

        with ThreadPoolExecutor(2) as pool:
            assert sorted(pool.map(send, ("One", "Two"))) == [200, 409]
        assert shown(desk, headers)["revision"] == 2


class TestBankAccount:
    def test_it_is_the_one_that_the_bank_and_the_gateway_know(self, desk: Desk, gateway: TestGateway) -> None:
        data = changed(desk, {"bankAccount": GTB})

        [row] = accounts_of(desk, desk.shop.vendor.id)
        assert data["bankAccount"] == {
            "id": str(row["id"]),
            "bankCode": "058",
            "bankName": "Guaranty Trust Bank",
            "accountNumber": "******7890",
            "accountName": row["account_name"],
            "since": wire(NOW),
            "replacedAt": None,
            "heldUntil": wire(later(hours=24)),
        }
        assert data["revision"] == 2
        # The gateway gives the same account the same code.
        body = {"type": "nuban", "name": "N", "account_number": "2234567890", "bank_code": "058"}
        recipient = gateway.call("POST", "/transferrecipient", json=body)
        assert recipient["recipient_code"] == row["recipient_code"]
        assert recipient["details"]["account_name"] == row["account_name"]

    def test_payouts_are_held_for_a_day_from_the_change(self, desk: Desk, clock: MovableClock) -> None:
        [hold] = changed(desk, {"bankAccount": GTB})["payoutHolds"]
        assert (hold["reason"], hold["until"]) == ("bank_account_changed", wire(later(hours=24)))

        clock.now = later(hours=24) - timedelta(microseconds=1)
        assert shown(desk, desk.vendor)["payoutHolds"] == [hold]
        clock.now = later(hours=24)
        data = shown(desk, desk.vendor)
        assert (data["payoutHolds"], data["bankAccount"]["heldUntil"]) == ([], None)

    def test_the_old_one_is_kept_and_the_same_again_changes_nothing(
        self, desk: Desk, clock: MovableClock
    ) -> None:
        vendor = desk.shop.vendor.id
        changed(desk, {"bankAccount": GTB})
        clock.now = later(hours=30)
        again = changed(desk, {"bankAccount": GTB})
        assert (again["revision"], again["payoutHolds"]) == (2, [])
        assert len(notifications_of(desk.database, vendor)) == 1

        clock.now = later(hours=31)
        changed(desk, {"bankAccount": ZENITH})
        clock.now = later(hours=32)
        back = changed(desk, {"bankAccount": GTB})
        assert [hold["until"] for hold in back["payoutHolds"]] == [wire(later(hours=56))]

        rows = accounts_of(desk, vendor)
        assert [(row["account_number"], row["created_at"], row["replaced_at"]) for row in rows] == [
            (GTB["accountNumber"], NOW, later(hours=31)),
            (ZENITH["accountNumber"], later(hours=31), later(hours=32)),
            (GTB["accountNumber"], later(hours=32), None),
        ]
        assert rows[0]["recipient_code"] == rows[2]["recipient_code"] != rows[1]["recipient_code"]
        listed = desk.get(OWN, desk.vendor).json["data"]
        assert [(row["id"], row["replacedAt"]) for row in listed] == [
            (str(rows[2]["id"]), None),
            (str(rows[1]["id"]), wire(later(hours=32))),
            (str(rows[0]["id"]), wire(later(hours=31))),
        ]

    def test_who_is_paid_is_told_where_they_are_reached_and_were_until_lately(
        self, desk: Desk, clock: MovableClock
    ) -> None:
        vendor = desk.shop.vendor.id
        phone_of(desk, "+2348031234561")
        clock.now = later(days=20)
        phone_of(desk, "+2348031234562")
        clock.now = later(days=45)
        # Once more the same, and one that is given up and taken again: that is where they are reached anyway.
        for last in (562, 563, 562, 563, 564, 563):
            phone_of(desk, f"+2348031234{last}")
        clock.now = later(days=50, seconds=1)
        changed(desk, {"bankAccount": GTB})

        told = notifications_of(desk.database, vendor)
        assert {row["type"] for row in told} == {"bank_account_changed"}
        assert {row["title"] for row in told} == {"The bank account of your payouts was changed"}
        with desk.database.reading() as session:
            sent_to = session.execute(
                text(
                    "SELECT c.contact FROM notifications n LEFT JOIN former_contacts c"
                    " ON c.id = n.former_contact_id WHERE n.user_id = :id ORDER BY n.id"
                ),
                {"id": vendor},
            )
            # The first number was given up more than 30 days ago, so it may be somebody else's.
            assert sent_to.scalars().all() == [None, "+2348031234562", "+2348031234564"]
        for row in told:
            assert "ends with 7890" in row["body"]
            assert "2234567890" not in str(row)
            assert "10 January 2027, 09:30 UTC" in row["body"]

    def test_however_often_the_number_is_changed_the_first_one_is_told(self, desk: Desk) -> None:
        for last in range(30):
            phone_of(desk, f"+23480312345{last:02d}")
        changed(desk, {"bankAccount": GTB})
        with desk.database.reading() as session:
            told = session.execute(
                text(
                    "SELECT c.contact FROM notifications n JOIN former_contacts c ON c.id = n.former_contact_id"
                    " WHERE n.user_id = :id ORDER BY n.id"
                ),
                {"id": desk.shop.vendor.id},
            )
            assert told.scalars().all() == [f"+23480312345{last:02d}" for last in range(20)]

    def test_it_is_audited_without_numbers(self, desk: Desk) -> None:
        vendor = desk.shop.vendor.id
        changed(desk, {"bankAccount": GTB})
        changed(desk, {"bankAccount": ZENITH})

        first, second = accounts_of(desk, vendor)
        acts = [row for row in audit_of(desk.database, vendor) if row["action"] == "payout_account.change"]
        assert [(act["before"], act["after"]) for act in acts] == [
            (None, {"accountId": str(first["id"])}),
            ({"accountId": str(first["id"])}, {"accountId": str(second["id"])}),
        ]
        assert {act["actor_id"] for act in acts} == {vendor}

    @pytest.mark.parametrize(
        ("account", "named"),
        [
            (GTB | {"accountNumber": "0001234567"}, ["bankAccount.accountNumber"]),
            (GTB | {"bankCode": "99999"}, ["bankAccount.bankCode"]),
        ],
    )
    def test_one_that_no_bank_knows_is_refused_with_all_that_came_with_it(
        self, desk: Desk, account: dict[str, str], named: list[str]
    ) -> None:
        answer = put(desk, {"description": "New", "bankAccount": account})
        assert list(faults(answer)) == named
        assert account["accountNumber"] not in answer.text
        assert shown(desk)["description"] == ""
        assert accounts_of(desk, desk.shop.vendor.id) == []

    @pytest.mark.parametrize("fault", ["refuse", "lose", "garble"])
    def test_without_the_gateway_nothing_is_changed(
        self, desk: Desk, gateway: TestGateway, fault: str
    ) -> None:
        assert desk.get("/api/payments/banks", desk.vendor).status_code == 200
        gateway.line.fault = fault
        assert_problem(put(desk, {"description": "New", "bankAccount": GTB}), 502, "PROVIDER_UNAVAILABLE")
        assert shown(desk)["description"] == ""
        assert accounts_of(desk, desk.shop.vendor.id) == []

    def test_a_barred_owner_changes_nothing(self, desk: Desk) -> None:
        with desk.database.transaction() as session:
            session.get_one(Profile, desk.shop.vendor.id).account_status = "restricted"
        assert_problem(put(desk, {"bankAccount": GTB}), 403, "AUTH_FORBIDDEN")

    def test_whoever_has_a_wallet_gives_one_too(self, desk: Desk) -> None:
        assert desk.get(OWN, desk.buyer).json["data"] == []
        answer = desk.client.put(OWN, json=GTB, headers=desk.buyer)
        assert answer.status_code == 200
        given = answer.json["data"]
        assert (given["accountNumber"], given["heldUntil"]) == ("******7890", wire(later(hours=24)))
        assert desk.get(OWN, desk.buyer).json["data"] == [given]
        assert desk.get(OWN, desk.vendor).json["data"] == []
        assert len(notifications_of(desk.database, desk.shop.buyer.id)) == 1

        wrong = desk.client.put(OWN, json=GTB | {"accountNumber": "0001234567"}, headers=desk.buyer)
        assert list(faults(wrong)) == ["accountNumber"]
        assert_problem(desk.client.put(OWN, json=GTB), 401, "AUTH_UNAUTHORIZED")

    def test_of_two_at_once_one_is_the_present_one(self, desk: Desk) -> None:
        headers = desk.buyer
        client = desk.client.application.test_client

        def send(account: dict[str, str]) -> int:
            status: int = client().put(OWN, json=account, headers=headers).status_code
            return status

        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(send, (GTB, ZENITH))) == [200, 200]
        rows = accounts_of(desk, desk.shop.buyer.id)
        assert [row["replaced_at"] is None for row in rows].count(True) == 1
        assert len(rows) == 2
