"""Queries of reconciliations for finance: history, figures and differences found."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.sql.statements import Statement
from marketplace.infra.sql.tables import SortedTable
from marketplace.kernel.errors import found
from marketplace.kernel.paging import TablePage, TableRequest
from marketplace.reconciliation.classification import SUGGESTIONS
from marketplace.reconciliation.matching import ComparedItem
from marketplace.reconciliation.models import Reconciliation

# Run ids are ordered by creation time.
RUN_SORTS = {"created_at": "r.id"}
EXCEPTION_SORTS = {"happened_at": "x.happened_at", "difference_minor": "abs(x.there_minor - x.here_minor)"}
EXCEPTION_KINDS = ("charge", "transfer", "refund", "settlement", "dispute", "movement", "balance", "booking")


@dataclass
class ReconciliationFigures:
    """The counts of a run: records read, movements posted, differences found."""

    movements: int = 0
    charges: int = 0
    transfers: int = 0
    refunds: int = 0
    settlements: int = 0
    settlements_booked: int = 0
    own_funds_booked: int = 0
    in_flight: int = 0
    exceptions: int = 0
    balances: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """A reconciliation with amounts in kobo and figures."""

    run_id: UUID
    status: str
    started_by: str
    officer_id: UUID | None
    starts: datetime
    ends: datetime
    gateway_minor: int | None
    books_minor: int | None
    in_flight_minor: int | None
    drift_minor: int | None
    _figures: dict[str, Any]
    failure: str | None
    created_at: datetime
    finished_at: datetime | None
    open_exceptions: int

    @property
    def totals(self) -> ReconciliationFigures:
        """The figures of the run; empty until the run has finished."""
        return ReconciliationFigures(**self._figures)


_SELECT_RUNS = """
    SELECT r.id AS run_id, r.status, r.started_by, r.officer_id, r.starts, r.ends, r.gateway_minor, r.books_minor,
        r.in_flight_minor, r.drift_minor, r.figures AS _figures, r.failure, r.created_at, r.finished_at,
        (SELECT count(*) FROM reconciliation_exceptions x WHERE x.run_id = r.id AND x.resolved_at IS NULL)
            AS open_exceptions
"""
_RUNS = SortedTable(
    _SELECT_RUNS,
    "FROM reconciliations r WHERE (CAST(:status AS text) IS NULL OR r.status = :status)",
    RUN_SORTS,
    row=Run,
    tie_breaker="r.id",
)


def list_runs(session: Session, *, status: str | None, page: TableRequest) -> TablePage:
    """List reconciliations, in two queries."""
    return _RUNS.fetch_page(session, page, status=status)


@dataclass(frozen=True)
class Finding(ComparedItem):
    """A difference between the gateway and the ledger, with proposal and resolution."""

    id: UUID
    problem: str
    action: str
    order_number: str | None
    happened_at: datetime | None
    proposed_resolution: str | None
    proposed_by: UUID | None
    proposed_at: datetime | None
    proposal_note: str | None
    resolved_at: datetime | None
    resolved_by: UUID | None
    resolution: str | None
    note: str | None

    @property
    def suggestion(self) -> str:
        """The meaning of the difference and the suggested next step, for officers."""
        return SUGGESTIONS[self.action]


_FINDINGS = SortedTable(
    """
    SELECT x.kind, x.here_minor, x.there_minor, x.here_status, x.there_status, x.here_amount_minor,
        x.there_amount_minor, x.reference, x.gateway_id, x.order_id, x.refund_id, x.intent_id, x.id, x.problem,
        x.action, o.number AS order_number, x.happened_at, x.proposed_resolution, x.proposed_by, x.proposed_at,
        x.proposal_note, x.resolved_at, x.resolved_by, x.resolution, x.note
    """,
    """
    FROM reconciliation_exceptions x LEFT JOIN orders o ON o.id = x.order_id
    WHERE x.run_id = :run_id AND (CAST(:kind AS text) IS NULL OR x.kind = :kind)
        AND (CAST(:problem AS text) IS NULL OR x.problem = :problem)
        AND (CAST(:is_open AS boolean) IS NULL OR (x.resolved_at IS NULL) = :is_open)
    """,
    EXCEPTION_SORTS,
    row=Finding,
    tie_breaker="x.id",
    nullable=["happened_at"],
)


@dataclass(frozen=True)
class RunDetail(Run):
    """A reconciliation with its 100 largest differences."""

    exceptions: list[Finding]


_SELECT_RUN = Statement(text(f"{_SELECT_RUNS} FROM reconciliations r WHERE r.id = :run_id"), row=Run)


def show_run(session: Session, *, run_id: UUID) -> RunDetail:
    """Fetch a reconciliation with its figures and largest differences.

    :raises NotFoundError: the run does not exist
    """
    run = found(_SELECT_RUN.first(session, run_id=run_id), "Reconciliation not found.")
    findings = list_exceptions(
        session,
        run_id=run_id,
        page=TableRequest(100, number=1, sort="difference_minor", descending=True),
    )
    return RunDetail(**vars(run), exceptions=findings.items)


def list_exceptions(
    session: Session,
    *,
    run_id: UUID,
    page: TableRequest,
    kind: str | None = None,
    problem: str | None = None,
    is_open: bool | None = None,
) -> TablePage:
    """List the differences found by a reconciliation, in three queries.

    :param page: sorted by one of ``EXCEPTION_SORTS``
    :param is_open: True for unresolved, False for resolved, None for all
    :raises NotFoundError: the run does not exist
    """
    found(session.get(Reconciliation, run_id), "Reconciliation not found.")
    return _FINDINGS.fetch_page(session, page, run_id=run_id, kind=kind, problem=problem, is_open=is_open)
