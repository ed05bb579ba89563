"""What of a wallet came from rewards: they are spent first, come back with what they paid for, and are no cash."""

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


def move(kind: str, minor: int, order_id: UUID | None = None, *, rewards: bool = False) -> WalletMovement:
    return WalletMovement(kind, order_id, rewards, minor)


def gift(minor: int) -> WalletMovement:
    return move("reward", minor, rewards=True)


def spend(minor: int, order_id: UUID = ORDER) -> WalletMovement:
    return move("wallet_payment", -minor, order_id)


def back(minor: int, order_id: UUID | None = ORDER) -> WalletMovement:
    return move("refund", minor, order_id)


@pytest.mark.parametrize(
    ("moves", "left"),
    [
        ([], 0),
        ([back(50)], 0),
        ([gift(30)], 30),
        ([back(50), gift(30), back(20, OTHER)], 30),
        # Orders are paid with rewards first.
        ([back(50), gift(30), spend(20)], 10),
        ([back(50), gift(30), spend(60)], 0),
        # What they paid for comes back as what it was, once.
        ([back(50), gift(30), spend(60), back(60)], 30),
        ([back(50), gift(30), spend(60), back(25), back(35)], 30),
        ([back(50), gift(30), spend(20), back(20), spend(70, OTHER), back(70, OTHER)], 30),
        ([gift(30), spend(30), back(40)], 30),
        # What comes back of another order, or of none, is cash.
        ([gift(30), spend(30), back(30, OTHER)], 0),
        ([gift(30), spend(30), back(30, None)], 0),
        # What was spent before there were rewards is none of them.
        ([back(50), spend(50), gift(30), back(50)], 30),
        # What is paid out, or given back of what was paid twice, is no reward.
        ([back(50), gift(30), move("payout_staged", -50)], 30),
        ([back(50), gift(30), move("payout_staged", -50), move("payout_cancelled", 50)], 30),
        ([back(50), gift(30), move("debt_collected", -10)], 30),
        # A reward that is taken back.
        ([gift(30), spend(20), move("reward_reversed", -30, rewards=True)], 0),
    ],
    ids=repr,
)
def test_rewards_are_told_apart(moves: list[WalletMovement], left: int) -> None:
    assert remaining_rewards(moves) == left


_MINOR = st.integers(1, 1_000)


@given(
    st.lists(
        st.one_of(
            st.builds(gift, _MINOR),
            st.builds(spend, _MINOR, st.sampled_from((ORDER, OTHER))),
            st.builds(back, _MINOR, st.sampled_from((ORDER, OTHER, None))),
        )
    )
)
def test_rewards_are_never_turned_into_cash_by_orders_that_are_refunded(moves: list[WalletMovement]) -> None:
    """Refunds are capped at what was spent: what orders used of rewards, and what is left, is all that was given."""
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


def test_the_books_tell_it(session: Session) -> None:
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
    # More than there is can't have come from anywhere.
    assert fetch_remaining_rewards(session, user_id=buyer, balance_minor=40_000) == 40_000
