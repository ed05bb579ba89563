"""Payout holds: missing or new bank account, and restrictions set by staff."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import select

from marketplace.identity.models import Profile
from marketplace.infra.db import Database
from marketplace.payouts.models import PayoutAccount
from marketplace.payouts.payees import holds
from marketplace.payouts.payees.holds import Hold
from marketplace.vendors.models import VendorProfile
from tests.support.market import Market, Store
from tests.support.purchases import NOW
from tests.support.resource_usage import counted_statements

LONG_AGO = NOW - timedelta(days=40)


@pytest.fixture
def market(database: Database) -> Market:
    return Market(database)


def give_account(market: Market, user_id: UUID, **columns: Any) -> None:
    given = {"bank_code": "058", "account_number": "2234567890", "account_name": "A", "created_at": LONG_AGO}
    with market.database.transaction() as session:
        session.add(PayoutAccount(user_id=user_id, **given | columns))


def paid_store(market: Market) -> Store:
    store = market.store()
    give_account(market, store.user_id)
    return store


def holds_of(market: Market, *stores: Store) -> list[tuple[Hold, ...]]:
    with market.database.reading() as session:
        found = holds.find_vendor_holds(session, vendor_ids=[store.id for store in stores], now=NOW)
    return [found[store.id] for store in stores]


def test_store_with_bank_account_older_than_a_day_has_no_hold(market: Market) -> None:
    assert holds_of(market, paid_store(market)) == [()]


def test_new_bank_account_holds_payouts_for_a_day(market: Market) -> None:
    fresh, day_old, replaced = market.store(), market.store(), market.store()
    given_at = NOW - timedelta(hours=24) + timedelta(microseconds=1)
    give_account(market, fresh.user_id, created_at=given_at)
    give_account(market, day_old.user_id, created_at=NOW - timedelta(hours=24))
    give_account(market, replaced.user_id, replaced_at=NOW)
    give_account(market, replaced.user_id, created_at=NOW, account_number="2234567891")

    assert holds_of(market, fresh, day_old, replaced) == [
        (Hold(holds.BANK_ACCOUNT_CHANGED, NOW + timedelta(microseconds=1)),),
        (),
        (Hold(holds.BANK_ACCOUNT_CHANGED, NOW + timedelta(hours=24)),),
    ]


def test_store_without_bank_account_is_on_hold(market: Market) -> None:
    bare, former = market.store(), market.store()
    give_account(market, former.user_id, replaced_at=NOW)

    assert holds_of(market, bare, former) == [(Hold(holds.NO_BANK_ACCOUNT),)] * 2


@pytest.mark.parametrize(
    ("person", "store", "held"),
    [
        ({"account_status": "suspended"}, {}, (holds.ACCOUNT_SUSPENDED,)),
        ({"account_status": "restricted", "status_reason": "Under review"}, {}, (holds.ACCOUNT_RESTRICTED,)),
        ({"account_status": "restricted"}, {}, (holds.ACCOUNT_RESTRICTED,)),
        # A departing user and a closed store are still paid.
        ({"account_status": "restricted", "status_code": "deletion_pending"}, {"status": "closed"}, ()),
        ({}, {"status": "suspended"}, (holds.STORE_SUSPENDED,)),
        ({"account_status": "suspended"}, {"status": "suspended"}, (holds.ACCOUNT_SUSPENDED, holds.STORE_SUSPENDED)),
    ],
)  # fmt: skip
def test_restricted_account_or_store_is_on_hold(
    market: Market, person: dict[str, Any], store: dict[str, Any], held: tuple[str, ...]
) -> None:
    shop = paid_store(market)
    market.change(Profile, shop.user_id, **person)
    market.change(VendorProfile, shop.id, **store)

    assert holds_of(market, shop) == [tuple(Hold(reason) for reason in held)]


def test_holds_of_many_stores_take_a_single_query_and_omit_unknown_stores(market: Market) -> None:
    stores = [paid_store(market) for _ in range(5)]
    with counted_statements(market.database) as statements, market.database.reading() as session:
        found = holds.find_vendor_holds(
            session, vendor_ids=[*(store.id for store in stores), uuid4()], now=NOW
        )

    assert found == {store.id: () for store in stores}
    assert len(statements) == 1


def test_suspended_store_does_not_hold_the_owners_wallet(market: Market) -> None:
    shop, buyer = paid_store(market), market.person()
    market.change(VendorProfile, shop.id, status="suspended")
    with market.database.reading() as session:
        found = holds.find_wallet_holds(session, user_ids=[shop.user_id, buyer], now=NOW)

    assert found == {shop.user_id: (), buyer: (Hold(holds.NO_BANK_ACCOUNT),)}


def test_changed_account_number_is_found_by_the_blind_index(market: Market) -> None:
    store = paid_store(market)
    number = "2234567891"
    of_store = PayoutAccount.user_id == store.user_id
    with market.database.transaction() as session:
        session.scalars(select(PayoutAccount).where(of_store)).one().account_number = number

    with market.database.reading() as session:
        found = session.scalars(
            select(PayoutAccount).where(of_store, PayoutAccount.account_number_index == number)
        ).one()
    assert found.account_number == number
