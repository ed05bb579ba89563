"""Referral codes at the sign-up: accepted codes reward the newcomer once, all others earn nothing."""

from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy.orm import Session

from marketplace.identity.models import Profile
from marketplace.payouts.payees.balances import fetch_remaining_rewards
from marketplace.referrals.codes import issue_code
from marketplace.referrals.evaluate import EVALUATION_WINDOW
from marketplace.referrals.queries import CODE_VALIDITY, show_program
from tests.support.payouts import make_account
from tests.support.purchases import NOW, assert_ledger_is_consistent, later, wallet_of
from tests.support.referrals import (
    NEWCOMER_MINOR,
    REFERRER_MINOR,
    change_profile,
    code_of,
    evaluate,
    join,
    person,
    referred,
    reward_notices,
    rewards_of,
    set_terms,
)


def test_accepted_code_rewards_the_newcomer_at_once(session: Session) -> None:
    referrer = person(session, name="Tunde Bello")

    referral = referred(session, referrer)

    assert (referral.status, referral.referrer_id, referral.accepted_at) == ("pending", referrer, NOW)
    newcomer = referral.newcomer_id
    assert rewards_of(session, newcomer) == [("Reward for signing up with a referral code", NEWCOMER_MINOR)]
    assert wallet_of(session, newcomer) == NEWCOMER_MINOR
    assert fetch_remaining_rewards(session, user_id=newcomer, balance_minor=NEWCOMER_MINOR) == NEWCOMER_MINOR
    [notice] = reward_notices(session, newcomer)
    assert "NGN 500.00" in notice
    assert "Tunde" not in notice
    assert rewards_of(session, referrer) == reward_notices(session, referrer) == []
    assert session.get_one(Profile, newcomer).referral_pending
    assert_ledger_is_consistent(session)


def test_repeated_evaluation_changes_nothing(session: Session) -> None:
    referral = referred(session, person(session))
    other = person(session)

    again = evaluate(session, referral.newcomer_id, code_of(session, other), now=later(days=1))

    assert again is referral
    assert len(rewards_of(session, referral.newcomer_id)) == 1


@pytest.mark.parametrize("spelling", [str.lower, lambda code: f" {code[:5]}-{code[5:]} "])
def test_spelling_of_code_does_not_matter(session: Session, spelling: object) -> None:
    assert callable(spelling)
    referral = join(session, spelling(code_of(session, person(session)))).referral
    assert referral is not None
    assert referral.status == "pending"


@pytest.mark.parametrize("code", ["NOSUCHCODE", "K7M2Q9", "é", "x" * 1_000, "'; --", "\u202e"])
def test_unknown_code_earns_nothing(session: Session, code: str) -> None:
    referral = join(session, code).referral

    assert referral is not None
    assert (referral.status, referral.rejection, referral.referrer_id) == ("rejected", "unknown_code", None)
    assert rewards_of(session, referral.newcomer_id) == []


def test_profile_of_earlier_token_is_evaluated_for_seven_days(session: Session) -> None:
    referrer = code_of(session, person(session))
    timely = person(session, created_at=NOW - EVALUATION_WINDOW)
    late = person(session, created_at=NOW - EVALUATION_WINDOW - timedelta(seconds=1))

    accepted = evaluate(session, timely, referrer)

    assert accepted is not None
    assert accepted.status == "pending"
    assert evaluate(session, late, referrer) is None
    assert rewards_of(session, late) == []


def test_own_code_earns_nothing(session: Session) -> None:
    newcomer = person(session, created_at=NOW)
    referral = evaluate(session, newcomer, code_of(session, newcomer))
    assert referral is not None
    assert referral.rejection == "same_person"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"email": "ada@unilag.example"}, {"email": "ADA+two@Unilag.example"}),
        ({"email": "ada.obi@gmail.com"}, {"email": "adaobi@googlemail.com"}),
        ({"phone": "+2348031234567"}, {"phone": "+2348031234567"}),
    ],
)
def test_second_account_of_referrer_earns_nothing(
    session: Session, first: dict[str, str], second: dict[str, str]
) -> None:
    referral = join(session, code_of(session, person(session, **first)), **second).referral
    assert referral is not None
    assert referral.rejection == "same_person"


def test_similar_addresses_of_different_people_are_accepted(session: Session) -> None:
    referrer = person(session, email="ada.obi@unilag.example", phone="+2348031234567")
    referral = join(
        session, code_of(session, referrer), email="adaobi@unilag.example", phone="+2348031234568"
    ).referral
    assert referral is not None
    assert referral.status == "pending"


def test_shared_bank_account_earns_nothing(session: Session) -> None:
    referrer, newcomer = person(session), person(session, created_at=NOW)
    make_account(session, referrer, account_number="0123456789")
    make_account(session, newcomer, account_number="0123456789")

    referral = evaluate(session, newcomer, code_of(session, referrer))

    assert referral is not None
    assert referral.rejection == "same_person"


def test_loops_of_any_length_earn_nothing(session: Session) -> None:
    first = person(session, created_at=NOW)
    chain = [first]
    for _ in range(3):
        chain.append(referred(session, chain[-1]).newcomer_id)

    referral = evaluate(session, first, code_of(session, chain[-1]))

    assert referral is not None
    assert referral.rejection == "loop"
    assert rewards_of(session, first) == []
    # A rejected referral is no part of a chain.
    assert referred(session, first).status == "pending"


def test_code_expires_after_a_year_and_can_be_replaced(session: Session) -> None:
    referrer = person(session, created_at=NOW - CODE_VALIDITY)
    old = code_of(session, referrer)
    assert join(session, old).referral.status == "pending"  # type: ignore[union-attr]
    assert join(session, old, now=later(seconds=1)).referral.rejection == "code_expired"  # type: ignore[union-attr]

    program = issue_code(session, user_id=referrer, now=later(days=2))

    assert program.code != old
    assert program.code_expires_at == later(days=2) + CODE_VALIDITY
    assert join(session, old, now=later(days=3)).referral.rejection == "unknown_code"  # type: ignore[union-attr]
    assert join(session, program.code, now=later(days=3)).referral.status == "pending"  # type: ignore[union-attr]


@pytest.mark.parametrize("status", ["restricted", "suspended"])
def test_account_that_is_not_active_earns_nothing(session: Session, status: str) -> None:
    referral = referred(session, person(session, account_status=status))
    assert referral.rejection == "referrer_not_active"
    newcomer = person(session, created_at=NOW, account_status=status)
    other = evaluate(session, newcomer, code_of(session, person(session)))
    assert other is not None
    assert other.rejection == "newcomer_not_active"


def test_newcomers_of_a_referrer_are_capped_in_thirty_days(session: Session) -> None:
    set_terms(session, monthly_cap=2)
    referrer = person(session)

    statuses = [referred(session, referrer).rejection for _ in range(3)]

    assert statuses == [None, None, "cap_reached"]
    assert referred(session, person(session)).rejection is None
    assert referred(session, referrer, now=later(days=29)).rejection == "cap_reached"
    assert referred(session, referrer, now=later(days=30)).rejection is None


def test_rewards_stay_within_the_budget_of_thirty_days(session: Session) -> None:
    set_terms(session, monthly_budget_minor=2 * NEWCOMER_MINOR + 1)

    rejections = [referred(session, person(session)).rejection for _ in range(3)]

    assert rejections == [None, None, "budget_spent"]
    assert referred(session, person(session), now=later(days=30)).rejection is None


def test_rewards_of_zero_are_not_booked(session: Session) -> None:
    set_terms(session, newcomer_minor=0)

    referral = referred(session, person(session))

    assert (referral.status, referral.newcomer_transaction_id) == ("pending", None)
    assert rewards_of(session, referral.newcomer_id) == reward_notices(session, referral.newcomer_id) == []
    assert_ledger_is_consistent(session)


def test_program_counts_referrals_without_naming_people(session: Session) -> None:
    referrer = person(session)
    for _ in range(2):
        referred(session, referrer)
    change_profile(session, referrer, account_status="suspended")
    referred(session, referrer)

    program = show_program(session, user_id=referrer)

    assert (program.pending_count, program.rewarded_count, program.earned_minor) == (2, 0, 0)
    assert (program.newcomer_reward_minor, program.referrer_reward_minor) == (NEWCOMER_MINOR, REFERRER_MINOR)
    assert program.code_expires_at == NOW - timedelta(days=30) + CODE_VALIDITY


def test_profile_of_a_token_is_completed_until_the_user_changes_it(session: Session) -> None:
    untouched, changed = person(session, email="ada@unilag.example"), person(session)
    change_profile(session, changed, updated_at=NOW)

    for user_id in (untouched, changed):
        result = join(
            session, user_id=user_id, email="other@unilag.example", name="Ada", phone="+2348031234567"
        )
        assert not result.created

    session.expire_all()
    found = session.get_one(Profile, untouched)
    assert (found.email, found.name, found.phone) == ("ada@unilag.example", "Ada", "+2348031234567")
    assert session.get_one(Profile, changed).name is None


def test_user_without_code_has_no_referral_and_may_send_one_later(session: Session) -> None:
    user_id = uuid4()
    assert join(session, user_id=user_id).referral is None

    referral = join(session, code_of(session, person(session)), user_id=user_id, now=later(days=7)).referral

    assert referral is not None
    assert referral.status == "pending"
