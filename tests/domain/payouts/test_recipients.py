"""Bank accounts that are given again: what the gateway knows them as is taken over, and nothing else."""

from dataclasses import replace

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.payouts.batches.decisions import compute_fingerprint
from marketplace.payouts.payees import bank_accounts
from marketplace.payouts.payees.bank_accounts import PayoutRecipient
from tests.support.finance import act_of, audited, told
from tests.support.payouts import Payee, make_payee, staged_batch
from tests.support.purchases import NOW, row_of


@pytest.fixture
def payee(session: Session) -> Payee:
    return make_payee(session)


def known(session: Session, payee: Payee) -> PayoutRecipient:
    row = bank_accounts.find_current_account(session, user_id=payee.user.id)
    assert row is not None
    return PayoutRecipient(**{name: getattr(row, name) for name in PayoutRecipient.__dataclass_fields__})


def given(session: Session, payee: Payee, account: PayoutRecipient) -> bool:
    return bank_accounts.replace_payout_account(
        session, user_id=payee.user.id, account=account, act=act_of(payee.user, now=NOW)
    )


@pytest.mark.parametrize("former", ["RCP_gone", None])
def test_a_new_recipient_of_the_same_account_is_taken_over_and_holds_nothing(
    session: Session, payee: Payee, former: str | None
) -> None:
    session.execute(
        text("UPDATE payout_accounts SET recipient_code = :code WHERE id = :id"),
        {"code": former, "id": payee.account_id},
    )
    before = row_of(session, "payout_accounts", id=payee.account_id)

    assert not given(session, payee, replace(known(session, payee), recipient_code="RCP_new"))

    after = row_of(session, "payout_accounts", id=payee.account_id)
    assert after == before | {"recipient_code": "RCP_new"}
    account_id = str(payee.account_id)
    assert audited(session, payee.user.id) == [
        (
            "payout_account.renew_recipient",
            {"accountId": account_id, "recipientCode": former},
            {"accountId": account_id, "recipientCode": "RCP_new"},
        )
    ]
    assert told(session, payee.user.id) == []
    assert staged_batch(session, [payee])


def test_the_same_recipient_again_changes_nothing(session: Session, payee: Payee) -> None:
    before = row_of(session, "payout_accounts", id=payee.account_id)

    assert not given(session, payee, known(session, payee))

    assert row_of(session, "payout_accounts", id=payee.account_id) == before
    assert audited(session, payee.user.id) == []


def test_a_batch_that_was_read_with_another_recipient_pays_something_else(
    session: Session, payee: Payee
) -> None:
    batch_id = staged_batch(session, [payee])
    before = compute_fingerprint(session, batch_id=batch_id)

    given(session, payee, replace(known(session, payee), recipient_code="RCP_new"))

    assert compute_fingerprint(session, batch_id=batch_id) != before
