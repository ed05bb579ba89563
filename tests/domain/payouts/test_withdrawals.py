"""Requested payouts: vendor withdrawals, wallet cash-outs, refusals and cancellation."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from blueprints.payouts.payees.schemas import PayoutView, VendorBalanceView, WalletView
from marketplace.audit.operations import Act
from marketplace.identity.models import Profile
from marketplace.kernel.errors import MarketplaceError, NotFoundError, ValidationError
from marketplace.kernel.money import format_naira
from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, post_transaction
from marketplace.orders.vendor_escrow_balance import fetch_vendor_escrow_balance
from marketplace.payments.refunds.buyer_accounts import record_overpayment as claim_debt
from marketplace.payouts import withdrawals
from marketplace.payouts.batches import staging
from marketplace.payouts.payees import balances, holds
from marketplace.payouts.withdrawals import (
    EscrowLockedError,
    InsufficientBalanceError,
    PayoutNotCancellableError,
    PayoutsOnHoldError,
    PendingPayoutExistsError,
)
from marketplace.platform.halts import halt_payouts
from marketplace.reconciliation.ledger_check import verify_ledger
from marketplace.vendors.models import VendorProfile
from tests.support.finance import make_officer, refund
from tests.support.payouts import (
    OWED_MINOR,
    Payee,
    credit_balance,
    intents_of,
    make_account,
    make_payee,
    make_wallet_payee,
    payable_balance_of,
    record_vendor_debt,
)
from tests.support.purchases import (
    NOW,
    Shop,
    later,
    make_person,
    make_product,
    make_shop,
    paid_order,
    place,
    release,
    shipped_order,
)
from tests.support.rendered import render

MINIMUM = 100_000
# The vendor's share of an order: 250,050 for the lamp minus 5 % commission, plus 50,000 for delivery.
SHARE = 250_050 - 12_502 + 50_000


def withdraw(session: Session, payee: Payee, amount_minor: int, *, now: datetime = NOW) -> dict[str, Any]:
    payout = withdrawals.request_payout(session, caller=payee.user, amount_minor=amount_minor, now=now)
    return render(PayoutView, payout)


def cash_out(session: Session, payee: Payee, amount_minor: int) -> dict[str, Any]:
    payout = withdrawals.request_cash_out(session, caller=payee.user, amount_minor=amount_minor, now=NOW)
    return render(PayoutView, payout)


def make_shop_and_payee(session: Session) -> tuple[Shop, Payee]:
    """Create a shop and the payee of the vendor, with a bank account."""
    shop = make_shop(session)
    return shop, Payee(shop.vendor, shop.store_id, make_account(session, shop.vendor.id))


def freeze(session: Session, order_id: UUID) -> None:
    session.execute(text("UPDATE escrows SET status = 'frozen' WHERE order_id = :id"), {"id": order_id})
    session.execute(text("UPDATE orders SET status = 'disputed' WHERE id = :id"), {"id": order_id})


def balance(session: Session, payee: Payee, *, now: datetime = NOW) -> dict[str, Any]:
    assert payee.store_id is not None
    return render(VendorBalanceView, balances.show_store_balance(session, vendor_id=payee.store_id, now=now))


def wallet(session: Session, payee: Payee, *, now: datetime = NOW) -> dict[str, Any]:
    return render(WalletView, balances.show_wallet_balance(session, user_id=payee.user.id, now=now))


class TestWithdrawal:
    def test_withdrawal_is_debited_at_once_and_waits_for_a_batch(self, session: Session) -> None:
        payee = make_payee(session)
        payout = withdraw(session, payee, 200_000)

        assert payable_balance_of(session, payee) == OWED_MINOR - 200_000
        [intent] = intents_of(session, payee)
        assert (intent["status"], intent["batch_id"], intent["asked_for"]) == ("pending", None, True)
        assert payout["id"] == intent["id"]
        assert (payout["status"], payout["source"], payout["amountMinor"]) == ("pending", "store", 200_000)
        assert (payout["askedFor"], payout["batchId"], payout["reference"]) == (True, None, None)
        assert payout["vendor"]["id"] == payee.store_id
        assert payout["bankAccount"]["accountNumber"].startswith("******")
        assert verify_ledger(session) == []

    def test_withdrawal_joins_the_next_batch(self, session: Session) -> None:
        payee = make_payee(session, owed_minor=200_000)
        payout = withdraw(session, payee, 150_000)
        staged = staging.stage_batch(session, act=Act("schedule", later(hours=1)))

        [intent] = intents_of(session, payee)
        assert (intent["id"], intent["batch_id"]) == (payout["id"], staged.batch_id)
        assert payable_balance_of(session, payee) == 50_000

    def test_debt_is_deducted_before_a_withdrawal(self, session: Session) -> None:
        payee = make_payee(session, owed_minor=300_000)
        record_vendor_debt(session, payee, 120_000)
        with pytest.raises(
            InsufficientBalanceError, match=r"at most NGN 1,800\.00\. You owe us NGN 1,200\.00, which"
        ) as refused:
            withdraw(session, payee, 180_001)
        [fault] = refused.value.invalid_params
        assert (fault.name, fault.reason) == ("amountMinor", "Must not exceed NGN 1,800.00.")

        withdraw(session, payee, 180_000)
        assert payable_balance_of(session, payee) == 0
        assert balance(session, payee)["owedMinor"] == 0

    def test_amount_in_escrow_cannot_be_withdrawn(self, session: Session) -> None:
        shop, payee = make_shop_and_payee(session)
        release(session, shop, shipped_order(session, shop))
        paid_order(session, shop)

        with pytest.raises(EscrowLockedError) as refused:
            withdraw(session, payee, SHARE + 1)
        error = refused.value
        assert (error.status, error.code) == (423, "ESCROW_LOCKED")
        assert [fault.name for fault in error.invalid_params] == ["amountMinor"]
        assert error.extensions == {"availableMinor": SHARE, "inEscrowMinor": SHARE, "frozenMinor": 0}
        withdraw(session, payee, SHARE)

    def test_refusal_names_escrow_pending_payout_and_debt(self, session: Session) -> None:
        shop, payee = make_shop_and_payee(session)
        release(session, shop, shipped_order(session, shop))
        paid_order(session, shop)
        withdraw(session, payee, SHARE)
        record_vendor_debt(session, payee, 20_000)

        with pytest.raises(EscrowLockedError) as refused:
            withdraw(session, payee, MINIMUM)
        assert refused.value.detail == (
            "You can withdraw at most NGN 0.00."
            f" {format_naira(SHARE)} is in escrow until the buyers have received their orders."
            f" {format_naira(SHARE)} is in a payout that has not been sent yet."
            " You owe us NGN 200.00, which we deduct first."
        )

    def test_amount_frozen_by_disputes_cannot_be_withdrawn(self, session: Session) -> None:
        shop, payee = make_shop_and_payee(session)
        freeze(session, paid_order(session, shop))

        with pytest.raises(EscrowLockedError, match="frozen by disputes") as refused:
            withdraw(session, payee, 1)
        assert refused.value.extensions["frozenMinor"] == SHARE

    def test_withdrawal_above_the_balance_without_escrow_is_refused(self, session: Session) -> None:
        shop, payee = make_shop_and_payee(session)
        # An unpaid order has no escrow.
        place(session, shop, make_product(session, shop))
        with pytest.raises(InsufficientBalanceError) as refused:
            withdraw(session, payee, MINIMUM)
        assert (refused.value.status, refused.value.code) == (409, "CONCURRENCY_CONFLICT")
        assert intents_of(session, payee) == []

    def test_withdrawal_below_the_minimum_is_refused(self, session: Session) -> None:
        payee = make_payee(session)
        with pytest.raises(ValidationError, match=r"at least NGN 1,000\.00, the minimum payout\."):
            withdraw(session, payee, MINIMUM - 1)
        withdraw(session, payee, MINIMUM)

    def test_minimum_payout_is_a_platform_setting(self, session: Session) -> None:
        payee = make_payee(session)
        session.execute(
            text("UPDATE platform_settings SET value = '300000' WHERE key = 'minimum_payout_minor'")
        )
        with pytest.raises(ValidationError, match=r"NGN 3,000\.00"):
            withdraw(session, payee, 299_999)
        assert balance(session, payee)["minimumPayoutMinor"] == 300_000

    def test_second_pending_withdrawal_of_payee_is_refused(self, session: Session) -> None:
        payee = make_payee(session)
        withdraw(session, payee, MINIMUM)
        with pytest.raises(PendingPayoutExistsError):
            withdraw(session, payee, MINIMUM)
        with pytest.raises(
            InsufficientBalanceError, match=r"\. NGN 1,000\.00 is in a payout that has not been sent yet\."
        ):
            withdraw(session, payee, OWED_MINOR)
        assert payable_balance_of(session, payee) == OWED_MINOR - MINIMUM
        assert len(intents_of(session, payee)) == 1

    def test_new_bank_account_holds_withdrawals_for_a_day(self, session: Session) -> None:
        payee = make_payee(session)
        make_account(session, payee.user.id, created_at=NOW - timedelta(hours=3))
        with pytest.raises(PayoutsOnHoldError) as refused:
            withdraw(session, payee, MINIMUM)
        assert refused.value.extensions["holds"] == [
            {"reason": "bank_account_changed", "until": "2026-11-21T06:30:00.000000Z"}
        ]
        withdraw(session, payee, MINIMUM, now=later(hours=21))

    def test_withdrawal_without_bank_account_is_refused(self, session: Session) -> None:
        shop = make_shop(session)
        payee = Payee(shop.vendor, shop.store_id, uuid4())
        credit_balance(session, payee, OWED_MINOR)
        with pytest.raises(PayoutsOnHoldError, match="Add a bank account"):
            withdraw(session, payee, MINIMUM)

    def test_payout_request_is_refused_while_payouts_are_halted(self, session: Session) -> None:
        payee = make_payee(session)
        wallet = make_wallet_payee(session)
        halt_payouts(session, "ESCROW_DRIFT: a test", NOW)
        for ask, asker in ((withdraw, payee), (cash_out, wallet)):
            with pytest.raises(PayoutsOnHoldError) as refused:
                ask(session, asker, MINIMUM)
            # The payee reads the text of the balance view. The reason for the halt is for officers only.
            [hold] = balance(session, payee)["holds"]
            assert refused.value.detail == hold["detail"]
            assert refused.value.extensions["holds"] == [{"reason": "payouts_halted", "until": None}]

    def test_person_without_store_cannot_withdraw(self, session: Session) -> None:
        with pytest.raises(NotFoundError):
            withdrawals.request_payout(
                session, caller=make_person(session, role="vendor"), amount_minor=MINIMUM, now=NOW
            )


class TestCashOut:
    def test_cash_out_is_debited_from_the_wallet(self, session: Session) -> None:
        payee = make_wallet_payee(session)
        payout = cash_out(session, payee, OWED_MINOR)

        assert payable_balance_of(session, payee) == 0
        assert (payout["source"], payout["vendor"], payout["payee"]["id"]) == (
            "wallet",
            None,
            payee.user.id,
        )
        assert verify_ledger(session) == []

    def test_vendor_can_withdraw_from_store_and_wallet_separately(self, session: Session) -> None:
        payee = make_payee(session)
        wallet = Payee(payee.user, None, payee.account_id)
        credit_balance(session, wallet, 150_000)
        withdraw(session, payee, 200_000)
        cash_out(session, wallet, 150_000)

        assert [
            row["amount_minor"] for row in (*intents_of(session, payee), *intents_of(session, wallet))
        ] == [
            200_000,
            150_000,
        ]

    def test_rewards_cannot_be_cashed_out(self, session: Session) -> None:
        payee = make_wallet_payee(session, owed_minor=200_000)
        reward(session, payee, 70_000)
        with pytest.raises(InsufficientBalanceError, match=r"at most NGN 2,000\.00"):
            cash_out(session, payee, 200_001)
        cash_out(session, payee, 200_000)

        shown = wallet(session, payee)
        assert (shown["balanceMinor"], shown["cashableMinor"], shown["fromRewardsMinor"]) == (
            70_000,
            0,
            70_000,
        )
        assert shown["inTransitMinor"] == 200_000

    def test_debt_is_deducted_before_a_cash_out(self, session: Session) -> None:
        payee = make_wallet_payee(session, owed_minor=0)
        claim_debt(
            session,
            buyer_id=payee.user.id,
            order_id=None,
            amount_minor=60_000,
            source=f"test:{uuid4()}",
            description="Paid twice",
            now=NOW,
        )
        credit_balance(session, payee, 200_000)
        shown = wallet(session, payee)
        assert (shown["cashableMinor"], shown["owedMinor"]) == (140_000, 60_000)
        cash_out(session, payee, 140_000)
        assert payable_balance_of(session, payee) == 0

    def test_suspended_person_cannot_cash_out(self, session: Session) -> None:
        payee = make_wallet_payee(session)
        session.get_one(Profile, payee.user.id).account_status = "suspended"
        session.flush()
        with pytest.raises(PayoutsOnHoldError):
            cash_out(session, payee, MINIMUM)

    def test_minimum_and_single_pending_payout_apply_to_cash_outs(self, session: Session) -> None:
        payee = make_wallet_payee(session)
        with pytest.raises(ValidationError):
            cash_out(session, payee, MINIMUM - 1)
        cash_out(session, payee, MINIMUM)
        with pytest.raises(PendingPayoutExistsError):
            cash_out(session, payee, MINIMUM)


def reward(session: Session, payee: Payee, amount_minor: int) -> None:
    post_transaction(
        session,
        kind="reward",
        source=f"test:{uuid4()}",
        description="Reward",
        postings=[
            Posting(accounts.REWARDS, "debit", amount_minor),
            Posting(payee.balance, "credit", amount_minor),
        ],
        now=NOW,
    )


class TestCancellation:
    def test_cancelled_withdrawal_returns_to_the_balance(self, session: Session) -> None:
        payee = make_payee(session)
        payout = withdraw(session, payee, 200_000)
        after = render(
            PayoutView,
            withdrawals.cancel_request(
                session, payout_id=payout["id"], caller=payee.user, now=later(hours=1)
            ),
        )

        assert (after["status"], after["settledAt"]) == ("cancelled", later(hours=1))
        assert payable_balance_of(session, payee) == OWED_MINOR
        assert verify_ledger(session) == []
        withdraw(session, payee, 300_000)

    def test_cancelled_or_staged_withdrawal_cannot_be_cancelled(self, session: Session) -> None:
        payee = make_payee(session)
        first = withdraw(session, payee, 200_000)
        withdrawals.cancel_request(session, payout_id=first["id"], caller=payee.user, now=NOW)
        with pytest.raises(PayoutNotCancellableError, match="cancelled"):
            withdrawals.cancel_request(session, payout_id=first["id"], caller=payee.user, now=NOW)

        second = withdraw(session, payee, 200_000)
        staging.stage_batch(session, act=Act("schedule", NOW))
        with pytest.raises(PayoutNotCancellableError, match="in a batch"):
            withdrawals.cancel_request(session, payout_id=second["id"], caller=payee.user, now=NOW)
        assert payable_balance_of(session, payee) == OWED_MINOR - 200_000

    def test_withdrawal_of_another_payee_is_not_found(self, session: Session) -> None:
        payout = withdraw(session, make_payee(session), 200_000)
        with pytest.raises(NotFoundError):
            withdrawals.cancel_request(
                session, payout_id=payout["id"], caller=make_payee(session).user, now=NOW
            )


class TestBalance:
    def test_balance_shows_each_part_separately(self, session: Session) -> None:
        shop, payee = make_shop_and_payee(session)
        release(session, shop, shipped_order(session, shop))
        paid_order(session, shop)
        shipped_order(session, shop)
        freeze(session, paid_order(session, shop))
        place(session, shop, make_product(session, shop))
        withdraw(session, payee, 150_000)

        shown = balance(session, payee)
        assert shown == {
            "vendorId": shop.store_id,
            "currency": "NGN",
            "availableMinor": SHARE - 150_000,
            "onHoldMinor": 0,
            "heldShareMinor": 0,
            "holds": [],
            "heldUntil": None,
            "inEscrowMinor": 2 * SHARE,
            "ordersInEscrow": 2,
            "frozenMinor": SHARE,
            "ordersFrozen": 1,
            "inTransitMinor": 150_000,
            "waitingMinor": 150_000,
            "sentMinor": 0,
            "payableMinor": SHARE - 150_000,
            "owedMinor": 0,
            "minimumPayoutMinor": MINIMUM,
        }

    def test_sent_payout_is_counted_as_sent_not_as_waiting(self, session: Session) -> None:
        payee = make_payee(session)
        withdraw(session, payee, 150_000)
        staging.stage_batch(session, act=Act("schedule", NOW))
        for status in ("submitted", "unknown"):
            session.execute(
                text("UPDATE payout_transfer_intents SET status = :status WHERE user_id = :id"),
                {"status": status, "id": payee.user.id},
            )
            shown = balance(session, payee)
            assert (shown["waitingMinor"], shown["sentMinor"], shown["inTransitMinor"]) == (
                0,
                150_000,
                150_000,
            )

    def test_balance_shows_holds_and_when_holds_end(self, session: Session) -> None:
        payee = make_payee(session)
        make_account(session, payee.user.id, created_at=NOW)
        shown = balance(session, payee)
        assert (shown["availableMinor"], shown["onHoldMinor"]) == (0, OWED_MINOR)
        assert shown["heldUntil"] == later(hours=24)
        assert [hold["reason"] for hold in shown["holds"]] == [holds.BANK_ACCOUNT_CHANGED]

        session.get_one(VendorProfile, payee.store_id).status = "suspended"
        session.flush()
        shown = balance(session, payee)
        assert shown["heldUntil"] is None
        assert [hold["reason"] for hold in shown["holds"]] == [
            holds.BANK_ACCOUNT_CHANGED,
            holds.STORE_SUSPENDED,
        ]
        assert balance(session, payee, now=later(hours=24))["onHoldMinor"] == OWED_MINOR

    def test_halt_of_payouts_holds_the_balance(self, session: Session) -> None:
        payee = make_payee(session)
        halt_payouts(session, "ESCROW_DRIFT: a test", NOW)
        shown = balance(session, payee)
        assert (shown["availableMinor"], shown["onHoldMinor"]) == (0, OWED_MINOR)
        assert [hold["reason"] for hold in shown["holds"]] == [holds.PAYOUTS_HALTED]

    def test_wallet_shows_account_hold_and_halt_of_payouts(self, session: Session) -> None:
        payee = make_wallet_payee(session, created_at=NOW)
        shown = wallet(session, payee)
        assert [(hold["reason"], hold["until"]) for hold in shown["holds"]] == [
            (holds.BANK_ACCOUNT_CHANGED, later(hours=24))
        ]
        halt_payouts(session, "ESCROW_DRIFT: a test", NOW)
        shown = wallet(session, payee, now=later(hours=24))
        assert [hold["reason"] for hold in shown["holds"]] == [holds.PAYOUTS_HALTED]

    def test_available_balance_excludes_debts(self, session: Session) -> None:
        payee = make_payee(session)
        record_vendor_debt(session, payee, OWED_MINOR + 1)
        shown = balance(session, payee)
        assert (shown["availableMinor"], shown["payableMinor"], shown["owedMinor"]) == (
            0,
            OWED_MINOR,
            OWED_MINOR + 1,
        )

    def test_escrow_balance_equals_the_amount_released_later(self, session: Session) -> None:
        shop, payee = make_shop_and_payee(session)
        odd, other = shipped_order(session, shop), shipped_order(session, shop)
        refund(session, odd, make_officer(session), amount_minor=33_333)
        expected = fetch_vendor_escrow_balance(session, vendor_id=shop.store_id)
        assert expected.held_minor < 2 * SHARE

        release(session, shop, odd)
        release(session, shop, other)
        assert payable_balance_of(session, payee) == expected.held_minor
        assert fetch_vendor_escrow_balance(session, vendor_id=shop.store_id).total_minor == 0

    def test_refusals_are_marketplace_errors(self) -> None:
        for kind in (
            EscrowLockedError,
            PayoutsOnHoldError,
            PendingPayoutExistsError,
            InsufficientBalanceError,
            PayoutNotCancellableError,
        ):
            assert issubclass(kind, MarketplaceError)
