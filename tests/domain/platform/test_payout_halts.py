"""Payout halts: payouts stop after a drift until two officers resume payouts."""

from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from marketplace.platform import halts
from tests.support.payout_halts import approved_resume_proposal, resume
from tests.support.purchases import NOW, later

REASON = "ESCROW_DRIFT: a rule"


def test_payouts_are_sent_until_halted(session: Session) -> None:
    assert not halts.are_payouts_halted(session)
    halts.ensure_not_halted(session)

    assert halts.halt_payouts(session, REASON, NOW)

    assert halts.are_payouts_halted(session)
    with pytest.raises(halts.PayoutsHaltedError, match="a rule"):
        halts.ensure_not_halted(session)
    audited = session.execute(
        text("SELECT actor, after FROM audit_logs WHERE action = 'payouts.halt' ORDER BY id DESC LIMIT 1")
    ).one()
    assert audited == ("system", {"payouts": "halted", "reason": REASON})


def test_payouts_are_halted_once_for_several_reasons(session: Session) -> None:
    assert halts.halt_payouts(session, REASON, NOW, finding="one")
    assert not halts.halt_payouts(session, REASON, later(hours=1), finding="one")
    assert not halts.halt_payouts(session, "ESCROW_DRIFT: another", later(hours=1), finding="two")

    rows = session.execute(
        text("SELECT reason, findings, halted_at, resumed_at FROM payout_halts WHERE resumed_at IS NULL")
    ).all()
    assert [tuple(row) for row in rows] == [(REASON, ["one", "two"], NOW, None)]


def found(session: Session) -> list[tuple[str, Any]]:
    """List reasons and facts of the open halt as officers see the halt."""
    halt = halts.fetch_current_halt(session)
    assert halt is not None
    return [(item["reason"], item["facts"]) for item in halts.list_findings(halt)]


def test_officers_see_latest_facts_of_each_finding(session: Session) -> None:
    assert halts.fetch_current_halt(session) is None
    halts.halt_payouts(session, REASON, NOW, finding="one", facts={"driftMinor": 5})
    halts.halt_payouts(session, "ESCROW_DRIFT: another", later(hours=1), finding="two", facts={"rows": 1})
    assert found(session) == [(REASON, {"driftMinor": 5}), ("ESCROW_DRIFT: another", {"rows": 1})]

    halts.halt_payouts(session, REASON, later(hours=2), finding="three", facts={"driftMinor": 7})
    assert found(session) == [("ESCROW_DRIFT: another", {"rows": 1}), (REASON, {"driftMinor": 7})]


def test_halt_with_newer_findings_than_shown_is_not_resumed(session: Session) -> None:
    def mark() -> str:
        halt = halts.fetch_current_halt(session)
        assert halt is not None
        return str(halt.mark)

    halts.halt_payouts(session, REASON, NOW, finding="one")
    marks = [mark()]
    halts.halt_payouts(session, REASON, later(hours=1), finding="one")
    assert mark() == marks[0]
    # A repeated first finding changes the mark, because another finding came in between.
    for hours, finding in ((2, "two"), (3, "one"), (4, None)):
        halts.halt_payouts(session, REASON, later(hours=hours), finding=finding)
        marks.append(mark())
    assert len(set(marks)) == 4

    halt = halts.fetch_current_halt(session)
    assert halt is not None
    for stale in marks[:-1]:
        with pytest.raises(halts.PayoutsNotHaltedError):
            halts.resume_payouts(
                session,
                halt_id=halt.id,
                mark=stale,
                proposal_id=approved_resume_proposal(session),
                now=later(hours=5),
            )
    assert halts.are_payouts_halted(session)
    resume(session)
    assert not halts.are_payouts_halted(session)


def test_proposal_resumes_payouts_of_current_halt_only(session: Session) -> None:
    halts.halt_payouts(session, REASON, NOW)
    halt = halts.fetch_current_halt(session)
    assert halt is not None
    resume(session)
    assert not halts.are_payouts_halted(session)
    halts.halt_payouts(session, REASON, later(hours=2))
    with pytest.raises(halts.PayoutsNotHaltedError):
        halts.resume_payouts(
            session,
            halt_id=halt.id,
            mark=halt.mark,
            proposal_id=approved_resume_proposal(session),
            now=later(hours=3),
        )
    assert halts.are_payouts_halted(session)


def test_accepted_finding_does_not_halt_payouts_again_but_new_finding_does(
    session: Session,
) -> None:
    halts.halt_payouts(session, REASON, NOW, finding="one")
    halts.halt_payouts(session, REASON, NOW, finding="two")
    resume(session)

    assert not halts.halt_payouts(session, REASON, later(hours=2), finding="one")
    assert not halts.halt_payouts(session, REASON, later(hours=2), finding="two")
    assert not halts.are_payouts_halted(session)

    assert halts.halt_payouts(session, REASON, later(hours=3), finding="three")
    assert halts.are_payouts_halted(session)


def test_payouts_can_be_halted_again_for_same_reason_without_finding(session: Session) -> None:
    halts.halt_payouts(session, REASON, NOW)
    resume(session)
    assert halts.halt_payouts(session, REASON, later(hours=2))


def test_database_refuses_resume_without_proposal(session: Session) -> None:
    halts.halt_payouts(session, REASON, NOW)
    for proposal_id in (None, uuid4()):
        with pytest.raises(IntegrityError), session.begin_nested():
            session.execute(
                text("UPDATE payout_halts SET resumed_at = :now, proposal_id = :proposal_id"),
                {"now": NOW, "proposal_id": proposal_id},
            )
    assert halts.are_payouts_halted(session)
