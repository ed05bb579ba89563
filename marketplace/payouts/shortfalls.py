"""Writing off what the gateway holds less than the books say: only out of the company's own money, and not alone.

Until it is paid for by the company it is somebody else's money that is missing: a write-off makes the books agree, and
resolves the alert. So own funds have to cover it, and more than a little takes a second officer.
"""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.identity.queries import Caller
from marketplace.infra.db import Statement
from marketplace.kernel.errors import ConflictError, ForbiddenError
from marketplace.kernel.money import naira_text
from marketplace.ledger import accounts

# What one officer writes off alone within a day, and the most that is called a charge of the gateway's; in kobo.
ALONE_MINOR = 100_000
_DAY = timedelta(days=1)
# A proposal that nobody confirmed for so long is no more.
_PROPOSED_FOR = timedelta(days=7)

# It has no balance of its own that a posting would lock: two write-offs at once would both find it sufficient.
_LOCK_OWN_FUNDS = Statement(text("SELECT id FROM ledger_accounts WHERE id = :account_id FOR NO KEY UPDATE"))
_OWN_FUNDS = Statement(
    text(
        """
        SELECT coalesce(sum(CASE direction WHEN 'credit' THEN amount_minor ELSE -amount_minor END), 0)::bigint AS minor,
            least((SELECT difference_minor FROM gateway_movements WHERE id = 0), 0) AS opening_minor
        FROM ledger_entries WHERE account_id = :account_id
        """
    )
)
_ALONE = Statement(
    text(
        """
        SELECT coalesce(sum(here_minor - there_minor), 0)::bigint AS minor FROM reconciliation_exceptions
        WHERE resolved_by = :officer_id AND resolved_at > :since AND here_minor > there_minor
            AND resolution IN ('own_funds', 'gateway_cost') AND (proposed_by IS NULL OR proposed_by = resolved_by)
        """
    )
)
_PROPOSE = Statement(
    text(
        """
        UPDATE reconciliation_exceptions SET proposed_resolution = :resolution, proposed_by = :officer_id,
            proposed_at = :now, proposal_note = :note WHERE id = :exception_id
        """
    )
)
# Of the latest that was found of the same item, if it differs by the same still.
_CARRY_OVER = Statement(
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


class UncoveredError(ConflictError):
    """The company's own money at the gateway does not cover it."""


class SameOfficerError(ForbiddenError):
    """The officer has proposed it: another one has to confirm it."""


def require_cover(session: Session, *, shortfall_minor: int) -> None:
    """This function will refuse to write off more than the company has at the gateway, and keep others from it.

    :param shortfall_minor: kobo that are written off as own funds, or 0 to be the only one at it
    :raises UncoveredError: own funds would fall below zero, or below what they were opened with if that is less
    """
    account_id = accounts.OWN_FUNDS.id
    _LOCK_OWN_FUNDS.one(session, account_id=account_id)
    own = _OWN_FUNDS.one(session, account_id=account_id)
    # LEAST leaves none out: without an opening it is 0.
    if shortfall_minor and own["minor"] - shortfall_minor < own["opening_minor"]:
        raise UncoveredError(
            f"The company's own money at the gateway ({naira_text(own['minor'])}) does not cover it. To bear it is for"
            " the company to decide: it pays the money in at the gateway, and the next reconciliation books that."
        )


def takes_another(
    session: Session,
    row: dict[str, Any],
    *,
    resolution: str,
    shortfall_minor: int,
    officer: Caller,
    now: datetime,
) -> bool:
    """This function will tell whether a write-off is yet to be confirmed by another officer.

    :param row: the exception, locked, with what is proposed
    :param shortfall_minor: kobo that are written off
    :raises SameOfficerError: the officer has proposed just that
    """
    alone: int = _ALONE.one(session, officer_id=officer.id, since=now - _DAY)["minor"]
    if alone + shortfall_minor <= ALONE_MINOR:
        return False
    if row["proposed_resolution"] != resolution or row["proposed_at"] <= now - _PROPOSED_FOR:
        return True
    if row["proposed_by"] == officer.id:
        raise SameOfficerError("You have proposed this: another officer has to confirm it.")
    return False


def propose(
    session: Session, *, exception_id: UUID, resolution: str, note: str, officer: Caller, now: datetime
) -> None:
    """This function will note what an officer proposes, in place of what was proposed before."""
    _PROPOSE.run(
        session,
        exception_id=exception_id,
        resolution=resolution,
        note=note,
        officer_id=officer.id,
        now=now,
    )


def carry_over(session: Session, *, run_id: UUID, now: datetime) -> None:
    """This function will take over into a run what is proposed for the same differences of the runs before."""
    _CARRY_OVER.run(session, run_id=run_id, since=now - _PROPOSED_FOR)
