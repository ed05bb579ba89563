"""Rewards in a wallet: spent before cash, restored by refunds and never paid out."""

from dataclasses import replace
from uuid import UUID, uuid4

import pytest
from hypothesis import given, strategies as st
from sqlalchemy.orm import Session

from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, post_transaction
from marketplace.orders.placing.place_order import WalletUse
from marketplace.payments.refunds.order_cancellation import cancel_order
from marketplace.payouts.payees.balances import WalletMovement, fetch_remaining_rewards, remaining_rewards
from tests.support.purchases import NOW, fill_wallet, make_product, make_shop, place, wallet_of

ORDER, OTHER = UUID(int=1), UUID(int=2)


def movement(kind: str, minor: int, order_id: UUID | None = None, *, rewards: bool = False) -> WalletMovement:
    return WalletMovement(kind, order_id, rewards, minor)


def reward(minor: int) -> WalletMovement:
    return movement("reward", minor, rewards=True)


def spend(minor: int, order_id: UUID = ORDER) -> WalletMovement:
    return movement("wallet_payment", -minor, order_id)


def refund(minor: int, order_id: UUID | None = ORDER) -> WalletMovement:
    return movement("refund", minor, order_id)


@pytest.mark.parametrize(
    ("moves", "left"),
    [
        ([], 0),
        ([refund(50)], 0),
        ([reward(30)], 30),
        ([refund(50), reward(30), refund(20, OTHER)], 30),
        # Orders are paid with rewards first.
        ([refund(50), reward(30), spend(20)], 10),
        ([refund(50), reward(30), spend(60)], 0),
        # A refund restores rewards up to the amount that the order used.
        ([refund(50), reward(30), spend(60), refund(60)], 30),
        ([refund(50), reward(30), spend(60), refund(25), refund(35)], 30),
        ([refund(50), reward(30), spend(20), refund(20), spend(70, OTHER), refund(70, OTHER)], 30),
        ([reward(30), spend(30), refund(40)], 30),
        # A refund of another order, or of no order, is cash.
        ([reward(30), spend(30), refund(30, OTHER)], 0),
        ([reward(30), spend(30), refund(30, None)], 0),
        # An order paid before the first reward used no rewards.
        ([refund(50), spend(50), reward(30), refund(50)], 30),
        # Payouts and collected debts take cash, not rewards.
        ([refund(50), reward(30), movement("payout_staged", -50)], 30),
        ([refund(50), reward(30), movement("payout_staged", -50), movement("payout_cancelled", 50)], 30),
        ([refund(50), reward(30), movement("debt_collected", -10)], 30),
        # A reversed reward.
        ([reward(30), spend(20), movement("reward_reversed", -30, rewards=True)], 0),
    ],
    ids=repr,
)
def test_wallet_movements_leave_the_expected_rewards(moves: list[WalletMovement], left: int) -> None:
    assert remaining_rewards(moves) == left


_MINOR = st.integers(1, 1_000)


@given(
    st.lists(
        st.one_of(
            st.builds(reward, _MINOR),
            st.builds(spend, _MINOR, st.sampled_from((ORDER, OTHER))),
            st.builds(refund, _MINOR, st.sampled_from((ORDER, OTHER, None))),
        )
    )
)
def test_refunded_orders_never_turn_rewards_into_cash(moves: list[WalletMovement]) -> None:
    """Generate refunds up to the amount spent: used and remaining rewards must add up to the rewards granted."""
    spent: dict[UUID | None, int] = {}
    real = []
    for one in moves:
        order_id, minor = one.order_id, one.minor
        if one.kind == "refund" and order_id is not None:
            minor = min(minor, spent.get(order_id, 0))
            if not minor:
                continue
        spent[order_id] = spent.get(order_id, 0) - minor
        real.append(replace(one, minor=minor))
    given_minor = sum(one.minor for one in real if one.rewards)
    still_spent = sum(minor for order_id, minor in spent.items() if order_id is not None)

    assert max(given_minor - still_spent, 0) <= remaining_rewards(real) <= given_minor


def test_remaining_rewards_are_computed_from_the_ledger(session: Session) -> None:
    shop = make_shop(session)
    buyer = shop.buyer.id
    fill_wallet(session, buyer, 200_000)
    assert fetch_remaining_rewards(session, user_id=buyer, balance_minor=200_000) == 0
    post_transaction(
        session,
        kind="reward",
        source=f"test:{uuid4()}",
        description="Reward",
        postings=[
            Posting(accounts.REWARDS, "debit", 90_000),
            Posting(accounts.wallet(buyer), "credit", 90_000),
        ],
        now=NOW,
    )
    assert fetch_remaining_rewards(session, user_id=buyer, balance_minor=290_000) == 90_000

    order_id = place(session, shop, make_product(session, shop), wallet=WalletUse(amount_minor=120_000))
    assert fetch_remaining_rewards(session, user_id=buyer, balance_minor=170_000) == 0
    cancel_order(session, order_id=order_id, caller=shop.buyer, reason=None, now=NOW)
    assert wallet_of(session, buyer) == 290_000
    assert fetch_remaining_rewards(session, user_id=buyer, balance_minor=290_000) == 90_000
    # Remaining rewards cannot exceed the balance.
    assert fetch_remaining_rewards(session, user_id=buyer, balance_minor=40_000) == 40_000
