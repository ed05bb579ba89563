"""Rewards of referrers: after the newcomer's first delivered order, once, and within the caps."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.identity.models import Profile
from marketplace.identity.queries import Caller, find_caller
from marketplace.infra.db import Database
from marketplace.referrals.models import Referral
from marketplace.referrals.queries import show_program
from marketplace.referrals.settle import ORDER_WINDOW, settle_due_referrals, settle_referral
from tests.support.finance import claw_back
from tests.support.payouts import make_account
from tests.support.purchases import NOW, Shop, assert_ledger_is_consistent, later, make_shop, shipped_order
from tests.support.referrals import (
    NEWCOMER_MINOR,
    REFERRER_MINOR,
    change_profile,
    delivery_events,
    person,
    receive_order,
    referred,
    reward_notices,
    rewards_of,
    set_terms,
)


@pytest.fixture
def referral(session: Session) -> Referral:
    """A pending referral."""
    return referred(session, person(session))


def caller(session: Session, user_id: UUID) -> Caller:
    found = find_caller(session, user_id=user_id, aal="aal1", now=NOW)
    assert found is not None
    return found


def shop_of(session: Session, shop: Shop, referral: Referral) -> Shop:
    """Return the shop with the newcomer as buyer."""
    return replace(shop, buyer=caller(session, referral.newcomer_id))


def settle(session: Session, referral: Referral, *, days: int = 0) -> tuple[str | None, str | None]:
    """Settle a referral, and return status and rejection."""
    status = settle_referral(session, newcomer_id=referral.newcomer_id, now=later(days=days))
    return status, referral.rejection


def test_first_delivered_order_rewards_the_referrer(session: Session, shop: Shop, referral: Referral) -> None:
    referrer = referral.referrer_id
    assert referrer is not None
    buying = shop_of(session, shop, referral)
    order_id = shipped_order(session, buying)
    assert settle(session, referral) == ("pending", None)
    assert delivery_events(session, referral.newcomer_id) == 0

    order_id = receive_order(session, buying)

    assert delivery_events(session, referral.newcomer_id) == 1
    assert settle(session, referral, days=1) == ("rewarded", None)
    assert (referral.order_id, referral.rewarded_at) == (order_id, later(days=1))
    assert rewards_of(session, referrer) == [("Reward for referring a new user", REFERRER_MINOR)]
    [notice] = reward_notices(session, referrer)
    assert "NGN 1,000.00" in notice
    assert not session.get_one(Profile, referral.newcomer_id, populate_existing=True).referral_pending
    assert show_program(session, user_id=referrer).earned_minor == REFERRER_MINOR
    assert_ledger_is_consistent(session)


def test_later_orders_and_repeated_events_reward_no_more(
    session: Session, shop: Shop, referral: Referral
) -> None:
    buying = shop_of(session, shop, referral)
    receive_order(session, buying)
    settle(session, referral)

    receive_order(session, buying)

    assert delivery_events(session, referral.newcomer_id) == 1
    assert settle(session, referral) == (None, None)
    assert len(rewards_of(session, referral.referrer_id)) == 1  # type: ignore[arg-type]


def test_buyers_without_referral_cause_no_event(session: Session, shop: Shop) -> None:
    receive_order(session, shop)
    assert delivery_events(session, shop.buyer.id) == 0
    assert settle_referral(session, newcomer_id=shop.buyer.id, now=NOW) is None


def test_rewards_are_those_of_the_sign_up(session: Session, shop: Shop, referral: Referral) -> None:
    set_terms(session, referrer_minor=1)
    receive_order(session, shop_of(session, shop, referral))
    settle(session, referral)
    assert [minor for _, minor in rewards_of(session, referral.referrer_id)] == [REFERRER_MINOR]  # type: ignore[arg-type]


def test_order_at_the_referrers_own_store_does_not_count(session: Session) -> None:
    own = make_shop(session)
    change_profile(session, own.vendor.id, created_at=NOW)
    referral = referred(session, own.vendor.id)
    receive_order(session, shop_of(session, own, referral))
    assert settle(session, referral) == ("pending", None)

    receive_order(session, shop_of(session, make_shop(session), referral))

    assert settle(session, referral) == ("rewarded", None)


def test_order_clawed_back_in_full_before_the_reward_does_not_count(
    session: Session, shop: Shop, referral: Referral, officer: Caller
) -> None:
    buying = shop_of(session, shop, referral)
    claw_back(session, receive_order(session, buying), officer=officer)
    assert settle(session, referral) == ("pending", None)

    receive_order(session, buying)

    assert settle(session, referral) == ("rewarded", None)


def test_order_clawed_back_after_the_reward_leaves_the_reward(
    session: Session, shop: Shop, referral: Referral, officer: Caller
) -> None:
    order_id = receive_order(session, shop_of(session, shop, referral))
    settle(session, referral)

    claw_back(session, order_id, officer=officer)

    assert referral.status == "rewarded"
    assert_ledger_is_consistent(session)


@pytest.mark.parametrize(
    ("party", "rejection"),
    [("referrer_id", "referrer_not_active"), ("newcomer_id", "newcomer_not_active")],
)
def test_suspended_account_earns_nothing(
    session: Session, shop: Shop, referral: Referral, party: str, rejection: str
) -> None:
    receive_order(session, shop_of(session, shop, referral))
    change_profile(session, getattr(referral, party), account_status="suspended")

    assert settle(session, referral) == ("rejected", rejection)

    change_profile(session, getattr(referral, party), account_status="active")
    assert settle(session, referral) == (None, rejection)
    assert rewards_of(session, referral.referrer_id) == []  # type: ignore[arg-type]
    assert len(rewards_of(session, referral.newcomer_id)) == 1


def test_bank_account_shared_after_the_sign_up_earns_nothing(
    session: Session, shop: Shop, referral: Referral
) -> None:
    receive_order(session, shop_of(session, shop, referral))
    for user_id in (referral.newcomer_id, referral.referrer_id):
        assert user_id is not None
        make_account(session, user_id, account_number="0123456789")

    assert settle(session, referral) == ("rejected", "same_person")


def test_rewards_of_a_referrer_are_capped(session: Session, shop: Shop) -> None:
    referrer = person(session)
    referrals = [referred(session, referrer) for _ in range(2)]
    set_terms(session, monthly_cap=1)
    for each in referrals:
        receive_order(session, shop_of(session, shop, each))

    assert [settle(session, each) for each in referrals] == [("rewarded", None), ("rejected", "cap_reached")]


def test_referrers_reward_needs_a_budget(session: Session, shop: Shop, referral: Referral) -> None:
    set_terms(session, monthly_budget_minor=NEWCOMER_MINOR + REFERRER_MINOR - 1)
    receive_order(session, shop_of(session, shop, referral))

    assert settle(session, referral) == ("rejected", "budget_spent")


def test_referral_without_order_in_time_ends(session: Session, shop: Shop, referral: Referral) -> None:
    assert settle(session, referral, days=ORDER_WINDOW.days) == ("pending", None)
    receive_order(session, shop_of(session, shop, referral), now=NOW + ORDER_WINDOW + timedelta(seconds=1))

    assert settle(session, referral, days=ORDER_WINDOW.days + 1) == ("rejected", "no_order_in_time")


def test_sweep_settles_referrals_whose_event_was_lost(database: Database) -> None:
    with database.transaction() as session:
        delivered, waiting, overdue = (referred(session, person(session)) for _ in range(3))
        receive_order(session, shop_of(session, make_shop(session), delivered))
        session.execute(
            text("UPDATE referrals SET accepted_at = accepted_at - CAST(:window AS interval) WHERE id = :id"),
            {"window": ORDER_WINDOW + timedelta(days=1), "id": overdue.id},
        )
        ids = [delivered.id, waiting.id, overdue.id]

    assert settle_due_referrals(database, now=NOW) == 2

    assert settle_due_referrals(database, now=NOW) == 0
    with database.reading() as session:
        assert [session.get_one(Referral, each).status for each in ids] == ["rewarded", "pending", "rejected"]
