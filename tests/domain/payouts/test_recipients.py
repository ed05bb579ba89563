"""Resubmitted bank accounts: only the gateway's recipient code is updated."""

from dataclasses import replace

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.payouts.batches.decisions import compute_fingerprint
from marketplace.payouts.payees import bank_accounts
from marketplace.payouts.payees.bank_accounts import PayoutRecipient
from tests.support.finance import act_of, audit_entries_of, notification_types_of
from tests.support.payouts import Payee, make_payee, staged_batch
from tests.support.purchases import NOW, row_of


@pytest.fixture
def payee(session: Session) -> Payee:
    return make_payee(session)


def current_recipient(session: Session, payee: Payee) -> PayoutRecipient:
    row = bank_accounts.find_current_account(session, user_id=payee.user.id)
    assert row is not None
    return PayoutRecipient(**{name: getattr(row, name) for name in PayoutRecipient.__dataclass_fields__})


def replace_account(session: Session, payee: Payee, account: PayoutRecipient) -> bool:
    return bank_accounts.replace_payout_account(
        session, user_id=payee.user.id, account=account, act=act_of(payee.user, now=NOW)
    )


@pytest.mark.parametrize("former", ["RCP_gone", None])
def test_new_recipient_code_of_same_account_is_stored_without_a_hold(
    session: Session, payee: Payee, former: str | None
) -> None:
    session.execute(
        text("UPDATE payout_accounts SET recipient_code = :code WHERE id = :id"),
        {"code": former, "id": payee.account_id},
    )
    before = row_of(session, "payout_accounts", id=payee.account_id)

    assert not replace_account(
        session, payee, replace(current_recipient(session, payee), recipient_code="RCP_new")
    )

    after = row_of(session, "payout_accounts", id=payee.account_id)
    assert after == before | {"recipient_code": "RCP_new"}
    account_id = str(payee.account_id)
    assert audit_entries_of(session, payee.user.id) == [
        (
            "payout_account.renew_recipient",
            {"accountId": account_id, "recipientCode": former},
            {"accountId": account_id, "recipientCode": "RCP_new"},
        )
    ]
    assert notification_types_of(session, payee.user.id) == []
    assert staged_batch(session, [payee])


def test_resubmitted_recipient_code_changes_nothing(session: Session, payee: Payee) -> None:
    before = row_of(session, "payout_accounts", id=payee.account_id)

    assert not replace_account(session, payee, current_recipient(session, payee))

    assert row_of(session, "payout_accounts", id=payee.account_id) == before
    assert audit_entries_of(session, payee.user.id) == []


def test_changed_recipient_code_changes_the_batch_fingerprint(session: Session, payee: Payee) -> None:
    batch_id = staged_batch(session, [payee])
    before = compute_fingerprint(session, batch_id=batch_id)

    replace_account(session, payee, replace(current_recipient(session, payee), recipient_code="RCP_new"))

    assert compute_fingerprint(session, batch_id=batch_id) != before
