"""Reconciliation runs: compare the gateway's balance with the ledger and report differences to finance.

A run posts only movements that start at the gateway: settlements to the bank, and the company's own funds.
Drift beyond the amounts in transit halts payouts.
"""

from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import structlog
from sqlalchemy import func, or_, select, text, update
from sqlalchemy.orm import Session

from marketplace.alerts.operations import resolve_alert
from marketplace.audit.operations import Act, record_audit_entry
from marketplace.infra import outbox
from marketplace.infra.db import Database
from marketplace.infra.sql.statements import Statement
from marketplace.kernel import queues
from marketplace.kernel.clock import Clock, iso
from marketplace.kernel.errors import ConflictError, ProviderUnavailableError, ValidationError
from marketplace.ledger.queries import fetch_balances_by_kind
from marketplace.orders.models import Order
from marketplace.payments.integrity.drift import GATEWAY_BALANCE_SUBJECT, raise_drift_and_halt_payouts
from marketplace.providers.gateway.records import GatewayRecords
from marketplace.reconciliation import classification, gateway_import, matching, resolution, texts
from marketplace.reconciliation.models import (
    Reconciliation,
    ReconciliationDifference,
    ReconciliationException,
)
from marketplace.reconciliation.queries import ReconciliationFigures

_log = structlog.get_logger(__name__)

RUN_TOPIC = "reconciliation.run"
OFFICER, SCHEDULE, OPERATOR = "officer", "schedule", "operator"
RUNNING, MATCHED, DRIFT, FAILED = "running", "matched", "drift", "failed"
STATUSES = (RUNNING, MATCHED, DRIFT, FAILED)

# No gateway has older records, and subtracting the window from a date near year 1 would overflow.
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
LONGEST_WINDOW = timedelta(days=366)
# Limit of the default window, which starts at the last matched run. Balance movements are compared regardless of age.
_LONGEST_DEFAULT_WINDOW = timedelta(days=31)
# The margin includes items that were in transit at the last matched run and should be final now.
_WINDOW_MARGIN = classification.IN_TRANSIT_TOLERANCE + timedelta(hours=1)
# Further exceptions are counted but not stored.
_EXCEPTIONS_LIMIT = 1_000
# Number of differences in the facts of an alert.
_FACTS_LIMIT = 10


class ReconciliationRunningError(ConflictError):
    """Another reconciliation is running."""

    reason = "reconciliation-running"


class ReconciliationStuckError(ReconciliationRunningError):
    """The running reconciliation started so long ago that it is probably stuck."""

    reason = "reconciliation-stuck"


class ReconciliationLeasedError(ConflictError):
    """Another worker holds or recently held the reconciliation run."""

    reason = "reconciliation-leased"


@dataclass(frozen=True)
class ReconciliationOutcome:
    """The result of a run: amounts in kobo, and the number of exceptions."""

    status: str
    gateway_minor: int = 0
    books_minor: int = 0
    in_flight_minor: int = 0
    drift_minor: int = 0
    exceptions: int = 0


_INSERT_RUN = Statement(
    text(
        """
        INSERT INTO reconciliations (status, started_by, officer_id, starts, ends, created_at)
        VALUES ('running', :started_by, :officer_id, :starts, :ends, :now)
        ON CONFLICT (status) WHERE status = 'running' DO NOTHING RETURNING id
        """
    )
)


def start_reconciliation(
    session: Session,
    *,
    started_by: str,
    act: Act,
    since: datetime | None = None,
    until: datetime | None = None,
) -> UUID:
    """Insert a running reconciliation, which the caller or a worker must perform after the commit.

    An earlier run is marked as failed if no worker has continued it for ten minutes.

    :param started_by: ``officer``, ``schedule`` or ``operator``; a run of an officer is enqueued for a worker
    :param since: start of the window for the gateway's lists; None for the end of the last matched run
    :param until: end of the window; None for now
    :return: the run's id
    :raises ValidationError: the window is empty, starts before 2000, ends in the future or is longer than a year
    :raises ReconciliationStuckError: another run has been running for more than an hour
    :raises ReconciliationRunningError: another run is running
    """
    starts, ends = _resolve_window(session, since=since, until=until, now=act.now)
    session.execute(
        update(Reconciliation)
        .where(
            Reconciliation.status == RUNNING,
            func.coalesce(Reconciliation.claimed_until, Reconciliation.created_at)
            # No worker extended the lease for so long: the worker is dead, and the outbox no longer retries the run.
            < act.now - timedelta(minutes=10),
        )
        .values(status=FAILED, failure=texts.RUN_FAILED_WORKER_LOST, finished_at=act.now)
    )
    run_id: UUID | None = _INSERT_RUN.scalar(
        session, started_by=started_by, officer_id=act.user_id, starts=starts, ends=ends, now=act.now
    )
    if run_id is None:
        raise _running_error(session, act.now)
    if started_by != SCHEDULE:
        record_audit_entry(
            session,
            act=act,
            action="reconciliation.start",
            target_type="reconciliation",
            target_id=str(run_id),
            after={"from": iso(starts), "to": iso(ends)},
        )
    if started_by == OFFICER:
        outbox.enqueue(
            session,
            queue=queues.ESCROW_RECONCILIATION,
            topic=RUN_TOPIC,
            payload={"runId": str(run_id)},
            due_at=act.now,
        )
    return run_id


def _resolve_window(
    session: Session, *, since: datetime | None, until: datetime | None, now: datetime
) -> tuple[datetime, datetime]:
    """Determine the start and end of the window of a run.

    :raises ValidationError: the window is empty, starts before 2000, ends in the future or is longer than a year
    """
    for name, moment in (("from", since), ("to", until)):
        if moment is not None and moment < EARLIEST:
            raise ValidationError.of(name, f"Must not be before {EARLIEST.year}.")
    if until is not None and until > now:
        raise ValidationError.of("to", "Must not be in the future.")
    ends = until or now
    if since is None:
        matched = session.scalar(
            select(func.max(Reconciliation.ends)).where(
                Reconciliation.status == MATCHED, Reconciliation.ends <= ends
            )
        )
        since = max(ends - _LONGEST_DEFAULT_WINDOW, matched or ends - _LONGEST_DEFAULT_WINDOW)
        # A matched run that ended just now would leave an empty window.
        since = min(since, ends - timedelta(hours=1))
    if since >= ends:
        raise ValidationError.of("from", "Must be before `to`.")
    if ends - since > LONGEST_WINDOW:
        raise ValidationError.of("from", f"Must be at most {LONGEST_WINDOW.days} days before `to`.")
    return since, ends


def _running_error(session: Session, now: datetime) -> ReconciliationRunningError:
    running = session.scalar(select(Reconciliation).where(Reconciliation.status == RUNNING))
    if running is None:
        return ReconciliationRunningError(texts.RUN_JUST_FINISHED)
    # The next scheduled run found this run still active: the run restarts again and again, or never ends.
    if now - running.created_at > timedelta(hours=1):
        return ReconciliationStuckError(
            texts.RUN_STUCK.format(run_id=running.id, started_at=iso(running.created_at))
        )
    return ReconciliationRunningError(texts.RUN_IN_PROGRESS.format(run_id=running.id))


def perform_reconciliation(
    database: Database, records: GatewayRecords, *, run_id: UUID, now: datetime, clock: Clock
) -> ReconciliationOutcome | None:
    """Perform a started reconciliation, or restart a run whose worker died.

    Every error ends the run as failed. An unexpected error is raised again afterwards.

    :param now: the time as of which the ledger is compared; must not be later than the call
    :param clock: extends the run's lease and dates its end
    :return: the outcome; None if the run is already finished
    :raises ReconciliationLeasedError: another worker performs the run
    """
    window = database.in_transaction(_lease_run, run_id=run_id, now=clock())
    if window is None:
        return None
    try:
        return _Run(gateway_import.GatewayImporter(database, records, run_id, now, clock)).perform(*window)
    except ProviderUnavailableError as error:
        _log.warning("reconciliation failed", runId=str(run_id), reason=error.detail)
        database.in_transaction(_fail_run, run_id=run_id, failure=error.detail, now=clock())
        return ReconciliationOutcome(FAILED)
    except Exception as error:
        # The type only: the message may hold personal data.
        failure = texts.RUN_FAILED_UNEXPECTEDLY.format(error_type=type(error).__name__)
        _log.warning("reconciliation failed", runId=str(run_id), reason=failure)
        database.in_transaction(_fail_run, run_id=run_id, failure=failure, now=clock())
        raise


def _lease_run(session: Session, *, run_id: UUID, now: datetime) -> tuple[datetime, datetime] | None:
    window = session.execute(
        update(Reconciliation)
        .where(
            Reconciliation.id == run_id,
            Reconciliation.status == RUNNING,
            or_(Reconciliation.claimed_until.is_(None), Reconciliation.claimed_until <= now),
        )
        .values(claimed_until=now + gateway_import.LEASE_DURATION)
        .returning(Reconciliation.starts, Reconciliation.ends)
    ).one_or_none()
    if window is None:
        if session.get_one(Reconciliation, run_id).status == RUNNING:
            raise ReconciliationLeasedError("Another worker is performing this reconciliation.")
        return None
    gateway_import.delete_run_data(session, run_id=run_id)
    return window.starts, window.ends


def _fail_run(session: Session, *, run_id: UUID, failure: str, now: datetime) -> None:
    run = _lock_running(session, run_id)
    if run is not None:
        run.status, run.failure, run.finished_at, run.claimed_until = FAILED, failure, now, None
        gateway_import.delete_run_data(session, run_id=run_id)


def _lock_running(session: Session, run_id: UUID) -> Reconciliation | None:
    return session.scalar(
        select(Reconciliation)
        .where(Reconciliation.id == run_id, Reconciliation.status == RUNNING)
        .with_for_update(key_share=True)
        .execution_options(populate_existing=True)
    )


_SELECT_OLDEST_UNPOSTED_SETTLEMENT = Statement(
    text(
        """
        SELECT min(m.happened_at) AS at FROM gateway_movements m
        WHERE m.read_by IS NULL AND m.model = 'Settlement' AND NOT EXISTS (SELECT FROM ledger_transactions t
            WHERE t.kind = 'settlement' AND t.source = 'settlement:' || m.row_id)
        """
    )
)
_SELECT_OLDEST_OPEN_ITEM = Statement(
    text(
        """
        SELECT least(
            (SELECT min(asked_at) FROM refunds WHERE status IN ('submitted', 'needs_attention')),
            (SELECT min(t.sent_at) FROM payout_transfers t JOIN payout_transfer_intents i ON i.id = t.intent_id
                WHERE i.status IN ('pending', 'submitted', 'unknown'))) AS at
        """
    )
)


@dataclass
class _Run:
    """The state of a run while a worker performs the run."""

    importer: gateway_import.GatewayImporter
    figures: ReconciliationFigures = field(default_factory=ReconciliationFigures)
    drift_minor: int = 0
    drifted: list[tuple[str, int]] = field(default_factory=list)
    money_differs: bool = False

    def perform(self, starts: datetime, ends: datetime) -> ReconciliationOutcome:
        """Import the gateway's records, compare and classify. No transaction is open while the gateway is read."""
        database = self.importer.database
        held_minor, since = self._import_gateway_records(starts)
        total_minor = database.in_transaction(self._record_differences, since, ends, held_minor)
        self.importer.import_unlisted_payouts()
        for page in matching.iterate_difference_pages(database, run_id=self.importer.run_id):
            classified = self._classify_page(page)
            database.in_transaction(self._insert_exceptions, classified)
            self.figures.exceptions += len(classified)
        outcome = ReconciliationOutcome(
            status=DRIFT if self.money_differs else MATCHED,
            gateway_minor=held_minor,
            books_minor=held_minor - total_minor,
            in_flight_minor=total_minor - self.drift_minor,
            drift_minor=self.drift_minor,
            exceptions=self.figures.exceptions,
        )
        database.in_transaction(self._finish, outcome)
        return outcome

    def _import_gateway_records(self, starts: datetime) -> tuple[int, datetime]:
        """Import the gateway's records. Return the gateway's balance in kobo and the start of the imported lists."""
        importer, figures = self.importer, self.figures
        held_minor, figures.movements = importer.import_movements()
        with importer.database.reading() as session:
            oldest_open_at: datetime | None = _SELECT_OLDEST_OPEN_ITEM.scalar(session)
            oldest_settlement_at: datetime = _SELECT_OLDEST_UNPOSTED_SETTLEMENT.scalar(session) or starts
        since = starts - _WINDOW_MARGIN
        # The lists of transfers and refunds start at the oldest item without a final status, at most 60 days ago.
        open_since = min(since, max(oldest_open_at or since, importer.now - timedelta(days=60)))
        # The end lies in the future, because the lists must include movements that arrive during the import.
        until = max(importer.now, importer.clock()) + _WINDOW_MARGIN
        figures.charges = importer.import_records("charge", since=since, until=until)
        figures.transfers = importer.import_records("transfer", since=open_since, until=until)
        figures.refunds = importer.import_records("refund", since=open_since, until=until)
        # The list may date a settlement earlier than the balance movement.
        settled_since = min(open_since, oldest_settlement_at - classification.SETTLEMENT_TOLERANCE)
        figures.settlements = importer.import_records("settlement", since=settled_since, until=until)
        importer.attribute_movements()
        figures.settlements_booked, figures.own_funds_booked = importer.post_gateway_movements()
        return held_minor, open_since

    def _record_differences(self, session: Session, since: datetime, ends: datetime, held_minor: int) -> int:
        run_id = self.importer.run_id
        unlisted_minor = held_minor - gateway_import.sum_movements(session)
        difference_minor = matching.record_differences(
            session, run_id=run_id, since=since, until=ends, as_of=self.importer.now
        )
        self.figures.balances = fetch_balances_by_kind(session)
        if unlisted_minor:
            session.add(
                ReconciliationDifference(
                    run_id=run_id,
                    item="balance:NGN",
                    here_minor=0,
                    here_now_minor=0,
                    there_minor=unlisted_minor,
                )
            )
        return difference_minor + unlisted_minor

    def _classify_page(
        self, page: list[matching.Difference]
    ) -> list[tuple[matching.Difference, classification.Classification]]:
        classified = []
        for row in page:
            finding = classification.classify(row, now=self.importer.now)
            if finding is None:
                self.figures.in_flight += 1
                continue
            classified.append((row, finding))
            if row.difference_minor:
                self.money_differs = True
                self.drift_minor += row.difference_minor
                if len(self.drifted) < _EXCEPTIONS_LIMIT:
                    self.drifted.append((row.item, row.difference_minor))
        return classified

    def _insert_exceptions(
        self, session: Session, classified: list[tuple[matching.Difference, classification.Classification]]
    ) -> None:
        remaining = max(_EXCEPTIONS_LIMIT - self.figures.exceptions, 0)
        session.add_all(
            ReconciliationException(
                run_id=self.importer.run_id,
                item=row.item,
                kind=classification.EXCEPTION_KIND_OF_ITEM.get(row.kind, "booking"),
                problem=finding.problem,
                action=finding.action,
                here_minor=row.here_minor,
                there_minor=row.there_minor,
                here_status=row.here_status,
                there_status=row.there_status,
                here_amount_minor=row.here_amount_minor,
                there_amount_minor=row.there_amount_minor,
                reference=row.reference,
                gateway_id=row.gateway_id,
                order_id=row.order_id,
                refund_id=row.refund_id,
                intent_id=row.intent_id,
                happened_at=row.moved_at or row.booked_at,
                created_at=self.importer.now,
            )
            for row, finding in classified[:remaining]
        )

    def _finish(self, session: Session, outcome: ReconciliationOutcome) -> None:
        now, run_id = self.importer.now, self.importer.run_id
        gateway_import.delete_comparison(session)
        resolution.carry_over_proposals(session, run_id=run_id, now=now)
        run = _lock_running(session, run_id)
        if run is not None:
            run.status, run.figures = outcome.status, asdict(self.figures)
            run.gateway_minor, run.books_minor = outcome.gateway_minor, outcome.books_minor
            run.in_flight_minor, run.drift_minor = outcome.in_flight_minor, outcome.drift_minor
            run.finished_at, run.claimed_until = max(now, self.importer.clock()), None
        if outcome.status == DRIFT:
            raise_drift_and_halt_payouts(
                session,
                subject=GATEWAY_BALANCE_SUBJECT,
                title=texts.GATEWAY_BALANCE_DRIFT_TITLE,
                facts={
                    "reconciliationId": run_id,
                    "gatewayMinor": outcome.gateway_minor,
                    "booksMinor": outcome.books_minor,
                    "inFlightMinor": outcome.in_flight_minor,
                    "driftMinor": outcome.drift_minor,
                    "exceptions": outcome.exceptions,
                    "first": _list_drifted(session, run_id),
                },
                findings=[self.drifted, outcome.drift_minor],
                now=now,
            )
        else:
            resolve_alert(
                session,
                identifier="ESCROW_DRIFT",
                subject=GATEWAY_BALANCE_SUBJECT,
                note=texts.GATEWAY_BALANCE_MATCHED_NOTE,
                now=now,
            )


def _list_drifted(session: Session, run_id: UUID) -> list[dict[str, Any]]:
    """List the first differences of a run in money, for the facts of an alert.

    Facts name this service's ids and references. Alerts redact the gateway's ids, which look like account numbers.
    """
    exception = ReconciliationException
    rows = session.execute(
        select(
            exception.id,
            exception.kind,
            exception.problem,
            exception.reference,
            Order.number,
            exception.there_minor - exception.here_minor,
        )
        .outerjoin(Order, Order.id == exception.order_id)
        .where(exception.run_id == run_id, exception.there_minor != exception.here_minor)
        .order_by(exception.id)
        .limit(_FACTS_LIMIT)
    )
    names = ("exceptionId", "kind", "problem", "reference", "orderNumber", "differenceMinor")
    return [dict(zip(names, row, strict=True)) for row in rows]
