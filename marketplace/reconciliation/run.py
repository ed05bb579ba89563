"""Reconciliation: what the gateway holds, compared with what the books say that it holds, and told to finance.

It reads and compares; all that it books is what the gateway alone knows: settlements to the bank, and the company's
own money there. What differs by more than what is on its way halts payouts.
"""

from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

import structlog
from sqlalchemy import func, or_, select, text, update
from sqlalchemy.orm import Session

from marketplace.alerts.operations import resolve_alert
from marketplace.audit.operations import Act, record_audit_entry
from marketplace.infra import outbox
from marketplace.infra.db import Database, Statement
from marketplace.kernel import queues
from marketplace.kernel.clock import Clock, iso
from marketplace.kernel.errors import ConflictError, ProviderUnavailableError, ValidationError
from marketplace.ledger.queries import fetch_balances_by_kind
from marketplace.payments.integrity.drift import GATEWAY_BALANCE_SUBJECT, raise_drift_and_halt_payouts
from marketplace.providers.gateway.records import GatewayRecords
from marketplace.reconciliation import classification, gateway_import, matching, resolution
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

# No gateway has anything from before, and what is near the first of all years can't be reckoned back from.
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
LONGEST_WINDOW = timedelta(days=366)
# Since the books and the gateway last agreed, yet no further back; what moved money is compared whatever its age.
_LONGEST_DEFAULT_WINDOW = timedelta(days=31)
# What was on its way when both last agreed is looked at again, now that it should be over.
_WINDOW_MARGIN = classification.IN_TRANSIT_TOLERANCE + timedelta(hours=1)
# More nobody reads; they are counted all the same.
_EXCEPTIONS_LIMIT = 1_000


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
    """The result of a run: its figures in kobo, and the number of exceptions."""

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
    """Start a reconciliation: from the commit on it is running, and somebody has to perform it.

    :param started_by: ``officer``, ``schedule`` or ``operator``; an officer's is handed to a worker here
    :param since: from when on the gateway's lists are compared; none for since they last agreed
    :param until: up to when; none for now
    :return: the run's id
    :raises ValidationError: the window is none, begins before 2000, lies in the future or is longer than a year
    :raises ReconciliationStuckError: there is one running, and has been for an hour
    :raises ReconciliationRunningError: there is one running
    """
    starts, ends = _resolve_window(session, since=since, until=until, now=act.now)
    session.execute(
        update(Reconciliation)
        .where(
            Reconciliation.status == RUNNING,
            func.coalesce(Reconciliation.claimed_until, Reconciliation.created_at)
            # Nobody has gone on with it for so long: its worker is dead, and its event given up.
            < act.now - timedelta(minutes=10),
        )
        .values(status=FAILED, failure="Its worker was lost.", finished_at=act.now)
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
    """Give the window that a reconciliation is over.

    :param since: from when on; none for since both last agreed
    :param until: up to when; none for now
    :param now: the moment of the run
    :return: its start and its end
    :raises ValidationError: it is none, begins before the year 2000, lies in the future or is longer than a year
    """
    for name, moment in (("from", since), ("to", until)):
        if moment is not None and moment < EARLIEST:
            raise ValidationError.of(name, f"Must not be before {EARLIEST.year}.")
    if until is not None and until > now:
        raise ValidationError.of("to", "Must not lie in the future.")
    ends = until or now
    if since is None:
        matched = session.scalar(
            select(func.max(Reconciliation.ends)).where(
                Reconciliation.status == MATCHED, Reconciliation.ends <= ends
            )
        )
        since = max(ends - _LONGEST_DEFAULT_WINDOW, matched or ends - _LONGEST_DEFAULT_WINDOW)
        # The one before ended just now: an empty window would be none.
        since = min(since, ends - timedelta(hours=1))
    if since >= ends:
        raise ValidationError.of("from", "Must be before to.")
    if ends - since > LONGEST_WINDOW:
        raise ValidationError.of("from", f"Must be at most {LONGEST_WINDOW.days} days before to.")
    return since, ends


def _running_error(session: Session, now: datetime) -> ReconciliationRunningError:
    running = session.scalar(select(Reconciliation).where(Reconciliation.status == RUNNING))
    if running is None:
        return ReconciliationRunningError("A reconciliation was running until now: start it again.")
    # The next one of the schedule finds it still there: somebody begins it again and again, or it never ends.
    if now - running.created_at > timedelta(hours=1):
        return ReconciliationStuckError(
            f"A reconciliation ({running.id}) has been running since {iso(running.created_at)}."
        )
    return ReconciliationRunningError(f"A reconciliation is running ({running.id}): wait for its result.")


def perform_reconciliation(
    database: Database, records: GatewayRecords, *, run_id: UUID, now: datetime, clock: Clock
) -> ReconciliationOutcome | None:
    """Perform a reconciliation that was started, or go over one anew whose worker died.

    However it ends, it is over: what nobody foresaw makes it failed too, and is raised on to who performs it.

    :param run_id: which
    :param now: its moment: the books are compared as of it, so it must not lie behind the call
    :param clock: tells how it goes on
    :return: what became of it; none if it is over already
    :raises ReconciliationLeasedError: another worker is at it
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
        # Its kind alone: the message may hold anything.
        failure = f"An unexpected error: {type(error).__name__}."
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
            raise ReconciliationLeasedError("The reconciliation is being performed.")
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
    """A run in the hands of its worker."""

    importer: gateway_import.GatewayImporter
    figures: ReconciliationFigures = field(default_factory=ReconciliationFigures)
    drift_minor: int = 0
    drifted: list[tuple[str, int]] = field(default_factory=list)
    money_differs: bool = False

    def perform(self, starts: datetime, ends: datetime) -> ReconciliationOutcome:
        """Read what the gateway has, then compare and judge; no transaction is open meanwhile."""
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
        """Read, and give what the gateway holds and since when its lists were read for what is open here."""
        importer, figures = self.importer, self.figures
        held_minor, figures.movements = importer.import_movements()
        with importer.database.reading() as session:
            oldest_open_at: datetime | None = _SELECT_OLDEST_OPEN_ITEM.scalar(session)
            oldest_settlement_at: datetime = _SELECT_OLDEST_UNPOSTED_SETTLEMENT.scalar(session) or starts
        since = starts - _WINDOW_MARGIN
        # What is open here is looked for in the gateway's lists from its beginning, if that is not too long ago.
        open_since = min(since, max(oldest_open_at or since, importer.now - timedelta(days=60)))
        # To the clock's now, and a little on: what came while it reads has to have its name.
        until = max(importer.now, importer.clock()) + _WINDOW_MARGIN
        figures.charges = importer.import_records("charge", since=since, until=until)
        figures.transfers = importer.import_records("transfer", since=open_since, until=until)
        figures.refunds = importer.import_records("refund", since=open_since, until=until)
        # The list may date one earlier than its movement.
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
                title="The gateway does not hold what the books say",
                facts={
                    "reconciliationId": run_id,
                    "gatewayMinor": outcome.gateway_minor,
                    "booksMinor": outcome.books_minor,
                    "inFlightMinor": outcome.in_flight_minor,
                    "driftMinor": outcome.drift_minor,
                    "exceptions": outcome.exceptions,
                    "first": [item for item, _ in self.drifted[:10]],
                },
                findings=[self.drifted, outcome.drift_minor],
                now=now,
            )
        else:
            resolve_alert(
                session,
                identifier="ESCROW_DRIFT",
                subject=GATEWAY_BALANCE_SUBJECT,
                note="The gateway holds what the books say.",
                now=now,
            )
