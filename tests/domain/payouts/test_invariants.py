"""Ledger invariants of payouts: damage each with triggers disabled and expect the violation by name."""

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.payouts import invariants
from marketplace.reconciliation import ledger_check
from tests.support.payouts import approved_batch, intents_in, make_payees
from tests.support.purchases import assert_ledger_is_consistent

IN_TRANSIT = "(SELECT id FROM ledger_accounts WHERE kind = 'payouts_in_transit')"
OF_FIRST = "(SELECT id FROM ledger_transactions WHERE source = 'payout:' || :first)"
DAMAGE = {
    "each payout has its amount in transit exactly until its status is final": (
        "UPDATE payout_transfer_intents SET amount_minor = amount_minor + 1 WHERE id = :first"
    ),
    "the balance of payouts in transit equals the sum of open payouts": f"""UPDATE ledger_entries
        SET amount_minor = amount_minor + 1 WHERE transaction_id = {OF_FIRST} AND account_id = {IN_TRANSIT}""",
    "each open or successful payout is debited from the balance of its payee": f"""UPDATE ledger_entries
        SET account_id = (SELECT account_id FROM ledger_entries e JOIN ledger_transactions t ON t.id = e.transaction_id
            WHERE t.source = 'payout:' || :second AND e.direction = 'debit')
        WHERE transaction_id = {OF_FIRST} AND direction = 'debit'""",
    "the gateway's outflow for each payout is its amount, if successful, plus the gateway's fee": """
        UPDATE payout_transfer_intents SET status = 'success' WHERE id = :first""",
    "each approved batch has the approvals of two officers whom the batch does not pay": """DELETE FROM payout_approvals
        WHERE id = (SELECT id FROM payout_approvals WHERE batch_id = :batch_id LIMIT 1)""",
    "each payout has a status that the status of its batch allows": """
        UPDATE payout_transfer_intents SET status = 'submitted' WHERE id = :first""",
}


def violated_rules(session: Session) -> set[str]:
    return {violation.rule for violation in ledger_check.verify_ledger(session)}


@pytest.mark.parametrize("rule", DAMAGE)
def test_damage_is_reported_under_the_violated_invariant(session: Session, rule: str) -> None:
    batch_id = approved_batch(session, make_payees(session, 2))
    assert_ledger_is_consistent(session)
    first, second = (str(row["id"]) for row in intents_in(session, batch_id))
    session.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))
    session.execute(text("SET LOCAL session_replication_role = replica"))
    session.execute(
        text(DAMAGE[rule].replace("id = :first", "id = CAST(:first AS uuid)")),
        {
            name: value
            for name, value in {"first": first, "second": second, "batch_id": batch_id}.items()
            if f":{name}" in DAMAGE[rule]
        },
    )
    session.execute(text("SET LOCAL session_replication_role = origin"))

    assert rule in violated_rules(session)


def test_every_payout_invariant_has_a_damage_case() -> None:
    assert set(DAMAGE) == set(invariants.INVARIANTS)


def test_approval_by_a_payee_of_the_batch_is_reported(session: Session) -> None:
    batch_id = approved_batch(session, make_payees(session, 2))
    session.execute(
        text(
            "UPDATE payout_approvals SET officer_id = (SELECT user_id FROM payout_transfer_intents"
            " WHERE batch_id = :id LIMIT 1) WHERE id = (SELECT id FROM payout_approvals WHERE batch_id = :id LIMIT 1)"
        ),
        {"id": batch_id},
    )

    assert violated_rules(session) == {
        "each approved batch has the approvals of two officers whom the batch does not pay"
    }


def test_ledger_payment_without_a_payout_is_reported(session: Session) -> None:
    batch_id = approved_batch(session, make_payees(session, 2))
    session.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))
    session.execute(
        text(
            "DELETE FROM payout_transfer_intents WHERE id ="
            " (SELECT id FROM payout_transfer_intents WHERE batch_id = :id LIMIT 1)"
        ),
        {"id": batch_id},
    )

    assert "each payout has its amount in transit exactly until its status is final" in violated_rules(
        session
    )
