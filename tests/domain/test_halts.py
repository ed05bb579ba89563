"""Payouts stand still from a drift on, until two officers resume them."""

from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from marketplace.platform import halts
from tests.support.halts import carried, resume
from tests.support.purchases import NOW, later

REASON = "ESCROW_DRIFT: a rule"


def test_they_go_until_they_are_halted(session: Session) -> None:
    assert not halts.payouts_halted(session)
    halts.require_running(session)

    assert halts.halt_payouts(session, REASON, NOW)

    assert halts.payouts_halted(session)
    with pytest.raises(halts.PayoutsHaltedError, match="a rule"):
        halts.require_running(session)
    audited = session.execute(
        text("SELECT actor, after FROM audit_logs WHERE action = 'payouts.halt' ORDER BY id DESC LIMIT 1")
    ).one()
    assert audited == ("system", {"payouts": "halted", "reason": REASON})


def test_they_are_halted_once_for_however_many_reasons(session: Session) -> None:
    assert halts.halt_payouts(session, REASON, NOW, finding="one")
    assert not halts.halt_payouts(session, REASON, later(hours=1), finding="one")
    assert not halts.halt_payouts(session, "ESCROW_DRIFT: another", later(hours=1), finding="two")

    rows = session.execute(
        text("SELECT reason, findings, halted_at, resumed_at FROM payout_halts WHERE resumed_at IS NULL")
    ).all()
    assert [tuple(row) for row in rows] == [(REASON, ["one", "two"], NOW, None)]


def test_a_proposal_resumes_them(session: Session) -> None:
    halts.halt_payouts(session, REASON, NOW)
    halt = halts.current_halt(session)
    assert halt is not None
    resume(session)
    assert not halts.payouts_halted(session)
    halts.halt_payouts(session, REASON, later(hours=2))
    with pytest.raises(halts.PayoutsNotHaltedError):
        halts.resume_payouts(session, halt_id=halt["id"], proposal_id=carried(session), now=later(hours=3))
    assert halts.payouts_halted(session)


def test_what_officers_resumed_in_spite_of_does_not_halt_them_again_but_anything_else_does(
    session: Session,
) -> None:
    halts.halt_payouts(session, REASON, NOW, finding="one")
    halts.halt_payouts(session, REASON, NOW, finding="two")
    resume(session)

    assert not halts.halt_payouts(session, REASON, later(hours=2), finding="one")
    assert not halts.halt_payouts(session, REASON, later(hours=2), finding="two")
    assert not halts.payouts_halted(session)

    assert halts.halt_payouts(session, REASON, later(hours=3), finding="three")
    assert halts.payouts_halted(session)


def test_what_has_no_finding_halts_them_each_time(session: Session) -> None:
    halts.halt_payouts(session, REASON, NOW)
    resume(session)
    assert halts.halt_payouts(session, REASON, later(hours=2))


def test_the_database_lets_nothing_but_a_proposal_resume_them(session: Session) -> None:
    halts.halt_payouts(session, REASON, NOW)
    for proposal_id in (None, uuid4()):
        with pytest.raises(IntegrityError), session.begin_nested():
            session.execute(
                text("UPDATE payout_halts SET resumed_at = :now, proposal_id = :proposal_id"),
                {"now": NOW, "proposal_id": proposal_id},
            )
    assert halts.payouts_halted(session)
