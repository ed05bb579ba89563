"""Concurrent verifications of phone numbers."""

from collections.abc import Sequence
from uuid import UUID, uuid4

from sqlalchemy import select

from marketplace.identity.models import Profile
from marketplace.identity.operations import create_profile
from marketplace.identity.phone_verification import NoValidCodeError, confirm_code, issue_code
from marketplace.infra.db import Database, run_with_retries
from tests.support.purchases import NOW
from tests.support.threads import at_once, unexpected_errors

KEY = "of-these-tests-only-0123456789abcdef"


def make_user(database: Database) -> UUID:
    user_id = uuid4()
    database.in_transaction(create_profile, user_id=user_id, email=None, name=None, now=NOW)
    return user_id


def random_phone() -> str:
    return f"+234803{uuid4().int % 10**7:07}"


def issue(database: Database, user_id: UUID, phone: str) -> str:
    return database.in_transaction(issue_code, user_id=user_id, phone=phone, key=KEY, now=NOW).code


def confirm(database: Database, user_id: UUID, code: str) -> None:
    run_with_retries(
        lambda: database.in_transaction(
            confirm_code, user_id=user_id, code=code, key=KEY, media_base_url="", now=NOW
        )
    )


def verified_users(database: Database, phone: str) -> Sequence[UUID]:
    with database.reading() as session:
        return session.scalars(
            select(Profile.id).where(Profile.phone_index == phone, Profile.phone_verified_at.is_not(None))
        ).all()


def test_number_confirmed_by_several_users_at_once_is_verified_for_one(database: Database) -> None:
    phone = random_phone()
    users = [make_user(database) for _ in range(4)]
    codes = {user_id: issue(database, user_id, phone) for user_id in users}

    results = at_once(lambda user_id: confirm(database, user_id, codes[user_id]), users)

    assert unexpected_errors(results) == []
    assert len(verified_users(database, phone)) == 1


def test_code_confirmed_several_times_at_once_takes_effect_once(database: Database) -> None:
    phone, user_id = random_phone(), make_user(database)
    code = issue(database, user_id, phone)

    results = at_once(lambda _: confirm(database, user_id, code), range(4))

    assert unexpected_errors(results, NoValidCodeError) == []
    assert sum(result is None for result in results) == 1
    with database.reading() as session:
        assert session.scalar(select(Profile.revision).where(Profile.id == user_id)) == 2


def test_users_who_exchange_numbers_at_once_do_not_block_each_other(database: Database) -> None:
    phones, users = [random_phone(), random_phone()], [make_user(database), make_user(database)]
    for user_id, phone in zip(users, phones, strict=True):
        confirm(database, user_id, issue(database, user_id, phone))
    codes = [issue(database, user_id, phone) for user_id, phone in zip(users, reversed(phones), strict=True)]

    results = at_once(lambda index: confirm(database, users[index], codes[index]), range(2))

    assert unexpected_errors(results) == []
    assert [list(verified_users(database, phone)) for phone in phones] == [[users[1]], [users[0]]]
