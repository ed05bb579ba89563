"""Concurrent sign-ups and deliveries: each reward is booked once, and caps hold."""

from collections.abc import Iterator
from dataclasses import replace
from uuid import UUID, uuid4

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.identity.operations import create_profile
from marketplace.identity.queries import find_caller
from marketplace.infra.db import Database
from marketplace.referrals.models import Referral
from marketplace.referrals.settle import settle_due_referrals, settle_referral
from tests.support.purchases import NOW, assert_ledger_is_consistent, make_shop
from tests.support.referrals import (
    code_of,
    evaluate,
    join,
    person,
    receive_order,
    referred,
    restore_terms,
    rewards_of,
    set_terms,
)
from tests.support.threads import at_once, unexpected_errors

ROUNDS = 4


@pytest.fixture(autouse=True)
def _restore_terms(database: Database) -> Iterator[None]:
    yield
    database.in_transaction(restore_terms)


def new_code(session: Session) -> str:
    return code_of(session, person(session, created_at=NOW))


def test_concurrent_provisioning_and_first_token_reward_a_newcomer_once(database: Database) -> None:
    for _ in range(ROUNDS):
        code, user_id = database.in_transaction(new_code), uuid4()

        def provision(_: int, code: str = code, user_id: UUID = user_id) -> bool:
            return database.in_transaction(join, code, user_id=user_id).created

        def use_token(_: int, user_id: UUID = user_id) -> bool:
            return database.in_transaction(create_profile, user_id=user_id, email=None, name=None, now=NOW)

        calls = [provision, use_token, provision, use_token, provision]
        results = at_once(lambda call: call(0), calls)

        assert unexpected_errors(results) == []
        assert results.count(True) == 1
        with database.reading() as session:
            assert len(rewards_of(session, user_id)) == 1


def test_concurrent_events_reward_a_referrer_once(database: Database) -> None:
    for _ in range(ROUNDS):
        with database.transaction() as session:
            referral = referred(session, person(session))
            newcomer, referrer = referral.newcomer_id, referral.referrer_id
            buyer = find_caller(session, user_id=newcomer, aal="aal1", now=NOW)
            assert buyer is not None
            receive_order(session, replace(make_shop(session), buyer=buyer))

        def settle(by_sweep: bool, newcomer: UUID = newcomer) -> None:
            if by_sweep:
                settle_due_referrals(database, now=NOW)
            else:
                database.in_transaction(settle_referral, newcomer_id=newcomer, now=NOW)

        assert unexpected_errors(at_once(settle, [True, False, True, False])) == []
        with database.reading() as session:
            assert referrer is not None
            assert len(rewards_of(session, referrer)) == 1
            assert_ledger_is_consistent(session)


def test_concurrent_sign_ups_do_not_exceed_the_cap(database: Database) -> None:
    database.in_transaction(set_terms, monthly_cap=3)
    code = database.in_transaction(new_code)

    results = at_once(lambda _: database.in_transaction(join, code).referral.rejection, range(6))

    assert unexpected_errors(results) == []
    assert sorted(results, key=str) == [None, None, None, "cap_reached", "cap_reached", "cap_reached"]


def test_two_people_who_name_each_other_form_no_loop(database: Database) -> None:
    for _ in range(ROUNDS):
        with database.transaction() as session:
            first, second = person(session, created_at=NOW), person(session, created_at=NOW)
            codes = {first: code_of(session, second), second: code_of(session, first)}

        results = at_once(
            lambda user_id, codes=codes: database.in_transaction(evaluate, user_id, codes[user_id]),
            [first, second],
        )

        assert unexpected_errors(results) == []
        with database.reading() as session:
            rejections = session.scalars(
                select(Referral.rejection).where(Referral.newcomer_id.in_([first, second]))
            ).all()
        assert sorted(rejections, key=str) == [None, "loop"]
