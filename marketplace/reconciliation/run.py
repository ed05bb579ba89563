"""Reconciliation: what the gateway holds, compared with what the books say that it holds, and told to finance.

It reads and compares; all that it books is what the gateway alone knows: settlements to the bank, and the company's
own money there. What differs by more than what is on its way halts payouts.
"""

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import structlog
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.alerts import kinds
from marketplace.alerts.operations import resolve_alert
from marketplace.audit.operations import AuditActor, record
from marketplace.infra import outbox
from marketplace.infra.db import Database, Json, Statement
from marketplace.kernel import queues
from marketplace.kernel.clock import Clock, iso
from marketplace.kernel.errors import ConflictError, ProviderUnavailableError
from marketplace.ledger.queries import balances_by_kind
from marketplace.payments.integrity.drift import GATEWAY_BALANCE, raise_drift
from marketplace.providers.gateway.records import GatewayRecords
from marketplace.reconciliation import adjustments, classification, gateway_import, matching
from marketplace.reconciliation.classification import Verdict
from marketplace.reconciliation.figures import Figures, Outcome
from marketplace.reconciliation.gateway_import import CLAIMED_FOR, History
from marketplace.reconciliation.window import window_of

_log = structlog.get_logger(__name__)

RUN_TOPIC = "reconciliation.run"
OFFICER, SCHEDULE, OPERATOR = "officer", "schedule", "operator"
RUNNING, MATCHED, DRIFT, FAILED = "running", "matched", "drift", "failed"
STATUSES = (RUNNING, MATCHED, DRIFT, FAILED)

# What is open here is looked for in the gateway's lists from its beginning, if that is not too long ago.
_LONGEST_OPEN = timedelta(days=60)
# What was on its way when both last agreed is looked at again, now that it should be over.
_BEFORE_WINDOW = classification.UNDER_WAY_FOR + timedelta(hours=1)
# Nobody has gone on with it for so long: its worker is dead, and its event given up.
_LOST_AFTER = timedelta(minutes=10)
# The next one of the schedule finds it still there: somebody begins it again and again, or it never ends.
_STUCK_AFTER = timedelta(hours=1)
# More nobody reads; they are counted all the same.
_MOST_KEPT = 1_000
_SHOWN_IN_ALERT = 10

_LOSE = Statement(
    text(
        """
        UPDATE reconciliations SET status = 'failed', failure = 'Its worker was lost.', finished_at = :now
        WHERE status = 'running' AND coalesce(claimed_until, created_at) < :before
        """
    )
)
_START = Statement(
    text(
        """
        INSERT INTO reconciliations (status, started_by, officer_id, starts, ends, created_at)
        VALUES ('running', :started_by, :officer_id, :starts, :ends, :now)
        ON CONFLICT (status) WHERE status = 'running' DO NOTHING RETURNING id
        """
    )
)
_RUNNING = Statement(text("SELECT id, created_at FROM reconciliations WHERE status = 'running'"))
_CLAIM = Statement(
    text(
        """
        UPDATE reconciliations SET claimed_until = :until
        WHERE id = :run_id AND status = 'running' AND (claimed_until IS NULL OR claimed_until <= :now)
        RETURNING starts, ends
        """
    )
)
_STATUS = Statement(text("SELECT status FROM reconciliations WHERE id = :run_id"))
_OLDEST_OPEN = Statement(
    text(
        """
        SELECT least(
            (SELECT min(asked_at) FROM refunds WHERE status IN ('submitted', 'needs_attention')),
            (SELECT min(t.sent_at) FROM payout_transfers t JOIN payout_transfer_intents i ON i.id = t.intent_id
                WHERE i.status IN ('pending', 'submitted', 'unknown'))) AS at
        """
    )
)
_ADD_DIFFERENCE = Statement(
    text(
        """
        INSERT INTO reconciliation_differences (run_id, item, here_minor, here_now_minor, there_minor)
        VALUES (:run_id, 'balance:NGN', 0, 0, :minor)
        """
    )
)
_KEEP = Statement(
    text(
        """
        INSERT INTO reconciliation_exceptions (run_id, item, kind, problem, action, here_minor, there_minor,
            here_status, there_status, here_amount_minor, there_amount_minor, reference, gateway_id, order_id,
            refund_id, intent_id, happened_at, created_at)
        VALUES (:run_id, :item, :kind, :problem, :action, :here_minor, :there_minor, :here_status, :there_status,
            :here_amount_minor, :there_amount_minor, :reference, :gateway_id, :order_id, :refund_id, :intent_id,
            :happened_at, :now)
        """
    )
)
_FINISH = Statement(
    text(
        """
        UPDATE reconciliations SET status = :status, gateway_minor = :gateway_minor, books_minor = :books_minor,
            in_flight_minor = :in_flight_minor, drift_minor = :drift_minor, figures = :figures,
            finished_at = :now, claimed_until = NULL
        WHERE id = :run_id AND status = 'running'
        """
    )
)
_FAIL = Statement(
    text(
        """
        UPDATE reconciliations SET status = 'failed', failure = :failure, finished_at = :now, claimed_until = NULL
        WHERE id = :run_id AND status = 'running'
        """
    )
)


class ReconciliationRunningError(ConflictError):
    """A reconciliation is running: there is one at a time."""


class ReconciliationStuckError(ReconciliationRunningError):
    """The one that is running began so long ago that something is wrong with it."""


class BeingReconciledError(ConflictError):
    """Another worker is at the run, or was until a moment ago."""


def start(
    session: Session,
    *,
    started_by: str,
    now: datetime,
    actor: AuditActor | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> UUID:
    """Start a reconciliation: from the commit on it is running, and somebody has to perform it.

    :param started_by: ``officer``, ``schedule`` or ``operator``; an officer's is handed to a worker here
    :param now: when
    :param actor: who, for the audit; none for the schedule
    :param since: from when on the gateway's lists are compared; none for since they last agreed
    :param until: up to when; none for now
    :return: the run's id
    :raises ValidationError: the window is none, begins before 2000, lies in the future or is longer than a year
    :raises ReconciliationStuckError: there is one running, and has been for an hour
    :raises ReconciliationRunningError: there is one running
    """
    starts, ends = window_of(session, since=since, until=until, now=now)
    _LOSE.run(session, now=now, before=now - _LOST_AFTER)
    officer_id = actor.id if actor else None
    row = _START.first(
        session, started_by=started_by, officer_id=officer_id, starts=starts, ends=ends, now=now
    )
    if row is None:
        raise _running_error(session, now)
    run_id: UUID = row["id"]
    if actor is not None:
        record(
            session,
            actor=actor,
            action="reconciliation.start",
            target_type="reconciliation",
            target_id=str(run_id),
            after={"from": iso(starts), "to": iso(ends)},
            now=now,
        )
    if started_by == OFFICER:
        outbox.enqueue(
            session,
            queue=queues.ESCROW_RECONCILIATION,
            topic=RUN_TOPIC,
            payload={"runId": str(run_id)},
            due_at=now,
        )
    return run_id


def _running_error(session: Session, now: datetime) -> ReconciliationRunningError:
    running = _RUNNING.first(session)
    if running is None:
        return ReconciliationRunningError("A reconciliation was running until now: start it again.")
    if now - running["created_at"] > _STUCK_AFTER:
        return ReconciliationStuckError(
            f"A reconciliation ({running['id']}) has been running since {iso(running['created_at'])}."
        )
    return ReconciliationRunningError(f"A reconciliation is running ({running['id']}): wait for its result.")


def perform(
    database: Database, records: GatewayRecords, *, run_id: UUID, now: datetime, clock: Clock
) -> Outcome | None:
    """Perform a reconciliation that was started, or go over one anew whose worker died.

    However it ends, it is over: what nobody foresaw makes it failed too, and is raised on to who performs it.

    :param run_id: which
    :param now: its moment: the books are compared as of it, so it must not lie behind the call
    :param clock: tells how it goes on
    :return: what became of it; none if it is over already
    :raises BeingReconciledError: another worker is at it
    """
    window = database.in_transaction(_claim, run_id=run_id, now=clock())
    if window is None:
        return None
    try:
        return _Run(database, records, run_id=run_id, now=now, clock=clock).perform(*window)
    except ProviderUnavailableError as error:
        _log.warning("reconciliation failed", runId=str(run_id), reason=error.detail)
        database.in_transaction(_fail, run_id=run_id, failure=error.detail, now=clock())
        return Outcome(FAILED)
    except Exception as error:
        # Its kind alone: the message may hold anything.
        failure = f"An unexpected error: {type(error).__name__}."
        _log.warning("reconciliation failed", runId=str(run_id), reason=failure)
        database.in_transaction(_fail, run_id=run_id, failure=failure, now=clock())
        raise


def _claim(session: Session, *, run_id: UUID, now: datetime) -> tuple[datetime, datetime] | None:
    row = _CLAIM.first(session, run_id=run_id, now=now, until=now + CLAIMED_FOR)
    if row is None:
        if _STATUS.one(session, run_id=run_id)["status"] == RUNNING:
            raise BeingReconciledError("The reconciliation is being performed.")
        return None
    gateway_import.clear(session, run_id=run_id)
    return row["starts"], row["ends"]


def _fail(session: Session, *, run_id: UUID, failure: str, now: datetime) -> None:
    if _FAIL.run(session, run_id=run_id, failure=failure, now=now):
        gateway_import.clear(session, run_id=run_id)


class _Run:
    """A run in the hands of its worker."""

    def __init__(
        self, database: Database, records: GatewayRecords, *, run_id: UUID, now: datetime, clock: Clock
    ) -> None:
        self._database = database
        self._history = History(database, records, run_id=run_id, now=now, clock=clock)
        self._run_id = run_id
        self._now = now
        self._clock = clock
        self._figures = Figures()
        self._drift_minor = 0
        self._drifted: list[tuple[str, int]] = []
        self._money_differs = False

    def perform(self, starts: datetime, ends: datetime) -> Outcome:
        """Read what the gateway has, then compare and judge; no transaction is open meanwhile."""
        held_minor, since = self._read(starts)
        total_minor = self._database.in_transaction(self._find, since, ends, held_minor)
        self._history.look_up_payouts()
        for page in matching.pages(self._database, run_id=self._run_id):
            judged = self._judged(page)
            self._database.in_transaction(self._keep, judged)
            self._figures.exceptions += len(judged)
        outcome = Outcome(
            status=DRIFT if self._money_differs else MATCHED,
            gateway_minor=held_minor,
            books_minor=held_minor - total_minor,
            in_flight_minor=total_minor - self._drift_minor,
            drift_minor=self._drift_minor,
            exceptions=self._figures.exceptions,
        )
        self._database.in_transaction(self._finish, outcome)
        return outcome

    def _read(self, starts: datetime) -> tuple[int, datetime]:
        """Read, and give what the gateway holds and since when its lists were read for what is open here."""
        history, figures = self._history, self._figures
        held_minor, figures.movements = history.read_movements()
        with self._database.reading() as session:
            oldest = _OLDEST_OPEN.one(session)["at"]
            settled = gateway_import.oldest_settlement(session) or starts
        since = starts - _BEFORE_WINDOW
        open_since = min(since, max(oldest or since, self._now - _LONGEST_OPEN))
        # To the clock's now, and a little on: what came while it reads has to have its name.
        until = max(self._now, self._clock()) + _BEFORE_WINDOW
        figures.charges = history.read_records("charge", since=since, until=until)
        figures.transfers = history.read_records("transfer", since=open_since, until=until)
        figures.refunds = history.read_records("refund", since=open_since, until=until)
        # The list may date one earlier than its movement.
        settled_since = min(open_since, settled - classification.SETTLING_FOR)
        figures.settlements = history.read_records("settlement", since=settled_since, until=until)
        history.name_movements()
        figures.settlements_booked, figures.own_funds_booked = history.book()
        return held_minor, open_since

    def _find(self, session: Session, since: datetime, ends: datetime, held_minor: int) -> int:
        listed_minor = gateway_import.listed_minor(session)
        found = matching.find(session, run_id=self._run_id, since=since, until=ends, as_of=self._now)
        self._figures.balances = balances_by_kind(session)
        if held_minor == listed_minor:
            return found
        _ADD_DIFFERENCE.run(session, run_id=self._run_id, minor=held_minor - listed_minor)
        return found + held_minor - listed_minor

    def _judged(self, page: list[dict[str, Any]]) -> list[tuple[dict[str, Any], Verdict]]:
        judged = []
        for row in page:
            verdict = classification.judge(row, now=self._now)
            if verdict is None:
                self._figures.in_flight += 1
                continue
            judged.append((row, verdict))
            difference = row["there_minor"] - row["here_minor"]
            if difference:
                self._money_differs = True
                self._drift_minor += difference
                if len(self._drifted) < _MOST_KEPT:
                    self._drifted.append((row["item"], difference))
        return judged

    def _keep(self, session: Session, judged: list[tuple[dict[str, Any], Verdict]]) -> None:
        left = max(_MOST_KEPT - self._figures.exceptions, 0)
        for row, verdict in judged[:left]:
            _KEEP.run(
                session,
                **row | {"kind": classification.KINDS.get(row["kind"], classification.BOOKING)},
                run_id=self._run_id,
                problem=verdict.problem,
                action=verdict.action,
                happened_at=row["moved_at"] or row["booked_at"],
                now=self._now,
            )

    def _finish(self, session: Session, outcome: Outcome) -> None:
        gateway_import.clear_read(session)
        adjustments.carry_over(session, run_id=self._run_id, now=self._now)
        _FINISH.run(
            session,
            run_id=self._run_id,
            status=outcome.status,
            gateway_minor=outcome.gateway_minor,
            books_minor=outcome.books_minor,
            in_flight_minor=outcome.in_flight_minor,
            drift_minor=outcome.drift_minor,
            figures=Json(asdict(self._figures)),
            now=max(self._now, self._clock()),
        )
        if outcome.status == DRIFT:
            raise_drift(
                session,
                subject=GATEWAY_BALANCE,
                title="The gateway does not hold what the books say",
                facts={
                    "reconciliationId": self._run_id,
                    "gatewayMinor": outcome.gateway_minor,
                    "booksMinor": outcome.books_minor,
                    "inFlightMinor": outcome.in_flight_minor,
                    "driftMinor": outcome.drift_minor,
                    "exceptions": outcome.exceptions,
                    "first": [item for item, _ in self._drifted[:_SHOWN_IN_ALERT]],
                },
                found=[self._drifted, outcome.drift_minor],
                now=self._now,
            )
        else:
            resolve_alert(
                session,
                identifier=kinds.ESCROW_DRIFT,
                subject=GATEWAY_BALANCE,
                note="The gateway holds what the books say.",
                now=self._now,
            )
