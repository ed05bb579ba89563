"""Accepting that the gateway holds more or less than the books say: not alone, and less only out of the company's own.

What is missing is somebody else's money until the company pays for it, and what is too much may be somebody's as well.
To accept it makes the books agree and resolves the alert. So own funds have to cover what is missing, and more than a
little takes a second officer, whichever way it goes.
"""

from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.kernel.errors import ConflictError, SecondApproverRequiredError
from marketplace.kernel.money import format_naira
from marketplace.ledger import accounts
from marketplace.reconciliation.models import ReconciliationException

OWN_FUNDS, GATEWAY_COST, PAYOUT_RETURNED = "own_funds", "gateway_cost", "came_back"
# What one officer accepts alone within a day, and the most that is called a charge of the gateway's; in kobo.
SINGLE_APPROVER_DAILY_LIMIT_MINOR = 100_000
_DAY = timedelta(days=1)
# A proposal that nobody confirmed for so long is no more.
_PROPOSAL_VALIDITY = timedelta(days=7)


class InsufficientOwnFundsError(ConflictError):
    """The company's own funds at the gateway do not cover the amount."""

    reason = "insufficient-own-funds"


# It has no balance of its own that a posting would lock: two at once would each find that it, or the day, suffices.
_LOCK_OWN_FUNDS = Statement(text("SELECT id FROM ledger_accounts WHERE id = :account_id FOR NO KEY UPDATE"))


_SUM_SINGLE_APPROVALS = Statement(
    text(
        """
        SELECT coalesce(sum(abs(here_minor - there_minor)), 0)::bigint AS minor FROM reconciliation_exceptions
        WHERE resolved_by = :officer_id AND resolved_at > :since
            AND resolution IN ('own_funds', 'gateway_cost', 'came_back')
            AND (proposed_by IS NULL OR proposed_by = resolved_by)
        """
    )
)


def requires_second_approver(
    session: Session,
    row: ReconciliationException,
    *,
    resolution: str,
    difference_minor: int,
    officer_id: UUID,
    now: datetime,
) -> bool:
    """Tell whether a difference is accepted only once another officer confirms it.

    No other one is accepted until the transaction ends.

    :param row: the exception, locked, with what is proposed
    :param resolution: as what it is to be booked
    :param difference_minor: kobo that the gateway holds more than the books say, or (below zero) less
    :raises InsufficientOwnFundsError: own funds would fall below zero, or below their opening if that is less
    :raises SecondApproverRequiredError: the officer has proposed just that
    """
    _LOCK_OWN_FUNDS.one(session, account_id=accounts.OWN_FUNDS.id)
    if resolution == OWN_FUNDS and difference_minor < 0:
        _ensure_own_funds_cover(session, -difference_minor)
    accepted_alone_minor = _SUM_SINGLE_APPROVALS.scalar(session, officer_id=officer_id, since=now - _DAY)
    if accepted_alone_minor + abs(difference_minor) <= SINGLE_APPROVER_DAILY_LIMIT_MINOR:
        return False
    is_proposed = row.proposed_at is not None and row.proposed_at > now - _PROPOSAL_VALIDITY
    if row.proposed_resolution != resolution or not is_proposed:
        return True
    if row.proposed_by == officer_id:
        raise SecondApproverRequiredError("You have proposed this: another officer has to confirm it.")
    return False


_SELECT_OWN_FUNDS = Statement(
    text(
        """
        SELECT coalesce(sum(CASE direction WHEN 'credit' THEN amount_minor ELSE -amount_minor END), 0)::bigint AS minor,
            least((SELECT difference_minor FROM gateway_movements WHERE id = 0), 0) AS opening_minor
        FROM ledger_entries WHERE account_id = :account_id
        """
    )
)


def _ensure_own_funds_cover(session: Session, missing_minor: int) -> None:
    funds = _SELECT_OWN_FUNDS.one(session, account_id=accounts.OWN_FUNDS.id)
    # LEAST leaves none out: without an opening it is 0.
    if funds["minor"] - missing_minor < funds["opening_minor"]:
        raise InsufficientOwnFundsError(
            f"The company's own money at the gateway ({format_naira(funds['minor'])}) does not cover it. To bear it is"
            " for the company to decide: it pays the money in at the gateway, and the next reconciliation books that."
        )


# Of the latest that was found of the same item, if it differs by the same still.
_CARRY_OVER_PROPOSALS = Statement(
    text(
        """
        UPDATE reconciliation_exceptions x SET proposed_resolution = p.proposed_resolution,
            proposed_by = p.proposed_by, proposed_at = p.proposed_at, proposal_note = p.proposal_note
        FROM (SELECT DISTINCT ON (item) * FROM reconciliation_exceptions
            WHERE proposed_at > :since AND run_id <> :run_id ORDER BY item, id DESC) p
        WHERE x.run_id = :run_id AND x.item = p.item AND p.resolved_at IS NULL
            AND x.here_minor = p.here_minor AND x.there_minor = p.there_minor
        """
    )
)


def carry_over_proposals(session: Session, *, run_id: UUID, now: datetime) -> None:
    """Take over into a run what is proposed for the same differences of the runs before."""
    _CARRY_OVER_PROPOSALS.run(session, run_id=run_id, since=now - _PROPOSAL_VALIDITY)
