"""What finance sees of reconciliations: their history, each with its figures, and what they found."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.infra.tables import build_sorted_statements
from marketplace.kernel.errors import NotFoundError
from marketplace.kernel.paging import TablePage, TableRequest
from marketplace.reconciliation.classification import SUGGESTIONS

# Ids are made in the order of time.
RUN_SORTS = {"createdAt": "r.id"}
EXCEPTION_SORTS = {"happenedAt": "x.happened_at", "differenceMinor": "abs(x.there_minor - x.here_minor)"}
EXCEPTION_KINDS = ("charge", "transfer", "refund", "settlement", "dispute", "movement", "balance", "booking")
# What a run's detail shows of what it found; the rest is listed by a route of its own.
SHOWN_EXCEPTIONS_LIMIT = 100

_SELECT_RUNS = """
    SELECT r.id AS "runId", r.status, r.started_by AS "startedBy", r.officer_id AS "officerId",
        r.starts AS "from", r.ends AS "to", r.gateway_minor AS "gatewayMinor", r.books_minor AS "booksMinor",
        r.in_flight_minor AS "inFlightMinor", r.drift_minor AS "driftMinor", r.figures, r.failure,
        r.created_at AS "createdAt", r.finished_at AS "finishedAt",
        (SELECT count(*) FROM reconciliation_exceptions x WHERE x.run_id = r.id AND x.resolved_at IS NULL)
            AS "openExceptions"
    FROM reconciliations r
"""
_WHERE_RUN_FILTERS = "WHERE (CAST(:status AS text) IS NULL OR r.status = :status)"
_SELECT_RUN_PAGES = build_sorted_statements(_SELECT_RUNS, _WHERE_RUN_FILTERS, RUN_SORTS, tie_breaker="r.id")
_COUNT_RUNS = Statement(text(f"SELECT count(*) AS total FROM reconciliations r {_WHERE_RUN_FILTERS}"))
_SELECT_RUN = Statement(text(f"{_SELECT_RUNS} WHERE r.id = :run_id"))
_SELECT_RUN_ID = Statement(text("SELECT id FROM reconciliations WHERE id = :run_id"))
_SELECT_EXCEPTIONS = """
    SELECT x.id, x.kind, x.problem, x.action, x.here_minor AS "hereMinor", x.there_minor AS "thereMinor",
        x.there_minor - x.here_minor AS "differenceMinor", x.here_status AS "hereStatus",
        x.there_status AS "thereStatus", x.here_amount_minor AS "hereAmountMinor",
        x.there_amount_minor AS "thereAmountMinor", x.reference, x.gateway_id AS "gatewayId",
        x.order_id AS "orderId", o.number AS "orderNumber", x.refund_id AS "refundId", x.intent_id AS "payoutId",
        x.happened_at AS "happenedAt", x.proposed_resolution AS "proposedResolution", x.proposed_by AS "proposedBy",
        x.proposed_at AS "proposedAt", x.proposal_note AS "proposalNote",
        x.resolved_at AS "resolvedAt", x.resolved_by AS "resolvedBy", x.resolution, x.note
    FROM reconciliation_exceptions x LEFT JOIN orders o ON o.id = x.order_id
"""
_WHERE_EXCEPTION_FILTERS = """
    WHERE x.run_id = :run_id AND (CAST(:kind AS text) IS NULL OR x.kind = :kind)
        AND (CAST(:problem AS text) IS NULL OR x.problem = :problem)
        AND (CAST(:open AS boolean) IS NULL OR (x.resolved_at IS NULL) = :open)
"""
_SELECT_EXCEPTION_PAGES = build_sorted_statements(
    _SELECT_EXCEPTIONS, _WHERE_EXCEPTION_FILTERS, EXCEPTION_SORTS, tie_breaker="x.id", nullable=["happenedAt"]
)
_COUNT_EXCEPTIONS = Statement(
    text(f"SELECT count(*) AS total FROM reconciliation_exceptions x {_WHERE_EXCEPTION_FILTERS}")
)


@dataclass(frozen=True)
class ExceptionFilters:
    """Which of a run's exceptions are wanted: of a kind, with a problem, resolved or not."""

    kind: str | None = None
    problem: str | None = None
    open: bool | None = None


def list_runs(session: Session, *, status: str | None, page: TableRequest) -> TablePage:
    """List reconciliations, in two queries.

    :param status: of one status only; none for all
    :param page: which page
    """
    rows = _SELECT_RUN_PAGES[page.sort, page.descending].all(
        session, status=status, most=page.limit, offset=page.offset
    )
    total = _COUNT_RUNS.one(session, status=status)["total"]
    return TablePage([_with_figures(row) for row in rows], page, total)


def show_run(session: Session, *, run_id: UUID) -> dict[str, Any]:
    """Show a reconciliation with its figures and the worst 100 of what it found.

    :raises NotFoundError: there is no such run
    """
    row = _SELECT_RUN.first(session, run_id=run_id)
    if row is None:
        raise NotFoundError("There is no such reconciliation.")
    exceptions = _SELECT_EXCEPTION_PAGES["differenceMinor", True].all(
        session, run_id=run_id, kind=None, problem=None, open=None, most=SHOWN_EXCEPTIONS_LIMIT, offset=0
    )
    return _with_figures(row) | {"exceptions": [_with_suggestion(exception) for exception in exceptions]}


def list_exceptions(
    session: Session, *, run_id: UUID, filters: ExceptionFilters, page: TableRequest
) -> TablePage:
    """List what a reconciliation found, in three queries.

    :param filters: which
    :param page: which page, sorted by one of ``EXCEPTION_SORTS``
    :raises NotFoundError: there is no such run
    """
    if _SELECT_RUN_ID.first(session, run_id=run_id) is None:
        raise NotFoundError("There is no such reconciliation.")
    filter_values = {"run_id": run_id, "kind": filters.kind, "problem": filters.problem, "open": filters.open}
    rows = _SELECT_EXCEPTION_PAGES[page.sort, page.descending].all(
        session, **filter_values, most=page.limit, offset=page.offset
    )
    total = _COUNT_EXCEPTIONS.one(session, **filter_values)["total"]
    return TablePage([_with_suggestion(row) for row in rows], page, total)


def _with_figures(row: dict[str, Any]) -> dict[str, Any]:
    figures = row.pop("figures")
    timestamps: dict[str, datetime] = {name: row.pop(name) for name in ("createdAt", "finishedAt")}
    return (
        row
        | {
            "read": {
                "movements": figures.get("movements", 0),
                "charges": figures.get("charges", 0),
                "transfers": figures.get("transfers", 0),
                "refunds": figures.get("refunds", 0),
                "settlements": figures.get("settlements", 0),
            },
            "settlementsBooked": figures.get("settlements_booked", 0),
            "ownFundsBooked": figures.get("own_funds_booked", 0),
            "inFlight": figures.get("in_flight", 0),
            "found": figures.get("exceptions", 0),
            "balances": figures.get("balances", {}),
        }
        | timestamps
    )


def _with_suggestion(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"suggestion": SUGGESTIONS[row["action"]]}
