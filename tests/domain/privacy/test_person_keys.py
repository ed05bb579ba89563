"""Sealed values of rows that never change: readable until the person's key is destroyed."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit import person_keys
from marketplace.audit.chain import read_rows, verify_rows
from marketplace.audit.operations import Act, record_audit_entry
from marketplace.audit.person_keys import (
    destroy_keys,
    load_keys,
    seal,
    seal_bytes,
    unseal,
    unseal_bytes,
    unseal_values,
)
from marketplace.audit.table import AuditFilters, list_audit_entries
from marketplace.infra.db import Database
from marketplace.kernel.paging import TableRequest
from marketplace.orders.trail import list_trail
from marketplace.payments.refunds.order_cancellation import cancel_order
from marketplace.webhooks.events import Event
from marketplace.webhooks.stored_payloads import find_owner, seal_payload
from tests.support.purchases import (
    NOW,
    make_intent,
    make_person,
    make_product,
    make_shop,
    paid_order,
    place,
    row_of,
)
from tests.support.sealed_payloads import open_payload


def test_sealed_text_is_readable_until_the_key_is_destroyed(session: Session) -> None:
    owner = make_person(session).id
    sealed = seal(session, "Peacock Hostel, Q-417 \u2665", owner_id=owner)

    assert "Peacock" not in sealed
    assert unseal(session, sealed) == "Peacock Hostel, Q-417 \u2665"
    assert seal(session, "Peacock", owner_id=owner) != seal(session, "Peacock", owner_id=owner)
    destroy_keys(session, [owner])
    assert unseal(session, sealed) is None


def test_values_that_are_not_sealed_stay(session: Session) -> None:
    assert unseal(session, "p1: a plain note") == "p1: a plain note"
    assert unseal(session, None) is None
    assert unseal_bytes(session, b'{"event":"x"}') == b'{"event":"x"}'
    assert unseal_values(session, {"a": [1, None, "x"]}) == {"a": [1, None, "x"]}


def test_changed_value_and_value_of_another_person_are_unreadable(session: Session) -> None:
    owner, other = make_person(session).id, make_person(session).id
    sealed = seal(session, "Peacock", owner_id=owner)
    seal(session, "Falcon", owner_id=other)

    assert unseal(session, sealed.replace(owner.hex, other.hex)) is None
    assert unseal(session, f"{sealed[:-2]}AA") is None


def test_bytes_survive_sealing(session: Session) -> None:
    owner, content = make_person(session).id, bytes(range(256))

    assert unseal_bytes(session, seal_bytes(session, content, owner_id=owner)) == content


def test_payload_keeps_members_and_plain_values(session: Session) -> None:
    shop = make_shop(session)
    intent = make_intent(session, shop, place(session, shop, make_product(session, shop)))
    data = {
        "reference": intent.reference,
        "id": 7,
        "customer": {"email": "ada@example.edu", "vip": True, "n": 5},
    }
    event = Event("charge.success", "charge.success:7", data, {"event": "charge.success", "data": data})

    stored = seal_payload(session, event, owner_id=find_owner(session, event))

    assert stored["data"]["id"] == 7
    assert stored["data"]["customer"] == {"email": {"sealed": 0}, "vip": True, "n": {"sealed": 1}}
    assert "ada@" not in str(stored)
    assert open_payload(session, stored) == event.payload
    destroy_keys(session, [shop.buyer.id])
    assert open_payload(session, stored)["data"]["customer"] == {"email": None, "vip": True, "n": None}


def test_payload_without_a_known_person_loses_the_values(session: Session) -> None:
    data = {"reference": "checkout-of-nobody", "customer": {"email": "ada@example.edu"}}
    event = Event("charge.success", "charge.success:8", data, {"event": "charge.success", "data": data})

    stored = seal_payload(session, event, owner_id=find_owner(session, event))

    assert stored["sealedValues"] is None
    assert stored["data"]["customer"] == {"email": {"sealed": 0}}


def test_erased_person_gets_no_new_key(session: Session) -> None:
    owner = make_person(session).id
    session.execute(
        text(
            "UPDATE profiles SET erased_at = :now, name = NULL, account_status = 'suspended' WHERE id = :id"
        ),
        {"now": NOW, "id": owner},
    )

    assert unseal(session, seal(session, "A late event", owner_id=owner)) is None


def test_concurrent_first_values_share_a_key(database: Database) -> None:
    owner = database.in_transaction(make_person).id

    def seal_number(number: int) -> str:
        return database.in_transaction(seal, str(number), owner_id=owner)

    with ThreadPoolExecutor(4) as pool:
        sealed = list(pool.map(seal_number, range(8)))

    with database.reading() as session:
        assert [unseal(session, words) for words in sealed] == [str(number) for number in range(8)]


def test_key_of_an_earlier_transaction_is_not_used_again(database: Database) -> None:
    owner = database.in_transaction(make_person).id
    sealed = database.in_transaction(seal, "Peacock", owner_id=owner)
    database.in_transaction(destroy_keys, [owner])

    with database.reading() as session:
        assert unseal(session, sealed) is None


def test_keys_of_many_values_are_loaded_at_once(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    owners = [make_person(session).id for _ in range(5)]
    sealed = [seal(session, "Peacock", owner_id=owner) for owner in owners]
    session.info.clear()

    load_keys(session, sealed)
    monkeypatch.setattr(person_keys, "_read_secret", None)

    assert [unseal(session, words) for words in sealed] == ["Peacock"] * 5


class TestAuditTrail:
    def record(self, session: Session, actor: UUID, target: UUID) -> None:
        act = Act("admin", NOW, user_id=actor, ip_address="192.0.2.77", user_agent="Ada's Browser")
        record_audit_entry(
            session,
            act=act,
            action="person.status",
            target_type="profile",
            target_id=str(target),
            after={"accountStatus": "suspended", "reason": "Sold counterfeit phones"},
        )

    def latest(self, session: Session) -> Any:
        page = list_audit_entries(
            session,
            filters=AuditFilters(),
            table=TableRequest(limit=1, position=None, number=1, sort="at", descending=True),
        )
        return page.items[0]

    def test_stored_row_is_sealed_and_the_table_shows_it(self, session: Session) -> None:
        actor, target = make_person(session).id, make_person(session).id
        self.record(session, actor, target)

        stored = str(row_of(session, "audit_logs", target_id=str(target)))
        shown = self.latest(session)

        assert not any(words in stored for words in ("192.0.2.77", "Ada's Browser", "counterfeit"))
        assert "suspended" in stored
        assert (shown.ip_address, shown.user_agent) == ("192.0.2.77", "Ada's Browser")
        assert shown.after == {"accountStatus": "suspended", "reason": "Sold counterfeit phones"}

    @pytest.mark.parametrize("erased", ["actor", "target"])
    def test_chain_stays_intact_after_the_end_of_a_key(self, session: Session, erased: str) -> None:
        people = {"actor": make_person(session).id, "target": make_person(session).id}
        self.record(session, people["actor"], people["target"])

        destroy_keys(session, [people[erased]])

        shown = self.latest(session)
        assert (shown.ip_address is None) == (erased == "actor")
        assert (shown.after["reason"] is None) == (erased == "target")
        verify_rows(read_rows(session, after_id=0))

    def test_act_without_a_person_is_not_sealed(self, session: Session) -> None:
        record_audit_entry(
            session,
            act=Act("operator ada", NOW),
            action="x.y",
            target_type="webhook_inbox",
            target_id=str(uuid4()),
            after={"reason": "It was a test"},
        )

        assert self.latest(session).after == {"reason": "It was a test"}


def test_note_of_a_buyer_is_sealed_in_the_trail(session: Session) -> None:
    shop = make_shop(session)
    order_id = paid_order(session, shop)
    cancel_order(session, order_id=order_id, caller=shop.buyer, reason="My aunt Philomena has one", now=NOW)

    stored = session.scalar(
        text("SELECT string_agg(note, ' ') FROM order_events WHERE order_id = :id"), {"id": order_id}
    )
    assert "Philomena" not in str(stored)
    assert [entry.note for entry in list_trail(session, order_id=order_id)][-1] == "My aunt Philomena has one"
    destroy_keys(session, [shop.buyer.id])
    assert list_trail(session, order_id=order_id)[-1].note is None
