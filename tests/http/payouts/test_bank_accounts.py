"""Bank accounts for payouts over HTTP: verified, held for a day, notified and audited."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from sqlalchemy import select

from marketplace.identity.models import FormerContact, Profile
from marketplace.notifications.models import Notification
from marketplace.providers.gateway.transfers import HttpTransferGateway
from tests.support.audit_and_notifications import audit_of, notifications_of
from tests.support.gateway import MovableClock, TestGateway
from tests.support.probes import assert_problem, faults
from tests.support.purchases import NOW, later
from tests.support.servers import dump_data
from tests.support.shop_client import ShopClient
from tests.support.store_profiles import (
    GTB,
    OWN,
    ZENITH,
    accounts_of,
    change_profile,
    fetch_profile,
    format_time,
    put_profile,
    set_phone,
)

pytestmark = pytest.mark.usefixtures("forgotten_banks")


class TestBankAccount:
    def test_new_account_has_the_holder_name_and_recipient_code_of_the_gateway(
        self, shop_client: ShopClient, gateway: TestGateway
    ) -> None:
        data = change_profile(shop_client, {"bankAccount": GTB})

        [row] = accounts_of(shop_client, shop_client.shop.vendor.id)
        assert data["bankAccount"] == {
            "id": str(row["id"]),
            "bankCode": "058",
            "bankName": "Guaranty Trust Bank",
            "accountNumber": "******7890",
            "accountName": row["account_name"],
            "since": format_time(NOW),
            "replacedAt": None,
            "heldUntil": format_time(later(hours=24)),
        }
        assert data["revision"] == 2
        # The gateway gives the same account the same code.
        body = {"type": "nuban", "name": "N", "account_number": "2234567890", "bank_code": "058"}
        recipient = gateway.call("POST", "/transferrecipient", json=body)
        assert recipient["recipient_code"] == row["recipient_code"]
        assert recipient["details"]["account_name"] == row["account_name"]

    def test_account_number_appears_in_neither_dump_nor_logs(
        self, shop_client: ShopClient, database_url: str, capfd: pytest.CaptureFixture[str]
    ) -> None:
        number, unknown = "7719203344", "0007719203"
        change_profile(shop_client, {"bankAccount": GTB | {"accountNumber": number}})
        answer = shop_client.client.put(OWN, json=GTB | {"accountNumber": number}, headers=shop_client.buyer)
        assert answer.status_code == 200
        assert put_profile(shop_client, {"bankAccount": GTB | {"accountNumber": unknown}}).status_code == 422
        [row] = accounts_of(shop_client, shop_client.shop.vendor.id)
        assert row["account_number"] == number

        dump = dump_data(database_url)
        assert str(row["id"]) in dump
        assert not [text for text in (number, unknown, number.encode().hex()) if text in dump]
        printed = "".join(capfd.readouterr())
        assert "request served" in printed
        assert not [text for text in (number, unknown) if text in printed]

    def test_account_change_holds_payouts_for_a_day(
        self, shop_client: ShopClient, clock: MovableClock
    ) -> None:
        [hold] = change_profile(shop_client, {"bankAccount": GTB})["payoutHolds"]
        assert (hold["reason"], hold["until"]) == ("bank_account_changed", format_time(later(hours=24)))

        clock.now = later(hours=24) - timedelta(microseconds=1)
        assert fetch_profile(shop_client, shop_client.vendor)["payoutHolds"] == [hold]
        clock.now = later(hours=24)
        data = fetch_profile(shop_client, shop_client.vendor)
        assert (data["payoutHolds"], data["bankAccount"]["heldUntil"]) == ([], None)

    def test_replaced_account_is_kept_and_same_account_changes_nothing(
        self, shop_client: ShopClient, clock: MovableClock
    ) -> None:
        vendor = shop_client.shop.vendor.id
        change_profile(shop_client, {"bankAccount": GTB})
        clock.now = later(hours=30)
        again = change_profile(shop_client, {"bankAccount": GTB})
        assert (again["revision"], again["payoutHolds"]) == (2, [])
        assert len(notifications_of(shop_client.database, vendor)) == 1

        clock.now = later(hours=31)
        change_profile(shop_client, {"bankAccount": ZENITH})
        clock.now = later(hours=32)
        back = change_profile(shop_client, {"bankAccount": GTB})
        assert [hold["until"] for hold in back["payoutHolds"]] == [format_time(later(hours=56))]

        rows = accounts_of(shop_client, vendor)
        assert [(row["account_number"], row["created_at"], row["replaced_at"]) for row in rows] == [
            (GTB["accountNumber"], NOW, later(hours=31)),
            (ZENITH["accountNumber"], later(hours=31), later(hours=32)),
            (GTB["accountNumber"], later(hours=32), None),
        ]
        assert rows[0]["recipient_code"] == rows[2]["recipient_code"] != rows[1]["recipient_code"]
        listed = shop_client.get(OWN, shop_client.vendor).json["data"]
        assert [(row["id"], row["replacedAt"]) for row in listed] == [
            (str(rows[2]["id"]), None),
            (str(rows[1]["id"]), format_time(later(hours=32))),
            (str(rows[0]["id"]), format_time(later(hours=31))),
        ]

    def test_account_change_notifies_current_and_recent_phone_numbers(
        self, shop_client: ShopClient, clock: MovableClock
    ) -> None:
        vendor = shop_client.shop.vendor.id
        set_phone(shop_client, "+2348031234561")
        clock.now = later(days=20)
        set_phone(shop_client, "+2348031234562")
        clock.now = later(days=45)
        # A number that is dropped and taken again is the current number, so no extra notification goes there.
        for last in (562, 563, 562, 563, 564, 563):
            set_phone(shop_client, f"+2348031234{last}")
        clock.now = later(days=50, seconds=1)
        change_profile(shop_client, {"bankAccount": GTB})

        notifications = notifications_of(shop_client.database, vendor)
        assert {row["type"] for row in notifications} == {"bank_account_changed"}
        assert {row["title"] for row in notifications} == {"Your bank account for payouts was changed"}
        with shop_client.database.reading() as session:
            sent_to = session.scalars(
                select(FormerContact.contact)
                .select_from(Notification)
                .outerjoin(FormerContact, FormerContact.id == Notification.former_contact_id)
                .where(Notification.user_id == vendor)
                .order_by(Notification.id)
            )
            # The first number was dropped more than 30 days ago and may belong to another person now.
            assert sent_to.all() == [None, "+2348031234562", "+2348031234564"]
        for row in notifications:
            assert "ends in 7890" in row["body"]
            assert "2234567890" not in str(row)
            assert "10 January 2027, 09:30 UTC" in row["body"]

    def test_notified_phone_numbers_are_limited_to_the_first_twenty(self, shop_client: ShopClient) -> None:
        for last in range(30):
            set_phone(shop_client, f"+23480312345{last:02d}")
        change_profile(shop_client, {"bankAccount": GTB})
        with shop_client.database.reading() as session:
            contacts = session.scalars(
                select(FormerContact.contact)
                .join(Notification, Notification.former_contact_id == FormerContact.id)
                .where(Notification.user_id == shop_client.shop.vendor.id)
                .order_by(Notification.id)
            )
            assert contacts.all() == [f"+23480312345{last:02d}" for last in range(20)]

    def test_account_change_is_audited_without_account_numbers(self, shop_client: ShopClient) -> None:
        vendor = shop_client.shop.vendor.id
        change_profile(shop_client, {"bankAccount": GTB})
        change_profile(shop_client, {"bankAccount": ZENITH})

        first, second = accounts_of(shop_client, vendor)
        acts = [
            row for row in audit_of(shop_client.database, vendor) if row["action"] == "payout_account.change"
        ]
        assert [(act["before"], act["after"]) for act in acts] == [
            (None, {"accountId": str(first["id"])}),
            ({"accountId": str(first["id"])}, {"accountId": str(second["id"])}),
        ]
        assert {act["actor_id"] for act in acts} == {vendor}

    @pytest.mark.parametrize(
        ("account", "named", "reason"),
        [
            (GTB | {"accountNumber": "0001234567"}, ["bankAccount.accountNumber"], "unknown-bank-account"),
            (GTB | {"bankCode": "99999"}, ["bankAccount.bankCode"], None),
        ],
    )
    def test_unknown_bank_account_refuses_the_complete_update(
        self, shop_client: ShopClient, account: dict[str, str], named: list[str], reason: str | None
    ) -> None:
        answer = put_profile(shop_client, {"description": "New", "bankAccount": account})
        assert (faults(answer), answer.json.get("reason")) == (named, reason)
        assert account["accountNumber"] not in answer.text
        assert fetch_profile(shop_client)["description"] == ""
        assert accounts_of(shop_client, shop_client.shop.vendor.id) == []

    @pytest.mark.parametrize("fault", ["refuse", "lose", "garble"])
    def test_unavailable_gateway_leaves_the_profile_unchanged(
        self, shop_client: ShopClient, gateway: TestGateway, fault: str
    ) -> None:
        assert shop_client.get("/api/payments/banks", shop_client.vendor).status_code == 200
        gateway.proxy.fault = fault
        assert_problem(
            put_profile(shop_client, {"description": "New", "bankAccount": GTB}), 502, "PROVIDER_UNAVAILABLE"
        )
        assert fetch_profile(shop_client)["description"] == ""
        assert accounts_of(shop_client, shop_client.shop.vendor.id) == []

    def test_account_that_the_gateway_refuses_as_recipient_is_refused(
        self, shop_client: ShopClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(HttpTransferGateway, "create_recipient", lambda *_, **__: None)

        answer = put_profile(shop_client, {"bankAccount": GTB})

        assert faults(answer) == ["bankAccount.accountNumber"]
        assert answer.json["reason"] == "unknown-bank-account"

    def test_restricted_owner_cannot_change_the_account(self, shop_client: ShopClient) -> None:
        with shop_client.database.transaction() as session:
            session.get_one(Profile, shop_client.shop.vendor.id).account_status = "restricted"
        assert_problem(put_profile(shop_client, {"bankAccount": GTB}), 403, "AUTH_FORBIDDEN")

    def test_buyer_can_set_a_bank_account_for_the_wallet(self, shop_client: ShopClient) -> None:
        assert shop_client.get(OWN, shop_client.buyer).json["data"] == []
        answer = shop_client.client.put(OWN, json=GTB, headers=shop_client.buyer)
        assert answer.status_code == 200
        given = answer.json["data"]
        assert (given["accountNumber"], given["heldUntil"]) == ("******7890", format_time(later(hours=24)))
        assert shop_client.get(OWN, shop_client.buyer).json["data"] == [given]
        assert shop_client.get(OWN, shop_client.vendor).json["data"] == []
        assert len(notifications_of(shop_client.database, shop_client.shop.buyer.id)) == 1

        wrong = shop_client.client.put(
            OWN, json=GTB | {"accountNumber": "0001234567"}, headers=shop_client.buyer
        )
        assert (faults(wrong), wrong.json["reason"]) == (["accountNumber"], "unknown-bank-account")
        assert_problem(shop_client.client.put(OWN, json=GTB), 401, "AUTH_UNAUTHORIZED")

    def test_concurrent_changes_leave_a_single_current_account(self, shop_client: ShopClient) -> None:
        headers = shop_client.buyer
        client = shop_client.client.application.test_client

        def send(account: dict[str, str]) -> int:
            status: int = client().put(OWN, json=account, headers=headers).status_code
            return status

        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(send, (GTB, ZENITH))) == [200, 200]
        rows = accounts_of(shop_client, shop_client.shop.buyer.id)
        assert [row["replaced_at"] is None for row in rows].count(True) == 1
        assert len(rows) == 2
