"""Batch detail for officers: risk flags, changes since staging and order by risk."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from blueprints.payouts.batches.schemas import PayoutBatchDetail
from marketplace.kernel.paging import Page, PageRequest
from marketplace.orders.operations import freeze_order
from marketplace.orders.states import DISPUTE
from marketplace.orders.transitions import Actor, lock_order
from marketplace.payouts.batches.detail import RISK_FLAGS, show_batch_detail
from marketplace.platform.halts import halt_payouts
from tests.support.finance import make_officer, refund
from tests.support.payouts import (
    OWED_MINOR,
    Payee,
    credit_balance,
    intents_of,
    make_account,
    make_payee,
    make_payees,
    make_wallet_payee,
    paid_batch,
    record_vendor_debt,
    request_payout,
    staged_batch,
)
from tests.support.purchases import (
    NOW,
    Shop,
    assert_ledger_is_consistent,
    later,
    make_category,
    make_person,
    paid_order,
)
from tests.support.rendered import render
from tests.support.transfers import dispatched_batch


def page_of(
    session: Session,
    batch_id: UUID,
    *,
    risk: str | None = None,
    limit: int = 100,
    after: list[Any] | None = None,
) -> Page:
    page = show_batch_detail(session, batch_id=batch_id, risk=risk, page=PageRequest(limit, after), now=NOW)
    data = render(PayoutBatchDetail, page.data)
    return replace(page, items=data["intents"], data=data)


def read(session: Session, batch_id: UUID, **query: Any) -> dict[str, Any]:
    data: dict[str, Any] = page_of(session, batch_id, **query).data
    return data


def risks_in(session: Session, batch_id: UUID) -> dict[UUID | None, list[str]]:
    """Return the risk flags of each payment by store."""
    return {one["payee"]["vendorId"]: one["risks"] for one in read(session, batch_id)["intents"]}


def make_regular_payee(session: Session, *, times: int = 3) -> Payee:
    """Create a vendor with earlier payouts and a balance of the same amount."""
    payee = make_payee(session)
    for number in range(times):
        paid_batch(session, [payee], now=NOW - timedelta(days=times - number))
        credit_balance(session, payee, OWED_MINOR)
    return payee


def execute(session: Session, sql: str, **values: Any) -> None:
    session.execute(text(sql), values)


def test_regular_payment_has_no_risk_flags(session: Session) -> None:
    payee = make_regular_payee(session)

    [payment] = read(session, staged_batch(session, [payee]))["intents"]

    assert payment["risks"] == []
    assert payment["history"] == {
        "payments": 3,
        "averageMinor": OWED_MINOR,
        "largestMinor": OWED_MINOR,
        "lastPaidAt": NOW - timedelta(days=1),
    }
    assert payment["account"]["accountNumber"][:6] == "******"
    assert payment["account"]["accountNumber"][6:].isdigit()
    assert_ledger_is_consistent(session)


def make_risky(session: Session, payee: Payee, risk: str) -> None:
    """Add the given risk to the payee's pending payment."""
    acts: dict[str, tuple[str, dict[str, Any]]] = {
        "name_differs": (
            "UPDATE payout_accounts SET account_name = 'BLESSING EKE' WHERE user_id = :user",
            {},
        ),
        "account_changed": (
            "UPDATE payout_accounts SET created_at = :since WHERE user_id = :user",
            {"since": NOW - timedelta(days=29)},
        ),
        "amount_unusual": (
            """UPDATE payout_transfer_intents SET amount_minor = 3 * :usual + 1
            WHERE user_id = :user AND status = 'pending'""",
            {"usual": OWED_MINOR},
        ),
        "not_active": ("UPDATE vendor_profiles SET status = 'closed' WHERE user_id = :user", {}),
        "first_payout": (
            "UPDATE payout_transfer_intents SET status = 'cancelled' WHERE user_id = :user AND status = 'success'",
            {},
        ),
        "failed_before": (
            """UPDATE payout_transfer_intents SET status = 'failed' WHERE id = (SELECT id FROM
            payout_transfer_intents WHERE user_id = :user AND status = 'success' ORDER BY id DESC LIMIT 1)""",
            {},
        ),
    }
    if risk == "owes_money":
        record_vendor_debt(session, payee, 1_000)
    elif risk == "account_changed_since_staging":
        make_account(session, payee.user.id, created_at=NOW - timedelta(days=31))
    elif risk == "under_dispute":
        assert payee.store_id is not None
        _dispute(session, payee)
    elif risk == "lost_disputes":
        for _ in range(2):
            _lose_dispute(session, payee)
    else:
        sql, values = acts[risk]
        execute(session, sql, user=payee.user.id, **values)


def _paid_order(session: Session, payee: Payee) -> UUID:
    assert payee.store_id is not None
    campus_id = session.execute(
        text("SELECT campus_id FROM vendor_profiles WHERE id = :id"), {"id": payee.store_id}
    ).scalar_one()
    shop = Shop(campus_id, make_category(session), payee.store_id, payee.user, make_person(session))
    return paid_order(session, shop)


def _lose_dispute(session: Session, payee: Payee) -> None:
    order_id = _paid_order(session, payee)
    order = lock_order(session, order_id=order_id)
    freeze_order(
        session, order=order, trigger=DISPUTE, actor=Actor("buyer", payee.user.id), note="damaged", now=NOW
    )
    refund(session, order_id, make_officer(session))


def _dispute(session: Session, payee: Payee) -> None:
    order_id = _paid_order(session, payee)
    execute(
        session,
        "INSERT INTO charge_disputes (gateway_dispute_id, intent_id, status) SELECT 'D' || :order, intent_id, 'open'"
        " FROM payment_allocations WHERE order_id = CAST(:order AS uuid)",
        order=str(order_id),
    )


@pytest.mark.parametrize("risk", [risk for risk in RISK_FLAGS if risk != "on_hold"])
def test_each_risk_sets_only_the_matching_flag(session: Session, risk: str) -> None:
    payee, other = make_regular_payee(session), make_regular_payee(session)
    batch_id = staged_batch(session, [payee, other])

    make_risky(session, payee, risk)

    assert risks_in(session, batch_id) == {payee.store_id: [risk], other.store_id: []}
    [total] = read(session, batch_id)["risks"]
    assert (total["risk"], total["meaning"], total["payments"]) == (risk, RISK_FLAGS[risk], 1)


def test_disputed_order_sets_the_dispute_flag_without_an_open_chargeback(session: Session) -> None:
    payee = make_regular_payee(session)
    batch_id = staged_batch(session, [payee])
    _dispute(session, payee)
    execute(session, "UPDATE charge_disputes SET status = 'resolved', resolved_at = now()")
    assert risks_in(session, batch_id) == {payee.store_id: []}

    execute(session, "UPDATE orders SET status = 'disputed' WHERE vendor_id = :id", id=payee.store_id)

    [payment] = read(session, batch_id)["intents"]
    assert (payment["risks"], payment["disputes"]) == (["under_dispute"], 1)


def test_payee_on_hold_is_shown_with_reason_and_end(session: Session) -> None:
    payee = make_regular_payee(session)
    batch_id = staged_batch(session, [payee])
    make_account(session, payee.user.id, created_at=NOW - timedelta(hours=1))

    [payment] = read(session, batch_id)["intents"]

    assert payment["risks"] == ["on_hold", "account_changed_since_staging", "account_changed"]
    assert payment["holds"] == [{"reason": "bank_account_changed", "until": later(hours=23)}]
    assert payment["account"]["id"] != payment["stagedAccount"]["id"] == payee.account_id


def test_amount_of_exactly_three_times_the_average_is_not_unusual(session: Session) -> None:
    payee = make_regular_payee(session)
    credit_balance(session, payee, 2 * OWED_MINOR)

    assert risks_in(session, staged_batch(session, [payee])) == {payee.store_id: []}


def test_payments_are_sorted_by_risk_and_then_by_amount(session: Session) -> None:
    calm, large, risky = make_regular_payee(session), make_regular_payee(session), make_payee(session)
    credit_balance(session, large, 100)
    batch_id = staged_batch(session, [calm, large, risky])

    order = [one["payee"]["vendorId"] for one in read(session, batch_id)["intents"]]

    assert order == [risky.store_id, large.store_id, calm.store_id]


def test_pages_show_each_payment_once(session: Session) -> None:
    payees = make_payees(session, 7)
    batch_id = staged_batch(session, payees)

    seen: list[UUID] = []
    after: list[Any] | None = None
    for _ in range(4):
        page = page_of(session, batch_id, limit=2, after=after)
        seen += [one["payee"]["vendorId"] for one in page.items]
        after = page.next_position

    assert after is None
    assert sorted(seen) == sorted(payee.store_id for payee in payees if payee.store_id)
    assert seen == [one["payee"]["vendorId"] for one in read(session, batch_id)["intents"]]


def test_risk_filter_lists_only_matching_payments(session: Session) -> None:
    calm, new, named = make_regular_payee(session), make_payee(session), make_regular_payee(session)
    batch_id = staged_batch(session, [calm, new, named])
    make_risky(session, named, "name_differs")

    def listed(risk: str) -> set[UUID]:
        return {one["payee"]["vendorId"] for one in read(session, batch_id, risk=risk)["intents"]}

    assert listed("any") == {new.store_id, named.store_id}
    assert listed("first_payout") == {new.store_id}
    assert listed("owes_money") == set()
    assert read(session, batch_id, risk="owes_money")["payments"] == 3


def test_wallet_payment_shows_the_owner_as_payee(session: Session) -> None:
    owner = make_wallet_payee(session, account_name="SOMEBODY ELSE")
    intent_id = request_payout(session, owner, 200_000)
    batch_id = staged_batch(session, make_payees(session, 1))
    execute(
        session,
        "UPDATE payout_transfer_intents SET batch_id = :batch WHERE id = :id",
        batch=batch_id,
        id=intent_id,
    )

    [payment] = [one for one in read(session, batch_id)["intents"] if one["id"] == intent_id]

    assert (payment["source"], payment["askedFor"], payment["amountMinor"]) == ("wallet", True, 200_000)
    assert payment["payee"] == {
        "userId": owner.user.id,
        "vendorId": None,
        "name": "Buyer",
        "storeName": None,
        "storeSlug": None,
    }
    assert payment["risks"] == ["name_differs", "first_payout"]


def test_sent_payment_shows_the_account_paid(session: Session) -> None:
    payee = make_payee(session)
    batch_id = paid_batch(session, [payee])
    make_account(session, payee.user.id, created_at=NOW)

    batch = read(session, batch_id)

    [payment] = batch["intents"]
    assert payment["account"]["id"] == payee.account_id
    assert (payment["stagedAccount"], payment["holds"]) == (None, [])
    assert (batch["paid"], batch["changes"]) == (1, [])
    assert batch["contentHash"] == batch["approvedHash"]
    assert batch["changedSinceApproval"] is False


def test_holds_are_shown_only_for_unsent_payments_of_a_dispatching_batch(session: Session) -> None:
    unsent, claimed = make_regular_payee(session), make_regular_payee(session)
    batch_id = dispatched_batch(session, [unsent, claimed])
    for payee in (unsent, claimed):
        make_account(session, payee.user.id, created_at=NOW - timedelta(hours=1))
    execute(
        session,
        "UPDATE payout_transfers t SET sent_at = now() FROM payout_transfer_intents i"
        " WHERE i.id = t.intent_id AND i.batch_id = :batch_id AND i.vendor_id = :id",
        batch_id=batch_id,
        id=claimed.store_id,
    )

    payments = {one["payee"]["vendorId"]: one for one in read(session, batch_id)["intents"]}

    held = payments[unsent.store_id]
    assert held["holds"] == [{"reason": "bank_account_changed", "until": later(hours=23)}]
    assert held["stagedAccount"]["id"] == unsent.account_id
    # The call to the gateway has begun, with the approved account.
    going = payments[claimed.store_id]
    assert (going["holds"], going["stagedAccount"]) == ([], None)
    assert going["account"]["id"] == claimed.account_id


def test_halt_of_payouts_is_shown(session: Session) -> None:
    batch_id = staged_batch(session, make_payees(session, 1))
    assert read(session, batch_id)["halted"] is False

    halt_payouts(session, "ESCROW_DRIFT: a test", NOW)

    assert read(session, batch_id)["halted"] is True


def test_cancelled_payments_are_listed_as_changes_and_not_counted(session: Session) -> None:
    payees = make_payees(session, 2)
    batch_id = staged_batch(session, payees)
    [intent] = intents_of(session, payees[0])
    execute(
        session, "UPDATE payout_transfer_intents SET status = 'cancelled' WHERE id = :id", id=intent["id"]
    )

    batch = read(session, batch_id)

    assert (batch["payments"], batch["amountMinor"], len(batch["intents"])) == (1, OWED_MINOR, 1)
    assert [(one["intentId"], one["change"]) for one in batch["changes"]] == [(intent["id"], "called_off")]
    assert batch["statuses"] == [
        {"status": "cancelled", "payments": 1, "amountMinor": OWED_MINOR},
        {"status": "pending", "payments": 1, "amountMinor": OWED_MINOR},
    ]
