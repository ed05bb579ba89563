"""Payouts of payees over HTTP: history, balance, cash-outs and cancellation."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act
from marketplace.payouts import texts, withdrawals
from marketplace.payouts.batches import staging
from marketplace.reconciliation import ledger_check
from tests.support.payouts import (
    Payee,
    approved_batch,
    credit_balance,
    intents_of,
    make_account,
    make_payee,
    make_wallet_payee,
    payable_balance_of,
)
from tests.support.probes import assert_problem, faults
from tests.support.purchases import NOW, assert_ledger_is_consistent, later, make_shop, row_of
from tests.support.resource_usage import counted_statements
from tests.support.shop_client import ShopClient, new_key
from tests.support.transfers import dispatch, handle_transfer_report, transfers_in

PAYOUTS, BALANCE = "/api/payouts", "/api/payouts/balance"
CASH_OUTS = "/api/wallet/cash-outs"


def create_payee(shop_client: ShopClient, make: Callable[..., Payee] = make_payee, **values: Any) -> Payee:
    return shop_client.database.in_transaction(make, **values)


def pay_out(
    shop_client: ShopClient, payee: Payee, amount_minor: int, *, outcome: str = "success", days: int = 0
) -> UUID:
    """Credit a payee, dispatch the payout without the API and apply the gateway's status event."""

    def make(session: Session) -> UUID:
        now = later(days=days)
        credit_balance(session, payee, amount_minor, now=now)
        batch_id = approved_batch(session, [payee], now=now)
        dispatch(session, batch_id, now=now)
        [transfer] = transfers_in(session, batch_id)
        handle_transfer_report(session, transfer, outcome, now=later(days=days, hours=2))
        intent_id: UUID = transfer["intent_id"]
        return intent_id

    return shop_client.database.in_transaction(make)


def listed(
    shop_client: ShopClient, headers: dict[str, str], path: str = PAYOUTS, **query: Any
) -> dict[str, Any]:
    answer = shop_client.get(path, headers, **query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json
    return found


def ids(found: dict[str, Any]) -> list[str]:
    return [row["id"] for row in found["data"]]


class TestHistory:
    def test_vendor_sees_only_own_payouts(self, shop_client: ShopClient) -> None:
        payee, other = create_payee(shop_client, owed_minor=0), create_payee(shop_client, owed_minor=0)
        first = pay_out(shop_client, payee, 150_000)
        second = pay_out(shop_client, payee, 250_000, outcome="failed", days=1)
        pay_out(shop_client, other, 350_000)

        found = listed(shop_client, shop_client.bearer(payee.user.id))
        assert ids(found) == [str(second), str(first)]
        assert {name: found["meta"][name] for name in ("page", "limit", "total", "total_pages")} == {
            "page": 1,
            "limit": 50,
            "total": 2,
            "total_pages": 1,
        }
        failed = found["data"][0]
        assert (failed["status"], failed["reason"]) == ("failed", texts.FAILED_BY_BANK)
        assert (failed["amountMinor"], failed["currency"], failed["source"]) == (250_000, "NGN", "store")
        assert failed["vendor"]["id"] == str(payee.store_id)
        assert failed["payee"]["id"] == str(payee.user.id)
        assert failed["settledAt"] == failed["updatedAt"] == "2026-11-21T11:30:00Z"
        assert failed["bankAccount"]["accountNumber"][:6] == "******"
        with shop_client.database.reading() as session:
            number = row_of(session, "payout_accounts", id=payee.account_id)["account_number"]
        assert failed["bankAccount"]["accountNumber"] == f"******{number[-4:]}"
        assert number not in str(found)

        # A filter by another store shows no payouts.
        assert ids(listed(shop_client, shop_client.bearer(payee.user.id), vendorId=str(other.store_id))) == []

    def test_finance_can_filter_payouts_of_every_payee(self, shop_client: ShopClient) -> None:
        payee, other = create_payee(shop_client, owed_minor=0), create_payee(shop_client, make_wallet_payee)
        one = pay_out(shop_client, payee, 150_000)
        two = pay_out(shop_client, payee, 250_000, days=1)
        three = shop_client.database.in_transaction(
            withdrawals.request_cash_out, caller=other.user, amount_minor=350_000, now=later(days=2)
        ).id
        finance = shop_client.officer("finance")

        assert listed(shop_client, finance)["meta"]["total"] >= 3
        assert ids(listed(shop_client, finance, vendorId=str(payee.store_id))) == [str(two), str(one)]
        assert ids(listed(shop_client, finance, limit=1)) == [str(three)]
        assert ids(listed(shop_client, finance, source="wallet", limit=1)) == [str(three)]
        batch = listed(shop_client, finance, vendorId=str(payee.store_id))["data"][0]["batchId"]
        assert ids(listed(shop_client, finance, batchId=batch)) == [str(two)]
        narrow = {"vendorId": str(payee.store_id)}
        assert ids(listed(shop_client, finance, **narrow, status="failed")) == []
        assert ids(listed(shop_client, finance, **narrow, **{"from": "2026-11-21T00:00:00Z"})) == [str(two)]
        assert ids(listed(shop_client, finance, **narrow, to="2026-11-21T00:00:00Z")) == [str(one)]

    def test_payout_history_is_sorted_and_paged(self, shop_client: ShopClient) -> None:
        payee = create_payee(shop_client, owed_minor=0)
        made_ids = [
            str(pay_out(shop_client, payee, minor, days=day))
            for day, minor in enumerate((300_000, 100_000, 200_000))
        ]
        own = shop_client.bearer(payee.user.id)

        assert ids(listed(shop_client, own, order="asc")) == made_ids
        by_amount = [made_ids[1], made_ids[2], made_ids[0]]
        assert ids(listed(shop_client, own, sort="amountMinor", order="asc")) == by_amount
        assert ids(listed(shop_client, own, sort="amountMinor")) == by_amount[::-1]
        second = listed(shop_client, own, sort="amountMinor", order="asc", page=2, limit=2)
        assert ids(second) == [made_ids[0]]
        assert (second["meta"]["total"], second["meta"]["total_pages"]) == (3, 2)

    @pytest.mark.parametrize(
        ("query", "named"),
        [
            ({"sort": "status"}, "sort"),
            ({"status": "sent"}, "status"),
            ({"source": "bank"}, "source"),
            ({"limit": 101}, "limit"),
            ({"page": 0}, "page"),
            ({"vendorId": "x"}, "vendorId"),
            ({"from": "yesterday"}, "from"),
        ],
    )
    def test_invalid_query_parameter_is_refused(
        self, shop_client: ShopClient, query: dict[str, Any], named: str
    ) -> None:
        assert list(faults(shop_client.get(PAYOUTS, shop_client.vendor, **query))) == [named]

    def test_history_requires_vendor_finance_or_admin(self, shop_client: ShopClient) -> None:
        assert_problem(shop_client.client.get(PAYOUTS), 401, "AUTH_UNAUTHORIZED")
        for headers in (shop_client.buyer, shop_client.officer("support"), shop_client.officer("orders")):
            assert_problem(shop_client.get(PAYOUTS, headers), 403, "AUTH_FORBIDDEN")
        assert shop_client.get(PAYOUTS, shop_client.officer("admin")).status_code == 200

    def test_history_takes_a_constant_number_of_queries(self, shop_client: ShopClient) -> None:
        payee = create_payee(shop_client, owed_minor=0)
        own = shop_client.bearer(payee.user.id)
        counts = []
        for day in range(2):
            pay_out(shop_client, payee, 150_000, days=day)
            with counted_statements(shop_client.database) as statements:
                assert len(listed(shop_client, own)["data"]) == day + 1
            counts.append(len(statements))
        assert counts[0] == counts[1]


class TestBalance:
    def test_vendor_and_finance_see_the_same_balance(self, shop_client: ShopClient) -> None:
        payee = create_payee(shop_client)
        data = listed(shop_client, shop_client.bearer(payee.user.id), BALANCE)["data"]
        assert (data["availableMinor"], data["payableMinor"], data["holds"]) == (500_000, 500_000, [])
        assert (
            data
            == listed(shop_client, shop_client.officer("finance"), BALANCE, vendorId=str(payee.store_id))[
                "data"
            ]
        )
        assert (
            data
            == listed(shop_client, shop_client.bearer(payee.user.id), BALANCE, vendorId=str(payee.store_id))[
                "data"
            ]
        )

    def test_balance_shows_hold_with_end_and_explanation(self, shop_client: ShopClient) -> None:
        payee = create_payee(shop_client, account={"created_at": NOW - timedelta(hours=4)})
        data = listed(shop_client, shop_client.bearer(payee.user.id), BALANCE)["data"]
        assert (data["availableMinor"], data["onHoldMinor"]) == (0, 500_000)
        assert data["heldUntil"] == "2026-11-21T05:30:00Z"
        [hold] = data["holds"]
        assert (hold["reason"], hold["until"]) == ("bank_account_changed", "2026-11-21T05:30:00Z")
        assert "24 hours" in hold["detail"]

    def test_balance_of_another_store_is_hidden(self, shop_client: ShopClient) -> None:
        payee = create_payee(shop_client)
        named = {"vendorId": str(payee.store_id)}
        assert_problem(shop_client.get(BALANCE, shop_client.vendor, **named), 404, "RESOURCE_NOT_FOUND")
        for headers in (shop_client.officer("support"), shop_client.buyer):
            assert_problem(shop_client.get(BALANCE, headers, **named), 403, "AUTH_FORBIDDEN")
        unknown = shop_client.get(BALANCE, shop_client.officer("finance"), vendorId=str(uuid4()))
        assert_problem(unknown, 404, "RESOURCE_NOT_FOUND")
        assert list(faults(shop_client.get(BALANCE, shop_client.officer("finance")))) == ["vendorId"]


class TestCashOuts:
    def test_repeated_idempotency_key_cashes_out_once(self, shop_client: ShopClient) -> None:
        payee = create_payee(shop_client, make_wallet_payee)
        own, key = shop_client.bearer(payee.user.id), new_key()
        first = shop_client.post(CASH_OUTS, own, {"amountMinor": 200_000}, key=key)
        assert first.status_code == 201
        again = shop_client.post(CASH_OUTS, own, {"amountMinor": 200_000}, key=key)
        assert (again.status_code, again.headers["X-Cache-Lookup"]) == (201, "HIT")
        assert again.json["data"] == first.json["data"]

        data = first.json["data"]
        assert (data["status"], data["source"], data["amountMinor"]) == ("pending", "wallet", 200_000)
        assert ids(listed(shop_client, own, CASH_OUTS)) == [data["id"]]
        wallet = listed(shop_client, own, "/api/wallet")["data"]
        assert wallet == {
            "balanceMinor": 300_000,
            "cashableMinor": 300_000,
            "fromRewardsMinor": 0,
            "inTransitMinor": 200_000,
            "owedMinor": 0,
            "minimumPayoutMinor": 100_000,
            "currency": "NGN",
            "holds": [],
        }
        # The account statement shows the cash-out.
        entry = listed(shop_client, own, "/api/transactions")["data"][0]
        assert (entry["kind"], entry["direction"], entry["amountMinor"]) == (
            "payout_staged",
            "debit",
            200_000,
        )

    def test_invalid_cash_outs_are_refused(self, shop_client: ShopClient) -> None:
        payee = create_payee(shop_client, make_wallet_payee)
        own = shop_client.bearer(payee.user.id)
        for amount, status, reason in (
            (500_001, 409, "insufficient-balance"),
            (99_999, 422, "payout-below-minimum"),
        ):
            answer = shop_client.post(CASH_OUTS, own, {"amountMinor": amount})
            assert (answer.status_code, answer.json["reason"]) == (status, reason)
            assert [fault["name"] for fault in answer.json["invalid_params"]] == ["amountMinor"]
        for body in (
            {},
            {"amountMinor": 0},
            {"amountMinor": -1},
            {"amountMinor": "200000"},
            {"amountMinor": 1.5},
        ):
            assert list(faults(shop_client.post(CASH_OUTS, own, body))) == ["amountMinor"]

        bare = shop_client.post(CASH_OUTS, shop_client.stranger, {"amountMinor": 200_000})
        assert_problem(bare, 409, "CONCURRENCY_CONFLICT")
        assert bare.json["holds"] == [{"reason": "no_bank_account", "until": None}]
        assert_problem(
            shop_client.client.post(CASH_OUTS, json={"amountMinor": 200_000}), 401, "AUTH_UNAUTHORIZED"
        )

    def test_store_and_wallet_payouts_of_a_vendor_are_filtered_by_source(
        self, shop_client: ShopClient
    ) -> None:
        payee = create_payee(shop_client)
        own = shop_client.bearer(payee.user.id)
        wallet = Payee(payee.user, None, payee.account_id)
        shop_client.database.in_transaction(credit_balance, wallet, 150_000)
        cashed = shop_client.post(CASH_OUTS, own, {"amountMinor": 150_000}).json["data"]["id"]
        shop_client.database.in_transaction(
            withdrawals.request_payout, caller=payee.user, amount_minor=200_000, now=NOW
        )

        assert len(ids(listed(shop_client, own))) == 2
        assert (
            ids(listed(shop_client, own, source="wallet"))
            == ids(listed(shop_client, own, CASH_OUTS))
            == [cashed]
        )
        assert listed(shop_client, own, source="store")["data"][0]["amountMinor"] == 200_000

    def test_only_the_first_of_concurrent_cash_outs_succeeds(self, shop_client: ShopClient) -> None:
        payee = create_payee(shop_client, make_wallet_payee)
        own = shop_client.bearer(payee.user.id)
        client = shop_client.client.application.test_client

        def send(_number: int) -> int:
            status: int = client().post(CASH_OUTS, json={"amountMinor": 300_000}, headers=own).status_code
            return status

        with ThreadPoolExecutor(4) as pool:
            assert sorted(pool.map(send, range(4))) == [201, 409, 409, 409]
        with shop_client.database.reading() as session:
            assert payable_balance_of(session, payee) == 200_000
            assert len(intents_of(session, payee)) == 1


class TestCancellation:
    def test_cancelled_withdrawal_returns_and_can_be_requested_again(self, shop_client: ShopClient) -> None:
        payee = create_payee(shop_client, make_wallet_payee)
        own = shop_client.bearer(payee.user.id)
        payout = shop_client.post(CASH_OUTS, own, {"amountMinor": 200_000}).json["data"]["id"]

        path = f"{PAYOUTS}/{payout}/cancel"
        assert_problem(shop_client.post(path, shop_client.stranger), 404, "RESOURCE_NOT_FOUND")
        assert_problem(shop_client.post(path, shop_client.officer("finance")), 404, "RESOURCE_NOT_FOUND")
        assert_problem(shop_client.client.post(path), 401, "AUTH_UNAUTHORIZED")
        answer = shop_client.post(path, own)
        assert (answer.status_code, answer.json["data"]["status"]) == (200, "cancelled")
        assert_problem(shop_client.post(path, own), 409, "CONCURRENCY_CONFLICT")
        assert_problem(shop_client.post(f"{PAYOUTS}/{uuid4()}/cancel", own), 404, "RESOURCE_NOT_FOUND")
        assert shop_client.post(CASH_OUTS, own, {"amountMinor": 500_000}).status_code == 201

    def test_cancellation_concurrent_with_staging_reserves_the_amount_once(
        self, shop_client: ShopClient
    ) -> None:
        for _round in range(3):
            payee = create_payee(shop_client)
            path = cancel_path(shop_client, payee)
            own, client = shop_client.bearer(payee.user.id), shop_client.client.application.test_client
            with ThreadPoolExecutor(2) as pool:
                cancellation = pool.submit(lambda: client().post(path, headers=own))  # noqa: B023
                shop_client.database.in_transaction(
                    staging.stage_batch,
                    act=Act("schedule", NOW),
                    vendor_ids=[payee.store_id],
                )
                status = cancellation.result().status_code
            with shop_client.database.reading() as session:
                first, *later_ones = intents_of(session, payee)
                left = payable_balance_of(session, payee)
            if status == 200:
                # If the staging ran after the cancellation, the staging has reserved the full balance.
                assert (first["status"], first["batch_id"]) == ("cancelled", None)
                assert sum(row["amount_minor"] for row in later_ones) + left == 500_000
            else:
                assert (status, first["status"], first["batch_id"] is None) == (409, "pending", False)
                assert (later_ones, left) == ([], 400_000)


def cancel_path(shop_client: ShopClient, payee: Payee) -> str:
    payout = shop_client.database.in_transaction(
        withdrawals.request_payout, caller=payee.user, amount_minor=100_000, now=NOW
    )
    return f"{PAYOUTS}/{payout.id}/cancel"


class TestRaces:
    def test_withdrawal_concurrent_with_staging_reserves_the_balance_once(
        self, shop_client: ShopClient
    ) -> None:
        for amount in (500_000, 200_000):
            payee = create_payee(shop_client)
            own, client = shop_client.bearer(payee.user.id), shop_client.client.application.test_client
            with ThreadPoolExecutor(2) as pool:
                withdrawal = pool.submit(
                    lambda: client().post(  # noqa: B023
                        f"{PAYOUTS}/dispatch",
                        json={"amountMinor": amount},  # noqa: B023
                        headers=own | {"Idempotency-Key": new_key()},  # noqa: B023
                    )
                )
                shop_client.database.in_transaction(
                    staging.stage_batch,
                    act=Act("schedule", NOW),
                    vendor_ids=[payee.store_id],
                )
                status = withdrawal.result().status_code
            with shop_client.database.reading() as session:
                claimed = [row["amount_minor"] for row in intents_of(session, payee)]
                left = payable_balance_of(session, payee)
            # Only a single payout may be pending, in either order.
            assert (status, claimed, left) in (
                (202, [amount], 500_000 - amount),
                (409, [500_000], 0),
            )

    def test_early_withdrawal_of_escrow_is_refused_as_locked(self, shop_client: ShopClient) -> None:
        shop_client.paid()
        shop_client.database.in_transaction(make_account, shop_client.shop.vendor.id)
        locked = shop_client.post(
            f"{PAYOUTS}/dispatch", shop_client.vendor, {"amountMinor": 5_000}, key=new_key()
        )
        assert_problem(locked, 423, "ESCROW_LOCKED")
        assert (locked.json["availableMinor"], locked.json["frozenMinor"]) == (0, 0)
        assert (
            locked.json["inEscrowMinor"]
            == listed(shop_client, shop_client.vendor, BALANCE)["data"]["inEscrowMinor"]
            > 0
        )


@pytest.fixture(autouse=True)
def ledger_stays_consistent(shop_client: ShopClient) -> Iterator[None]:
    """Check after each test that the ledger is consistent."""
    yield
    with shop_client.database.transaction() as session:
        assert_ledger_is_consistent(session)
        assert ledger_check.verify_ledger(session) == []


def test_vendor_without_a_store_has_no_balance(shop_client: ShopClient) -> None:
    shop = shop_client.database.in_transaction(make_shop)
    with shop_client.database.transaction() as session:
        session.execute(
            text("UPDATE vendor_profiles SET user_id = :other WHERE id = :id"),
            {"other": shop.buyer.id, "id": shop.store_id},
        )
    headers = shop_client.bearer(shop.vendor.id)
    assert_problem(shop_client.get(BALANCE, headers), 404, "RESOURCE_NOT_FOUND")
    assert listed(shop_client, headers)["data"] == []
