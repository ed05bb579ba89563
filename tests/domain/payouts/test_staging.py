"""Staging of payout batches: amounts, skipped payees with reasons, and ledger postings."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act
from marketplace.kernel.errors import ForbiddenError, ValidationError
from marketplace.ledger import accounts
from marketplace.ledger.operations import InsufficientFundsError
from marketplace.ledger.queries import fetch_balance
from marketplace.payouts.batches import staging
from marketplace.payouts.batches.decisions import compute_fingerprint
from marketplace.payouts.batches.staging import NothingToStageError
from marketplace.payouts.share_holds import end_hold, hold_share
from marketplace.payouts.texts import PAYOUT_BATCH_STAGED_BODY
from marketplace.platform.features import SCHEDULED_PAYOUTS, feature_setting_key
from marketplace.platform.halts import halt_payouts
from tests.support.finance import act_of, audit_entries_of, make_officer, notification_types_of
from tests.support.payouts import (
    OWED_MINOR,
    Payee,
    credit_balance,
    intents_in,
    intents_of,
    make_account,
    make_payee,
    make_payees,
    make_wallet_payee,
    payable_balance_of,
    record_vendor_debt,
    request_payout,
    stage,
    staged_batch,
)
from tests.support.purchases import (
    NOW,
    assert_ledger_is_consistent,
    later,
    make_shop,
    release,
    row_of,
    shipped_order,
)

MINIMUM_MINOR = 100_000


def reasons(staged: staging.StagingResult) -> dict[UUID, str]:
    return {one.vendor_id: one.reason for one in staged.skipped}


def test_staging_moves_the_released_balance_to_transit(session: Session) -> None:
    shop = make_shop(session)
    release(session, shop, shipped_order(session, shop))
    payee = Payee(shop.vendor, shop.store_id, make_account(session, shop.vendor.id))
    had = payable_balance_of(session, payee)
    in_transit = _in_transit(session)

    batch_id = staged_batch(session, [payee])

    batch = row_of(session, "payout_batches", id=batch_id)
    assert (batch["status"], batch["staged_by"]) == ("staged", None)
    assert batch["content_hash"] == compute_fingerprint(session, batch_id=batch_id)
    [intent] = intents_in(session, batch_id)
    assert (intent["amount_minor"], intent["status"], intent["account_id"]) == (
        had,
        "pending",
        payee.account_id,
    )
    assert (intent["vendor_id"], intent["user_id"]) == (shop.store_id, shop.vendor.id)
    assert intent["asked_for"] is False
    assert payable_balance_of(session, payee) == 0
    assert _in_transit(session) == in_transit + had
    source = f"payout:{intent['id']}"
    assert row_of(session, "ledger_transactions", source=source)["kind"] == "payout_staged"
    assert_ledger_is_consistent(session)


def _in_transit(session: Session) -> int:
    found = session.execute(
        text(
            "SELECT coalesce(sum(CASE direction WHEN 'credit' THEN amount_minor ELSE -amount_minor END), 0)"
            " FROM ledger_entries WHERE account_id = :id"
        ),
        {"id": accounts.PAYOUTS_IN_TRANSIT.id},
    )
    return int(found.scalar_one())


def test_repeated_staging_reserves_a_balance_once(session: Session) -> None:
    payees = make_payees(session, 3)
    staged_batch(session, payees)

    again = stage(session, payees)

    assert again.batch_id is None
    assert reasons(again) == {payee.store_id: "waiting" for payee in payees}
    assert [len(intents_of(session, payee)) for payee in payees] == [1, 1, 1]


def test_payee_with_pending_payout_is_left_out(session: Session) -> None:
    payee = make_payee(session)
    staged_batch(session, [payee])
    credit_balance(session, payee, OWED_MINOR)

    again = stage(session, [payee])

    assert (again.batch_id, reasons(again)) == (None, {payee.store_id: "waiting"})
    assert payable_balance_of(session, payee) == OWED_MINOR


def test_staging_of_all_payees_reports_only_holds_and_debts_as_skipped(session: Session) -> None:
    waiting = make_payee(session)
    staged_batch(session, [waiting])
    credit_balance(session, waiting, OWED_MINOR)
    poor, without = make_payee(session, owed_minor=MINIMUM_MINOR - 1), make_payee(session, owed_minor=0)
    held, indebted = make_payee(session, account={"created_at": NOW}), make_payee(session)
    record_vendor_debt(session, indebted, OWED_MINOR - 1)

    skipped = reasons(staging.stage_batch(session, act=Act("schedule", NOW)))

    assert skipped.keys().isdisjoint({waiting.store_id, poor.store_id, without.store_id})
    assert skipped[held.store_id or uuid4()] == "bank_account_changed"
    assert skipped[indebted.store_id or uuid4()] == "below_minimum"


@pytest.mark.parametrize(("owed_minor", "paid"), [(MINIMUM_MINOR, True), (MINIMUM_MINOR - 1, False)])
def test_minimum_payout_is_staged_and_smaller_balance_is_skipped(
    session: Session, owed_minor: int, paid: bool
) -> None:
    payee = make_payee(session, owed_minor=owed_minor)

    staged = stage(session, [payee])

    assert (staged.batch_id is not None) is paid
    assert reasons(staged) == ({} if paid else {payee.store_id: "below_minimum"})


def test_share_of_a_ruling_is_staged_after_the_hold(session: Session) -> None:
    order_id = shipped_order(session, make_shop(session))
    payee = make_payee(session)
    assert payee.store_id is not None
    hold_share(
        session,
        order_id=order_id,
        vendor_id=payee.store_id,
        amount_minor=OWED_MINOR - MINIMUM_MINOR + 1,
        until=later(hours=72),
        now=NOW,
    )

    assert reasons(stage(session, [payee])) == {payee.store_id: "share_on_hold"}

    end_hold(session, order_id=order_id, now=NOW)
    assert intents_of(session, payee) == []
    stage(session, [payee])
    assert [intent["amount_minor"] for intent in intents_of(session, payee)] == [OWED_MINOR]


def test_minimum_payout_is_a_platform_setting(session: Session) -> None:
    session.execute(text("UPDATE platform_settings SET value = '700000' WHERE key = 'minimum_payout_minor'"))
    payee = make_payee(session)

    assert stage(session, [payee]).batch_id is None


@pytest.mark.parametrize(
    ("account", "store", "person", "reason"),
    [
        ({"created_at": NOW - timedelta(hours=23)}, {}, {}, "bank_account_changed"),
        ({}, {"status": "suspended"}, {}, "store_suspended"),
        ({}, {}, {"account_status": "suspended"}, "account_suspended"),
    ],
)
def test_payee_on_hold_is_left_out_with_the_reason(
    session: Session, account: dict[str, Any], store: dict[str, Any], person: dict[str, Any], reason: str
) -> None:
    held, free = make_payee(session, account=account, **store), make_payee(session)
    for column, value in person.items():
        session.execute(
            text(f"UPDATE profiles SET {column} = :value WHERE id = :id"),
            {"value": value, "id": held.user.id},
        )

    staged = stage(session, [held, free])

    assert reasons(staged) == {held.store_id: reason}
    assert (staged.payments, staged.amount_minor) == (1, OWED_MINOR)
    assert payable_balance_of(session, held) == OWED_MINOR


def test_new_bank_account_is_paid_after_the_hold_ends(session: Session) -> None:
    payee = make_payee(session, account={"created_at": NOW})

    early = stage(session, [payee], now=later(hours=23))

    assert [(one.reason, one.until) for one in early.skipped] == [("bank_account_changed", later(hours=24))]
    assert staged_batch(session, [payee], now=later(hours=24))


def test_payee_without_bank_account_is_left_out(session: Session) -> None:
    payee = make_payee(session)
    session.execute(text("DELETE FROM payout_accounts WHERE id = :id"), {"id": payee.account_id})

    assert reasons(stage(session, [payee])) == {payee.store_id: "no_bank_account"}


def test_vendor_debt_is_deducted_from_the_payout(session: Session) -> None:
    payee = make_payee(session)
    record_vendor_debt(session, payee, 120_000)

    batch_id = staged_batch(session, [payee])

    [intent] = intents_in(session, batch_id)
    assert intent["amount_minor"] == OWED_MINOR - 120_000
    assert payee.store_id is not None
    assert fetch_balance(session, account=accounts.vendor_receivable(payee.store_id)) == 0
    assert payable_balance_of(session, payee) == 0


def test_debt_above_the_balance_is_collected_over_two_stagings(session: Session) -> None:
    payee = make_payee(session)
    record_vendor_debt(session, payee, OWED_MINOR + 30_000)

    first = stage(session, [payee])
    credit_balance(session, payee, OWED_MINOR)
    second = stage(session, [payee])

    assert (first.batch_id, first.collected_minor) == (None, OWED_MINOR)
    assert (second.payments, second.amount_minor, second.collected_minor) == (1, OWED_MINOR - 30_000, 30_000)
    assert_ledger_is_consistent(session)


def test_requested_withdrawal_joins_next_batch_with_the_current_account(session: Session) -> None:
    payee = make_payee(session)
    intent_id = request_payout(session, payee, 200_000)
    account_id = make_account(session, payee.user.id, created_at=NOW - timedelta(days=2))

    staged = stage(session, [payee])

    assert staged.batch_id is not None
    [intent] = intents_in(session, staged.batch_id)
    assert (intent["id"], intent["amount_minor"], intent["account_id"]) == (intent_id, 200_000, account_id)
    assert payable_balance_of(session, payee) == OWED_MINOR - 200_000


@pytest.mark.parametrize("by_name", [True, False])
def test_balance_beside_a_requested_withdrawal_is_reported_as_waiting(
    session: Session, by_name: bool
) -> None:
    enough, poor, indebted, none = make_payees(session, 4)
    request_payout(session, enough, OWED_MINOR - MINIMUM_MINOR)
    request_payout(session, poor, OWED_MINOR - MINIMUM_MINOR + 1)
    request_payout(session, indebted, OWED_MINOR - MINIMUM_MINOR)
    record_vendor_debt(session, indebted, 1)
    request_payout(session, none, OWED_MINOR)

    named = [enough, poor, indebted, none]
    staged = stage(session, named) if by_name else staging.stage_batch(session, act=Act("schedule", NOW))

    skipped = reasons(staged)
    assert {payee.store_id for payee in named} & skipped.keys() == {enough.store_id}
    assert skipped[enough.store_id] == "waiting"
    session.execute(
        text("UPDATE payout_transfer_intents SET status = 'success' WHERE user_id = :id"),
        {"id": enough.user.id},
    )
    [rest] = intents_in(session, staged_batch(session, [enough]))
    assert rest["amount_minor"] == MINIMUM_MINOR


def test_requested_cash_out_joins_a_batch_of_all_payees(session: Session) -> None:
    buyer = make_wallet_payee(session)
    intent_id = request_payout(session, buyer, 150_000)
    officer = make_officer(session)

    staged = staging.stage_manually(session, act=act_of(officer, now=NOW))

    assert staged.batch_id is not None
    assert intent_id in {row["id"] for row in intents_in(session, staged.batch_id)}
    assert payable_balance_of(session, buyer) == OWED_MINOR - 150_000


def test_requested_withdrawal_waits_while_the_payee_is_on_hold(session: Session) -> None:
    payee = make_payee(session)
    intent_id = request_payout(session, payee, OWED_MINOR)
    make_account(session, payee.user.id, created_at=NOW)

    early = stage(session, [payee])
    assert (early.batch_id, reasons(early)) == (None, {payee.store_id: "bank_account_changed"})
    batch_id = staged_batch(session, [payee], now=later(hours=24))

    assert [row["id"] for row in intents_in(session, batch_id)] == [intent_id]


def test_debts_are_collected_oldest_first_and_named_in_the_description(session: Session) -> None:
    payee = make_payee(session, owed_minor=0)
    for number, kind in enumerate(("refund", "chargeback", "payout_sent_after_all")):
        record_vendor_debt(session, payee, 10_000, kind=kind, now=later(minutes=number))
    refunded, taken_back, sent = (
        "Deducted for an order that was refunded after its release.",
        "Deducted for an order whose payment was charged back by the buyer's bank.",
        "Deducted for a payout that was sent although its amount had been returned.",
    )

    found = []
    for minor in (9_000, 1_000, 15_000, 5_000):
        credit_balance(session, payee, minor)
        stage(session, [payee])
        found.append(_last_collected(session))

    assert found == [
        refunded,
        refunded,
        f"{sent} {taken_back}",
        sent,
    ]
    assert payable_balance_of(session, payee) == 0


def _last_collected(session: Session) -> str:
    found = session.execute(
        text(
            "SELECT description FROM ledger_transactions WHERE kind = 'clawback_collected' ORDER BY id DESC LIMIT 1"
        )
    )
    return str(found.scalar_one())


def test_payout_is_limited_to_the_balance_after_debt(session: Session) -> None:
    payee = make_payee(session)
    record_vendor_debt(session, payee, 100_000)

    with pytest.raises(InsufficientFundsError):
        request_payout(session, payee, OWED_MINOR - 99_999)


def test_full_balance_after_debt_can_be_withdrawn(session: Session) -> None:
    payee = make_payee(session)
    record_vendor_debt(session, payee, 100_000)

    request_payout(session, payee, OWED_MINOR - 100_000)

    assert payable_balance_of(session, payee) == 0
    assert [row["amount_minor"] for row in intents_of(session, payee)] == [OWED_MINOR - 100_000]


def test_officer_cannot_stage_own_payout(session: Session) -> None:
    officer = make_officer(session)
    own = Payee(officer, None, make_account(session, officer.id))
    credit_balance(session, own, OWED_MINOR)
    intent_id = request_payout(session, own, OWED_MINOR)
    payee = make_payee(session)
    session.execute(
        text("UPDATE vendor_profiles SET user_id = :user_id WHERE id = :id"),
        {"user_id": officer.id, "id": payee.store_id},
    )
    make_payee(session)

    with pytest.raises(ForbiddenError):
        stage(session, [payee], officer=officer)
    staged = staging.stage_batch(session, act=act_of(officer, now=NOW))

    assert staged.batch_id is not None
    rows = intents_in(session, staged.batch_id)
    assert intent_id not in {row["id"] for row in rows}
    assert payee.store_id not in {row["vendor_id"] for row in rows}


def test_staging_is_audited_and_notifies_the_other_officers(session: Session) -> None:
    officer, other = make_officer(session), make_officer(session)

    batch_id = staged_batch(session, make_payees(session, 1), officer=officer)

    [(action, before, after)] = audit_entries_of(session, batch_id)
    assert (action, before) == ("payout_batch.stage", None)
    assert after["status"] == "staged"
    assert (after["payments"], after["amountMinor"]) == (1, OWED_MINOR)
    assert notification_types_of(session, other.id) == ["payout_batch_staged"]
    news = row_of(session, "notifications", user_id=other.id)
    assert news["body"] == PAYOUT_BATCH_STAGED_BODY.format(payments="1", amount="NGN 5,000.00")
    assert notification_types_of(session, officer.id) == []


def test_halted_payouts_are_staged_by_officers_but_not_on_schedule(session: Session) -> None:
    payee, officer = make_payee(session), make_officer(session)
    halt_payouts(session, "ESCROW_DRIFT: a test", NOW)

    assert staging.stage_on_schedule(session, now=NOW).batch_id is None
    assert payable_balance_of(session, payee) == OWED_MINOR

    assert payee.store_id is not None
    staged = staging.stage_manually(session, act=act_of(officer, now=NOW), vendor_ids=[payee.store_id])
    assert staged.batch_id is not None


def test_switched_off_schedule_stages_nothing(session: Session) -> None:
    payee = make_payee(session)
    session.execute(
        text(
            "INSERT INTO platform_settings (key, value, description) VALUES (:key, 'false', 'Of a test')"
            " ON CONFLICT (key) DO UPDATE SET value = 'false'"
        ),
        {"key": feature_setting_key(SCHEDULED_PAYOUTS)},
    )

    assert staging.stage_on_schedule(session, now=NOW).batch_id is None
    assert payable_balance_of(session, payee) == OWED_MINOR


def test_schedule_stages_every_eligible_payee(session: Session) -> None:
    payees = [*make_payees(session, 3), make_payee(session, owed_minor=1)]

    staged = staging.stage_on_schedule(session, now=NOW)

    assert staged.batch_id is not None
    stores = {row["vendor_id"] for row in intents_in(session, staged.batch_id)}
    assert [payee.store_id in stores for payee in payees] == [True, True, True, False]


def test_payees_above_the_batch_limit_go_into_the_next_batch(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "PAYEES_LIMIT", 2)
    payees = make_payees(session, 3)

    first, second = stage(session, payees), stage(session, payees)

    assert (first.payments, second.payments) == (2, 1)


def test_manual_staging_of_an_empty_balance_is_refused_with_the_reason(session: Session) -> None:
    officer, payee = make_officer(session), make_payee(session, owed_minor=0)
    assert payee.store_id is not None

    with pytest.raises(NothingToStageError) as refusal:
        staging.stage_manually(session, act=act_of(officer, now=NOW), vendor_ids=[payee.store_id])

    assert refusal.value.extensions == {
        "leftOut": [{"vendorId": str(payee.store_id), "reason": "nothing_to_pay", "until": None}]
    }


def test_unknown_vendor_id_is_refused_with_the_index(session: Session) -> None:
    payee = make_payee(session)
    assert payee.store_id is not None

    with pytest.raises(ValidationError) as refusal:
        staging.stage_batch(
            session,
            act=Act("schedule", NOW),
            vendor_ids=[payee.store_id, uuid4()],
        )

    assert [fault.name for fault in refusal.value.invalid_params] == ["vendorIds[1]"]
