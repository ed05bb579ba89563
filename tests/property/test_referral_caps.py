"""Random sign-ups and deliveries with random terms: rewards stay within the caps of any thirty days."""

from collections import defaultdict
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from hypothesis import given, settings as hypothesis_settings, strategies as st
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.identity.queries import find_caller
from marketplace.infra.db import Database
from marketplace.referrals.rewards import CAP_PERIOD
from marketplace.referrals.settle import settle_referral
from tests.support.depth import case_count
from tests.support.purchases import NOW, Shop, assert_ledger_is_consistent, make_shop
from tests.support.referrals import person, receive_order, referred, set_terms

# The step's kind, the number of the person, and the hours since the step before.
STEPS = st.lists(
    st.tuples(st.sampled_from(["join", "join", "deliver"]), st.integers(0, 5), st.integers(0, 400)),
    min_size=4,
    max_size=10,
)


@hypothesis_settings(max_examples=case_count(8, deep=60))
@given(
    steps=STEPS,
    newcomer_minor=st.integers(0, 3),
    referrer_minor=st.integers(0, 3),
    cap=st.integers(0, 3),
    budget=st.integers(0, 9),
)
def test_rewards_never_exceed_caps_and_budget(
    own_database: Database,
    steps: list[tuple[str, int, int]],
    newcomer_minor: int,
    referrer_minor: int,
    cap: int,
    budget: int,
) -> None:
    with own_database.engine.connect() as connection:
        outer = connection.begin()
        with Session(connection, join_transaction_mode="create_savepoint", expire_on_commit=False) as session:
            set_terms(
                session,
                newcomer_minor=newcomer_minor,
                referrer_minor=referrer_minor,
                monthly_cap=cap,
                monthly_budget_minor=budget,
            )
            play(session, steps)
            check_caps(session, cap=cap, budget=budget)
            assert_ledger_is_consistent(session)
            session.flush()
        outer.rollback()


def play(session: Session, steps: list[tuple[str, int, int]]) -> None:
    """Let people join with codes of earlier people, and newcomers receive orders."""
    shop, people, now = make_shop(session), [person(session)], NOW
    for kind, number, hours in steps:
        now += timedelta(hours=hours)
        if kind == "join":
            people.append(referred(session, people[number % len(people)], now=now).newcomer_id)
        else:
            deliver(session, shop, people[number % len(people)], now)


def deliver(session: Session, shop: Shop, user_id: UUID, now: datetime) -> None:
    buyer = find_caller(session, user_id=user_id, aal="aal1", now=NOW)
    assert buyer is not None
    receive_order(session, replace(shop, buyer=buyer), now=now)
    for _ in range(2):
        settle_referral(session, newcomer_id=user_id, now=now)


def check_caps(session: Session, *, cap: int, budget: int) -> None:
    """Check the postings of each thirty days that end with a posting."""
    booked = session.execute(
        text(
            """
            SELECT split_part(t.source, ':', 3), r.referrer_id, t.created_at, e.amount_minor
            FROM ledger_transactions t JOIN ledger_entries e ON e.transaction_id = t.id AND e.direction = 'credit'
                JOIN referrals r ON r.id::text = split_part(t.source, ':', 2)
            WHERE t.kind = 'reward' AND t.source LIKE 'referral:%'
            """
        )
    ).all()
    for _, _, end, _ in booked:
        period = [row for row in booked if end - CAP_PERIOD < row[2] <= end]
        assert sum(row[3] for row in period) <= budget
        counts: defaultdict[tuple[str, UUID], int] = defaultdict(int)
        for receiver, referrer, _, _ in period:
            counts[receiver, referrer] += 1
        assert all(count <= cap for count in counts.values())
